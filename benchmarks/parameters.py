"""Counted parameters against what megatron-core itself builds, for random legal layouts.

python -m benchmarks.parameters --rows 10 --seed 0

Every row is one rank of a legal layout: drawn alike from plain, uneven, virtual, explicit, context-
and expert-parallel layouts, now and then with tied embeddings or another vocabulary. Megatron-core
0.16 gives every layer a sparse-attention indexer of its own, so a model whose layers share them is
compared as if they did not. Prints a line for each model, and every difference; ends with 1 where
there is one.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from attune.catalog import Model, load_model, model_names
from attune.counts import rank_parameters
from attune.layout import Layout, LayoutTable, write_layout
from attune.layout.rules import Setting, check
from attune.workload import Workload

_DRAWS = 1000
_WORLDS = (1, 8, 16, 24, 32, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
_MOST_EXPERTS = 3000
"""Experts of one rank, all layers together: a bound on the time to build it (about 1 ms each)."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """One rank of one layout."""

    model: Model
    layout: Layout
    world: int
    rank: int

    @property
    def kinds(self) -> tuple[str, ...]:
        """What is special about it."""
        model, layout = self.model, self.layout
        special = {
            "TP": layout.tp > 1,
            "PP": layout.pp > 1,
            "VPP": layout.vpp > 1,
            "CP": layout.cp > 1,
            "EP": layout.ep > 1,
            "ETP over 1": layout.etp > 1 and model.experts is not None,
            "EP 1, ETP over 1": layout.etp > 1 and layout.ep == 1 and model.experts is not None,
            "ETP not TP": layout.etp != layout.tp and model.experts is not None,
            "uneven": layout.first is not None or layout.last is not None,
            "explicit": layout.pipeline_layout is not None,
            "TP over groups": layout.tp > model.query_groups and model.latent is None,
            "tied": model.tied_embeddings,
            "padded": model.padded_vocabulary(layout.tp) != model.vocabulary,
        }
        return tuple(name for name, present in special.items() if present)


@dataclass(kw_only=True)
class Agreement:
    """How the rows of one model came out."""

    equal: int = 0
    different: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        return f"{self.equal} equal, {len(self.different)} different, {len(self.refused)} refused"


def cases(model: Model, rows: int, random: np.random.Generator) -> Iterator[Case]:
    """Ranks of legal layouts; every group of kinds is as likely as another."""
    for _ in range(rows):
        found: list[Case] = []
        while not found:
            variant, world = _variant(model, random), int(random.choice(_WORLDS))
            rank = int(random.integers(0, world))
            found = [
                Case(model=variant, layout=layout, world=world, rank=rank)
                for layout in _legal(variant, world, random)
            ]
        groups = sorted({case.kinds for case in found})
        chosen = groups[random.integers(len(groups))]
        members = [case for case in found if case.kinds == chosen]
        yield members[random.integers(len(members))]


def _variant(model: Model, random: np.random.Generator) -> Model:
    changes: dict[str, object] = {}
    if random.random() < 0.25:
        changes["tied_embeddings"] = not model.tied_embeddings
    if random.random() < 0.25:
        changes["vocabulary"] = int(random.integers(1000, 200_000))
    if model.indexer:
        changes["indexer"] = model.indexer.model_copy(update={"frequency": 1, "offset": 0})
    return model.model_copy(update=changes)


def _legal(model: Model, world: int, random: np.random.Generator) -> list[Layout]:
    """Legal layouts among random ones, without those that take long to build."""
    drawn = [_draw(model, random) for _ in range(_DRAWS)]
    workload = Workload(row_tokens=8192, global_batch=8192)
    setting = Setting(model=model, count=world, workload=workload)
    legal = check(setting, LayoutTable.of(drawn)).legal
    found = [layout for layout, fine in zip(drawn, legal, strict=True) if fine]
    return [layout for layout in found if _experts(model, layout) <= _MOST_EXPERTS]


def _experts(model: Model, layout: Layout) -> int:
    count = model.experts.count if model.experts else 0
    return model.moe_count // layout.pp * count // layout.ep


def _draw(model: Model, random: np.random.Generator) -> Layout:
    def power(most: int) -> int:
        return int(2 ** random.integers(0, most + 1))

    def end() -> int | None:
        most = max(2 * model.layers // pp, 2)
        return int(random.integers(1, most + 1)) if uneven and random.random() < 0.7 else None

    tp = power(4)
    pp = int(random.choice([x for x in (1, 2, 3, 4, 6, 8, 16) if x <= model.layers]))
    vpp = int(random.choice((1, 1, 2, 3, 4))) if pp > 1 else 1
    explicit = pp > 1 and random.random() < 0.2
    uneven = pp > 1 and not explicit and random.random() < 0.6
    return Layout(
        tp=tp,
        sequence_parallel=tp > 1,
        pp=pp,
        vpp=vpp,
        cp=power(2),
        ep=power(6) if model.experts else 1,
        etp=power(3) if model.experts else 1,
        first=end(),
        last=end(),
        pipeline_layout=_pipeline_layout(model.layers, pp * vpp, random) if explicit else None,
    )


def _pipeline_layout(layers: int, chunks: int, random: np.random.Generator) -> str:
    """Layers cut anywhere, so that a chunk may hold the embedding or the loss alone."""
    cuts = [0, *sorted(random.integers(0, layers + 1, chunks - 1).tolist()), layers]
    return "E" + "|".join("t" * (end - start) for start, end in pairwise(cuts)) + "L"


def compare(name: str, rows: int, seed: int) -> Agreement:
    """Counts `rows` ranks of one model both ways."""
    # Each model has its own stream, so that its rows do not hang on the other models.
    random = np.random.default_rng([seed, *name.encode()])
    agreement = Agreement()
    for case in cases(load_model(name), rows, random):
        _judge(agreement, case)
    return agreement


def _judge(agreement: Agreement, case: Case) -> None:
    from benchmarks.meta_ranks import build_rank

    words = (
        f"{case.model.id} {write_layout(case.layout)}, rank {case.rank} of {case.world}, "
        f"vocabulary {case.model.vocabulary}, tied {case.model.tied_embeddings}"
    )
    counted = rank_parameters(case.model, case.layout, case.world, case.rank)
    try:
        built = build_rank(case.model, case.layout, case.world, case.rank)
    except (AssertionError, ValueError, RuntimeError) as error:
        agreement.refused.append(f"{words}: {type(error).__name__}: {error}")
        return
    agreement.kinds.update(case.kinds)
    if counted == (built.dense, built.expert):
        agreement.equal += 1
    else:
        agreement.different.append(
            f"{words}: counted {counted}, built {(built.dense, built.expert)}, "
            f"layers {built.layers}"
        )


def report(found: Mapping[str, Agreement]) -> str:
    """The kinds of rows, what differs, and the sum."""
    total = sum(x.equal for x in found.values())
    wrong = [text for x in found.values() for text in x.different]
    refused = [text for x in found.values() for text in x.refused]
    kinds = sum((x.kinds for x in found.values()), Counter[str]())
    lines = [", ".join(f"{kind} {count}" for kind, count in kinds.most_common())]
    lines += [f"different: {text}" for text in wrong] + [f"refused: {text}" for text in refused]
    lines.append(f"{total} of {total + len(wrong)} rows equal, {len(refused)} refused by Megatron")
    return "\n".join(lines)


def main() -> int:
    """Compares as the command line asks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10, help="ranks of each model")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--model", action="append", help="one of the catalogue; all by default")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    from benchmarks.meta_ranks import pretend_cuda

    pretend_cuda()
    start = time.perf_counter()
    found: dict[str, Agreement] = {}
    for name in arguments.model or model_names():
        found[name] = compare(name, arguments.rows, arguments.seed)
        print(f"{name}: {found[name]}", flush=True)
    print(report(found))
    print(f"{time.perf_counter() - start:.0f} s")
    return int(any(x.different or x.refused for x in found.values()))


if __name__ == "__main__":
    sys.exit(main())
