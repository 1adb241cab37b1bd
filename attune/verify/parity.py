"""The parity probe's files of two arms, compared tensor by tensor."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from attune.errors import AttuneError
from attune.recipe.schema import Check
from attune.workload import Precision

TOLERANCES: dict[Precision, dict[str, float]] = {
    "fp32": {"gradient": 1e-4, "update": 1e-3, "spread": 1e-4},
    "bf16": {"gradient": 0.1, "update": 0.2, "spread": 0.05},
}
"""Largest relative difference of a norm. Measured on honest float32 pairs
(`docs/verification.md`): below 1e-6. An update has more room, since Adam makes the sign of a tiny
gradient a whole step."""
NEGLIGIBLE = 1e-6
"""Norms below this share of the largest are rounding alone, and are not compared."""
NAMED = 5
"""Tensors that a report names."""


class Norms(BaseModel):
    """What the probe says of one tensor."""

    model_config = ConfigDict(frozen=True)

    gradient: float
    update: float
    spread: float = 0.0
    """How far copies on tensor ranks lie apart, relative."""


class ProbedStep(BaseModel):
    """A line of the probe's file."""

    model_config = ConfigDict(frozen=True)

    step: int
    loss: float
    tensors: dict[str, Norms]


class Difference(BaseModel):
    """One norm that differs."""

    model_config = ConfigDict(frozen=True)

    step: int
    tensor: str
    what: str
    ours: float
    theirs: float


def read_parity(path: Path) -> tuple[ProbedStep, ...]:
    """The probe's file of one arm.

    Raises:
        AttuneError: no such file, an empty one, or one that the probe did not write.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        steps = tuple(ProbedStep.model_validate_json(line) for line in lines if line.strip())
    except OSError as error:
        raise AttuneError(f"cannot read {path}: {error}; run the arm with --parity") from error
    except ValidationError as error:
        raise AttuneError(f"{path} is not a file of the parity probe: {error}") from error
    if not steps:
        raise AttuneError(f"{path} is empty: the arm ended before its first step")
    return steps


def check_parity(
    candidate: tuple[ProbedStep, ...], reference: tuple[ProbedStep, ...], precision: Precision
) -> Check:
    """Whether gradients and updates of the first steps have the same norms, tensor by tensor."""
    differing = differences(candidate, reference, precision)
    names = list(reference[0].tensors)
    if not differing:
        detail = f"{len(names)} tensors agree after {len(reference)} steps"
        return Check(name="parity", status="passed", detail=detail, needed=True)
    first = [d for d in differing if (d.step, d.what) == (differing[0].step, differing[0].what)]
    tensors = list(dict.fromkeys(difference.tensor for difference in first))
    named = ", ".join(f"{d.tensor} ({d.ours:.4g} against {d.theirs:.4g})" for d in first[:NAMED])
    more = f" and {len(tensors) - NAMED} more" if len(tensors) > NAMED else ""
    detail = (
        f"{len(tensors)} of {len(names)} tensors differ first in their {differing[0].what} at "
        f"step {differing[0].step + 1}, and have in common: {in_common(tensors, names)}; "
        f"{named}{more}"
    )
    values = {"tensors": tensors, "what": differing[0].what, "step": differing[0].step}
    return Check(name="parity", status="failed", detail=detail, values=values)


def differences(
    candidate: tuple[ProbedStep, ...], reference: tuple[ProbedStep, ...], precision: Precision
) -> list[Difference]:
    """Norms that lie apart, by step, gradients before updates, in the model's order."""
    tolerances = TOLERANCES.get(precision, TOLERANCES["bf16"])
    found = []
    for ours, theirs in zip(candidate, reference, strict=False):
        for what, tolerance in tolerances.items():
            found += list(_apart(ours, theirs, what, tolerance))
    return found


def _apart(
    ours: ProbedStep, theirs: ProbedStep, what: str, tolerance: float
) -> Iterator[Difference]:
    largest = max(getattr(norms, what) for norms in theirs.tensors.values())
    for name in sorted(theirs.tensors.keys() | ours.tensors.keys(), key=_order):
        pair = [getattr(step.tensors.get(name), what, 0.0) for step in (ours, theirs)]
        # Copies that lie apart are wrong whatever the other arm's do.
        scale = 1.0 if what == "spread" else max(pair)
        if what != "spread" and scale < NEGLIGIBLE * largest:
            continue
        if abs(pair[0] - pair[1]) > tolerance * scale:
            yield Difference(step=ours.step, tensor=name, what=what, ours=pair[0], theirs=pair[1])


def _order(name: str) -> tuple[int, list[object]]:
    """Embedding, layers in order, then what follows them."""
    place = 0 if name.startswith("embedding") else 1 if name.startswith("decoder.layers") else 2
    return place, [f"{int(x):06d}" if x.isdigit() else x for x in name.split(".")]


_TRAITS: dict[str, Callable[[str], str | None]] = {
    "one tensor": lambda name: name,
    "one expert of one layer": lambda name: _found(r"(layers\.\d+)\..*(experts\.\d+)\.", name),
    "one expert": lambda name: _found(r"(experts\.\d+)\.", name),
    "norm weights": lambda name: "norms" if "norm" in name else None,
    "one kind": lambda name: re.sub(r"\d+", "N", name),
    "router": lambda name: "routers" if "router" in name else None,
    "one layer": lambda name: _found(r"(layers\.\d+)\.", name),
    "routed experts": lambda name: "all experts" if ".experts." in name else None,
    "attention": lambda name: "attention" if "self_attention" in name else None,
    "ends": lambda name: None if "layers" in name else "embedding and head",
}
"""What a set of tensors may have in common, the narrowest first."""


def in_common(tensors: list[str], everything: list[str]) -> str:
    """What all `tensors` share, in words, and how many of that kind are among them."""
    if len(tensors) == len(everything):
        return "nothing, all tensors differ"
    for trait in _TRAITS.values():
        values = {trait(name) for name in tensors}
        (value,) = values if len(values) == 1 else (None,)
        if value is not None:
            kin = [name for name in everything if trait(name) == value]
            return f"{value} ({len(tensors)} of {len(kin)})"
    layers = [int(found[1]) for name in tensors if (found := re.search(r"layers\.(\d+)\.", name))]
    if len(layers) == len(tensors):
        return f"layers {min(layers)} to {max(layers)}"
    return "no more than the model"


def _found(pattern: str, name: str) -> str | None:
    found = re.search(pattern, name)
    return None if found is None else " ".join(found.groups())
