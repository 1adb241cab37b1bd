"""Megatron-Bridge: `run_recipe.py` under torchrun, a recipe of its own with overrides."""

from __future__ import annotations

import json
from typing import Any

from attune.catalog import nearest
from attune.catalog.accepted_flags import accepted_flags
from attune.errors import AttuneError
from attune.layout import Layout
from attune.trial.frameworks.command_line import text, version_of
from attune.trial.frameworks.framework import Command
from attune.trial.frameworks.layout_flags import refuse_unspoken
from attune.trial.frameworks.megatron_script import MegatronScript
from attune.trial.job import Job

_SCRIPT = "scripts/training/run_recipe.py"
_ENTRY = "attune_script.py"

Overrides = dict[str, Any]
"""Field of Bridge's configuration and value; None resets what the recipe says."""


class MegatronBridge(MegatronScript):
    """`run_recipe.py --recipe NAME field=value ...` in the user's checkout or container."""

    name = "megatron-bridge"

    @property
    def held(self) -> dict[str, Any]:
        """Dimensions of a search space that it has at one value only."""
        return {k: r.only[0] for k, r in self.facts.restrictions.items() if len(r.only) == 1}

    def refuses_model(self, job: Job) -> str | None:
        """Why it can train no layout of the job's model and workload."""
        if self._recipe(job) is None:
            return f"no recipe of Megatron-Bridge is known for {job.model.id}; name a `recipe`"
        if job.workload.precision not in ("bf16", "fp8"):
            return f"recipes of Megatron-Bridge train in bf16 or fp8, not {job.workload.precision}"
        return None

    def refuses(self, job: Job) -> str | None:
        """Why it cannot train the job."""
        return self.refuses_model(job)

    def prepare(self, job: Job) -> Command:
        """The recipe with every field of the layout overridden, those that it resets included.

        Raises:
            LayoutError: Bridge cannot say this layout.
            AttuneError: no recipe, or a field that this version of Bridge does not have.
        """
        recipe = self._recipe(job)
        if recipe is None:
            raise AttuneError(str(self.refuses_model(job)))
        words = ["--recipe", recipe, *map(_override, self.overrides(job).items())]
        return self._command(job, _SCRIPT, words, (_ENTRY,))

    def overrides(self, job: Job) -> Overrides:
        """Fields of the configuration that state job and layout.

        Raises:
            LayoutError: Bridge cannot say this layout.
            AttuneError: a field that this version of Bridge does not have.
        """
        refuse_unspoken(job)
        version = version_of(job, self.facts)
        fields: Overrides = {
            **_grid(job.layout, moe=job.model.experts is not None),
            **_pipeline(job.layout),
            **_recompute(job.layout),
            **_optimizer(job.layout),
            **_overlaps(job.layout),
            **_run(job),
            _row_tokens_field(version): job.workload.row_tokens,
            **self.facts.flags,
            **_weights(job),
            **job.setup.flags,
        }
        self._check(version, fields)
        return fields

    def _recipe(self, job: Job) -> str | None:
        return job.setup.recipe or self.facts.models.get(job.model.id)

    def _check(self, version: tuple[int, int], fields: Overrides) -> None:
        known = accepted_flags(self.name, version)
        for name in fields:
            if name.lstrip("+~") in known or not name[0].isalpha():
                continue
            near = nearest(name, list(known))
            hint = f"; did you mean `{near}`?" if near else ""
            raise AttuneError(f"Megatron-Bridge has no field `{name}`{hint}")


def _override(item: tuple[str, Any]) -> str:
    """`field=value` in Hydra's grammar, where text with signs stands in quotes."""
    name, value = item
    if value is None:
        return f"{name}=null"
    if isinstance(value, bool):
        return f"{name}={str(value).lower()}"
    if isinstance(value, tuple):
        return f"{name}=[{','.join(map(text, value))}]"
    if isinstance(value, str) and not value.replace("_", "").replace("/", "").isalnum():
        return f"{name}={json.dumps(value)}"
    return f"{name}={text(value)}"


def _grid(layout: Layout, moe: bool) -> Overrides:
    fields: Overrides = {
        "model.tensor_model_parallel_size": layout.tp,
        "model.sequence_parallel": layout.sequence_parallel,
        "model.pipeline_model_parallel_size": layout.pp,
        "model.context_parallel_size": layout.cp,
        "train.micro_batch_size": layout.rows_per_microbatch,
    }
    if moe:
        fields |= {
            "model.expert_model_parallel_size": layout.ep,
            "model.expert_tensor_parallel_size": layout.etp,
            "model.moe_token_dispatcher_type": layout.dispatcher,
            "model.moe_shared_expert_overlap": layout.overlap_shared_experts,
        }
    if layout.dispatcher == "flex":
        fields["model.moe_flex_dispatcher_backend"] = "deepep"
    return fields


def _pipeline(layout: Layout) -> Overrides:
    """All that divides layers, as a recipe's own split does not follow when PP changes."""
    return {
        "model.virtual_pipeline_model_parallel_size": layout.vpp if layout.vpp > 1 else None,
        "model.pipeline_model_parallel_layout": layout.pipeline_layout,
        "model.num_layers_in_first_pipeline_stage": layout.first,
        "model.num_layers_in_last_pipeline_stage": layout.last,
        "model.account_for_embedding_in_pipeline_split": False,
        "model.account_for_loss_in_pipeline_split": False,
    }


def _recompute(layout: Layout) -> Overrides:
    selective = layout.recompute == "selective"
    return {
        "model.recompute_granularity": None if layout.recompute == "none" else layout.recompute,
        "model.recompute_method": layout.recompute_method,
        "model.recompute_num_layers": layout.recompute_layers,
        "model.recompute_modules": layout.recompute_modules or None if selective else None,
    }


def _optimizer(layout: Layout) -> Overrides:
    return {
        "ddp.use_distributed_optimizer": layout.distributed_optimizer,
        "optimizer.use_distributed_optimizer": layout.distributed_optimizer,
        "optimizer.use_precision_aware_optimizer": layout.precision_aware_optimizer,
        "optimizer.optimizer_cpu_offload": layout.optimizer_offload > 0,
        "optimizer.optimizer_offload_fraction": layout.optimizer_offload,
        "optimizer.overlap_cpu_optimizer_d2h_h2d": layout.overlap_offload,
    }


def _overlaps(layout: Layout) -> Overrides:
    return {
        "ddp.overlap_grad_reduce": layout.overlap_gradients,
        "ddp.overlap_param_gather": layout.overlap_parameters,
        "optimizer.overlap_param_gather": layout.overlap_parameters,
        "model.overlap_moe_expert_parallel_comm": layout.overlap_experts,
        "model.delay_wgrad_compute": layout.delayed_weight_gradients,
        "model.tp_comm_overlap": layout.overlap_tensor,
        "model.cuda_graph_impl": "transformer_engine" if layout.cuda_graphs else "none",
    }


def _run(job: Job) -> Overrides:
    workload, given = job.workload, job.workload.optimization
    fields: Overrides = {
        "train.train_iters": workload.steps,
        "train.global_batch_size": workload.global_batch,
        "model.seq_length": workload.row_tokens,
        "optimizer.lr": given.learning_rate,
        "optimizer.min_lr": given.min_learning_rate,
        "optimizer.weight_decay": given.weight_decay,
        "optimizer.adam_beta1": given.adam_beta1,
        "optimizer.adam_beta2": given.adam_beta2,
        "optimizer.adam_eps": given.adam_epsilon,
        "optimizer.clip_grad": given.clip_grad,
        "scheduler.lr_decay_style": "cosine",
        "scheduler.lr_decay_iters": workload.steps,
        # Bridge takes whole iterations or a share, and recipes give iterations.
        "scheduler.lr_warmup_iters": round(given.warmup_fraction * workload.steps),
        "scheduler.start_weight_decay": given.weight_decay,
        "scheduler.end_weight_decay": given.weight_decay,
        "ddp.grad_reduce_in_fp32": workload.gradient_precision == "fp32",
        "rng.seed": workload.seed,
        "model.mtp_num_layers": None,
    }
    if job.model.experts:
        fields["model.moe_aux_loss_coeff"] = given.auxiliary_loss
        fields["model.moe_router_force_load_balancing"] = workload.routing == "balanced"
    return fields


def _row_tokens_field(version: tuple[int, int]) -> str:
    """The data set's own name for the length of a row; 0.6 renamed the field."""
    return "dataset.seq_length" if version >= (0, 6) else "dataset.sequence_length"


def _weights(job: Job) -> Overrides:
    """Both arms load one distributed checkpoint; nothing is written."""
    fields: Overrides = {"checkpoint.save": None}
    if job.setup.checkpoint:
        fields |= {
            "checkpoint.pretrained_checkpoint": job.setup.checkpoint,
            "checkpoint.load_optim": False,
            "checkpoint.load_rng": False,
        }
    return fields
