"""Rules: known layouts, versions, frameworks, and that every cure cures."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from attune.catalog import Model, load_cluster, load_model
from attune.layout import Layout, LayoutTable, parse_layout
from attune.layout.rules import RULES, Setting, broken_rules, check
from attune.workload import Workload

MODELS = {
    name: load_model(name)
    for name in ("glm-4.5", "glm-5.2", "qwen3-8b", "gpt-oss-120b", "tiny-moe", "deepseek-v3")
}


def setting(name: str = "glm-4.5", count: int = 128, **values: object) -> Setting:
    return Setting(model=MODELS[name], count=count, workload=Workload(), **values)  # type: ignore[arg-type]


def ids(where: Setting, text: str | Layout) -> list[str]:
    layout = parse_layout(text) if isinstance(text, str) else text
    return [x.rule.id for x in broken_rules(where, layout)]


MODULES = ("core_attn", "mlp", "moe", "moe_act", "mla_up_proj", "shared_experts", "nonsense")
TEXTS = (None, "Et*45|t*47L", "E|t*92|L", "Et*92|L", "(tt|)*3", "rubbish", "E||t*92L", "Et*92mL")


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    degree = st.sampled_from([1, 1, 2, 3, 4, 8, 16, 24, 32, 0, -1, 7, 10**12])
    count = st.one_of(st.none(), st.integers(-1, 100))
    switch = st.booleans()
    return Layout(
        tp=draw(degree),
        pp=draw(degree),
        vpp=draw(degree),
        cp=draw(degree),
        ep=draw(degree),
        etp=draw(degree),
        sequence_parallel=draw(switch),
        rows_per_microbatch=draw(degree),
        first=draw(count),
        last=draw(count),
        pipeline_layout=draw(st.sampled_from(TEXTS)),
        recompute=draw(st.sampled_from(["none", "selective", "full"])),
        recompute_modules=tuple(sorted(draw(st.sets(st.sampled_from(MODULES))))),
        recompute_method=draw(st.sampled_from([None, "uniform", "block"])),
        recompute_layers=draw(st.sampled_from([None, 0, 1, 4])),
        optimizer_offload=draw(st.sampled_from([0.0, 0.9, 1.5, -1.0])),
        precision_aware_optimizer=draw(switch),
        dispatcher=draw(st.sampled_from(["alltoall", "allgather", "flex"])),
        overlap_shared_experts=draw(switch),
        overlap_experts=draw(switch),
        overlap_gradients=draw(switch),
        overlap_parameters=draw(switch),
        overlap_tensor=draw(switch),
        cuda_graphs=draw(switch),
        delayed_weight_gradients=draw(switch),
        distributed_optimizer=draw(switch),
    )


@st.composite
def any_setting(draw: st.DrawFn) -> Setting:
    return Setting(
        model=MODELS[draw(st.sampled_from(sorted(MODELS)))],
        count=draw(st.sampled_from([1, 8, 24, 96, 128])),
        workload=Workload(
            row_tokens=draw(st.sampled_from([8192, 4096, 8195])),
            global_batch=draw(st.sampled_from([128, 1, 12, 127])),
            precision=draw(st.sampled_from(["bf16", "fp32"])),
        ),
        architecture=draw(st.sampled_from(["hopper", "cpu"])),
        framework=draw(st.sampled_from(["megatron-core", "miles"])),
        version=draw(st.sampled_from([(0, 12), (0, 15), (0, 16), (0, 17), (0, 18)])),
    )


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(any_setting(), layouts())
def test_each_cure_makes_its_rule_hold(where: Setting, layout: Layout) -> None:
    for broken in broken_rules(where, layout):
        assert broken.message and "\n" not in broken.message
        if broken.rule.id == "cpu.model":
            assert broken.cured is None
            continue
        assert broken.cured is not None and broken.cure, broken.rule.id
        assert bool(broken.rule.holds(where, LayoutTable.of([broken.cured]))[0]), broken.rule.id


@settings(max_examples=60, deadline=None)
@given(any_setting(), st.lists(layouts(), min_size=1, max_size=8))
def test_a_table_is_judged_as_its_rows_are(where: Setting, rows: list[Layout]) -> None:
    judgement = check(where, LayoutTable.of(rows))
    for index, row in enumerate(rows):
        named = [RULES[i].id for i in judgement.broken[:, index].nonzero()[0]]
        assert named == ids(where, row)
        first = judgement.first[index]
        assert (RULES[first].id if first >= 0 else None) == (named[0] if named else None)
    assert sum(judgement.counts().values()) == int((~judgement.legal).sum())


def test_ids_are_unique_and_every_rule_says_where_it_comes_from() -> None:
    assert len({rule.id for rule in RULES}) == len(RULES)
    assert all(rule.source and "." in rule.id for rule in RULES)


@pytest.mark.parametrize(
    ("model", "count", "framework", "text"),
    [
        ("glm-4.5", 128, "miles", "tp=4 pp=16 ep=8 first=5 last=3"),
        (
            "glm-4.5",
            128,
            "miles",
            "tp=2 pp=8 first=10 last=10 ep=16 recompute=core_attn,moe overlap_shared_experts=on",
        ),
        (
            "glm-5.2",
            64,
            "miles",
            "tp=4 pp=2 first=38 last=40 cp=4 ep=32 rows=6 recompute=full offload=0.9",
        ),
        (
            "glm-5.2",
            64,
            "slime",
            "tp=4 pp=2 first=38 last=40 cp=8 ep=32 rows=8 recompute=full offload=0.9",
        ),
    ],
)
def test_published_layouts_are_legal(model: str, count: int, framework: str, text: str) -> None:
    assert ids(setting(model, count, framework=framework), text) == []


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("tp=3 pp=4", "grid.world_divides"),
        ("tp=4 pp=8", "pp.layers_divide"),
        ("tp=4 pp=1 vpp=2", "vpp.needs_pipeline"),
        ("tp=4 pp=4 vpp=3", "vpp.layers_divide"),
        ("tp=4 pp=2 first=10 last=10", "pp.counts_leave_middle"),
        ("tp=4 pp=1 first=10 last=10", "pp.one_stage_no_counts"),
        ("tp=4 pp=4 first=60 last=60", "pp.counts_within_layers"),
        ("tp=4 pp=2 vpp=2 first=46 last=46", "vpp.two_stages_one_count"),
        ("tp=4 pp=4 rows=3", "batch.rows_divide"),
        ("tp=4 pp=16 vpp=2 first=6 last=2 rows=8", "vpp.microbatches"),
        ("tp=4 pp=4 sp=off", "sp.experts_need_it"),
        ("tp=4 pp=4 ep=12", "ep.experts_divide"),
        ("tp=4 pp=4 dispatcher=flex ep=1", "dispatcher.flex_needs_ranks"),
        ("tp=4 pp=4 ep=8 overlap_experts=on", "overlap.experts_need_virtual_stages"),
        (
            "tp=4 pp=4 ep=8 offload=0.9 precision_aware_optimizer=off",
            "optimizer.offload_needs_precision_aware",
        ),
        ("tp=4 pp=2 layout=Et*45|t*46L", "pipeline_layout.complete"),
        ("tp=4 pp=2 layout=Et*46|t*46L first=46", "pipeline_layout.no_counts"),
        ("tp=4 pp=2 layout=Et*46|x*46L", "pipeline_layout.grammar"),
        ("tp=4 pp=4 layout=Et*46|t*46L", "pipeline_layout.stages_divide"),
        ("tp=4 pp=4 layout=Et*46|t*46||L", "pipeline_layout.no_empty_stage"),
    ],
)
def test_a_broken_rule_is_named(text: str, rule: str) -> None:
    assert rule in ids(setting(), text)


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"first": 0, "last": 3}, "pp.counts_positive"),
        (
            {"recompute": "full", "recompute_method": "uniform", "recompute_layers": 0},
            "recompute.layers_positive",
        ),
        (
            {"pp": 2, "vpp": 1, "pipeline_layout": "Et*23|t*23|t*23|t*23L"},
            "pipeline_layout.virtual_stages_agree",
        ),
    ],
)
def test_what_no_one_line_says_is_refused_too(changes: dict[str, Any], rule: str) -> None:
    layout = replace(parse_layout("tp=4 pp=4"), **changes)
    assert rule in ids(setting(), layout)


def test_attunes_own_trainer_reduces_experts_over_their_group() -> None:
    text = "tp=4 pp=4 ep=1 etp=1"
    assert ids(setting(framework="megatron-lm"), text) == ["etp.gradient_group"]
    assert ids(setting(framework="miles"), text) == ["etp.gradient_group"]
    assert ids(setting(), text) == []


def test_query_groups_by_version() -> None:
    wide = "tp=16 ep=8"
    assert "tp.query_groups_divide" in ids(setting(version=(0, 15)), wide)
    assert not [x for x in ids(setting(version=(0, 16)), wide) if x.startswith("tp.")]


def test_flex_with_shared_overlap_by_version() -> None:
    text = "tp=4 pp=4 ep=8 dispatcher=flex overlap_shared_experts=on"
    assert "dispatcher.shared_overlap_alltoall" in ids(setting(), text)
    assert ids(setting(version=(0, 18)), text) == []


def test_packing_frameworks_take_any_rows_but_no_gradient_overlap() -> None:
    text = "tp=4 pp=4 ep=8 rows=3 overlap_gradients=on"
    assert ids(setting(), text) == ["batch.rows_divide"]
    assert ids(setting(framework="slime"), text) == ["overlap.gradients_crash"]


def test_every_stage_of_an_indexer_model_starts_on_a_computing_layer() -> None:
    where = setting("glm-5.2", 64, framework="miles")
    assert ids(where, "tp=4 pp=2 ep=8") == ["indexer.stage_starts"]
    assert ids(where, "tp=4 pp=2 ep=8 first=38 last=40") == []
    assert ids(where, "tp=4 pp=4 ep=8 first=18") == []
    assert ids(where, "tp=4 pp=8 ep=8 first=14 last=16") == []


def test_cpu_takes_no_expert_tensor_parallel_and_leaves_gpus_alone() -> None:
    cluster = load_cluster("cpu", 4)
    tiny = Setting.of(MODELS["tiny-moe"], cluster, Workload(global_batch=16))
    assert ids(tiny, "tp=2 ep=2 etp=2") == ["cpu.expert_tensor_parallel"]
    assert ids(tiny, "tp=2 ep=2") == []
    latent: Model = MODELS["deepseek-v3"]
    assert "cpu.model" in ids(replace(tiny, model=latent), "tp=2 ep=2")
    on_gpu = Setting.of(latent, load_cluster("h200", 8), Workload())
    assert ids(on_gpu, "tp=2 ep=2 rows=1") == []
