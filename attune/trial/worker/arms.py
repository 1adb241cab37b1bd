"""Many runs in one launch: `python -m attune.trial.worker.arms --arms FILE`, under torchrun.

Starting processes and importing torch take longer than twenty steps of a tiny model. The runs are
for checking checks: one after another, on CPU, without a memory limit.
"""

from __future__ import annotations

import argparse
import os
import sys
import traceback
import warnings
from pathlib import Path

import torch
from megatron.core import parallel_state
from megatron.core.transformer.moe.moe_utils import get_moe_layer_wise_logging_tracker
from pydantic import BaseModel, ConfigDict

from attune.rows.feed import open_feed
from attune.trial.result import Step
from attune.trial.worker.config import WorkerConfig
from attune.trial.worker.progress import Progress
from attune.trial.worker.refusal import refuse_unsupported
from attune.trial.worker.run import make_model_parallel, start_rank, train


class Arm(BaseModel):
    """One run, and where its steps go (`config.steps_file`)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    config: WorkerConfig


class Arms(BaseModel):
    """The file that `--arms` names."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    arms: tuple[Arm, ...]


def main() -> int:
    """Trains every arm in turn; an arm that fails is said on stderr and ends the launch."""
    parser = argparse.ArgumentParser(prog="python -m attune.trial.worker.arms")
    parser.add_argument("--arms", type=Path, required=True, help="JSON file of Arms")
    arms = Arms.model_validate_json(parser.parse_args().arms.read_text(encoding="utf-8")).arms
    warnings.simplefilter("ignore")
    device = start_rank("cpu")
    for arm in arms:
        try:
            _train(arm.config, device)
        except Exception:
            print(f"arm {arm.name} failed\n{traceback.format_exc()}", file=sys.stderr, flush=True)
            return 1
    torch.distributed.barrier()
    return 0


def _train(config: WorkerConfig, device: torch.device) -> None:
    world = torch.distributed.get_world_size()
    refuse_unsupported(config, world, transformer_engine=False)
    make_model_parallel(config)
    progress = Progress(
        rank=torch.distributed.get_rank(),
        steps=config.workload.steps,
        steps_file=config.steps_file,
        quiet=True,
    )
    try:
        train(config, open_feed(config.workload, config.model.vocabulary), device, progress)
    finally:
        # The router's sums of auxiliary losses live outside the model.
        get_moe_layer_wise_logging_tracker().clear()
        parallel_state.destroy_model_parallel()
        _end_groups()


def _end_groups() -> None:
    """Ends this arm's process groups: their threads would pile up arm by arm and take the cores."""
    whole = torch.distributed.group.WORLD
    groups = [g for g in torch.distributed.distributed_c10d._world.pg_map if g is not whole]
    torch.distributed.barrier()
    for group in groups:
        torch.distributed.destroy_process_group(group)


def read_steps(path: Path) -> tuple[Step, ...]:
    """The steps that an arm wrote."""
    return tuple(map(Step.model_validate_json, path.read_text(encoding="utf-8").splitlines()))


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    # Leave at once: destructors of process groups may wait for peers that are gone.
    os._exit(code)
