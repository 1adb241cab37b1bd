"""What people and programs read, word for word.

After a change that is meant, write the files again and read the difference:
`ATTUNE_WRITE_GOLDEN=1 python -m pytest tests/report/test_golden.py`.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from campaign_events import campaign
from rich.console import Console
from test_report_pages import _report

from attune.recipe import load_recipe
from attune.recipe.library import recipe_files
from attune.report.campaign import ListedExperiment, Report, draw_experiments, draw_report
from attune.report.history import history_of
from attune.report.live import draw_events
from attune.report.recipe import draw_recipe
from attune.report.tables import report_markdown, trials_csv

GOLDEN = Path(__file__).with_name("golden")


def _same(name: str, text: str) -> None:
    file = GOLDEN / name
    if os.environ.get("ATTUNE_WRITE_GOLDEN"):
        GOLDEN.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8"), f"{name} differs; see the top of this file"


def _terminal(draw: Callable[[Any, Console], object], result: Any, width: int) -> str:
    stream = io.StringIO()
    console = Console(
        file=stream, width=width, force_terminal=True, no_color=True, color_system=None
    )
    draw(result, console)
    return "\n".join(line.rstrip() for line in stream.getvalue().split("\n"))


def _experiments() -> tuple[ListedExperiment, ...]:
    known = ListedExperiment(
        id="glm-4.5-h200-128-20261130-161500",
        model="GLM-4.5",
        gpu="H200",
        count=128,
        state="done",
        runs=14,
        tokens_per_s_per_gpu=215.6,
        provenance="predicted",
    )
    blank = dict.fromkeys(("model", "gpu", "provenance"), "")
    damaged = ListedExperiment(
        id="old",
        count=0,
        state="damaged",
        runs=0,
        tokens_per_s_per_gpu=None,
        problem="experiments/old/experiment.yaml: unknown field `moon`; attune 9.0.0 wrote it",
        **blank,
    )
    return known, damaged


def _recipe() -> Any:
    return load_recipe(next(p for p in recipe_files() if p.stem == "published-tp4-pp2-cp8"))


SCREENS: dict[str, tuple[Callable[..., object], Callable[[], Any]]] = {
    "report": (draw_report, lambda: Report(experiment="exp-1", history=history_of(campaign()))),
    "experiments": (draw_experiments, _experiments),
    "recipe": (draw_recipe, _recipe),
}


def test_markdown() -> None:
    _same("report.md", report_markdown(_report()))


def test_csv() -> None:
    _same("trials.csv", trials_csv(_report()))


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("name", SCREENS)
def test_terminal(name: str, width: int) -> None:
    draw, make = SCREENS[name]
    _same(f"{name}-{width}.txt", _terminal(draw, make(), width))


@pytest.mark.parametrize("name", ["report", "experiments"])
def test_nothing_is_wider_than_the_terminal(name: str) -> None:
    draw, make = SCREENS[name]
    assert max(map(len, _terminal(draw, make(), 80).splitlines())) <= 80


def test_a_log_of_a_campaign() -> None:
    stream = io.StringIO()
    draw_events(campaign(), Console(file=stream, width=80, force_terminal=False))
    _same("campaign.log", stream.getvalue())
