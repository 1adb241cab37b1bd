"""Counted parameters against what megatron-core builds on the meta device."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from attune.catalog import load_model
from attune.layout import LayoutTable
from attune.layout.rules import Setting, check
from attune.workload import Workload
from benchmarks.parameters import Agreement, cases, report

ROOT = Path(__file__).parent.parent.parent
ONE_OF_EACH = ("qwen3-8b", "tiny-moe", "moonlight-16b", "gpt-oss-120b", "glm-5")
"""Dense, mixture of experts, latent attention, biases and sinks, sparse attention."""


@pytest.mark.training
def test_counts_equal_what_megatron_builds() -> None:
    pytest.importorskip("megatron.core")
    models = [word for name in ONE_OF_EACH for word in ("--model", name)]
    run = subprocess.run(
        [sys.executable, "-m", "benchmarks.parameters", "--rows", "3", *models],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert run.returncode == 0, run.stdout + run.stderr[-2000:]
    assert "15 of 15 rows equal, 0 refused" in run.stdout


def test_drawn_layouts_are_legal_and_of_many_kinds() -> None:
    drawn = list(cases(load_model("mixtral-8x7b"), 20, np.random.default_rng(3)))
    for case in drawn:
        setting = Setting(model=case.model, count=case.world, workload=Workload(global_batch=8192))
        assert check(setting, LayoutTable.of([case.layout])).legal.all()
        assert 0 <= case.rank < case.world
    seen = {kind for case in drawn for kind in case.kinds}
    assert {"uneven", "VPP", "CP", "ETP not TP", "EP 1, ETP over 1", "tied", "padded"} <= seen


def test_every_difference_is_told() -> None:
    agreement = Agreement(equal=3, different=["a"], refused=["b", "c"])
    assert str(agreement) == "3 equal, 1 different, 2 refused"
    text = report({"tiny-moe": agreement})
    assert "different: a" in text and "refused: c" in text
    assert text.endswith("3 of 4 rows equal, 2 refused by Megatron")
