"""Two commands that differ in what changes the mathematics do not pass."""

from __future__ import annotations

from pathlib import Path

import pytest

from attune.catalog.accepted_flags import AcceptedFlag, accepted_flags
from attune.catalog.flag_classes import class_of_field, class_of_flag, class_of_variable
from attune.errors import AttuneError
from attune.verify.commands import Command, parse_command, read_command
from attune.verify.flags import check_flags, differing

SLIME = """
export CUDA_DEVICE_MAX_CONNECTIONS=1
export NCCL_NVLS_ENABLE=$([ "$NVLINK_COUNT" -gt 0 ] && echo 1 || echo 0)  # set in the environment
MODEL_ARGS=(
  --num-layers 78   # as published
  --moe-layer-freq "[0]*3+[1]*75"
)
python3 train_async.py \\
  ${MODEL_ARGS[@]} \\
  --tensor-model-parallel-size 4 \\
  --sequence-parallel \\
  --max-tokens-per-gpu 12288 \\
  --optimizer adam --lr 1e-5 --weight-decay=0.1 \\
  --num-rollout 20 --calculate-per-token-loss
"""


def _check(changed: str, original: str = SLIME) -> str:
    check = check_flags(parse_command(changed), parse_command(original))
    return f"{check.status}: {check.detail}"


def test_flags_variables_and_arrays_are_read() -> None:
    command = parse_command(SLIME)
    assert command.flags["num-layers"] == "78" and command.flags["moe-layer-freq"] == "[0]*3+[1]*75"
    assert command.flags["sequence-parallel"] == "" and command.flags["weight-decay"] == "0.1"
    assert command.variables["CUDA_DEVICE_MAX_CONNECTIONS"] == "1"
    assert command.variables["NCCL_NVLS_ENABLE"].startswith("$([")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("--tensor-model-parallel-size 4", "--tensor-model-parallel-size 8"),
        ("--max-tokens-per-gpu 12288", "--max-tokens-per-gpu 8192"),
        ("--sequence-parallel", "--sequence-parallel --recompute-granularity full"),
        ("--num-layers 78   # as published", "--num-layers 78"),
        ("--optimizer adam --lr 1e-5", "--lr 1e-5 --optimizer adam"),
        ("--lr 1e-5", "--lr 1e-4 --lr 1e-5"),
    ],
)
def test_layout_and_memory_may_differ(before: str, after: str) -> None:
    assert _check(SLIME.replace(before, after)).startswith("passed")


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("--lr 1e-5", "--lr 1.02e-5", "hyper-parameter --lr: `1.02e-5` against `1e-5`"),
        ("--num-rollout 20", "--num-rollout 14", "hyper-parameter --num-rollout"),
        (" --calculate-per-token-loss", "", "--calculate-per-token-loss: not set against set"),
        ("--weight-decay=0.1", "--weight-decay=0.1 --adam-beta2 0.98", "--adam-beta2"),
        ("--weight-decay=0.1", "--weight-decay=0.1 --clip-grad 0", "--clip-grad"),
        ("--weight-decay=0.1", "--weight-decay=0.1 --attention-dropout 0.1", "--attention-dropout"),
        ("--weight-decay=0.1", "--weight-decay=0.1 --moe-aux-loss-coeff 1e-3", "--moe-aux-loss"),
        ("--weight-decay=0.1", "--weight-decay=0.1 --lr-warmup-iters 3", "--lr-warmup-iters"),
        ("--num-layers 78", "--num-layers 76", "model --num-layers"),
        ("[0]*3+[1]*75", "[0]*2+[1]*76", "model --moe-layer-freq"),
        ("--num-rollout 20", "--num-rollout 20 --rollout-seed 7", "data --rollout-seed"),
        ("--num-rollout 20", "--num-rollout 20 --brand-new-flag", "not classed"),
        ("CONNECTIONS=1", "CONNECTIONS=1\nexport INDEXER_ROPE_NEOX_STYLE=0", "model INDEXER_ROPE"),
        ("CONNECTIONS=1", "CONNECTIONS=1\nexport A_NEW_VARIABLE=0", "not classed"),
    ],
)
def test_what_changes_the_mathematics_may_not(before: str, after: str, words: str) -> None:
    assert before in SLIME
    result = _check(SLIME.replace(before, after))
    assert result.startswith("failed") and words in result


def test_kernel_choices_are_listed_and_precision_asks_for_a_component_test() -> None:
    kernel = _check(SLIME.replace("--optimizer", "--attention-backend flash --optimizer"))
    assert kernel.startswith("passed: kernel choices differ: --attention-backend")
    offload = _check(SLIME.replace("--optimizer", "--optimizer-cpu-offload --optimizer"))
    assert offload.startswith("passed: needs a component test: --optimizer-cpu-offload")


def test_a_model_that_is_read_from_elsewhere_must_be_the_same() -> None:
    script = "source scripts/models/glm4.sh\npython3 train.py ${MODEL_ARGS[@]} --lr 1e-5\n"
    other = _check(script.replace("glm4", "glm5"), script)
    assert other.startswith("failed: model --source")
    assert _check(script.replace("${MODEL_ARGS[@]}", ""), script).startswith("failed")
    assert _check(script, script) == "passed: the arms differ in nothing alone"


def test_variables_that_flags_carry_are_compared() -> None:
    line = """python3 train.py --train-env-vars '{"NVTE_FP8_X": "%s", "NCCL_DEBUG": "%s"}'"""
    assert _check(line % ("1", "WARN"), line % ("1", "INFO")).startswith("passed: kernel")
    assert "component test: NVTE_FP8_X" in _check(line % ("0", "INFO"), line % ("1", "INFO"))


def test_fields_of_attunes_own_worker_are_compared() -> None:
    script = (
        "cat > worker.json <<'EOF'\n"
        '{"workload": {"optimization": {"learning_rate": 0.002}, "seed": 1}, "layout": {"tp": 2}}\n'
        "EOF\npython3 -m torch.distributed.run --nproc-per-node=2 -m attune.trial.worker\n"
    )
    assert _check(script.replace('"tp": 2', '"tp": 1'), script).startswith("passed")
    for before, after in (("0.002", "0.00204"), ('"seed": 1', '"seed": 2')):
        assert _check(script.replace(before, after), script).startswith("failed: hyper-parameter")


def test_fields_of_megatron_bridge_are_compared() -> None:
    line = "python run_recipe.py --recipe x model.tensor_model_parallel_size=4 optimizer.lr=1e-5"
    assert _check(line.replace("=4", "=8"), line).startswith("passed")
    assert "optimizer.lr" in _check(line.replace("1e-5", "2e-5"), line)


def test_published_recipes_are_read() -> None:
    recipes = sorted((Path(__file__).parents[1] / "cases" / "recipes").rglob("*.yaml"))
    commands = [read_command(str(path)) for path in recipes]
    assert len(recipes) > 1 and all("lr" in command.flags for command in commands if command.flags)
    for command in commands:
        unknown = [s.name for s in differing(command, parse_command("")) if s.kind is None]
        assert unknown == []


def test_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    with pytest.raises(AttuneError, match="no file `nowhere"):
        read_command("nowhere.sh")
    (tmp_path / "empty.sh").write_text("\n")
    with pytest.raises(AttuneError, match="is empty"):
        read_command(str(tmp_path / "empty.sh"))
    with pytest.raises(AttuneError, match="quote does not close"):
        parse_command("python3 train.py --lr '1e-5")
    (tmp_path / "large.sh").write_text("#" * (2**20 + 1))
    with pytest.raises(AttuneError, match="1048576 bytes"):
        read_command(str(tmp_path / "large.sh"))


@pytest.mark.parametrize("framework", ["megatron-lm", "miles", "slime"])
def test_every_flag_of_every_version_is_classed(framework: str) -> None:
    names = [flag.name.lstrip("-") for flag in every_flag(framework)]
    assert len(names) > 800
    assert [name for name in names if class_of_flag(name, framework) is None] == []


def test_every_field_of_megatron_bridge_is_classed() -> None:
    command = Command(fields={flag.name: "1" for flag in every_flag("megatron-bridge")})
    assert len(command.fields) > 700
    settings = differing(command, Command(framework="megatron-bridge"))
    assert [setting.name for setting in settings if setting.kind is None] == []


def every_flag(framework: str) -> list[AcceptedFlag]:
    versions = [(0, minor) for minor in range(3, 20)]
    found = {f.name: f for v in versions for f in accepted_flags(framework, v).values()}
    return list(found.values())


def test_classes_are_told_apart() -> None:
    assert class_of_flag("seed", "miles") == "hyper_parameter"
    assert class_of_flag("sglang-mem-fraction", "slime") == "ignored"
    assert class_of_flag("nproc-per-node") == "layout"
    assert class_of_flag("no-such-flag") is None
    assert class_of_variable("NCCL_IB_HCA") == "kernel"
    assert class_of_variable("NVTE_FWD_LAYERNORM_SM_MARGIN") == "kernel"
    assert class_of_variable("NVTE_SOMETHING") == "precision"
    assert class_of_field("worker.layout.recompute") == "memory"
    assert class_of_field("worker.workload.precision") == "precision"
