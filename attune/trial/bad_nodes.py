"""Nodes that failed runs again and again, to be left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from attune.trial.result import TrialResult

FAILURES = 2
"""Infrastructure failures on one node after which it gets no run: one may be chance."""


def bad_nodes(results: Iterable[TrialResult]) -> tuple[str, ...]:
    """Names of nodes where the deciding rank of `FAILURES` infrastructure failures ran."""
    failed = Counter(
        result.node for result in results if result.outcome == "infrastructure" and result.node
    )
    return tuple(node for node, count in sorted(failed.items()) if count >= FAILURES)
