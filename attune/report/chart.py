"""What a chart of a report is: a Plotly figure in plain data, and its numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Figure = dict[str, Any]
Cells = tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Chart:
    """A chart and its numbers."""

    id: str
    title: str
    says: str
    """What it shows, one sentence."""
    origin: str
    """Provenance of its numbers in words."""
    figure: Figure
    head: Cells
    rows: tuple[Cells, ...]


def figure_of(data: list[Figure], x: str, y: str, **layout: Any) -> Figure:
    """A figure with named axes."""
    axes = {"xaxis": {"title": {"text": x}}, "yaxis": {"title": {"text": y}}}
    return {"data": data, "layout": axes | layout}
