from __future__ import annotations

import pytest

from attune.layout import Layout, parse_layout
from attune.verbs.explain import explain, read_layout
from attune.verbs.target import find_target


@pytest.fixture(scope="module")
def glm():
    return find_target("glm-4.5", "h200", 128)


def test_derived_sizes_of_a_published_layout(glm):
    found = explain(glm, parse_layout("tp=4 pp=16 ep=8 first=5 last=3"))
    assert found.legal and found.estimated == found.layout
    assert (found.sizes.dp, found.sizes.edp, found.sizes.microbatches) == (2, 1, 64)
    assert found.sizes.layers_per_stage == ((5,), *((6,),) * 14, (3,))
    assert found.sizes.tokens_per_microbatch_per_gpu == 8192
    assert found.sizes.idle_share == pytest.approx(15 / 79)


def test_memory_and_time_add_up(glm):
    found = explain(glm, parse_layout("tp=4 pp=16 ep=8 first=5 last=3"))
    assert sum(found.step_parts.values()) == pytest.approx(found.prediction.step_s)
    assert len(found.memory) == 16
    for stage in found.memory:
        assert sum(stage.parts.values()) == pytest.approx(stage.allocated_gib)
        assert stage.allocated_gib <= stage.reserved_gib <= stage.device_gib
    worst = max(stage.device_gib for stage in found.memory)
    assert found.prediction.peak_gib == pytest.approx(worst)
    assert found.prediction.low_s < found.prediction.step_s < found.prediction.high_s


def test_figures_agree_with_each_other(glm):
    found = explain(glm, parse_layout("tp=4 pp=16 ep=8 first=5 last=3")).prediction
    assert found.tokens_per_s_per_gpu == pytest.approx(8192 * 128 / found.step_s / 128)
    price = glm.cluster.gpu.usd_per_gpu_hour / (found.tokens_per_s_per_gpu * 3600 / 1e6)
    assert found.usd_per_million_tokens == pytest.approx(price)


def test_illegal_layout_names_every_rule_and_is_cured(glm):
    found = explain(glm, parse_layout("tp=4 pp=16 ep=7"))
    rules = {broken.rule for broken in found.broken}
    assert not found.legal and len(rules) >= 2
    assert found.estimated != found.layout and found.prediction
    assert all(broken.message for broken in found.broken)


@pytest.mark.parametrize(
    "degrees", [{"tp": 256, "pp": 16}, {"tp": 0}, {"pp": -1}, {"vpp": 0}, {"cp": 1_000_000}]
)
def test_absurd_degrees_are_explained(glm, degrees):
    found = explain(glm, Layout(**degrees))
    assert not found.legal and found.provenance == "predicted"


def test_layout_of_a_recipe_without_one_is_refused(tmp_path):
    from attune.errors import AttuneError

    path = tmp_path / "recipe.yaml"
    path.write_text("a: 1\n")
    with pytest.raises(AttuneError):
        read_layout(str(path))
