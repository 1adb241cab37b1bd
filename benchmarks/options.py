"""The stack of a measured row: framework, kernels and arguments that it states."""

from __future__ import annotations

from dataclasses import replace

from attune.estimate import Stack
from attune.estimate.stack import MIB, stack_of
from benchmarks.shapes import UnmodelledError

Row = dict[str, str]
_UNMODELLED = {
    "use-megatron-fsdp": "FSDP shards parameters",
    "fine-grained-activation-offloading": "activations are offloaded one by one",
    "use-torch-fsdp2": "FSDP shards parameters",
}


def options_of(row: Row) -> dict[str, str]:
    """The `options` column: `name=value` separated by semicolons."""
    found = {}
    for item in row["options"].split(";"):
        name, _, value = item.strip().partition("=")
        if name:
            found[name] = value or "true"
    return found


def stack_of_row(row: Row, options: dict[str, str], architecture: str, mtp_layers: int) -> Stack:
    """Memory and kernel habits that the row's framework and arguments imply.

    Raises:
        UnmodelledError: an argument changes what is held or done beyond what is modelled.
    """
    for name, reason in _UNMODELLED.items():
        if options.get(name) == "true":
            raise UnmodelledError(reason)
    if options.get("data-parallel-sharding-strategy", "no_shard") != "no_shard":
        raise UnmodelledError("FSDP shards parameters")
    framework = row["framework"]
    if "deepspeed" in framework or "2205.05198" in framework or "2201.11990" in framework:
        return _legacy(framework, row)
    if framework.startswith("megatron-lm") and options.get("transformer-impl"):
        return _megatron_ci(row, options, architecture, mtp_layers)
    stack = replace(
        stack_of("megatron-core", architecture),
        loss_copies=_loss(options, 6.0),
        mtp_layers=mtp_layers,
        quantized_weights=_quantized(framework, options),
        tensorwise=row["precision"] == "fp8",
    )
    if framework.startswith(("megatron-bridge", "nemo")):
        # Recipes ask for the fused loss of Transformer Engine; a blank split is a balanced one.
        blank = not row["pp_layout"] and not row["first_stage_layers"]
        whole = row["cuda_graph"].startswith("full")
        stack = replace(
            stack,
            loss_copies=_loss(options, 2.0),
            balanced_stages=blank,
            whole_graphs=whole,
            moment_bytes=_moment_bytes(row),
        )
    return stack


_HALF_MOMENTS = ("deepseek", "kimi", "moonlight")
"""Models whose recipes in Megatron-Bridge keep Adam's moments in bf16."""


def _moment_bytes(row: Row) -> float:
    """Bytes of one of Adam's moments, as noted, else as in the model's recipe."""
    if "Adam moments" in row["notes"]:
        return 2.0 if "Adam moments bfloat16" in row["notes"] else 4.0
    return 2.0 if row["arch_id"].startswith(_HALF_MOMENTS) else 4.0


def _quantized(framework: str, options: dict[str, str]) -> bool:
    """Whether the linears keep their weights in FP8; Megatron-Bridge's recipes do."""
    bridge = framework.startswith("megatron-bridge")
    return options.get("fp8-param-gather", str(bridge).lower()) == "true"


def _loss(options: dict[str, str], unfused: float) -> float:
    """Peak of the loss in logits of two bytes."""
    if options.get("cross-entropy-loss-fusion") != "true":
        return unfused
    return 2.0 if options.get("cross-entropy-fusion-impl") == "te" else 10.0


def _legacy(framework: str, row: Row) -> Stack:
    """Megatron of 2021 and 2022: scores in memory, Apex norms, no Transformer Engine."""
    half = row["precision"] == "bf16"
    return Stack(
        flash=False,
        dummy_gradients=False,
        hidden_dropout=True,
        scattered_transfers=True,
        low_gradients="deepspeed" in framework and half,
        attention_dropout="2205.05198" in framework,
        workspace_bytes=16 * MIB,
        engine_workspace_bytes=16 * MIB,
        # Device use over allocated memory, from other sites' rows of the same engine.
        reserved_dense=1.09,
        reserved_moe=1.09,
        context_gib=2.7,
        # DeepSpeed flattens 5e8 gradients at a time, float32 under bf16.
        bucket_gib=0.0 if "deepspeed" not in framework else 1.86 if half else 0.93,
    )


def _megatron_ci(row: Row, options: dict[str, str], architecture: str, mtp_layers: int) -> Stack:
    """A case of Megatron's own functional tests; arguments have the framework's defaults."""
    local = options["transformer-impl"] == "local"
    flash = not local and options.get("attention-backend") != "unfused"
    fusion = options.get("no-gradient-accumulation-fusion") != "true"
    newer = architecture != "ampere"
    large = newer or options.get("CUBLAS_WORKSPACE_CONFIG") == ":4096:8"
    matmul = 32.0 * MIB if large else 8.125 * MIB
    engine = 32.0 * MIB if newer else 4.0 * MIB
    return Stack(
        fused=True,
        flash=flash,
        loss_copies=_loss(options, 6.0),
        head_gradient=fusion,
        dummy_gradients=fusion,
        hidden_dropout=options.get("hidden-dropout", "0.1") != "0.0",
        attention_dropout=not flash and options.get("attention-dropout", "0.1") != "0.0",
        attention_copy=flash and _order_kept_twice(options, architecture),
        attention_mask=options.get("no-create-attention-mask-in-dataloader") != "true",
        learned_positions=options.get("position-embedding-type", "learned_absolute")
        == "learned_absolute",
        microbatch_group=int(options.get("microbatch-group-size-per-virtual-pipeline-stage", 0)),
        optimizer_instances=int(options.get("num-distributed-optimizer-instances", 1)),
        mtp_layers=mtp_layers,
        quantized_weights=_quantized(row["framework"], options),
        tensorwise=options.get("fp8-recipe") in ("tensorwise", "delayed"),
        deferred_head_gradients=int(options.get("wgrad-deferral-limit", 0)),
        score_buffer=local,
        workspace_bytes=2 * matmul + engine * (not local),
        engine_workspace_bytes=2 * matmul if local else engine,
        grouped_workspace_bytes=4 * engine if options.get("moe-grouped-gemm") == "true" else 0.0,
    )


def _order_kept_twice(options: dict[str, str], architecture: str) -> bool:
    """FlashAttention 2 behind Transformer Engine; cuDNN where it is chosen (Hopper, or asked)."""
    if options.get("NVTE_FUSED_ATTN") == "1":
        return False
    return architecture != "hopper"
