"""The layout that a trainer's flags describe (Megatron-LM's names, which miles and slime share)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attune.errors import AttuneError
from attune.layout import Layout
from attune.layout.microbatches import rows_per_bin
from attune.recipe.launch_script import Value

Flags = Mapping[str, Value]

_NUMBERS = {
    "--tensor-model-parallel-size": "tp",
    "--pipeline-model-parallel-size": "pp",
    "--context-parallel-size": "cp",
    "--expert-model-parallel-size": "ep",
    "--decoder-first-pipeline-num-layers": "first",
    "--decoder-last-pipeline-num-layers": "last",
    "--recompute-num-layers": "recompute_layers",
}
_SWITCHES = {
    "--sequence-parallel": "sequence_parallel",
    "--overlap-cpu-optimizer-d2h-h2d": "overlap_offload",
    "--use-precision-aware-optimizer": "precision_aware_optimizer",
    "--moe-shared-expert-overlap": "overlap_shared_experts",
    "--overlap-moe-expert-parallel-comm": "overlap_experts",
    "--overlap-grad-reduce": "overlap_gradients",
    "--overlap-param-gather": "overlap_parameters",
    "--tp-comm-overlap": "overlap_tensor",
    "--enable-cuda-graph": "cuda_graphs",
    "--external-cuda-graph": "cuda_graphs",
    "--delay-wgrad-compute": "delayed_weight_gradients",
    "--use-distributed-optimizer": "distributed_optimizer",
}
_OTHERS = (
    "--expert-tensor-parallel-size",
    "--num-layers-per-virtual-pipeline-stage",
    "--num-virtual-stages-per-pipeline-rank",
    "--pipeline-model-parallel-layout",
    "--micro-batch-size",
    "--max-tokens-per-gpu",
    "--use-dynamic-batch-size",
    "--recompute-granularity",
    "--recompute-method",
    "--recompute-modules",
    "--recompute-activations",
    "--optimizer-cpu-offload",
    "--optimizer-offload-fraction",
    "--moe-token-dispatcher-type",
    "--cuda-graph-impl",
)
LAYOUT_FLAGS = frozenset({*_NUMBERS, *_SWITCHES, *_OTHERS})
"""Flags that state the layout, and nothing else of a run."""


def layout_of_flags(flags: Flags, layers: int, row_tokens: int) -> Layout:
    """The layout of a command, with Megatron-LM's defaults where it says nothing.

    Args:
        flags: as `read_launch_script` gives them.
        layers: of the model, for virtual stages given by their layers.
        row_tokens: for microbatches given by their tokens.

    Raises:
        AttuneError: a value that is no number, or virtual stages that do not divide the layers.
    """
    values: dict[str, Any] = {
        field: whole(flags, flag) for flag, field in _NUMBERS.items() if flag in flags
    }
    switches: dict[str, Any] = dict.fromkeys(_SWITCHES.values(), False)
    switches |= {field: True for flag, field in _SWITCHES.items() if flags.get(flag)}
    switches["cuda_graphs"] |= flags.get("--cuda-graph-impl", "none") != "none"
    tp, pp = values.get("tp", 1), values.get("pp", 1)
    return Layout(
        **values,
        **switches,
        etp=whole(flags, "--expert-tensor-parallel-size", tp),
        vpp=_virtual_stages(flags, layers, pp),
        pipeline_layout=_text(flags, "--pipeline-model-parallel-layout"),
        rows_per_microbatch=_rows(flags, row_tokens, values.get("cp", 1)),
        optimizer_offload=_offload(flags),
        dispatcher=_text(flags, "--moe-token-dispatcher-type") or "allgather",
        **_recompute(flags),
    )


def whole(flags: Flags, flag: str, default: int = 1) -> int:
    """The whole number of a flag.

    Raises:
        AttuneError: the flag has another value.
    """
    value = flags.get(flag, str(default))
    if isinstance(value, str) and value.isdigit() and int(value) > 0:
        return int(value)
    raise AttuneError(f"{flag} takes a whole number from 1, but got `{_words(value)}`")


def _text(flags: Flags, flag: str) -> Any:
    value = flags.get(flag)
    return value if isinstance(value, str) else None


def _words(value: Value) -> str:
    return " ".join(value) if isinstance(value, tuple) else str(value)


def _virtual_stages(flags: Flags, layers: int, pp: int) -> int:
    if "--num-virtual-stages-per-pipeline-rank" in flags:
        return whole(flags, "--num-virtual-stages-per-pipeline-rank")
    if "--num-layers-per-virtual-pipeline-stage" not in flags:
        return 1
    each = whole(flags, "--num-layers-per-virtual-pipeline-stage")
    if layers % (pp * each):
        raise AttuneError(
            f"--num-layers-per-virtual-pipeline-stage {each} x PP {pp} does not divide the "
            f"model's {layers} layers; correct it, or give the model that the script trains"
        )
    return layers // (pp * each)


def _rows(flags: Flags, row_tokens: int, cp: int) -> int:
    if "--max-tokens-per-gpu" in flags:
        return rows_per_bin(whole(flags, "--max-tokens-per-gpu"), row_tokens, cp)
    return whole(flags, "--micro-batch-size")


def _offload(flags: Flags) -> float:
    if not flags.get("--optimizer-cpu-offload"):
        return 0.0
    text = flags.get("--optimizer-offload-fraction", "1.0")
    try:
        share = float(_words(text))
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise AttuneError(f"--optimizer-offload-fraction is from 0 to 1, but got `{_words(text)}`")
    return share


def _recompute(flags: Flags) -> dict[str, Any]:
    granularity = _text(flags, "--recompute-granularity")
    if granularity is None and flags.get("--recompute-activations"):
        granularity = "selective"
    modules = flags.get("--recompute-modules", ())
    names = modules.split() if isinstance(modules, str) else modules
    return {
        "recompute": granularity or "none",
        "recompute_method": _text(flags, "--recompute-method"),
        "recompute_modules": tuple(sorted(names)) if isinstance(names, (list, tuple)) else (),
    }
