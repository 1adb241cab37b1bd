"""A layout in the words of a recipe page: summary and highlights."""

from __future__ import annotations

from attune.catalog import Model
from attune.layout import Layout
from attune.layout.microbatches import tokens_per_gpu
from attune.layout.stages import stage_splits
from attune.layout.table import LayoutTable
from attune.workload import Workload


def max_tokens_per_gpu(layout: Layout, workload: Workload) -> int:
    """Smallest budget with which dynamic batching packs the layout's rows per microbatch.

    The whole microbatch is shared by the context-parallel group, so it holds budget x CP tokens.
    """
    return tokens_per_gpu(layout.rows_per_microbatch, workload.row_tokens, layout.cp)


def stage_layers(layout: Layout, model: Model) -> list[int]:
    """Transformer layers of each pipeline stage, all virtual chunks together."""
    splits = stage_splits(model, LayoutTable.of([layout]))
    return [int(x) for x in splits.layers[0].sum(axis=1)[: max(layout.pp, 1)]]


def summary(layout: Layout, model: Model, count: int, workload: Workload) -> str:
    """The layout in one sentence, clause by clause as on the published pages."""
    clauses = [
        _degrees(layout, model, count),
        _microbatch(layout, workload),
        recompute_words(layout),
        _optimizer_words(layout),
        f"{layout.dispatcher} dispatcher" if model.experts else "",
        _shared_expert_words(layout, model),
        *_overlap_words(layout),
    ]
    return "; ".join(clause for clause in clauses if clause)


def highlights(layout: Layout, workload: Workload) -> str:
    """What sets the layout apart: packed rows or pipeline depth, then offload or recompute."""
    packed = layout.rows_per_microbatch > 1
    tokens = f"max {max_tokens_per_gpu(layout, workload):,} tokens/GPU"
    memory = _offload_words(layout) if layout.optimizer_offload > 0 else recompute_words(layout)
    return f"{tokens if packed else f'PP {layout.pp}'}, {memory.split(' with ')[0]}"


def _degrees(layout: Layout, model: Model, count: int) -> str:
    words = [f"TP {layout.tp}", f"PP {layout.pp}{_stages_words(layout, model)}"]
    words += [f"VPP {layout.vpp}"] if layout.vpp > 1 else []
    words += [f"CP {layout.cp}"]
    words += [f"EP {layout.ep}", f"ETP {layout.etp}"] if model.experts else []
    words += [f"DP {layout.dp(count)}"]
    words += ["sequence parallel"] if layout.sequence_parallel else []
    return ", ".join(words)


def _stages_words(layout: Layout, model: Model) -> str:
    layers = stage_layers(layout, model)
    if layout.pipeline_layout:
        return f" ({layout.pipeline_layout})"
    if layout.pp == 1 or (layout.first is None and layout.last is None):
        return ""
    first, *middle, last = layers
    if not middle:
        return f" (first stage {first} layers, last {last})"
    return f" (first stage {first} layers, last stage {last}, the {len(middle)} others {middle[0]})"


def _microbatch(layout: Layout, workload: Workload) -> str:
    most = f"max {max_tokens_per_gpu(layout, workload):,} tokens"
    if layout.rows_per_microbatch > 1:
        return f"{most} per GPU"
    return f"one {workload.row_tokens:,}-token row per microbatch ({most}/GPU)"


def recompute_words(layout: Layout) -> str:
    """`no recompute`, `full recompute (uniform, 1 layer)`, `selective recompute (core_attn)`."""
    if layout.recompute == "none":
        return "no recompute"
    if layout.recompute == "selective":
        return f"selective recompute ({', '.join(layout.recompute_modules or ('core_attn',))})"
    layers = layout.recompute_layers or 1
    plural = "" if layers == 1 else "s"
    return f"full recompute ({layout.recompute_method or 'uniform'}, {layers} layer{plural})"


def _optimizer_words(layout: Layout) -> str:
    if layout.optimizer_offload > 0:
        return _offload_words(layout)
    kind = "distributed optimizer" if layout.distributed_optimizer else "plain optimizer"
    aware = ", precision-aware" if layout.precision_aware_optimizer else ""
    return f"{kind}{aware}, no offload"


def _offload_words(layout: Layout) -> str:
    extras = ["overlapped copies"] if layout.overlap_offload else []
    extras += ["the precision-aware optimizer"] if layout.precision_aware_optimizer else []
    words = f"CPU optimizer offload (fraction {layout.optimizer_offload:g})"
    return f"{words} with {' and '.join(extras)}" if extras else words


def _shared_expert_words(layout: Layout, model: Model) -> str:
    """Sparse attention under CP must gather; the pages say so in place of shared experts."""
    if model.indexer and layout.cp > 1 and not layout.overlap_shared_experts:
        return "--allgather-cp"
    if not model.experts or not model.experts.shared_ffn:
        return ""
    return f"{'' if layout.overlap_shared_experts else 'no '}shared-expert overlap"


def _overlap_words(layout: Layout) -> list[str]:
    words = {
        "expert all-to-all overlap": layout.overlap_experts,
        "gradient-reduce overlap": layout.overlap_gradients,
        "parameter-gather overlap": layout.overlap_parameters,
        "tensor-parallel overlap": layout.overlap_tensor,
        "CUDA graphs": layout.cuda_graphs,
        "delayed weight gradients": layout.delayed_weight_gradients,
    }
    return [word for word, on in words.items() if on]
