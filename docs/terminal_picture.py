"""Draws docs/tune.svg from a campaign's journal, with the drawing that a terminal shows.

    attune tune --model glm-4.5 --gpu h200 --count 128 --yes
    python docs/terminal_picture.py EXPERIMENT

The live display stands as it was when the search ended; above it what began the campaign, below
it what ended it.
"""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path

from rich.console import Console

from attune.experiment import Experiment
from attune.experiment.events import Event
from attune.report.history import history_of
from attune.report.lines import lines, simulated_notice, unproven_notice
from attune.report.live import picture

COLUMNS = 126
COMMAND = "$ attune tune --model glm-4.5 --gpu h200 --count 128"


def main(experiment: str) -> None:
    """Writes tune.svg beside this file."""
    events = Experiment.open(experiment).events()
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    history = history_of(events)
    if history.started is None:
        raise SystemExit(f"{experiment} has no journal")
    notice = simulated_notice(history.started)
    _say(console, COMMAND, style="bold")
    _say(console, notice, style="yellow")
    _tell(console, [e for e in events if e.kind in ("enumerated", "reference_chosen")])
    searching = history_of(_until_last_candidate(events))
    console.print(picture(searching, 0.0, len(searching.runs)))
    _tell(console, [e for e in events if e.kind in ("stopped", "verified")])
    _say(console, unproven_notice(history.started))
    _tell(console, [e for e in events if e.kind == "completed"])
    _say(console, notice, style="yellow")
    title = f"attune tune ({'SIMULATED' if notice else 'measured'})"
    drawn = console.export_svg(title=title)
    Path(__file__).with_name("tune.svg").write_text(_bare(drawn), encoding="utf-8")


def _tell(console: Console, events: list[Event]) -> None:
    for event in events:
        for line in lines(event):
            _say(console, line)


def _say(console: Console, line: str, style: str | None = None) -> None:
    console.print(line, markup=False, highlight=False, style=style)


def _until_last_candidate(events: list[Event]) -> list[Event]:
    """What had happened at the last step of the last candidate."""
    steps = [i for i, e in enumerate(events) if e.kind == "proposed" and e.purpose == "candidate"]
    return events[: steps[-1] + 1]


def _bare(svg: str) -> str:
    """`svg` without fonts from elsewhere, which a page may not load."""
    return re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)


if __name__ == "__main__":
    main(sys.argv[1])
