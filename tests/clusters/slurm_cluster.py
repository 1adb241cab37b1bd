"""A real Slurm of virtual nodes on this machine, all of it in one folder and gone with it.

munged, slurmctld and one slurmd per node run in the foreground as children of the test, on free
ports of the loopback, without systemd. The GPUs are device files that do nothing.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from attune.trial.launchers.guard import die_with_parent

_CONFIGURATION = """
ClusterName=attune
SlurmctldHost=localhost
SlurmctldPort={controller}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
SwitchType=switch/none
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=5
MinJobAge=300
SchedulerType=sched/backfill
SchedulerParameters=sched_min_interval=0,batch_sched_delay=0
GresTypes=gpu
NodeName=node[1-{nodes}] NodeHostname=localhost NodeAddr=127.0.0.1 Port=[{first}-{last}] CPUs=8 \
Boards=1 SocketsPerBoard=1 CoresPerSocket=8 ThreadsPerCore=1 RealMemory=4000 Gres=gpu:8
PartitionName=debug Nodes=node[1-{nodes}] Default=YES MaxTime=INFINITE State=UP
"""
_START_S = 60.0


@contextmanager
def slurm(nodes: int = 16) -> Iterator[Path]:
    """A Slurm of so many nodes of 8 fake GPUs; its folder, with SLURM_CONF set to it."""
    folder = Path(tempfile.mkdtemp(prefix="attune-slurm-", dir="/tmp"))
    before = os.environ.copy()
    os.environ["SLURM_CONF"] = str(folder / "slurm.conf")
    os.environ["PATH"] += ":/usr/sbin"
    try:
        with ExitStack() as stack:
            _configure(folder, nodes)
            stack.enter_context(_children(_daemons(folder, nodes)))
            _wait(["sinfo", "--noheader", "--format=%D %t"], f"{nodes} idle")
            stack.callback(_empty)
            yield folder
    finally:
        os.environ.clear()
        os.environ.update(before)
        shutil.rmtree(folder, ignore_errors=True)


def _configure(folder: Path, nodes: int) -> None:
    for name in ("munge", "state", "spool", "gpus"):
        (folder / name).mkdir()
    folder.chmod(0o755)
    for node in range(1, nodes + 1):
        (folder / "spool" / f"node{node}").mkdir()
    key = folder / "munge" / "key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o600)
    first = _free_ports(nodes + 1)
    text = _CONFIGURATION.format(
        folder=folder, nodes=nodes, controller=first, first=first + 1, last=first + nodes
    )
    (folder / "slurm.conf").write_text(text)
    for gpu in range(8):
        os.mknod(folder / "gpus" / f"g{gpu}", 0o600 | 0o020000, os.makedev(1, 3))
    (folder / "gres.conf").write_text(f"Name=gpu File={folder}/gpus/g[0-7]\n")


def _daemons(folder: Path, nodes: int) -> list[list[str]]:
    munge = folder / "munge"
    files = {"socket": "socket", "key-file": "key", "pid-file": "pid", "log-file": "log"}
    words = [f"--{name}={munge}/{file}" for name, file in {**files, "seed-file": "seed"}.items()]
    return [
        ["munged", "--foreground", "--force", *words],
        ["slurmctld", "-D", "-c"],
        *(["slurmd", "-D", "-N", f"node{node}"] for node in range(1, nodes + 1)),
    ]


@contextmanager
def _children(commands: list[list[str]]) -> Iterator[None]:
    """Runs the commands, in this order, until they are ended in the other order."""
    quiet = subprocess.DEVNULL
    children = [
        subprocess.Popen(
            command, stdin=quiet, stdout=quiet, stderr=quiet, preexec_fn=die_with_parent
        )
        for command in commands
    ]
    try:
        yield
    finally:
        for child in reversed(children):
            child.terminate()
        end = time.monotonic() + 20
        for child in reversed(children):
            try:
                child.wait(max(0.1, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()


def _empty() -> None:
    """No job is left, and no process of one."""
    subprocess.run(["scancel", "--user=root"], timeout=60, check=False)
    _wait(["sh", "-c", "squeue --noheader --format=%i | wc -l"], "0\n")


def _free_ports(count: int) -> int:
    """The first of so many free ports in a row; tests side by side look in ranges of their own."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:]) % 4
    # Below the ports of the jobs' own rendezvous.
    begin = 11000 + 2000 * worker + os.getpid() % 500
    for first in range(begin, begin + 1500 - count, count):
        try:
            with ExitStack() as stack:
                for port in range(first, first + count):
                    bound = stack.enter_context(socket.socket())
                    bound.bind(("127.0.0.1", port))
            return first
        except OSError:
            continue
    raise RuntimeError("no free ports")


def _wait(command: list[str], text: str) -> None:
    """Return once the command succeeds and prints the text."""
    end = time.monotonic() + _START_S
    while True:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60
        )
        if done.returncode == 0 and text in done.stdout:
            return
        assert time.monotonic() < end, f"{command}: {done.stdout}{done.stderr}"
        time.sleep(0.2)
