"""Measured rows as cases that attune can predict, or with the reason why it cannot."""

from __future__ import annotations

import csv
import itertools
import math
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from attune.catalog import Cluster, Model
from attune.estimate import Stack
from attune.layout import Layout
from attune.layout.table import DISPATCHERS, GRANULARITIES
from attune.layout.table import METHODS as RECOMPUTE_METHODS
from attune.workload import Workload
from benchmarks.machines import cluster_of, gpu_of
from benchmarks.options import Row, options_of, stack_of_row
from benchmarks.shapes import UnmodelledError, model_of, read_shapes

MEASUREMENTS = Path(__file__).parent / "measurements"
MEMORY = ("peak_allocated_gib", "peak_reserved_gib", "peak_device_gib")
TIME = ("step_time_s", "tokens_per_s_per_gpu", "tflops_per_gpu")
METRICS = {"memory": MEMORY, "time": TIME, "outcome": ("outcome",)}


_MATTERING = ("grad_dtype", "recompute_granularity", "options")
"""Columns without which memory is uncertain: a blank is the framework's default or its recipe's."""


_LARGEST = {
    **dict.fromkeys(MEMORY, 1024.0),
    "step_time_s": 1e6,
    "tokens_per_s_per_gpu": 1e8,
    "tflops_per_gpu": 1e5,
}
"""Values beyond what any GPU or step reaches: a slip of unit."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """One measured row, ready to be predicted."""

    row: Row
    file: str
    """Name of the CSV file without its ending."""
    metric: str
    value: float
    """Measured; for an outcome 1 (fits) or 0 (out of memory)."""
    model: Model
    cluster: Cluster
    workload: Workload
    layout: Layout
    stack: Stack
    unstated: tuple[str, ...]
    """What the source does not state and a convention fills in."""

    @property
    def family(self) -> str:
        """The group that is left out together: model family for SimuMax, else architecture."""
        name = self.row["arch_id"]
        return name.split("-l")[0] if name.startswith("simumax-") else name

    @property
    def fields(self) -> tuple[Any, ...]:
        """Rows equal in these are layouts of one problem, to be put in order."""
        names = ("arch_id", "gpu", "n_gpus", "global_batch", "seq_len", "precision")
        return tuple(self.row[name] for name in names)


@dataclass(frozen=True, kw_only=True)
class Skipped:
    """One measured row that is not predicted."""

    row: Row
    file: str
    metric: str
    reason: str


def read_cases(directory: Path, metrics: tuple[str, ...]) -> tuple[list[Case], list[Skipped]]:
    """Every row of every CSV file there whose metric is asked for."""
    shapes = read_shapes(directory / "archs.yaml")
    cases, skipped = [], []
    for path in sorted(directory.glob("*.csv")):
        with path.open(encoding="utf-8", newline="") as stream:
            for raw in csv.DictReader(stream):
                row: Row = defaultdict(str)
                row.update((k, (v or "").strip()) for k, v in raw.items() if isinstance(k, str))
                metric = row["metric"]
                if metric not in metrics:
                    continue
                try:
                    cases.append(_case(row, path.stem, shapes))
                except UnmodelledError as error:
                    skipped.append(
                        Skipped(row=row, file=path.stem, metric=metric, reason=str(error))
                    )
    return cases, skipped


def _case(row: Row, file: str, shapes: dict[str, dict[str, Any]]) -> Case:
    unstated: list[str] = []
    options = options_of(row)
    tp, pp = _integer(row, "tp"), _integer(row, "pp")
    model = model_of(row["arch_id"], shapes, tp)
    _refuse(row)
    _refuse_words(row)
    cp = _integer(row, "cp", 1)
    layout = _layout(row, model, tp, pp, cp)
    count = _count(row, layout, unstated)
    _refuse_grid(layout, count, model)
    cluster = cluster_of(row["gpu"], count, _optional(row, "gpus_per_node"))
    try:
        return Case(
            row=row,
            file=file,
            metric=row["metric"],
            value=_value(row),
            model=model,
            cluster=cluster,
            workload=_workload(row, layout, cluster, unstated),
            layout=layout,
            stack=stack_of_row(row, options, cluster.gpu.architecture, _mtp(row, model)),
            unstated=tuple(unstated),
        )
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        raise UnmodelledError(f"{problem['loc'][-1]} is {problem['input']}") from error


def _refuse(row: Row) -> None:
    notes = row["notes"].lower()
    refused: tuple[tuple[str, Callable[[], bool]], ...] = (
        ("FP4 weights", lambda: "fp4" in row["precision"]),
        ("FSDP shards parameters", lambda: "fsdp" in notes and "fsdp=none" not in notes),
        (
            "activations of some layers are offloaded",
            lambda: "cpu_offloading layers" in notes,
        ),
        ("LoRA trains a few weights only", lambda: "lora" in notes or "task=peft" in notes),
        ("GPUs of several kinds", lambda: row["gpu"].startswith("mixed")),
        (
            "a known regression of that release (README of the measurements)",
            lambda: row["arch_id"].startswith("gpt-oss") and "26.06.01" in row["framework"],
        ),
        (
            "the source's count of gpt-oss FLOPs changed (README of the measurements)",
            lambda: row["arch_id"].startswith("gpt-oss") and row["metric"] == "tflops_per_gpu",
        ),
        ("no runtime of Megatron", lambda: row["framework"].startswith("mist")),
    )
    for reason, found in refused:
        if found():
            raise UnmodelledError(reason)


def _number(row: Row, name: str) -> float | None:
    text = row.get(name, "")
    if not text:
        return None
    try:
        value = float(text)
    except ValueError as error:
        raise UnmodelledError(f"{name} is `{text[:40]}`, not a number") from error
    if not math.isfinite(value):
        raise UnmodelledError(f"{name} is {text}")
    return value


def _optional(row: Row, name: str) -> int | None:
    value = _number(row, name)
    if value is None:
        return None
    if value < 1 or value > 2**24 or value != int(value):
        raise UnmodelledError(f"{name} is {row[name]}; it must be a whole number from 1 on")
    return int(value)


def _integer(row: Row, name: str, default: int | None = None) -> int:
    value = _optional(row, name)
    if value is None and default is None:
        raise UnmodelledError(f"{name} is not stated")
    return value if value is not None else default  # type: ignore[return-value]


def _value(row: Row) -> float:
    if row["metric"] == "outcome":
        if row["value"] not in ("fits", "oom"):
            raise UnmodelledError(f"outcome is `{row['value'][:40]}`")
        return float(row["value"] == "fits")
    value = _number(row, "value")
    if value is None or not 0 < value <= _LARGEST[row["metric"]]:
        raise UnmodelledError(f"the measured value is `{row['value'][:40]}`")
    return value


def _count(row: Row, layout: Layout, unstated: list[str]) -> int:
    count = _optional(row, "n_gpus")
    if count is not None:
        return count
    grid = layout.tp * layout.pp * layout.cp
    dp = _optional(row, "dp")
    if dp is not None:
        return grid * dp
    matters = row["metric"] in TIME or layout.distributed_optimizer
    if matters and "tiny" not in row["notes"] and row["metric"] != "outcome":
        raise UnmodelledError("the world size is not stated, and the optimizer is sharded over it")
    # Megatron's functional tests run on one node of eight; without a sharded optimizer the
    # world size does not matter for memory.
    unstated.append("n_gpus")
    return max(8, grid * layout.ep // math.gcd(grid, layout.ep))


def _workload(row: Row, layout: Layout, cluster: Cluster, unstated: list[str]) -> Workload:
    precision = row["precision"] or "bf16"
    if not row["precision"]:
        unstated.append("precision")
    if "fp8" in precision:
        precision = "fp8"
    batch = _optional(row, "global_batch")
    dp = max(layout.dp(cluster.count), 1)
    if batch is None and row["metric"] in TIME:
        raise UnmodelledError("global_batch is not stated")
    half = row["grad_dtype"] in ("bf16", "fp16")
    # Megatron-Bridge's recipes reduce gradients in bf16, DeepSpeed those of its fp16 engine.
    low = row["framework"].startswith("megatron-bridge") or "deepspeed" in row["framework"]
    half = half or (not row["grad_dtype"] and low)
    unstated += [name for name in _MATTERING if not row[name]]
    return Workload(
        row_tokens=_integer(row, "seq_len"),
        # Memory needs no more than enough microbatches to fill the pipeline.
        global_batch=batch or layout.rows_per_microbatch * dp * 4 * layout.pp,
        precision="fp16" if row["framework"].startswith("vtrain") else precision,  # type: ignore[arg-type]
        gradient_precision="bf16" if half else "fp32",
        routing=_routing(row),
    )


def _routing(row: Row) -> Literal["balanced", "natural"]:
    """Sinkhorn assigns tokens to experts evenly, and dropped tokens leave every expert full."""
    even = row["routing"] == "balanced" or "load-balancing-type=sinkhorn" in row["options"]
    return "balanced" if even or "tokendrop" in row["notes"] else "natural"


_WORDS = {
    "recompute_granularity": GRANULARITIES,
    "recompute_method": RECOMPUTE_METHODS[1:],
    "routing": ("balanced", "natural"),
}


def _refuse_words(row: Row) -> None:
    """Refuses words that no layout knows."""
    for column, known in _WORDS.items():
        if row[column] and row[column] not in known:
            raise UnmodelledError(f"{column} is `{row[column][:40]}`")
    dispatcher = row["moe_dispatcher"].split(":")[0]
    if dispatcher and dispatcher not in DISPATCHERS:
        raise UnmodelledError(f"moe_dispatcher is `{dispatcher[:40]}`")


def _refuse_grid(layout: Layout, count: int, model: Model) -> None:
    grid = layout.tp * layout.pp * layout.cp
    if count % grid:
        raise UnmodelledError(f"TP x PP x CP ({grid}) does not divide {count} GPUs")
    if layout.pp * layout.vpp > model.layers + 2:
        raise UnmodelledError(f"{layout.pp} x {layout.vpp} stages for {model.layers} layers")
    if model.experts and model.experts.count % layout.ep:
        raise UnmodelledError(f"EP {layout.ep} does not divide {model.experts.count} experts")


def _mtp(row: Row, model: Model) -> int:
    """Multi-token-prediction layers that the run trains."""
    if row["pp_layout"]:
        return row["pp_layout"].count("m")
    bridge = row["framework"].startswith("megatron-bridge")
    trains = "mtp" in row["options"] or row["framework"].startswith("megatron-lm") or bridge
    return model.mtp_layers if trains else 0


def _true(row: Row, name: str, blank: bool = False) -> bool:
    return row[name] == "true" if row[name] else blank


def _uneven(row: Row, model: Model, pp: int) -> str | None:
    """DeepSpeed's partition by layer type, where PP does not divide the layers: embedding and
    head count as a layer each."""
    if not model.layers % pp or "deepspeed" not in row["framework"]:
        return None
    edges = [round(i * (model.layers + 2) / pp) for i in range(pp + 1)]
    layers = [b - a for a, b in itertools.pairwise(edges)]
    layers[0], layers[-1] = layers[0] - 1, layers[-1] - 1
    return "E" + "|".join("t" * count for count in layers) + "L"


def _layout(row: Row, model: Model, tp: int, pp: int, cp: int) -> Layout:
    """The layout; what Megatron-Bridge's tables leave blank has the value of its tuned recipes."""
    bridge = row["framework"].startswith("megatron-bridge")
    moe = bool(model.experts)
    granularity = row["recompute_granularity"] or "none"
    modules = tuple(sorted(filter(None, row["recompute_modules"].split(";"))))
    ep, vpp = _integer(row, "ep", 1), _integer(row, "vpp", 1)
    offload = _number(row, "optimizer_offload_fraction") or 0.0
    if not 0 <= offload <= 1:
        raise UnmodelledError(f"optimizer_offload_fraction is {offload}")
    dispatcher = (row["moe_dispatcher"] or ("flex" if bridge and moe else "alltoall")).split(":")[0]
    far = ep > gpu_of(row["gpu"]).per_node and (gpu_of(row["gpu"]).link_domain or 0) < ep
    return Layout(
        tp=tp,
        pp=pp,
        vpp=vpp,
        cp=cp,
        ep=ep,
        etp=_integer(row, "etp", tp if moe and not bridge else 1) if moe else 1,
        sequence_parallel=_true(row, "sequence_parallel", bridge) and tp > 1,
        rows_per_microbatch=_integer(row, "micro_batch"),
        first=_optional(row, "first_stage_layers") if not row["pp_layout"] else None,
        last=_optional(row, "last_stage_layers") if not row["pp_layout"] else None,
        pipeline_layout=row["pp_layout"] or _uneven(row, model, pp),
        recompute=granularity,  # type: ignore[arg-type]
        recompute_modules=modules if granularity == "selective" else (),
        recompute_method=row["recompute_method"] or None,  # type: ignore[arg-type]
        recompute_layers=_optional(row, "recompute_num_layers"),
        optimizer_offload=offload,
        precision_aware_optimizer=_true(row, "precision_aware_optimizer"),
        dispatcher=dispatcher if moe else "alltoall",  # type: ignore[arg-type]
        overlap_experts=_true(row, "ep_overlap", bridge and moe and vpp > 1 and far),
        overlap_gradients=_true(row, "overlap_grad_reduce", bridge),
        overlap_parameters=_true(row, "overlap_param_gather", bridge),
        overlap_tensor="tp_comm_overlap" in row["notes"] or (bridge and not moe and tp > 1),
        cuda_graphs=row["cuda_graph"] not in ("", "none"),
        delayed_weight_gradients="delay_wgrad" in row["notes"],
        distributed_optimizer=_true(row, "distributed_optimizer", bridge),
    )
