"""The worker's configuration file, and the environment that its processes start in."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from attune.catalog import Model
from attune.errors import AttuneError
from attune.layout import Layout
from attune.trial.probe import Probe
from attune.workload import Workload

Device = Literal["cpu", "cuda"]
Fault = Literal[
    "layer_dropped",
    "layers_reordered",
    "loss_group",
    "loss_summed",
    "norm_gradients_not_reduced",
    "auxiliary_loss",
    "learning_rate",
    "warmup",
    "decay_on_norms",
    "beta2",
    "clip_off",
    "expert_frozen",
    "rows_reordered",
    "dropout",
    "bf16_gradients",
    "mask_shifted",
    "context_scrambled",
    "rope_gradients_lost",
]
"""Mistakes that train another model; `attune.trial.worker.faults` says what each is."""


class Options(BaseModel):
    """Hidden options, for tests: each plays one fault."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    learning_rate_scale: float = Field(1.0, gt=0)
    """Multiplies the learning rate of every step: 1.02 is a run that trains another model."""
    fault: Fault | None = None
    """A planted mistake, which the checks of a candidate arm must find."""
    fail_at_step: int | None = None
    """Rank 0 raises an exception at this step."""
    hang_at_step: int | None = None
    """Rank 0 sleeps for ever at this step."""
    slow_step_s: float = Field(0.0, ge=0)
    """Every step takes at least so many seconds."""


class WorkerConfig(BaseModel):
    """What one run of the worker trains: `python -m attune.trial.worker --config FILE`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: Model
    workload: Workload
    layout: Layout
    device: Device
    memory_gib: float | None = Field(None, gt=0)
    """On `cpu`, memory that each rank may take beyond its baseline; None sets no limit."""
    steps_file: str | None = None
    """Path of a JSON-lines file that receives every step; None writes none."""
    probe: Probe | None = None
    """What is measured instead of a trial; None trains."""
    parity_file: str | None = None
    """Path of a JSON-lines file that receives the norm of every tensor's gradient and update after
    the first two steps; None leaves the probe off, as timed runs need it."""
    options: Options = Options()

    def text(self) -> str:
        """The configuration as JSON."""
        return self.model_dump_json(indent=2) + "\n"

    @classmethod
    def read(cls, path: Path) -> WorkerConfig:
        """The configuration in `path`.

        Raises:
            AttuneError: no such file, or a field is unknown, missing or wrong.
        """
        try:
            return cls.model_validate_json(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise AttuneError(f"cannot read {path}: {error}; check the path") from error
        except ValidationError as error:
            places = (
                f"{'.'.join(map(str, item['loc']))}: {item['msg']}"
                for item in error.errors(include_url=False)
            )
            raise AttuneError(
                f"{path} is not a worker configuration: {'; '.join(places)}"
            ) from error


def environment(device: Device) -> dict[str, str]:
    """Environment variables that the worker's processes must be started with.

    On CPU they keep what is not the model small, so that the memory limit meets tensors and not
    thread stacks: one compute thread, small stacks, one malloc arena, no compiler.
    """
    if device == "cuda":
        return {
            # Megatron-core orders tensor-parallel communication by one hardware queue
            # (megatron/training/arguments.py asks for it with tensor parallelism).
            "CUDA_DEVICE_MAX_CONNECTIONS": "1",
            "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
        }
    return {
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "OMP_STACKSIZE": "512K",
        "MALLOC_ARENA_MAX": "1",
        # Without it glibc raises the threshold as blocks are freed, and keeps freed tensors.
        "MALLOC_MMAP_THRESHOLD_": "131072",
        # Arrow's own allocator keeps arenas of 64 MB; rows are read with it.
        "ARROW_DEFAULT_MEMORY_POOL": "system",
        "TORCHDYNAMO_DISABLE": "1",
        "CUDA_VISIBLE_DEVICES": "",
    }
