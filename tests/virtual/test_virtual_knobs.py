"""Each knob moves time and memory the way that it should."""

from __future__ import annotations

import pytest

from attune.catalog import load_cluster, load_model
from attune.layout import LayoutTable, parse_layout, stage_splits
from attune.virtual import VirtualCluster
from attune.virtual.memory import stage_memory
from attune.virtual.step_time import step_time
from attune.workload import Workload

MOE = "tp=4 pp=8 ep=16 first=10 last=10"
SEEDS = (0, 1)
SLOWER, FASTER, SAME = "slower", "faster", "same"
MORE, LESS = "more", "less"

CASES = [
    (MOE, "recompute=moe_act", SLOWER, LESS),
    (MOE, "recompute=layernorm", SLOWER, LESS),
    (MOE, "recompute=moe", SLOWER, LESS),
    (MOE, "recompute=shared_experts", SLOWER, LESS),
    (MOE, "recompute=core_attn", SLOWER, LESS),
    (MOE, "recompute=full", SLOWER, LESS),
    (MOE, "recompute=full recompute_layers=5 method=block", SLOWER, LESS),
    (MOE, "offload=0.5", SLOWER, LESS),
    (MOE, "precision_aware_optimizer=on", FASTER, LESS),
    (MOE, "distributed_optimizer=off", SLOWER, MORE),
    (MOE, "sp=off", SLOWER, MORE),
    (MOE, "overlap_gradients=on", FASTER, SAME),
    (MOE, "overlap_parameters=on", FASTER, SAME),
    (MOE, "overlap_tensor=on", FASTER, SAME),
    (MOE, "overlap_shared_experts=on", FASTER, MORE),
    (MOE, "overlap_experts=on", FASTER, MORE),
    (MOE, "dispatcher=flex", FASTER, MORE),
    (MOE, "cuda_graphs=on", FASTER, MORE),
    ("tp=4 pp=4 ep=16", "vpp=23", FASTER, MORE),
]


def _measure(text: str, seed: int, model: str = "glm-4.5", **workload: str) -> tuple[float, float]:
    """Seconds of a step without hidden interactions, and peak GiB."""
    cluster = VirtualCluster(
        load_model(model),
        load_cluster("h200", 128),
        Workload.model_validate(workload),
        seed=seed,
    )
    table = LayoutTable.of([parse_layout(text)])
    setting, splits = cluster.setting(table), stage_splits(cluster.model, table)
    seconds = float(step_time(setting, splits, ("near", seed))[0])
    return seconds, float(stage_memory(setting, splits).device.max())


def _compare(before: tuple[float, float], after: tuple[float, float]) -> tuple[str, str]:
    time, memory = after[0] / before[0] - 1, after[1] / before[1] - 1
    words = SLOWER if time > 0 else FASTER if time < 0 else SAME
    return words, MORE if memory > 1e-9 else LESS if memory < -1e-9 else SAME


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("base", "knob", "time", "memory"), CASES)
def test_a_knob_moves_time_and_memory(
    base: str, knob: str, time: str, memory: str, seed: int
) -> None:
    moved = _compare(_measure(base, seed), _measure(f"{base} {knob}", seed))
    assert moved == (time, memory)


@pytest.mark.parametrize("seed", SEEDS)
def test_block_recompute_lies_between_none_and_full(seed: int) -> None:
    none, full = _measure(MOE, seed), _measure(MOE + " recompute=full", seed)
    some = _measure(MOE + " recompute=full recompute_layers=5 method=block", seed)
    assert none[0] < some[0] < full[0]
    assert none[1] > some[1] > full[1]


@pytest.mark.parametrize("seed", SEEDS)
def test_host_copies_overlap_a_little(seed: int) -> None:
    plain = _measure(MOE + " offload=1", seed)
    overlapped = _measure(MOE + " offload=1 overlap_offload=on", seed)
    assert 0.8 < overlapped[0] / plain[0] < 1
    assert _measure(MOE + " offload=0.5", seed)[0] < plain[0]


@pytest.mark.parametrize("seed", SEEDS)
def test_delayed_weight_gradients_help_the_expert_overlap(seed: int) -> None:
    plain = _measure(MOE + " overlap_experts=on", seed)
    delayed = _measure(MOE + " overlap_experts=on delayed_weight_gradients=on", seed)
    assert _compare(plain, delayed) == (FASTER, MORE)


@pytest.mark.parametrize("seed", SEEDS)
def test_context_parallelism_saves_memory_of_long_rows(seed: int) -> None:
    one = _measure("tp=4 pp=8", seed, "llama-3.1-70b", row_tokens="65536")
    four = _measure("tp=4 pp=8 cp=4", seed, "llama-3.1-70b", row_tokens="65536")
    assert four[1] < one[1]


@pytest.mark.parametrize("seed", SEEDS)
def test_latent_attention_recomputes_its_up_projection(seed: int) -> None:
    base = "tp=4 pp=4 ep=16 pipeline_layout=Et*15|t*16|t*15|t*15L"
    plain = _measure(base, seed, "deepseek-v3")
    less = _measure(base + " recompute=mla_up_proj", seed, "deepseek-v3")
    assert _compare(plain, less) == (SLOWER, LESS)


@pytest.mark.parametrize("seed", SEEDS)
def test_balanced_routing_is_faster_and_smaller(seed: int) -> None:
    assert _compare(_measure(MOE, seed), _measure(MOE, seed, routing="balanced")) == (FASTER, LESS)


@pytest.mark.parametrize("seed", SEEDS)
def test_expert_tensor_parallelism_splits_the_experts(seed: int) -> None:
    base = "tp=2 pp=8 ep=8 first=10 last=10 recompute=full"
    assert _measure(base + " etp=2", seed)[1] < _measure(base, seed)[1]


@pytest.mark.parametrize("seed", SEEDS)
def test_gathering_all_tokens_does_not_suit_few_experts_per_token(seed: int) -> None:
    base = "tp=1 pp=4 ep=8"
    moved = _measure(base + " dispatcher=allgather", seed, "mixtral-8x7b")
    assert _compare(_measure(base, seed, "mixtral-8x7b"), moved) == (SLOWER, MORE)


@pytest.mark.parametrize("seed", SEEDS)
def test_experts_across_nodes_are_slower(seed: int) -> None:
    base = "tp=4 pp=4 recompute=full"
    assert _measure(base + " ep=8", seed)[0] < _measure(base + " ep=32", seed)[0]
