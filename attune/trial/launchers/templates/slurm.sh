# How a run starts on the nodes of its allocation. Copy, edit, and pass the copy as
# `--launcher-option template=FILE`; lines `#SBATCH ...` are read by sbatch.
#
# The shell has ATTUNE_SRUN (srun's arguments: one task per node, and what else attune needs) and
# ATTUNE_NODE_SCRIPT (what every node runs). In a container of Pyxis, for example:
#
#   srun $ATTUNE_SRUN --container-image=/images/megatron.sqsh \
#       --container-mounts=/shared:/shared sh "$ATTUNE_NODE_SCRIPT"
#
# with `--launcher-option python=python3`, the interpreter inside the image.
srun $ATTUNE_SRUN sh "$ATTUNE_NODE_SCRIPT"
