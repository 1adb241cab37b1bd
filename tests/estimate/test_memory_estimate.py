from __future__ import annotations

import numpy as np
import pytest

from attune.catalog import load_cluster, load_model, model_names
from attune.errors import AttuneError
from attune.estimate import (
    NO_CALIBRATION,
    Calibration,
    MemoryEstimate,
    Observation,
    estimate_memory,
    learn,
)
from attune.layout import LayoutTable, parse_layout
from attune.workload import Workload
from tests.estimate import published

WINNER = "tp=4 pp=16 ep=8 first=5 last=3"
REFERENCE = "tp=2 pp=8 ep=16 first=10 last=10"


def _memory(
    model: str, gpu: str, count: int, *texts: str, framework: str = "miles"
) -> MemoryEstimate:
    table = LayoutTable.of([parse_layout(text) for text in texts])
    cluster = load_cluster(gpu, count)
    return estimate_memory(load_model(model), cluster, Workload(), table, framework=framework)


@pytest.mark.parametrize("row", published.rows("b200_peaks"), ids=lambda r: f"{r['model']}-{r}")
def test_published_peaks_of_a_b200_node(row: dict[str, str]) -> None:
    """Within half a percent of every published per-rank peak; nothing was fitted to them."""
    estimate = estimate_memory(
        published.MODELS[row["model"]],
        published.NODE,
        published.workload_of(row),
        LayoutTable.of([published.layout_of(row)]),
        framework=published.STACK,
    )
    measured = float(row["peak_allocated_gib"])
    assert estimate.allocated[0, int(row["stage"])] == pytest.approx(measured, rel=0.005)


def test_glm_45_winner_reserves_what_its_page_says() -> None:
    estimate = _memory("glm-4.5", "h200", 128, WINNER)
    reserved_gb = estimate.reserved[0] * 2**30 / 1e9
    assert reserved_gb.min() < 103 < reserved_gb.max() < 1.25 * 103
    assert estimate.p_fits[0] > 0.9


def test_glm_45_interleaved_without_recompute_does_not_fit() -> None:
    assert _memory("glm-4.5", "h200", 128, "tp=4 pp=16 ep=8 first=4 last=4 vpp=2").p_fits[0] < 0.5


def test_glm_45_reference_needs_the_experts_recomputed() -> None:
    texts = (f"{REFERENCE} recompute=core_attn", f"{REFERENCE} recompute=core_attn,moe")
    chances = _memory("glm-4.5", "h200", 128, *texts).p_fits
    assert chances[0] < 0.05
    assert chances[1] > 0.9


@pytest.mark.parametrize("degrees", ["cp=4 rows=8", "cp=4 rows=6", "cp=8 rows=8"])
def test_glm_52_fits_with_offload_only(degrees: str) -> None:
    base = f"tp=4 pp=2 ep=32 first=38 last=40 recompute=full {degrees}"
    estimate = _memory(
        "glm-5.2", "b200", 64, f"{base} offload=0.9", f"{base} offload=0", framework="slime"
    )
    assert estimate.p_fits[0] > 0.7
    assert estimate.p_fits[1] < 0.01
    assert estimate.host_gib[0] > estimate.host_gib[1] + 500


def test_parts_add_up_and_only_existing_stages_count() -> None:
    estimate = _memory("glm-4.5", "h200", 128, WINNER, "tp=8 pp=4 ep=8 recompute=full")
    assert np.allclose(sum(estimate.parts.values()), estimate.allocated)
    assert (estimate.allocated <= estimate.reserved).all()
    assert (estimate.device[0] > estimate.reserved[0]).all()
    assert not estimate.device[1, 4:].any()
    assert estimate.peak_gib[0] == estimate.device[0, estimate.stage[0]]


@pytest.mark.parametrize("name", model_names())
def test_every_model_and_knob_gives_finite_sizes(name: str) -> None:
    model = load_model(name)
    texts = [
        "tp=1 pp=1",
        "tp=2 pp=2",
        "tp=2 pp=2 vpp=2",
        "tp=4 pp=2 cp=2",
        "tp=1 pp=4 recompute=full",
    ]
    texts += ["tp=2 pp=2 recompute=full method=block recompute_layers=1", "tp=2 pp=1 offload=0.5"]
    texts += [f"tp=2 pp=1 recompute={x}" for x in ("core_attn", "mlp", "moe,layernorm", "moe_act")]
    if model.experts:
        texts += [
            "tp=1 pp=2 ep=4",
            "tp=2 pp=2 ep=2 etp=2 dispatcher=flex",
            "tp=2 ep=4 dispatcher=allgather",
        ]
    table = LayoutTable.of([parse_layout(text) for text in texts])
    for precision in ("bf16", "fp32", "fp8"):
        workload = Workload(precision=precision)  # type: ignore[arg-type]
        estimate = estimate_memory(model, load_cluster("h100", 64), workload, table)
        exists = np.arange(table.pp.max())[None, :] < table.pp[:, None]
        assert np.isfinite(estimate.device).all()
        assert (estimate.allocated[exists] > 0).all()


def test_recompute_and_sharding_only_lower_the_peak() -> None:
    base = "tp=4 pp=4 ep=8"
    texts = [base, f"{base} recompute=moe_act", f"{base} recompute=moe", f"{base} recompute=full"]
    peaks = _memory("glm-4.5", "h200", 128, *texts).peak_gib
    assert (np.diff(peaks) < 0).all()
    wider = _memory("llama-3.1-70b", "h100", 64, "tp=1 pp=4", "tp=2 pp=4", "tp=4 pp=4").peak_gib
    assert (np.diff(wider) < 0).all()


def test_block_recompute_lies_between_none_and_all() -> None:
    base = "tp=4 pp=4 recompute=full"
    block = [f"{base} method=block recompute_layers={x}" for x in (5, 10, 20)]
    none, *some, whole = _memory("llama-3.1-70b", "h100", 64, "tp=4 pp=4", *block, base).peak_gib
    assert none > some[0] > some[1] > some[2]
    assert some[2] == pytest.approx(whole, rel=0.05)


def test_a_table_gives_what_its_rows_give() -> None:
    texts = (WINNER, f"{REFERENCE} recompute=core_attn", "tp=8 pp=4 ep=8 vpp=1 rows=2")
    together = _memory("glm-4.5", "h200", 128, *texts)
    for index, text in enumerate(texts):
        alone = _memory("glm-4.5", "h200", 128, text)
        assert together.peak_gib[index] == pytest.approx(alone.peak_gib[0], rel=1e-12)
        assert together.p_fits[index] == pytest.approx(alone.p_fits[0], rel=1e-9)


def test_calibration_scales_the_peak_and_narrows_it() -> None:
    model, cluster = load_model("glm-4.5"), load_cluster("h200", 128)
    table = LayoutTable.of([parse_layout(WINNER)])
    raw = estimate_memory(model, cluster, Workload(), table)
    seen = Observation(parts={}, predicted_s=0.0, predicted_gib=100.0, measured_gib=90.0)
    calibration: Calibration = learn(NO_CALIBRATION, [seen, seen])
    learnt = estimate_memory(model, cluster, Workload(), table, calibration)
    assert 0.88 < learnt.allocated.max() / raw.allocated.max() < 0.95
    assert learnt.sigma[0] < raw.sigma[0]


CPU_PEAKS = [
    # GiB above the baseline, the highest rank of each stage; attune's worker, 5 steps, no limit.
    ("tiny-moe", "tp=2 pp=2", 4, (0.0233, 0.0227)),
    ("tiny-moe", "tp=1", 4, (0.0341,)),
    ("tiny-moe", "rows=4", 4, (0.0508,)),
    ("tiny-moe", "tp=2 pp=2 rows=16", 4, (0.0450, 0.0498)),
    ("tiny-moe", "pp=4 rows=16", 4, (0.0449, 0.0475, 0.0478, 0.0509)),
    ("tiny-moe", "tp=1", 1, (0.0420,)),
    ("tiny-moe", "tp=4", 4, (0.0241,)),
    ("tiny-moe", "pp=4", 4, (0.0204, 0.0192, 0.0162, 0.0163)),
    ("tiny-moe", "ep=4", 4, (0.0308,)),
    ("tiny-moe", "ep=4 rows=4", 4, (0.0505,)),
    ("tiny-dense", "tp=1", 4, (0.0309,)),
]


@pytest.mark.parametrize("case", CPU_PEAKS, ids=lambda c: f"{c[0]} {c[1]} on {c[2]}")
def test_resident_peaks_of_the_worker_on_cpu(
    case: tuple[str, str, int, tuple[float, ...]],
) -> None:
    name, text, count, measured = case
    model, cluster = load_model(name), load_cluster("cpu", count)
    table = LayoutTable.of([parse_layout(text)])
    estimate = estimate_memory(model, cluster, Workload(**(model.workload or {})), table)
    assert estimate.device[0] == pytest.approx(measured, rel=0.16)
    assert estimate.peak_gib[0] == pytest.approx(max(measured), rel=0.15)
    assert (estimate.p_fits[0] > 0.5) == (max(measured) < cluster.gpu.memory_gib)


def test_unknown_framework_is_refused() -> None:
    with pytest.raises(AttuneError, match="no framework named"):
        _memory("glm-4.5", "h200", 128, WINNER, framework="nothing")
