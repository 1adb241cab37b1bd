from __future__ import annotations

from pathlib import Path

import pytest

from attune.errors import AttuneError
from attune.recipe.launch_script import command_flags, read_flags, read_launch_script

MEGATRON = """\
#!/bin/bash
export CUDA_DEVICE_MAX_CONNECTIONS=1
GPUS_PER_NODE=8
DISTRIBUTED_ARGS=(
  --nproc_per_node $GPUS_PER_NODE  # all of a node
  --nnodes ${NNODES:-16}
)
MODEL="--num-layers 92 \\
  --hidden-size 5120"
ARGS=(--tensor-model-parallel-size 4
  # --tensor-model-parallel-size 8
  --micro-batch-size=1 )
ARGS+=( --moe-layer-freq "([0]*3+[1]*89)" --shift -1 )
if [ -n "$RUN" ]; then
  torchrun ${DISTRIBUTED_ARGS[@]} pretrain_gpt.py ${MODEL} "${ARGS[@]}" --bf16 2>&1 | tee log.txt
fi
"""


def test_variables_arrays_and_comments() -> None:
    read = read_launch_script(MEGATRON)
    assert read.program == "pretrain_gpt.py"
    assert read.flags == {
        "--num-layers": "92",
        "--hidden-size": "5120",
        "--tensor-model-parallel-size": "4",
        "--micro-batch-size": "1",
        "--moe-layer-freq": "([0]*3+[1]*89)",
        "--shift": "-1",
        "--bf16": True,
    }
    assert read.launcher_flags == {"--nproc_per_node": "8", "--nnodes": "16"}
    assert read.environment == {"CUDA_DEVICE_MAX_CONNECTIONS": "1"}


def test_arguments_from_elsewhere_are_named() -> None:
    read = read_launch_script("python3 train.py --actor-num-nodes 2 ${MODEL_ARGS[@]} --lr 1e-5")
    assert read.flags == {"--actor-num-nodes": "2", "--lr": "1e-5"}
    assert read.unread == ("${MODEL_ARGS[@]}",)


def test_ray_job_and_its_environment() -> None:
    text = """ray job submit --address="http://127.0.0.1:8265" \\
      --runtime-env-json='{"env_vars": {"NCCL_NVLS_ENABLE": "0"}}' \\
      -- python3 train_async.py --tensor-model-parallel-size 2"""
    read = read_launch_script(text)
    assert (read.program, read.environment) == ("train_async.py", {"NCCL_NVLS_ENABLE": "0"})
    assert read.flags == {"--tensor-model-parallel-size": "2"}


def test_a_command_inside_quotes() -> None:
    text = 'srun --nodes=2 bash -c "cd /x; torchrun --nnodes 2 pretrain_gpt.py --bf16"'
    assert read_launch_script(text).flags == {"--bf16": True}


def test_published_commands() -> None:
    folder = Path(__file__).resolve().parents[1] / "cases" / "recipes"
    for file in folder.glob("*.yaml"):
        text = file.read_text(encoding="utf-8").split("\nrun: |\n")[1].split("\nnotes:")[0]
        flags = command_flags("\n".join(line[2:] for line in text.splitlines()))
        assert flags["--global-batch-size"] == "128" and flags["--debug-train-only"] is True
        assert flags["--tensor-model-parallel-size"] == "4"


def test_the_last_use_of_a_flag_counts() -> None:
    assert read_flags(["--tp", "1", "--tp=2", "--a", "x", "y"]) == {"--tp": "2", "--a": ("x", "y")}


@pytest.mark.parametrize(
    "text",
    ["", "echo hello", "python3 train.sh", "python3 'train.py", "#python3 train.py", "\\\n\\\n"],
)
def test_no_trainer(text: str) -> None:
    with pytest.raises(AttuneError, match="starts no trainer"):
        read_launch_script(text)
    assert command_flags(text) == {}


def test_nothing_is_run(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    text = f"export A=$(touch {mark})\nB=`touch {mark}`\npython3 train.py --x $(touch {mark}) $B\n"
    read_launch_script(text)
    assert not mark.exists()


def test_large_and_deep_input_ends_soon() -> None:
    with pytest.raises(AttuneError, match="1 MiB"):
        read_launch_script("x" * (1 << 20 | 1))
    read_launch_script("A=(\n" * 2000 + ")\npython3 train.py")
