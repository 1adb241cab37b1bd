"""The line that each rank of a node check prints, written and read side by side."""

from __future__ import annotations

import json

from pydantic import BaseModel, ConfigDict, ValidationError

_MARK = "attune node check | "


class RankSpeed(BaseModel):
    """What one rank measured."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    rank: int
    tflops: float
    """Rate of a large matrix product."""
    memory_gib: float
    """Memory that could be filled and read back."""
    node_gb_per_s: float | None
    """All-reduce among the ranks of the node, bus bandwidth; None for a node of one rank."""
    world_gb_per_s: float | None
    """The same among all ranks; None for one rank."""


def write_speed(speed: RankSpeed) -> str:
    """The line of a rank."""
    return _MARK + speed.model_dump_json()


def read_speed(line: str) -> RankSpeed | None:
    """What a line says; None for any other."""
    _, mark, text = line.partition(_MARK)
    if not mark:
        return None
    try:
        return RankSpeed.model_validate(json.loads(text))
    except (ValueError, ValidationError):
        return None
