"""Planted faults fail by the check that should find them, and layouts alone pass.

Real megatron-core on CPU, all arms in one launch for each number of processes.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from attune.trial.worker.config import Fault
from benchmarks.arms import ArmSpec, judge, train
from benchmarks.verification import HONEST, PLANTED, reference_of

pytestmark = pytest.mark.training

CHOSEN: tuple[Fault, ...] = (
    "layer_dropped",
    "loss_group",
    "norm_gradients_not_reduced",
    "learning_rate",
    "decay_on_norms",
    "expert_frozen",
    "mask_shifted",
    "rope_gradients_lost",
)
"""Those that checks tell apart; `benchmarks.verification` runs all of them."""
LAYOUTS = [arm for arm in HONEST if arm.layout in ("pp=2 vpp=2", "cp=2 ep=2 rows=2", "rows=4")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("megatron.core", reason="the train extra is not installed")
    place = tmp_path_factory.mktemp("arms")
    arms = [planted.arm for planted in PLANTED if planted.fault in CHOSEN] + LAYOUTS
    train([*arms, *map(reference_of, arms)], place)
    return place


@pytest.mark.parametrize("fault", CHOSEN)
def test_a_fault_is_found_by_the_check_that_should_find_it(folder: Path, fault: Fault) -> None:
    (planted,) = (one for one in PLANTED if one.fault == fault)
    verification = judge(planted.arm, reference_of(planted.arm), folder)
    assert set(planted.found_by) & set(verification.failed), verification.checks
    assert verification.provenance == "measured"


@pytest.mark.parametrize("arm", LAYOUTS, ids=lambda arm: str(arm.layout))
def test_a_layout_alone_passes(folder: Path, arm: ArmSpec) -> None:
    verification = judge(arm, reference_of(arm), folder)
    assert (verification.failed, verification.provenance) == ((), "verified")


@pytest.mark.parametrize(
    ("fault", "words"),
    [("norm_gradients_not_reduced", "norms (9 of 9)"), ("expert_frozen", "experts.1 (6 of 6)")],
)
def test_the_probe_says_what_the_tensors_have_in_common(
    folder: Path, fault: Fault, words: str
) -> None:
    (planted,) = (one for one in PLANTED if one.fault == fault)
    checks = judge(planted.arm, reference_of(planted.arm), folder).checks
    assert words in next(check.detail for check in checks if check.name == "parity")


def test_megatron_bridge_alone_would_let_most_of_them_pass(folder: Path) -> None:
    arms = [one.arm for one in PLANTED if one.fault in CHOSEN]
    failed = [judge(arm, reference_of(arm), folder).failed for arm in arms]
    assert sum("megatron_bridge" in names for names in failed) < len(failed) / 2


def test_the_fault_is_not_in_the_job() -> None:
    arm = replace(PLANTED[0].arm, fault="learning_rate")
    assert arm.job == replace(arm, fault=None).job
