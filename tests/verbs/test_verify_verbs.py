"""`attune verify`, by its verbs."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from attune.catalog import load_cluster, load_model
from attune.cli.app import app
from attune.errors import AttuneError
from attune.layout import parse_layout
from attune.trial.frameworks import load_framework
from attune.trial.job import Job
from attune.trial.script import shell_script
from attune.verbs.target import find_target
from attune.verbs.verify import check_components, compare_configurations, verify_against
from attune.workload import Workload

RECIPES = Path(__file__).parents[1] / "cases" / "recipes"
PUBLISHED = sorted(RECIPES.glob("glm-5.2*.yaml"))


def _recipe(folder: Path, layout: str, **workload: object) -> Path:
    model = load_model("tiny-dense")
    job = Job(
        model=model,
        cluster=load_cluster("cpu", 2),
        workload=Workload.model_validate({**(model.workload or {}), "steps": 4, **workload}),
        layout=parse_layout(layout),
    )
    command = load_framework("megatron-core").prepare(job)
    script = shell_script(command, "python3", with_files=True)
    path = folder / f"{layout.replace(' ', '-')}-{len(workload)}.yaml"
    lines = "\n".join("  " + line for line in script.splitlines())
    path.write_text(f"gpu:\n  type: cpu\n  count: 2\nrun: |\n{lines}\n")
    return path


def test_recipes_of_other_schedules_do_not_compare() -> None:
    checked = compare_configurations(str(PUBLISHED[0]), str(PUBLISHED[-1]))
    assert not checked.passed
    assert "--num-rollout" in checked.verification.checks[0].detail


def test_the_command_line_says_what_differs() -> None:
    lines = "python3 train.py --lr 1e-5 --tensor-model-parallel-size {}"
    same = CliRunner().invoke(app, ["verify", "config", lines.format(2), lines.format(4)])
    assert same.exit_code == 0 and "layout" in same.output
    other = CliRunner().invoke(
        app, ["verify", "config", lines.format(2), lines.format(2).replace("1e-5", "1e-4")]
    )
    assert other.exit_code == 1 and "--lr" in other.output


def test_a_recipe_without_a_reference_is_told_what_to_give(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["verify", "recipe", str(_recipe(tmp_path, "tp=1"))])
    assert isinstance(result.exception, AttuneError) and "--against" in str(result.exception)


def test_recipes_of_another_framework_are_compared_by_configuration_alone() -> None:
    checked = verify_against(PUBLISHED[0], PUBLISHED[0])
    statuses = {check.name: check.status for check in checked.verification.checks}
    assert statuses.pop("configuration") == "passed" and set(statuses.values()) == {"not run"}
    assert checked.verification.provenance != "verified" and "not run" in checked.verdict


def test_arms_of_another_learning_rate_are_not_run(tmp_path: Path) -> None:
    ours = _recipe(tmp_path, "tp=2", optimization={"learning_rate": 1e-3})
    checked = verify_against(ours, _recipe(tmp_path, "tp=1"))
    assert checked.verification.failed == ("configuration",)
    assert "learning_rate" in checked.verification.checks[0].detail


def test_a_layout_that_turns_no_knob_needs_no_component_test() -> None:
    target = find_target("tiny-dense", "cpu", 2)
    checked = check_components(target, parse_layout("tp=2"))
    assert checked.verification.checks == () and "needs none" in checked.what


@pytest.mark.training
def test_a_recipe_is_verified_against_another_by_running_both(tmp_path: Path) -> None:
    pytest.importorskip("megatron.core", reason="the train extra is not installed")
    checked = verify_against(_recipe(tmp_path, "tp=2 recompute=full"), _recipe(tmp_path, "tp=1"))
    assert checked.verdict == "verified", checked.verification.checks
    statuses = {check.name: check.status for check in checked.verification.checks}
    assert statuses["parity"] == statuses["reference_differs"] == "passed"


@pytest.mark.training
def test_a_reference_that_runs_out_of_memory_is_its_own_outcome(tmp_path: Path) -> None:
    pytest.importorskip("megatron.core", reason="the train extra is not installed")
    # The logits of 32 rows at once, several times over, do not fit the 46 MiB of a process.
    batch = {"global_batch": 64, "steps": 3}
    checked = verify_against(
        _recipe(tmp_path, "tp=2 recompute=full", **batch),
        _recipe(tmp_path, "tp=1 rows=32", **batch),
    )
    complete = next(c for c in checked.verification.checks if c.name == "complete")
    assert complete.status == "not run" and "no reference could run" in complete.detail
    assert checked.verification.provenance != "verified"
    assert "the nearest layout that should fit is `" in checked.verification.note
