"""Layouts per second that rules, memory and step time judge on one core, and that the event replay
of a schedule does.

python -m benchmarks.speed --json
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from attune.catalog import Cluster, Model, load_cluster, load_model
from attune.estimate import estimate_memory, estimate_step_time
from attune.estimate.replay import replay
from attune.layout import Layout, LayoutTable
from attune.layout.rules import Setting, check
from attune.workload import Workload
from benchmarks.peers import PEERS, sample
from benchmarks.peers import measure as peer_rate

CASES = {"glm-4.5": ("h200", 128), "deepseek-v3": ("h100", 2048)}
ROWS = 40_000


def layouts(model: Model, count: int, rows: int = ROWS) -> LayoutTable:
    """`rows` layouts of a grid over every degree and knob, repeated if the grid is smaller."""
    grid = product((1, 2, 4, 8), (1, 2, 4, 8, 16), (1, 2), (1, 2, 4), (1, 2, 4, 8, 16, 32), (1, 2))
    some = []
    for tp, pp, vpp, cp, ep, per in grid:
        if tp * pp * cp > count:
            continue
        for recompute in ("none", "selective", "full"):
            some.append(
                Layout(
                    tp=tp,
                    pp=pp,
                    vpp=vpp,
                    cp=cp,
                    ep=ep if model.experts else 1,
                    sequence_parallel=tp > 1,
                    rows_per_microbatch=per,
                    first=None if pp == 1 else max(model.layers // pp - 1, 1),
                    recompute=recompute,  # type: ignore[arg-type]
                )
            )
    table = LayoutTable.of(some)
    copies = -(-rows // len(table))
    return LayoutTable.concatenate([table] * copies)


def judge(model: Model, cluster: Cluster, workload: Workload, table: LayoutTable) -> None:
    """Rules, memory and step time of every row."""
    check(Setting.of(model, cluster, workload), table)
    estimate_memory(model, cluster, workload, table)
    estimate_step_time(model, cluster, workload, table)


def measure(name: str, repeats: int = 3) -> dict[str, Any]:
    """Best rates of `repeats` passes over the table: by the clock, and by time on the core (the
    two part where other processes share it)."""
    gpu, count = CASES[name]
    model, cluster, workload = load_model(name), load_cluster(gpu, count), Workload()
    table = layouts(model, count)
    walls, cores = [], []
    for _ in range(repeats):
        wall, core = time.perf_counter(), time.process_time()
        judge(model, cluster, workload, table)
        walls.append(time.perf_counter() - wall)
        cores.append(time.process_time() - core)
    return {
        "layouts_per_s": round(len(table) / min(walls)),
        "layouts_per_core_s": round(len(table) / min(cores)),
        "layouts": len(table),
        "seconds": round(min(walls), 3),
        "peak_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }


def measure_replay(layouts: int = 200, stages: int = 16, microbatches: int = 64) -> dict[str, Any]:
    """Best rate of three event replays of 1F1B over layouts that share a schedule."""
    work = np.random.default_rng(0).uniform(0.9, 1.1, (layouts, stages, 1))
    walls, cores = [], []
    for _ in range(3):
        wall, core = time.perf_counter(), time.process_time()
        replay(work, 2 * work, np.full(layouts, 0.01), microbatches)
        walls.append(time.perf_counter() - wall)
        cores.append(time.process_time() - core)
    return {
        "layouts_per_s": round(layouts / min(walls)),
        "layouts_per_core_s": round(layouts / min(cores)),
        "layouts": layouts,
    }


def beside(name: str, checkout: Path, own: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """A peer on the same list of layouts (evenly spaced ones of it), and attune's ratio to it."""
    found = {}
    for case, (gpu, count) in CASES.items():
        model, cluster = load_model(case), load_cluster(gpu, count)
        table = sample(layouts(model, count))
        figures = peer_rate(PEERS[name](checkout, model, cluster, Workload()), table)
        rate = figures["layouts_per_core_s"]
        figures["ratio"] = round(own[case]["layouts_per_core_s"] / rate)
        found[f"{name}, {case}"] = figures
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    for name in PEERS:
        parser.add_argument(f"--{name}", type=Path, help=f"a checkout of {name}, to run beside")
    arguments = parser.parse_args()
    results = {name: measure(name) for name in CASES}
    results["replay"] = measure_replay()
    for name in PEERS:
        if vars(arguments)[name]:
            results |= beside(name, vars(arguments)[name].resolve(), results)
    if arguments.json:
        print(json.dumps(results))
        return
    for name, result in results.items():
        memory = f" ({result['peak_mib']} MiB)" if "peak_mib" in result else ""
        core = f"{result['layouts_per_core_s']:,} by time on the core"
        peer = ""
        if "ratio" in result:
            peer = f"; gave figures for {result['judged']} of {result['layouts']}"
            peer += f"; attune is {result['ratio']:,} times as fast"
        print(f"{name}: {result['layouts_per_s']:,} layouts/s, {core}{memory}{peer}")


if __name__ == "__main__":
    main()
