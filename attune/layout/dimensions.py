"""A search space: which values each dimension of a layout may take, as YAML."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from attune.catalog import Model, nearest, parse, read_yaml, shipped
from attune.errors import AttuneError


def _as_tuple(value: Any) -> Any:
    return value if isinstance(value, list | tuple) else (value,)


Degree = Annotated[int, Field(ge=1, le=2**20)]
Degrees = Annotated[tuple[Degree, ...], BeforeValidator(_as_tuple), Field(min_length=1)]
Switch = Annotated[tuple[bool, ...], BeforeValidator(_as_tuple), Field(min_length=1)]


class Counts(BaseModel):
    """A split given by its first and last counts, for one PP."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    pp: Degree | None = None
    """The only PP that this split is for; None for all."""
    first: Degree | None = None
    last: Degree | None = None
    layout: str | None = None
    """Megatron's explicit pipeline layout instead of counts."""


class Space(BaseModel):
    """Dimensions and their values; a dimension left out has the one value of its default."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    about: str = ""
    choose: dict[Literal["dense", "moe", "tiny"], str] | None = None
    """Names of the spaces to use instead, by kind of model (`default`)."""

    tp: Degrees = (1,)
    pp: Degrees = (1,)
    vpp: Degrees = (1,)
    cp: Degrees = (1,)
    ep: Degrees = (1,)
    etp: Annotated[
        tuple[Degree | Literal["tp"], ...], BeforeValidator(_as_tuple), Field(min_length=1)
    ] = (1,)
    """Numbers, or `tp` for as large as TP."""
    stages: Annotated[
        tuple[Literal["even", "auto"] | Counts, ...],
        BeforeValidator(_as_tuple),
        Field(min_length=1),
    ] = ("auto",)
    """`even`; `auto`, the best-balanced legal splits of that PP and VPP; or counts."""
    sequence_parallel: Literal["auto"] | Switch = "auto"
    """`auto` is on with TP over 1."""
    rows_per_microbatch: Degrees = (1,)
    recompute: Annotated[tuple[str, ...], BeforeValidator(_as_tuple), Field(min_length=1)] = (
        "none",
    )
    """none, full, modules (`core_attn,moe`), or fields (`full method=block recompute_layers=2`)."""
    optimizer_offload: Annotated[
        tuple[Annotated[float, Field(ge=0, le=1)], ...],
        BeforeValidator(_as_tuple),
        Field(min_length=1),
    ] = (0.0,)
    """Shares; copies overlap and the optimizer is precision-aware where a share is over 0."""
    precision_aware_optimizer: Literal["auto"] | Switch = "auto"
    dispatcher: Annotated[
        tuple[Literal["alltoall", "allgather", "flex"], ...],
        BeforeValidator(_as_tuple),
        Field(min_length=1),
    ] = ("alltoall",)
    overlap_shared_experts: Switch = (False,)
    overlap_experts: Switch = (False,)
    overlap_gradients: Switch = (False,)
    overlap_parameters: Switch = (False,)
    overlap_tensor: Switch = (False,)
    cuda_graphs: Switch = (False,)
    delayed_weight_gradients: Switch = (False,)
    distributed_optimizer: Switch = (True,)


def load_space(name_or_path: str) -> Space:
    """The space of that name that ships with attune, or of the YAML file at that path.

    Raises:
        AttuneError: no such space, a damaged file, an unknown dimension (the nearest is named).
    """
    if name_or_path.endswith((".yaml", ".yml")) or "/" in name_or_path:
        path = Path(name_or_path)
    else:
        path = shipped("search_spaces") / f"{name_or_path}.yaml"
        names = sorted(x.stem for x in path.parent.glob("*.yaml"))
        if name_or_path not in names:
            near = nearest(name_or_path, names)
            hint = f"; did you mean `{near}`?" if near else ""
            raise AttuneError(
                f"no search space named `{name_or_path}`{hint}; known: {', '.join(names)}, "
                "and the path of a YAML file is taken too"
            )
    data = read_yaml(path)
    return parse(Space, {"name": path.stem, **data} if isinstance(data, dict) else data, str(path))


def default_space(model: Model) -> Literal["dense", "moe", "tiny"]:
    """Name of the space that suits a model."""
    if model.workload is not None:
        return "tiny"
    return "moe" if model.experts else "dense"


def hold(space: Space, fixed: dict[str, Any]) -> Space:
    """The space with the dimensions of `fixed` at one value each; `first` and `last` fix stages.

    Raises:
        AttuneError: a name that is no dimension, or a value of the wrong kind.
    """
    values = dict(fixed)
    counts = {x: values.pop(x) for x in ("first", "last") if x in values}
    if any(counts.values()):
        values["stages"] = [{"first": counts.get("first"), "last": counts.get("last")}]
    elif counts:
        values["stages"] = "even"
    data = {name: getattr(space, name) for name in space.model_fields_set}
    return parse(Space, {**data, **values}, f"search space `{space.name}`")
