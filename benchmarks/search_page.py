"""The page on how few trials the search needs: tables, and a picture of the curves."""

from __future__ import annotations

from math import log10
from pathlib import Path
from typing import Any

_COLOURS = ("#0b6e4f", "#888888", "#c44e00", "#7a3b9e", "#1f5fbf", "#00838f", "#b8860b", "#a03050")
_WIDE, _HIGH, _EDGE = 640, 300, 44
_MOST_PERCENT = 100.0
"""Top of the picture; means above it are drawn at it."""
GOALS = {"near": (2.0, 0.7), "far": (4.0, 1.5), "adversarial": (15.0, 5.0)}
"""Regret in percent after 10 and 20 trials that the search is to reach; 15 % out of memory."""
_ABOUT = """# How few trials the search needs

Written by `python -m benchmarks.search --page docs/search.md`; do not edit. Nothing here ran on a
GPU: virtual clusters are simulated, and landscapes replay published measurements.

"""
_CLUSTERS = """## Virtual clusters

Five models, each on one cluster: GLM-4.5 on 128 H200, GLM-5.2 on 64 B200, DeepSeek-V3 on 256 H100,
Llama-3.1-70B on 64 H100, Qwen3-30B-A3B on 16 H100. Regret: how much slower than the true best
candidate the best layout tried so far is, percent. All methods choose among the same candidates,
after the same reference run, which is no trial.
"""
_LANDSCAPES = """## Real landscapes, replayed

{groups} groups of `benchmarks/measurements/` with at least 8 measured layouts each: one model, GPU
count, batch and precision. The estimator is fitted on the same source without the group's model.
Memory plays no part: what was measured did fit. Trials until a layout within 2 % of the best
measured; a first trial counts. Goal: median 3, 90th percentile 8.

| method | median | 90th percentile |
| --- | --: | --: |
"""


def write_page(path: Path, reports: dict[str, Any]) -> None:
    """Writes the page at `path`, and `search_KIND.svg` beside it."""
    text = _ABOUT
    kinds = {kind: found for kind, found in reports.items() if kind in GOALS}
    if kinds:
        text += _CLUSTERS
    for kind, found in kinds.items():
        picture = path.with_name(f"search_{kind}.svg")
        picture.write_text(curves(kind, found["methods"]), encoding="utf-8")
        text += _kind(kind, found, picture.name)
    if "landscapes" in reports:
        text += "\n" + _LANDSCAPES.format(groups=reports["landscapes"]["about"]["groups"])
        for method, row in reports["landscapes"]["methods"].items():
            median, high = row["median_trials_to_2pct"], row["p90_trials_to_2pct"]
            text += f"| {method} | {median:g} | {high:.1f} |\n"
    path.write_text(text, encoding="utf-8")


def _kind(kind: str, found: dict[str, Any], picture: str) -> str:
    about = found["about"]
    known, (first, last) = about["rank_correlation"], about["seeds"]
    words = ", ".join(f"{name} {value:.2f}" for name, value in known.items())
    at_10, at_20 = GOALS[kind]
    lines = [
        f"\n### `{kind}`\n",
        f"{about['games']} clusters, seeds {first} to {last}. Rank correlation of the estimator's "
        f"prior and the truth: {sum(known.values()) / len(known):.2f} ({words}).",
        f"Goal: regret {at_10:g} % after 10 trials, {at_20:g} % after 20; at most 15 % of trials "
        "out of memory.\n",
        "| method | regret at 10 | 90th percentile | regret at 20 | 90th percentile | "
        "standard error at 20 | out of memory |",
        "| --- | --: | --: | --: | --: | --: | --: |",
    ]
    for method, row in found["methods"].items():
        values = (
            row["regret_pct_at_10"],
            row["regret_pct_at_10_p90"],
            row["regret_pct_at_20"],
            row["regret_pct_at_20_p90"],
            row["standard_error_at_20"],
            row["oom_pct"],
        )
        lines.append(f"| {method} | " + " | ".join(f"{value:.2f}" for value in values) + " |")
    lines.append(f"\n![Mean regret by trial on {kind} clusters]({picture})\n")
    return "\n".join(lines)


def curves(kind: str, methods: dict[str, Any]) -> str:
    """An SVG of mean regret by trial."""
    body = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDE} {_HIGH}" '
        'font-family="sans-serif" font-size="11">',
        f'<rect width="{_WIDE}" height="{_HIGH}" fill="#ffffff"/>',
        f'<text x="{_EDGE}" y="16">mean regret, percent (logarithmic), {kind}</text>',
    ]
    for percent in (0.1, 1.0, 10.0, 100.0):
        y = _height(percent)
        body.append(
            f'<line x1="{_EDGE}" x2="{_WIDE - 150}" y1="{y:.1f}" y2="{y:.1f}" stroke="#dddddd"/>'
            f'<text x="6" y="{y + 4:.1f}">{percent:g}</text>'
        )
    for place, (method, row) in enumerate(methods.items()):
        body.append(_curve(method, row["curve"], place))
    body.append(f'<text x="{_EDGE}" y="{_HIGH - 6}">trials, 1 to {_longest(methods)}</text>')
    return "\n".join([*body, "</svg>"]) + "\n"


def _curve(method: str, values: list[float], place: int) -> str:
    colour = _COLOURS[place % len(_COLOURS)]
    step = (_WIDE - 150 - _EDGE) / max(len(values) - 1, 1)
    points = " ".join(f"{_EDGE + i * step:.1f},{_height(v):.1f}" for i, v in enumerate(values))
    width = 2.5 if method == "attune" else 1.2
    y = 30 + 16 * place
    return (
        f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="{width}">'
        f"<title>{method}</title></polyline>"
        f'<text x="{_WIDE - 140}" y="{y}" fill="{colour}">{method}</text>'
    )


def _height(percent: float) -> float:
    """Place of a regret on the logarithmic axis, 0.1 to 100 %."""
    inside = min(max(percent, 0.1), _MOST_PERCENT)
    share = (log10(inside) + 1) / 3
    return _HIGH - 24 - share * (_HIGH - 60)


def _longest(methods: dict[str, Any]) -> int:
    return max((len(row["curve"]) for row in methods.values()), default=0)
