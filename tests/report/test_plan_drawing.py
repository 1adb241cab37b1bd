from __future__ import annotations

from dataclasses import replace

from attune.report.explanation import (
    BrokenRule,
    Explanation,
    Sizes,
    StageMemory,
    draw_explanation,
)
from attune.report.plan import Funnel, Plan, Suggestion, draw_plan
from attune.workload import Workload

LAYOUT = "tp=4 pp=16 ep=8 first=5 last=3 recompute=full recompute_method=uniform offload=1"
SUGGESTION = Suggestion(
    layout=LAYOUT,
    label="TP4 PP16 VPP2 CP2 EP8 DP2",
    step_s=38.04,
    low_s=33.0,
    high_s=44.0,
    tokens_per_s_per_gpu=215.4,
    usd_per_million_tokens=10.2,
    mfu=0.0429,
    reserved_gib=119.0,
    peak_gib=121.5,
    limit_gib=139.8,
    stage=1,
    p_fits=0.93,
)


def a_plan() -> Plan:
    rules = {f"rule.number_{i}": 100 - i for i in range(12)}
    return Plan(
        model="GLM-4.5",
        gpu="H200",
        count=128,
        workload=Workload(),
        space="moe",
        funnel=Funnel(drawn=123_456, legal=9_000, fitting=700, broken=rules),
        best=(SUGGESTION,) * 10,
    )


def test_plan_shows_funnel_best_and_provenance(drawn):
    text = drawn(draw_plan, a_plan())
    assert "123,456 drawn, 9,000 legal, 700 predicted to fit" in text
    assert "rule.number_0" in text and "4 more rules" in text
    assert "predicted (no trial ran)" in text and "limit 139.8 GiB" in text
    for figure in ("215", "38.0", "33.0 to 44.0", "10.200", "4.3 %", "121.5", "93 %"):
        assert figure in text


def test_what_to_do_next_names_a_model_as_it_was_asked_for(drawn):
    text = drawn(draw_plan, replace(a_plan(), asked_model="./my model/config.json"))
    assert "attune tune -m './my model/config.json' -g H200 -n 128\n" in text


def test_plan_says_what_to_do_next(drawn):
    text = drawn(draw_plan, replace(a_plan(), workload=Workload(global_batch=2048)))
    asked = "-m GLM-4.5 -g H200 -n 128 --global-batch 2048"
    assert f"attune explain {asked} -l '{LAYOUT}'" in text
    assert f"attune tune {asked}\n" in text


def test_plan_fits_80_columns_and_layouts_can_be_copied(drawn):
    text = drawn(draw_plan, a_plan())
    long = [line for line in text.splitlines() if len(line) > 80]
    assert all(LAYOUT in line for line in long)
    assert sum(LAYOUT in line for line in text.splitlines()) == 11


def an_explanation(**changes) -> Explanation:
    fields = {
        "model": "GLM-4.5",
        "gpu": "H200",
        "count": 128,
        "workload": Workload(),
        "layout": LAYOUT,
        "label": SUGGESTION.label,
        "broken": (),
        "sizes": Sizes(
            dp=2,
            edp=1,
            microbatches=64,
            layers_per_stage=((5,), (6,), (3,)),
            tokens_per_microbatch_per_gpu=8192,
            idle_share=0.1899,
        ),
        "estimated": LAYOUT,
        "prediction": SUGGESTION,
        "memory": tuple(
            StageMemory(
                stage=stage,
                parts=dict.fromkeys(
                    (
                        "weights",
                        "gradients",
                        "optimizer",
                        "activations",
                        "transient",
                        "workspace",
                    ),
                    120.25,
                ),
                allocated_gib=100.0,
                reserved_gib=110.0,
                device_gib=121.5,
            )
            for stage in range(16)
        ),
        "host_gib": 512.0,
        "step_parts": {"compute": 30.0, "expert_all_to_all": 8.04, "offload": 0.0},
    }
    return Explanation(**fields | changes)


def test_explanation_shows_sizes_memory_and_time(drawn):
    text = drawn(draw_explanation, an_explanation())
    assert "legal: no rule is broken" in text
    assert "19.0 %" in text and "8,192" in text and "layers per stage: 5 | 6 | 3" in text
    assert "worst stage 1 needs" in text and "P(fits) 93 %" in " ".join(text.split())
    assert "expert all to all" in text and "78.9 %" in text and "offload  " not in text
    assert text.count("predicted") >= 2


def test_memory_table_fits_80_columns(drawn):
    text = drawn(draw_explanation, an_explanation())
    rows = [line for line in text.splitlines() if "120.2" in line or "stage " in line]
    assert len(rows) >= 16 and max(map(len, rows)) <= 80
    assert "…" not in text


def test_broken_rules_come_with_their_cures(drawn):
    broken = BrokenRule(
        rule="pp.layers_divide",
        message="92 layers do not divide into 16 stages",
        cure="give first=5 last=3",
        cured="tp=4 pp=16 first=5 last=3",
        verdict="illegal",
    )
    silent = BrokenRule(
        rule="x.y", message="drops", cure="use pp=8", cured=None, verdict="silently_wrong"
    )
    text = drawn(draw_explanation, an_explanation(broken=(broken, silent), estimated="tp=4 pp=8"))
    assert "illegal: 2 rules broken" in text
    assert "cure: give first=5 last=3" in text and "then: tp=4 pp=16 first=5 last=3" in text
    assert "accepts it and trains another model" in text
    assert "Estimates are for the cured layout: tp=4 pp=8" in text


def test_explanation_without_estimates_can_be_drawn(drawn):
    bare = an_explanation(sizes=None, prediction=None, memory=(), step_parts={}, estimated=None)
    assert "Memory" not in drawn(draw_explanation, bare)
