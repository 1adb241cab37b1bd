"""From a recipe's layout block to a `Layout`, and back."""

from __future__ import annotations

from typing import Any

from attune.catalog import Model
from attune.layout import Layout, label, parse_layout
from attune.recipe.schema import Recipe
from attune.recipe.words import highlights, max_tokens_per_gpu, stage_layers, summary
from attune.workload import Workload


def layout_of(recipe: Recipe) -> Layout:
    """The layout of a recipe: attune's own line where there is one, else the layout block.

    The block alone cannot name recompute modules (the framework's default is meant), overlaps
    (off is meant, but for what `run:` and the summary say) or an explicit pipeline layout.
    Offload brings the precision-aware optimizer, which Megatron requires with it.

    Raises:
        AttuneError: attune's own line is damaged.
    """
    if recipe.attune is not None:
        return parse_layout(recipe.attune.layout)
    block, text = recipe.layout, recipe.run
    split, recompute, offload = block.layer_split, block.recompute, block.offload
    return Layout(
        tp=block.tp,
        pp=block.pp,
        vpp=block.vpp,
        cp=block.cp,
        ep=block.ep,
        etp=block.etp,
        sequence_parallel=block.sequence_parallel,
        rows_per_microbatch=block.rows_per_microbatch,
        first=split.first if split else None,
        last=split.last if split else None,
        recompute=recompute.granularity if recompute else "none",
        recompute_method=recompute.method if recompute else None,
        recompute_layers=recompute.num_layers if recompute else None,
        optimizer_offload=offload.optimizer_fraction if offload else 0.0,
        overlap_offload=offload.overlap_d2h_h2d if offload else False,
        precision_aware_optimizer=offload is not None or "--use-precision-aware-optimizer" in text,
        dispatcher=block.dispatcher or "alltoall",
        overlap_shared_experts="--moe-shared-expert-overlap" in text,
        overlap_experts="--overlap-moe-expert-parallel-comm" in text,
        overlap_gradients="--overlap-grad-reduce" in text,
        overlap_parameters="--overlap-param-gather" in text,
        overlap_tensor="--tp-comm-overlap" in text,
        delayed_weight_gradients="--delay-wgrad-compute" in text,
    )


def layout_block(layout: Layout, model: Model, count: int, workload: Workload) -> dict[str, Any]:
    """The layout block of a recipe page for `layout` on `count` GPUs.

    Label, summary and highlights are worded as on the published pages.
    """
    return {
        "label": label(layout, count),
        "summary": summary(layout, model, count, workload),
        "highlights": highlights(layout, workload),
        "tp": layout.tp,
        "pp": layout.pp,
        "vpp": layout.vpp,
        "cp": layout.cp,
        "ep": layout.ep,
        "etp": layout.etp,
        "dp": layout.dp(count),
        "sequence_parallel": layout.sequence_parallel,
        "layer_split": _split(layout, model),
        "max_tokens_per_gpu": max_tokens_per_gpu(layout, workload),
        "rows_per_microbatch": layout.rows_per_microbatch,
        "recompute": _recompute(layout),
        "offload": _offload(layout),
        "dispatcher": layout.dispatcher if model.experts else None,
    }


def _split(layout: Layout, model: Model) -> dict[str, int] | None:
    """First and last stage where they were chosen; the others share the rest evenly."""
    if layout.pp == 1 or (layout.first is None and layout.last is None):
        return None
    layers = stage_layers(layout, model)
    return {"first": layers[0], "last": layers[-1]}


def _recompute(layout: Layout) -> dict[str, Any] | None:
    if layout.recompute == "none":
        return None
    return {
        "granularity": layout.recompute,
        "method": layout.recompute_method,
        "num_layers": layout.recompute_layers,
    }


def _offload(layout: Layout) -> dict[str, Any] | None:
    if layout.optimizer_offload <= 0:
        return None
    return {
        "optimizer_fraction": layout.optimizer_offload,
        "overlap_d2h_h2d": layout.overlap_offload,
    }
