"""Fits the efficiency terms of a GPU on measured step times, as YAML for the catalogue.

python -m benchmarks.fit --gpu b200 --gpu gb200 --file bridge_perf

Prints the `efficiency:` block of each GPU: the catalogue's terms times the fitted factors, only
those that some row feels. Every figure of accuracy that is published leaves groups out; this fit
uses all rows of the files named, since nothing is scored on it.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import yaml

from benchmarks.cases import MEASUREMENTS, TIME, Case, read_cases
from benchmarks.terms import PRIORS, base_terms, fit, scaled

_MOVED = 0.01


def efficiency(cases: Sequence[Case]) -> dict[str, dict[str, float]]:
    """Terms of each GPU of the cases that moved from the catalogue's, from one common fit."""
    factors = fit(cases, ["all"] * len(cases), leave_out=False)["all"]
    gpus = {case.cluster.gpu.id: case.cluster.gpu for case in cases}
    found = {}
    for name, gpu in sorted(gpus.items()):
        terms, base = scaled(gpu, factors), base_terms(gpu)
        moved = [term for term in PRIORS if abs(np.log(terms[term] / base[term])) > _MOVED]
        found[name] = {**gpu.efficiency, **{term: round(terms[term], 4) for term in moved}}
    return found


def on_bound(cases: Sequence[Case], terms: dict[str, dict[str, float]]) -> list[str]:
    """Fitted shares that stand on their bound, to be read with doubt."""
    return [
        f"{gpu}: {term} {value}"
        for gpu, own in terms.items()
        for term, value in own.items()
        if term in PRIORS and value == 0.97
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=MEASUREMENTS)
    parser.add_argument("--file", action="append", default=[], help="only this CSV file (by name)")
    parser.add_argument("--gpu", action="append", default=[], help="only rows of this GPU")
    arguments = parser.parse_args()
    cases, _ = read_cases(arguments.data, TIME)
    if arguments.file:
        cases = [case for case in cases if case.file in arguments.file]
    if arguments.gpu:
        cases = [case for case in cases if case.cluster.gpu.id in arguments.gpu]
    if not cases:
        parser.error("no step time is left to fit on; name other files or GPUs")
    terms = efficiency(cases)
    print(f"# {len(cases)} rows of {', '.join(sorted({case.file for case in cases}))}")
    print(yaml.safe_dump({name: {"efficiency": own} for name, own in terms.items()}))
    for doubt in on_bound(cases, terms):
        print(f"# on its bound: {doubt}")


if __name__ == "__main__":
    main()
