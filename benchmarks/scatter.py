"""Predicted against measured as a picture (SVG, logarithmic axes)."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence

Point = tuple[float, float, str]
"""Measured, predicted, series."""
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
_SIZE, _MARGIN = 460, 56


def scatter(points: Sequence[Point], title: str, unit: str) -> str:
    """An SVG of the points around the line of equality."""
    values = [value for point in points for value in point[:2]]
    low, high = math.log10(min(values)) - 0.05, math.log10(max(values)) + 0.05

    def place(value: float) -> float:
        return (math.log10(value) - low) / (high - low) * _SIZE

    names = sorted({point[2] for point in points})
    colours = {name: _COLOURS[i % len(_COLOURS)] for i, name in enumerate(names)}
    dots = [
        f'<circle cx="{_MARGIN + place(x):.1f}" cy="{_MARGIN + _SIZE - place(y):.1f}" r="2.4" '
        f'fill="{colours[name]}" fill-opacity="0.6"/>'
        for x, y, name in points
    ]
    side = _SIZE + 2 * _MARGIN
    frame = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {side} {side}" '
        f'font-family="sans-serif" font-size="12">',
        f'<rect width="{side}" height="{side}" fill="white"/>',
        f'<text x="{side / 2}" y="24" text-anchor="middle" font-size="15">'
        f"{html.escape(title)}</text>",
        f'<rect x="{_MARGIN}" y="{_MARGIN}" width="{_SIZE}" height="{_SIZE}" fill="none" '
        f'stroke="#888"/>',
        f'<line x1="{_MARGIN}" y1="{_MARGIN + _SIZE}" x2="{_MARGIN + _SIZE}" y2="{_MARGIN}" '
        f'stroke="#888"/>',
    ]
    return "\n".join([*frame, *_axes(low, high, place, unit), *dots, *_legend(colours), "</svg>\n"])


def _axes(low: float, high: float, place, unit: str) -> list[str]:  # type: ignore[no-untyped-def]
    lines = []
    for power in range(math.ceil(low), math.floor(high) + 1):
        at = place(10.0**power)
        lines.append(
            f'<text x="{_MARGIN + at:.1f}" y="{_MARGIN + _SIZE + 16}" text-anchor="middle">'
            f"{10.0**power:g}</text>"
        )
        lines.append(
            f'<text x="{_MARGIN - 6}" y="{_MARGIN + _SIZE - at + 4:.1f}" text-anchor="end">'
            f"{10.0**power:g}</text>"
        )
    middle = _MARGIN + _SIZE / 2
    bottom = _MARGIN + _SIZE + 36
    lines.append(f'<text x="{middle}" y="{bottom}" text-anchor="middle">measured, {unit}</text>')
    lines.append(
        f'<text x="14" y="{middle}" text-anchor="middle" transform="rotate(-90 14 {middle})">'
        f"predicted, {unit}</text>"
    )
    return lines


def _legend(colours: dict[str, str]) -> list[str]:
    lines = []
    for index, (name, colour) in enumerate(colours.items()):
        top = _MARGIN + 16 + 16 * index
        lines.append(f'<circle cx="{_MARGIN + 14}" cy="{top - 4}" r="4" fill="{colour}"/>')
        lines.append(f'<text x="{_MARGIN + 24}" y="{top}">{html.escape(name)}</text>')
    return lines
