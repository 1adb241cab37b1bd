"""Flags of Megatron-LM that state a layout, an optimizer and a precision."""

from __future__ import annotations

from attune.errors import LayoutError
from attune.layout import Layout
from attune.trial.frameworks.command_line import Flags
from attune.trial.job import Job
from attune.workload import Workload

Version = tuple[int, int]
_FLEX_BACKEND_SINCE: Version = (0, 16)
"""Before, the flex dispatcher had DeepEP alone behind it (--moe-enable-deepep)."""
_GRAPH_IMPLEMENTATION_SINCE: Version = (0, 15)
"""Before, Transformer Engine's graphs had a flag of their own (--external-cuda-graph)."""


def layout_flags(job: Job, core: Version) -> Flags:
    """Flags of the job's layout on that megatron-core; rows of a microbatch apart.

    Source: megatron/training/arguments.py, megatron/core/transformer/transformer_config.py.
    """
    layout = job.layout
    return {
        **_grid(layout, moe=job.model.experts is not None),
        **_pipeline(layout),
        **_recompute(layout),
        **_optimizer(layout),
        **(_dispatcher(layout, core) if job.model.experts else {}),
        **_overlaps(layout),
        **(_graphs(core) if layout.cuda_graphs else {}),
    }


def _grid(layout: Layout, moe: bool) -> Flags:
    flags: Flags = {
        "--tensor-model-parallel-size": layout.tp,
        "--sequence-parallel": layout.sequence_parallel,
        "--pipeline-model-parallel-size": layout.pp,
        "--context-parallel-size": layout.cp,
    }
    if moe:
        # Without it ETP is TP.
        flags["--expert-model-parallel-size"] = layout.ep
        flags["--expert-tensor-parallel-size"] = layout.etp
    return flags


def _pipeline(layout: Layout) -> Flags:
    if layout.pipeline_layout:
        # It holds the virtual stages too, and excludes the flag for them.
        return {"--pipeline-model-parallel-layout": layout.pipeline_layout}
    return {
        "--decoder-first-pipeline-num-layers": layout.first,
        "--decoder-last-pipeline-num-layers": layout.last,
        "--num-virtual-stages-per-pipeline-rank": layout.vpp if layout.vpp > 1 else None,
    }


def _recompute(layout: Layout) -> Flags:
    if layout.recompute == "none":
        return {}
    modules = layout.recompute_modules if layout.recompute == "selective" else ()
    return {
        "--recompute-granularity": layout.recompute,
        "--recompute-method": layout.recompute_method,
        "--recompute-num-layers": layout.recompute_layers,
        "--recompute-modules": modules or None,
    }


def _optimizer(layout: Layout) -> Flags:
    flags: Flags = {
        "--use-distributed-optimizer": layout.distributed_optimizer,
        "--use-precision-aware-optimizer": layout.precision_aware_optimizer,
    }
    if layout.optimizer_offload > 0:
        flags |= {
            "--optimizer-cpu-offload": True,
            "--optimizer-offload-fraction": layout.optimizer_offload,
            "--overlap-cpu-optimizer-d2h-h2d": layout.overlap_offload,
        }
    return flags


def _dispatcher(layout: Layout, core: Version) -> Flags:
    flags: Flags = {
        "--moe-token-dispatcher-type": layout.dispatcher,
        "--moe-shared-expert-overlap": layout.overlap_shared_experts,
    }
    if layout.dispatcher == "flex" and core >= _FLEX_BACKEND_SINCE:
        flags["--moe-flex-dispatcher-backend"] = "deepep"
    elif layout.dispatcher == "flex":
        flags["--moe-enable-deepep"] = True
    return flags


def _overlaps(layout: Layout) -> Flags:
    return {
        "--overlap-moe-expert-parallel-comm": layout.overlap_experts,
        "--delay-wgrad-compute": layout.delayed_weight_gradients,
        "--overlap-grad-reduce": layout.overlap_gradients,
        "--overlap-param-gather": layout.overlap_parameters,
        "--tp-comm-overlap": layout.overlap_tensor,
    }


def _graphs(core: Version) -> Flags:
    tracker = {"--te-rng-tracker": True}  # asserted by validate_args until 0.14
    if core >= _GRAPH_IMPLEMENTATION_SINCE:
        return {**tracker, "--cuda-graph-impl": "transformer_engine"}
    return {**tracker, "--external-cuda-graph": True}


def optimizer_flags(workload: Workload) -> Flags:
    """Flags of the optimizer and its schedule, which both arms of a comparison share."""
    given = workload.optimization
    return {
        "--optimizer": "adam",
        "--lr": given.learning_rate,
        "--lr-decay-style": "cosine",
        "--min-lr": given.min_learning_rate,
        "--lr-warmup-fraction": given.warmup_fraction,
        "--weight-decay": given.weight_decay,
        "--adam-beta1": given.adam_beta1,
        "--adam-beta2": given.adam_beta2,
        "--adam-eps": given.adam_epsilon,
        "--clip-grad": given.clip_grad,
    }


def gradient_flags(workload: Workload) -> Flags:
    """The type in which gradients are accumulated and reduced."""
    if workload.gradient_precision == "fp32":
        return {"--accumulate-allreduce-grads-in-fp32": True}
    return {"--grad-reduce-in-bf16": True}


def precision_flags(workload: Workload) -> Flags:
    """The type of activations and weights in the layers."""
    flags: dict[str, Flags] = {
        "bf16": {"--bf16": True},
        "fp16": {"--fp16": True},
        "fp32": {},
        "fp8": {"--bf16": True, "--fp8-format": "hybrid"},
    }
    return flags[workload.precision]


def routing_flags(job: Job) -> Flags:
    """How tokens meet experts, and what keeps them balanced."""
    if job.model.experts is None:
        return {}
    return {
        "--moe-aux-loss-coeff": job.workload.optimization.auxiliary_loss,
        "--moe-router-force-load-balancing": job.workload.routing == "balanced",
    }


def refuse_unspoken(job: Job) -> None:
    """Raises where flags of Megatron-LM cannot say what the layout asks for.

    Raises:
        LayoutError: virtual stages that the explicit layout does not have.
    """
    from attune.layout.pipeline_layout import implied_chunks

    layout = job.layout
    if layout.pipeline_layout and implied_chunks(layout.pipeline_layout, layout.pp) != layout.vpp:
        raise LayoutError(
            f"pipeline_layout `{layout.pipeline_layout}` does not have vpp={layout.vpp}; leave one "
            "of them out"
        )
