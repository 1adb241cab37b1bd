"""Campaigns and trials on other frameworks than attune's own trainer."""

from __future__ import annotations

from pathlib import Path

import pytest

from attune.errors import AttuneError, LayoutError
from attune.layout import Layout
from attune.trial.setup import Setup, read_setup
from attune.verbs.target import find_target
from attune.verbs.trial import ChosenLauncher, run_trial
from attune.verbs.tune import TuneRequest, tune

SIMULATED = ChosenLauncher(name="simulated", reason="asked for")
SETUP = """
framework: command
command: python3 train.py --tp {tp} --pp {pp}
patterns:
  loss: "loss ([0-9.]+)"
  step_time: "took ([0-9.]+) s"
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATTUNE_HOME", str(tmp_path))


def request_of(framework: str, **more: object) -> TuneRequest:
    fields: dict[str, object] = {
        "model": "qwen3-8b",
        "gpu": "h200",
        "count": 8,
        "framework": framework,
        "launcher": "simulated",
        **more,
    }
    return TuneRequest(**fields)  # type: ignore[arg-type]


def test_the_inputs_name_framework_and_checkout() -> None:
    inputs = tune(request_of("slime", checkout="/opt/slime")).inputs
    assert (inputs.framework, inputs.setup.checkout) == ("slime", "/opt/slime")


def test_a_setup_file_is_kept_with_the_experiment(tmp_path: Path) -> None:
    path = tmp_path / "trainer.yaml"
    path.write_text(SETUP)
    inputs = tune(request_of(str(path))).inputs
    assert inputs.framework == "command"
    assert inputs.setup.command == "python3 train.py --tp {tp} --pp {pp}"
    assert inputs.fixed["vpp"] == 1 and inputs.fixed["stages"] == "even"
    assert "tp" not in inputs.fixed


@pytest.mark.parametrize(
    ("framework", "said"),
    [("slimey", "did you mean `slime`"), ("missing.yaml", "cannot read missing.yaml")],
)
def test_an_unknown_framework_is_refused(framework: str, said: str) -> None:
    with pytest.raises(AttuneError, match=said):
        tune(request_of(framework))


def test_a_setup_file_says_which_framework_and_no_unknown_field(tmp_path: Path) -> None:
    path = tmp_path / "trainer.yaml"
    path.write_text("checkout: /opt/slime\n")
    with pytest.raises(AttuneError, match="must say which framework"):
        read_setup(str(path))
    path.write_text("framework: slime\nchekout: /opt/slime\n")
    with pytest.raises(AttuneError, match="chekout"):
        read_setup(str(path))
    path.write_text("framework: slime\nenvironment: {'A B': x}\n")
    with pytest.raises(AttuneError, match="no name of an environment variable"):
        read_setup(str(path))


@pytest.mark.parametrize("framework", ["megatron-lm", "megatron-bridge", "miles", "slime"])
def test_a_trial_on_the_simulated_launcher(framework: str) -> None:
    target = find_target("qwen3-8b", "h200", 8)
    ran = run_trial(
        target,
        Layout(tp=4, sequence_parallel=True),
        launcher=SIMULATED,
        framework=framework,
        setup=Setup(checkout="/opt/trainer", environment={"NCCL_NVLS_ENABLE": "0"}),
    )
    assert ran.completed, ran.result.evidence
    told = (ran.directory / "trial.yaml").read_text()
    assert f"framework: {framework}" in told and "checkout: /opt/trainer" in told
    script = (ran.directory / "command.sh").read_text()
    assert "NCCL_NVLS_ENABLE" in script
    if framework in ("miles", "slime"):
        # What is exported reaches the driver alone; the actors are given it by a flag.
        assert "--train-env-vars" in (ran.directory / "driver.json").read_text()


def test_a_layout_that_crashes_the_framework_is_refused_by_its_rule() -> None:
    target = find_target("qwen3-8b", "h200", 8)
    layout = Layout(tp=4, sequence_parallel=True, overlap_gradients=True)
    with pytest.raises(LayoutError, match="overlap.gradients_crash"):
        run_trial(target, layout, launcher=SIMULATED, framework="slime")
    layout = Layout(tp=4, sequence_parallel=True, cuda_graphs=True)
    with pytest.raises(LayoutError, match=r"framework\.expresses: slime cannot train with"):
        run_trial(target, layout, launcher=SIMULATED, framework="slime")
