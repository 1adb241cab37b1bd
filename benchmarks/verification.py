"""Whether the checks find planted faults and let honest layouts pass: `docs/verification.md`.

    python -m benchmarks.verification --work FOLDER

Real megatron-core on CPU. Runs that FOLDER holds already are not made again.
"""

from __future__ import annotations

import argparse
import platform
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from attune.trial.worker.config import Fault
from attune.verify import Verification
from attune.workload import Precision
from benchmarks.arms import ArmSpec, judge, train
from benchmarks.verification_page import write_tables

REFERENCE = ArmSpec(layout="tp=1")
HONEST = [
    ArmSpec(layout="tp=2"),
    ArmSpec(layout="pp=2"),
    ArmSpec(layout="pp=2 vpp=2"),
    ArmSpec(layout="pp=2 first=1"),
    ArmSpec(layout="ep=2"),
    ArmSpec(layout="ep=2 dispatcher=allgather"),
    ArmSpec(layout="cp=2"),
    ArmSpec(layout="recompute=full"),
    ArmSpec(layout="recompute=core_attn"),
    ArmSpec(layout="recompute=moe"),
    ArmSpec(layout="rows=4"),
    ArmSpec(layout="distributed_optimizer=off"),
    ArmSpec(layout="tp=2 ep=2 rows=2 recompute=full"),
    ArmSpec(layout="cp=2 ep=2 rows=2"),
    ArmSpec(layout="tp=2 pp=2 ep=2", processes=4),
    ArmSpec(layout="cp=2 tp=2 ep=4 recompute=core_attn", processes=4),
    ArmSpec(layout="tp=2", model="tiny-mla"),
    ArmSpec(layout="cp=2 ep=2", model="tiny-mla"),
    ArmSpec(layout="tp=2", model="tiny-dense"),
]
"""Changes of the layout alone; the first twelve change one thing."""


@dataclass(frozen=True)
class Planted:
    """A fault, the layout that shows it, and the checks of which one must find it."""

    fault: Fault
    layout: str
    found_by: tuple[str, ...]
    model: str = "tiny-moe"
    auxiliary_loss: float = 0.0

    @property
    def arm(self) -> ArmSpec:
        return ArmSpec(
            layout=self.layout,
            model=self.model,
            fault=self.fault,
            auxiliary_loss=self.auxiliary_loss,
        )


PLANTED = [
    Planted("layer_dropped", "tp=2", ("layout_bound",)),
    Planted("layers_reordered", "pp=2", ("layout_bound", "parity")),
    Planted("loss_group", "cp=2", ("gradient_norm",)),
    Planted("loss_summed", "ep=2", ("gradient_norm",)),
    Planted("norm_gradients_not_reduced", "tp=2", ("parity",)),
    Planted("auxiliary_loss", "tp=2", ("layout_bound", "parity"), auxiliary_loss=0.01),
    Planted("learning_rate", "tp=2", ("layout_bound",)),
    Planted("warmup", "tp=2", ("layout_bound",)),
    Planted("decay_on_norms", "tp=2", ("parity", "drift")),
    Planted("beta2", "tp=2", ("layout_bound", "parity")),
    Planted("clip_off", "tp=2", ("layout_bound", "parity")),
    Planted("expert_frozen", "ep=2", ("parity",)),
    Planted("rows_reordered", "tp=2", ("layout_bound",)),
    Planted("dropout", "tp=2", ("layout_bound",)),
    Planted("bf16_gradients", "tp=2", ("parity",)),
    Planted("mask_shifted", "tp=2", ("layout_bound",)),
    Planted("context_scrambled", "cp=2", ("layout_bound",)),
    Planted("rope_gradients_lost", "tp=2", ("parity",), model="tiny-mla"),
]
PAIRS = ("tp=2", "pp=2", "cp=2", "ep=2", "tp=1 recompute=full", "pp=2 vpp=2", "rows=2", "tp=2 ep=2")
"""Layouts that honest pairs are drawn from: pair k has numbers k and k + 1 + k // 8."""


def reference_of(arm: ArmSpec) -> ArmSpec:
    """The reference arm: the same training on the plainest layout, without the fault."""
    return replace(arm, layout=REFERENCE.layout, processes=2, fault=None)


def honest_pairs(count: int, precision: Precision = "fp32") -> Iterator[tuple[ArmSpec, ArmSpec]]:
    """Pairs of two layouts, each with weights and rows of its own seed."""
    for number in range(count):
        first, step = number % len(PAIRS), 1 + number // len(PAIRS) % (len(PAIRS) - 1)
        chosen = (PAIRS[first], PAIRS[(first + step) % len(PAIRS)])
        ours, theirs = (
            ArmSpec(layout=layout, seed=1000 + number, precision=precision, global_batch=4)
            for layout in chosen
        )
        yield ours, theirs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True, help="folder of the runs")
    parser.add_argument("--pairs", type=int, default=50, help="honest float32 pairs")
    parser.add_argument("--bf16-pairs", type=int, default=8, help="honest bf16 pairs")
    asked = parser.parse_args()
    asked.work.mkdir(parents=True, exist_ok=True)
    arms = [*HONEST, *(planted.arm for planted in PLANTED)]
    train([*arms, *map(reference_of, arms)], asked.work)
    exact, rounded = list(honest_pairs(asked.pairs)), list(honest_pairs(asked.bf16_pairs, "bf16"))
    train([arm for pair in exact + rounded for arm in pair], asked.work)

    def verdict_of(arm: ArmSpec) -> Verification:
        return judge(arm, reference_of(arm), asked.work)

    write_tables(
        planted=[(planted, verdict_of(planted.arm)) for planted in PLANTED],
        honest=[(arm, verdict_of(arm)) for arm in HONEST],
        pairs={
            "float32": [judge(*pair, asked.work) for pair in exact],
            "bf16": [judge(*pair, asked.work) for pair in rounded],
        },
        machine=_processor(),
    )


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


if __name__ == "__main__":
    main()
