"""Megatron-LM: `pretrain_gpt.py` under torchrun."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from attune.catalog.accepted_flags import find_wrong_flag
from attune.catalog.megatron_flags import beyond_flags, megatron_flags
from attune.rows.feed import SYNTHETIC
from attune.trial.frameworks.command_line import Flags, check_flags, combine, version_of, words
from attune.trial.frameworks.framework import Command
from attune.trial.frameworks.layout_flags import (
    gradient_flags,
    layout_flags,
    optimizer_flags,
    precision_flags,
    refuse_unspoken,
    routing_flags,
)
from attune.trial.frameworks.megatron_script import MegatronScript
from attune.trial.frameworks.preflight import ask
from attune.trial.job import Job

_SCRIPT = "pretrain_gpt.py"
_ENTRY = "attune_pretrain.py"
_DATASET = "attune_rows_dataset.py"
_MEMORY_INTERVAL_SINCE = (0, 16)
"""First version with --log-memory-interval; before, memory is printed after two iterations."""


class MegatronLM(MegatronScript):
    """`pretrain_gpt.py` of the user's checkout, by way of a small script that feeds it rows."""

    name = "megatron-lm"

    @property
    def held(self) -> dict[str, Any]:
        """Dimensions of a search space that it has at one value only."""
        return {}

    def refuses_model(self, job: Job) -> str | None:
        """Why it can train no layout of the job's model and workload."""
        if beyond := beyond_flags(job.model):
            return f"flags of Megatron-LM cannot state `{'`, `'.join(beyond)}` of {job.model.id}"
        wrong = find_wrong_flag(
            self.name, version_of(job, self.facts), words(combine(self.facts, _model(job)))
        )
        return wrong and f"the model {job.model.id} cannot be stated: {wrong}"

    def refuses(self, job: Job) -> str | None:
        """Why it cannot train the job; Megatron's own check runs where its checkout is here."""
        if reason := self.refuses_model(job):
            return reason
        if not (Path(job.setup.checkout) / (job.setup.script or _SCRIPT)).exists():
            return None
        return ask(job, words(self.flags(job)))

    def prepare(self, job: Job) -> Command:
        """The pretraining script with its flags.

        Raises:
            LayoutError: flags cannot say this layout.
            AttuneError: a flag that this version of Megatron-LM does not have.
        """
        return self._command(job, _SCRIPT, words(self.flags(job)), (_ENTRY, _DATASET))

    def flags(self, job: Job) -> Flags:
        """All flags of the pretraining script.

        Raises:
            LayoutError: flags cannot say this layout.
            AttuneError: a flag that this version of Megatron-LM does not have.
        """
        refuse_unspoken(job)
        version = self.facts.core_of(job.setup.version)
        flags = combine(
            self.facts,
            _model(job),
            self.facts.flags,
            layout_flags(job, version),
            _batch(job),
            optimizer_flags(job.workload),
            gradient_flags(job.workload),
            precision_flags(job.workload),
            routing_flags(job),
            _data(job),
            _checkpoint(job),
            {"--log-memory-interval": 1} if version >= _MEMORY_INTERVAL_SINCE else {},
            job.setup.flags,
        )
        check_flags(job, version_of(job, self.facts), flags)
        return flags


def _model(job: Job) -> Flags:
    flags = megatron_flags(job.model)
    if job.model.experts:
        flags |= {
            "--moe-grouped-gemm": True,
            "--moe-router-dtype": "fp32",
            "--moe-router-load-balancing-type": "aux_loss",
        }
    if job.model.latent:
        # Query groups are those of grouped attention; latent attention has none.
        flags.pop("--num-query-groups", None)
    return flags


def _batch(job: Job) -> Flags:
    workload = job.workload
    return {
        "--micro-batch-size": job.layout.rows_per_microbatch,
        "--global-batch-size": workload.global_batch,
        "--seq-length": workload.row_tokens,
        "--max-position-embeddings": max(workload.row_tokens, job.model.max_positions),
        "--train-iters": workload.steps,
        "--lr-decay-iters": workload.steps,
        "--seed": workload.seed,
    }


def _data(job: Job) -> Flags:
    """Rows of a file in their order, or Megatron's own mock data."""
    flags: Flags = {
        "--tokenizer-type": "NullTokenizer",
        # NullTokenizer adds one token of its own.
        "--vocab-size": job.model.vocabulary - 1,
        "--no-create-attention-mask-in-dataloader": True,
    }
    if job.workload.rows == SYNTHETIC:
        return {**flags, "--mock-data": True}
    path = str(Path(job.workload.rows).resolve())
    return {**flags, "--train-data-path": (path,), "--dataloader-type": "single"}


def _checkpoint(job: Job) -> Flags:
    if not job.setup.checkpoint:
        return {}
    return {
        "--load": job.setup.checkpoint,
        "--ckpt-format": "torch_dist",
        "--no-load-optim": True,
        "--no-load-rng": True,
        "--finetune": True,
    }
