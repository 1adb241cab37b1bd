"""Published configs give the published count of parameters, and the catalogue's shapes."""

from __future__ import annotations

import pytest
from published_configs import PUBLISHED, model_of

from attune.catalog import load_model, model_names
from attune.counts import active_parameters, stage_parameters, total_parameters
from attune.layout import Layout, LayoutTable

COUNTED = [name for name, case in PUBLISHED.items() if "parameters" in case]


@pytest.mark.parametrize("name", COUNTED)
def test_total_parameters_equal_the_published_count(name):
    assert total_parameters(model_of(name)) == PUBLISHED[name]["parameters"]


def test_enough_counts_have_a_source_outside():
    outside = [x for x in COUNTED if PUBLISHED[x]["source"].startswith(("keras", "bridge"))]
    assert len(outside) >= 25


@pytest.mark.parametrize("name", COUNTED)
def test_one_rank_holds_the_whole_model(name):
    model = model_of(name)
    counts = stage_parameters(model, LayoutTable.of([Layout()]))
    rows = model.padded_vocabulary(1) - model.vocabulary
    padding = rows * (model.hidden * (1 if model.tied_embeddings else 2) + model.head_bias)
    assert counts.dense[0, 0] == total_parameters(model) + padding


@pytest.mark.parametrize("name", sorted(set(model_names()) & set(PUBLISHED)))
def test_the_catalogue_says_the_same(name):
    ours, read = load_model(name), model_of(name)
    apart = {"id", "name", "aliases", "source", "workload", "mtp_layers", "dense_layers"}
    left, right = ours.model_dump(exclude=apart), read.model_dump(exclude=apart)
    different = {key: (left[key], right[key]) for key in left if left[key] != right[key]}
    assert not different
    assert ours.moe_pattern == read.moe_pattern


def test_active_parameters_of_published_pages():
    assert active_parameters(model_of("glm-4.5")) == 32_854_016_000
    assert active_parameters(model_of("glm-5.2")) == 40_297_758_720
    assert active_parameters(model_of("glm-5")) == 40_831_942_656
