"""Standardised residuals of memory, from which P(fits) is learnt.

python -m benchmarks.residuals

Prints the quantiles of `attune.estimate.fits.RESIDUALS`: log of measured over predicted device use
and reserved memory, over the deviation that the estimate states for the row.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from attune.estimate.fits import Residuals, learn_residuals
from benchmarks.cases import MEASUREMENTS, Case, read_cases
from benchmarks.predict import Prediction, predict

KINDS = ("peak_device_gib", "peak_reserved_gib")
_FEWEST = 4
"""Groups from which on quantiles are learnt."""


def known(directory: Path) -> list[tuple[str, float]]:
    """Group and residual of every measured row of device use or reserved memory."""
    cases, _ = read_cases(directory, KINDS)
    return [
        (case.family, float(np.log(case.value / one.value)) / one.sigma)
        for case, one in zip(cases, predict(cases))
    ]


def left_out(
    directory: Path, cases: Sequence[Case], predictions: Sequence[Prediction]
) -> list[Prediction]:
    """The predictions with each P(fits) learnt from residuals of other groups."""
    rows = known(directory)
    found: dict[str, Residuals | None] = {}
    changed = list(predictions)
    for index, case in enumerate(cases):
        if case.metric != "outcome":
            continue
        if case.family not in found:
            others = [row for row in rows if row[0] != case.family]
            enough = len({group for group, _ in others}) >= _FEWEST
            found[case.family] = (
                learn_residuals([r for _, r in others], [g for g, _ in others]) if enough else None
            )
        residuals = found[case.family]
        if residuals:
            one = predictions[index]
            chance = residuals.share_below(np.array([one.headroom / one.sigma]))
            changed[index] = replace(one, value=float(chance[0]))
    return changed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=MEASUREMENTS)
    rows = known(parser.parse_args().data)
    learnt = learn_residuals([r for _, r in rows], [g for g, _ in rows])
    print(f"# {len(rows)} rows of {len({group for group, _ in rows})} groups")
    for level, value in zip(learnt.levels, learnt.values):
        print(f"{level:.4f}: {value:+.3f}")


if __name__ == "__main__":
    main()
