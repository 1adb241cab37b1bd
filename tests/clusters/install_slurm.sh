#!/bin/sh
# Installs Slurm and munge from Debian, where they are not installed yet; as root.
set -eu
for program in slurmctld slurmd munged sbatch; do
    PATH="$PATH:/usr/sbin" command -v "$program" > /dev/null || missing=1
done
[ -n "${missing:-}" ] || exit 0
[ "$(id -u)" = 0 ] || { echo "Slurm is not installed, and only root can install it" >&2; exit 1; }
export DEBIAN_FRONTEND=noninteractive
for wait in 5 15 30 0; do
    apt-get update -qq && apt-get install -qq -y --no-install-recommends \
        slurmctld slurmd slurm-client munge > /dev/null && exit 0
    echo "apt-get failed; again in $wait s" >&2
    sleep "$wait"
done
exit 1
