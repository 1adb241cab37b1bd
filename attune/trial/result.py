"""What a run leaves behind: its outcome, steps and memory."""

from __future__ import annotations

import math
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from attune.trial.probe import LayerKind

Outcome = Literal[
    "completed",
    "out_of_memory",
    "host_out_of_memory",
    "illegal_layout",
    "diverged",
    "timed_out",
    "infrastructure",
    "incomplete",
    "pruned",
    "cancelled",
]
HeldPart = Literal["weights", "gradients", "optimizer"]
Provenance = Literal["predicted", "measured", "verified", "published"]


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class Step(_Record):
    """One optimizer step, as logged; `step` counts from 0."""

    step: int
    seconds: float
    loss: float | None = None
    """Mean loss over the global batch; None where the log omits it (NaN in Megatron)."""
    grad_norm: float | None = None


class RankMemory(_Record):
    """Peak memory of one rank."""

    rank: int
    stage: int
    allocated_gib: float
    """Peak of the allocator; on CPU, of the resident set above the baseline."""
    reserved_gib: float
    host_gib: float = 0.0
    """Resident host memory of the process."""


class HeldMemory(_Record):
    """What one rank of a memory probe holds between its steps: the sizes of its tensors."""

    rank: int
    stage: int
    part: HeldPart
    gib: float


class LayerPass(_Record):
    """Time of one layer, or of the head with the loss, for one microbatch."""

    kind: LayerKind
    forward_s: float = Field(gt=0)
    backward_s: float = Field(gt=0)
    """Recompute included."""
    spread_percent: float
    """Quartiles of the repeats, apart from each other, over their median."""

    @property
    def seconds(self) -> float:
        """Both passes."""
        return self.forward_s + self.backward_s


class TrialResult(_Record):
    """`result.json` of a trial directory."""

    outcome: Outcome
    log_class: str | None = None
    """Class of the deciding log line (GPU_OOM, NAN, ...); None for a clean run."""
    evidence: str = ""
    """The deciding line, shortened."""
    advice: str = ""
    rank: int | None = None
    phase: str | None = None
    requested_gib: float | None = None
    """What the allocator was asked for when it failed."""
    steps: tuple[Step, ...] = ()
    ranks: tuple[RankMemory, ...] = ()
    held: tuple[HeldMemory, ...] = ()
    """Of a memory probe."""
    layers: tuple[LayerPass, ...] = ()
    """Of a layer probe."""
    probe: Literal["memory", "layers"] | None = None
    """What was measured instead of a trial."""
    steps_asked: int
    """Steps of a whole run; of a layer probe, the kinds of layer."""
    tokens_per_step: int
    gpus: int
    wall_s: float
    """From launch to end, start-up included."""
    provenance: Provenance
    """`measured`, or `predicted` on a virtual cluster or by the stand-in on any launcher."""
    hardware: str
    """GPU id that it ran on, `cpu`, or `virtual <gpu>`."""
    launcher: str
    nodes: tuple[str, ...] = ()
    """Names of the nodes it ran on, in the order of their ranks; empty where not known."""
    queued_s: float = 0.0
    """Wait for the nodes before the launch; costs nothing, and is no part of `wall_s`."""

    @property
    def node(self) -> str | None:
        """Name of the node that the deciding rank ran on."""
        if self.rank is None or not self.nodes:
            return None
        index = self.rank * len(self.nodes) // self.gpus
        return self.nodes[index] if index < len(self.nodes) else None

    @property
    def start_up_s(self) -> float:
        """Wall time outside the logged steps: start, compilation, end."""
        return max(0.0, self.wall_s - sum(step.seconds for step in self.steps))

    @property
    def window(self) -> tuple[int, int]:
        """First and last step of the timed window: the last three quarters of the run."""
        return math.ceil(self.steps_asked / 4), self.steps_asked - 1

    @property
    def timed(self) -> tuple[float, ...]:
        """Step times of the window, seconds."""
        first, last = self.window
        return tuple(s.seconds for s in self.steps if first <= s.step <= last)

    @property
    def step_time_s(self) -> float | None:
        """Mean step time over the window; None before the window."""
        return sum(self.timed) / len(self.timed) if self.timed else None

    @property
    def step_time_cv_percent(self) -> float | None:
        """Population standard deviation over mean of the window's step times, percent."""
        mean = self.step_time_s
        if mean is None:
            return None
        variance = sum((x - mean) ** 2 for x in self.timed) / len(self.timed)
        return 100 * math.sqrt(variance) / mean

    @property
    def tokens_per_s_per_gpu(self) -> float | None:
        """Tokens of the window over its time and the GPUs; None for a probe."""
        mean = None if self.probe else self.step_time_s
        return self.tokens_per_step / mean / self.gpus if mean else None

    @property
    def gpu_hours(self) -> float:
        """GPUs x wall time, start-up included."""
        return self.gpus * self.wall_s / 3600

    @property
    def peak_reserved_gib(self) -> float | None:
        """Largest reserved peak over the ranks that reported."""
        return max((r.reserved_gib for r in self.ranks), default=None)

    @property
    def losses(self) -> tuple[float | None, ...]:
        """Loss of every step asked; None where it is missing."""
        by_step = {s.step: s.loss for s in self.steps}
        return tuple(by_step.get(i) for i in range(self.steps_asked))
