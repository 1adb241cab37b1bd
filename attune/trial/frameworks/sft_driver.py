"""What miles and slime share: supervised training by a driver that starts Ray actors."""

from __future__ import annotations

import json
import os
import shlex
from typing import Any

from attune.catalog.framework import FrameworkFacts, load_framework_facts
from attune.catalog.megatron_flags import beyond_flags, megatron_flags
from attune.layout.microbatches import tokens_per_gpu
from attune.rows.feed import SYNTHETIC
from attune.trial.frameworks.command_line import (
    Flags,
    check_flags,
    combine,
    version_of,
    words,
)
from attune.trial.frameworks.files import file_text
from attune.trial.frameworks.framework import Command
from attune.trial.frameworks.layout_flags import (
    gradient_flags,
    layout_flags,
    optimizer_flags,
    refuse_unspoken,
    routing_flags,
)
from attune.trial.frameworks.preflight import find_refusal
from attune.trial.frameworks.published import run_block
from attune.trial.frameworks.ray_log import RayReader
from attune.trial.job import Job

DRIVER, CONFIG = "attune_driver.py", "driver.json"
_HOOK = "attune_memory_hook"
_ROLLOUT = "pretokenized_sft_rollout"
_MODEL_ARGS = "${MODEL_ARGS[@]}"
_INDEXER = {"INDEXER_ROPE_NEOX_STYLE": "0"}
"""The rotary style of the GLM-5 indexer: slime and miles read it from the environment."""


class SftDriver:
    """`python3 train.py` (miles) or `train_async.py` (slime) on the first node of a Ray cluster."""

    name: str
    modules: tuple[str, ...] = ("ray",)
    script: str
    """Entry script in the checkout."""

    @property
    def facts(self) -> FrameworkFacts:
        """What the catalogue says of the framework."""
        return load_framework_facts(self.name)

    @property
    def held(self) -> dict[str, Any]:
        """Dimensions of a search space that it has at one value only."""
        single = {k: r.only[0] for k, r in self.facts.restrictions.items() if len(r.only) == 1}
        return {**single, "overlap_gradients": False}

    def refuses_model(self, job: Job) -> str | None:
        """Why it can train no layout of the job's model and workload."""
        if job.workload.precision not in ("bf16", "fp8"):
            return f"{self.name} trains in bf16 or fp8, but got {job.workload.precision}"
        if self._model_name(job) is None and (beyond := beyond_flags(job.model)):
            return (
                f"{self.name} has no model arguments for {job.model.id}, and flags cannot state "
                f"its {', '.join(beyond)}; name them by `model_args` in the setup"
            )
        return None

    def refuses(self, job: Job) -> str | None:
        """Why it cannot train the job; its own check is asked where its checkout is here."""
        if reason := self.refuses_model(job) or self._missing(job):
            return reason
        return find_refusal(job, self.script, self._config(job, probe=False))

    def _missing(self, job: Job) -> str | None:
        needed = {
            "HF_CKPT": ("hf_checkpoint", job.setup.hf_checkpoint),
            "TORCH_DIST": ("checkpoint", job.setup.checkpoint),
        }
        for variable, (field, value) in needed.items():
            if value is None and variable not in os.environ:
                return f"{self.name} needs `{field}` in its setup, or ${variable} on the nodes"
        if job.workload.rows == SYNTHETIC and "SFT_DATA" not in os.environ:
            return f"{self.name} trains on a file of rows; give --rows (`attune rows build`)"
        return None

    def prepare(self, job: Job) -> Command:
        """The driver, with the files that its workers import beside it.

        Raises:
            LayoutError: flags cannot say this layout.
            AttuneError: a flag of the setup that the framework does not have.
        """
        return Command(
            argv=(DRIVER,),
            environment=self.environment(job),
            files={
                DRIVER: file_text(DRIVER),
                CONFIG: json.dumps(self._config(job, job.setup.probe_memory), indent=2) + "\n",
                f"{_ROLLOUT}.py": file_text(f"{_ROLLOUT}.py"),
                f"{_HOOK}.py": file_text(f"{_HOOK}.py"),
            },
            processes_per_node=job.cluster.per_node,
            nodes=job.cluster.nodes,
            starter="ray_driver",
        )

    def run_block(self, job: Job) -> str:
        """Exports, model arguments and command, as on the published pages."""
        arguments = self.flags(job)
        head = [self.script, *words(self._nodes(job)), *self._model_words(job)]
        return run_block(
            self.environment(job) | job.setup.environment,
            [*self._read_model_args(job), ""] if self._model_name(job) else [],
            "python3",
            [*head, *words(arguments)],
        )

    def own_weights(self, job: Job) -> str | None:
        """Both arms load the distributed checkpoint, which no layout is in."""
        return None

    def reader(self, job: Job | None = None) -> RayReader:
        """A fresh reader of the driver's log."""
        return RayReader(job)

    def environment(self, job: Job) -> dict[str, str]:
        """Variables of the driver."""
        indexer = _INDEXER if job.model.indexer else {}
        return {**self.facts.environment, **indexer, **job.setup.environment}

    def flags(self, job: Job) -> Flags:
        """Flags after the model arguments, where they win over them.

        Raises:
            LayoutError: flags cannot say this layout.
            AttuneError: a flag that the framework does not have.
        """
        refuse_unspoken(job)
        core = self.facts.core_of(job.setup.version)
        precision: Flags = {"--fp8-format": "hybrid"} if job.workload.precision == "fp8" else {}
        flags = combine(
            self.facts,
            self._data(job),
            layout_flags(job, core),
            self._batch(job),
            optimizer_flags(job.workload),
            gradient_flags(job.workload),
            precision,
            routing_flags(job),
            self.facts.flags,
            job.setup.flags,
        )
        check_flags(job, version_of(job, self.facts), self._nodes(job) | flags)
        return flags

    def _nodes(self, job: Job) -> Flags:
        per_node = job.cluster.per_node
        return combine(
            self.facts,
            {
                "--actor-num-nodes": job.cluster.nodes,
                "--actor-num-gpus-per-node": per_node,
                "--num-gpus-per-node": per_node,
            },
        )

    def _data(self, job: Job) -> Flags:
        rows = job.workload.rows
        return {
            "--hf-checkpoint": job.setup.hf_checkpoint or "$HF_CKPT",
            "--ref-load": job.setup.checkpoint or "$TORCH_DIST",
            "--prompt-data": "$SFT_DATA" if rows == SYNTHETIC else rows,
        }

    def _batch(self, job: Job) -> Flags:
        """A rollout of one global batch is a step; rows of a microbatch are given in tokens."""
        workload, layout = job.workload, job.layout
        limit = tokens_per_gpu(layout.rows_per_microbatch, workload.row_tokens, layout.cp)
        return {
            "--num-rollout": workload.steps,
            "--rollout-batch-size": workload.global_batch,
            "--global-batch-size": workload.global_batch,
            "--max-tokens-per-gpu": limit,
            # Contiguous chunks are what sparse attention wants, and scramble any other's tokens.
            "--allgather-cp": bool(job.model.indexer) and layout.cp > 1,
        }

    def _config(self, job: Job, probe: bool) -> dict[str, Any]:
        """What the driver reads: script, model arguments, flags; variables are filled in there."""
        own: Flags = {}
        if probe:
            own["--custom-megatron-before-train-step-hook-path"] = f"{_HOOK}.report"
        if job.setup.environment and not job.setup.environment_on_nodes:
            # What is exported before the driver reaches only the driver.
            own["--train-env-vars"] = json.dumps(self.environment(job))
        model = self._model_name(job)
        return {
            "checkout": job.setup.checkout,
            "script": job.setup.script or self.script,
            "model_args": self._command_of_model_args(model) if model else [],
            "before": words(self._nodes(job)) + ([] if model else self._explicit(job)),
            "after": words(self.flags(job) | own),
        }

    def _model_name(self, job: Job) -> str | None:
        return job.setup.model_args or self.facts.models.get(job.model.id)

    def _model_words(self, job: Job) -> list[str]:
        return [_MODEL_ARGS] if self._model_name(job) else self._explicit(job)

    def _explicit(self, job: Job) -> list[str]:
        """The model in flags, where the checkout has no arguments for it."""
        return words(
            megatron_flags(job.model)
            | (
                {"--moe-grouped-gemm": True, "--moe-permute-fusion": True}
                if job.model.experts
                else {}
            )
        )

    def _command_of_model_args(self, model: str) -> list[str]:
        """The command, run in the checkout, that prints a model's arguments, one a line."""
        raise NotImplementedError

    def _read_model_args(self, job: Job) -> list[str]:
        """Lines of a shell script that fill MODEL_ARGS."""
        raise NotImplementedError

    def _quoted_model(self, job: Job) -> str:
        return shlex.quote(self._model_name(job) or "")
