"""The page on the search says what the figures say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.search import as_data, read
from benchmarks.search_page import write_page

ROW = {
    "regret_pct_at_10": 1.5,
    "regret_pct_at_10_p90": 3.0,
    "regret_pct_at_20": 0.5,
    "regret_pct_at_20_p90": 1.0,
    "standard_error_at_20": 0.1,
    "oom_pct": 12.0,
    "curve": [20.0, 5.0, 0.5],
}
REPORTS = {
    "near": {
        "methods": {"attune": ROW},
        "about": {"seeds": [0, 3], "games": 20, "rank_correlation": {"glm-4.5": 0.9}},
    },
    "landscapes": {
        "methods": {"attune": {"median_trials_to_2pct": 1.0, "p90_trials_to_2pct": 4.0}},
        "about": {"seeds": [0, 3], "groups": 36},
    },
}


def test_figures_written_and_read_again_are_the_same(tmp_path: Path) -> None:
    path = tmp_path / "search.json"
    path.write_text(json.dumps(as_data(REPORTS)), encoding="utf-8")
    assert read([path]) == REPORTS


@pytest.mark.parametrize("kind", ["near", "landscapes"])
def test_a_page_of_one_kind_names_no_other(tmp_path: Path, kind: str) -> None:
    page = tmp_path / "search.md"
    write_page(page, {kind: REPORTS[kind]})
    text = page.read_text(encoding="utf-8")
    assert ("| attune | 1.50 | 3.00 | 0.50 | 1.00 | 0.10 | 12.00 |" in text) == (kind == "near")
    assert ("| attune | 1 | 4.0 |" in text) == (kind == "landscapes")
    assert (tmp_path / "search_near.svg").exists() == (kind == "near")
