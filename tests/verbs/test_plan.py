from __future__ import annotations

import re
import time

import pytest

from attune.errors import AttuneError, NothingFoundError
from attune.layout import LayoutTable, parse_layout
from attune.layout.rules import Setting, check
from attune.verbs.explain import explain
from attune.verbs.plan import plan
from attune.verbs.target import find_target


@pytest.fixture(scope="module")
def found():
    return plan(find_target("glm-4.5", "h200", 128))


def test_ten_best_are_legal_and_likely_to_fit(found):
    target = find_target("glm-4.5", "h200", 128)
    setting = Setting.of(target.model, target.cluster, target.workload)
    table = LayoutTable.of([parse_layout(x.layout) for x in found.best])
    assert len(found.best) == 10 and check(setting, table).legal.all()
    assert all(x.p_fits >= 0.5 and x.provenance == "predicted" for x in found.best)


def test_no_two_of_the_best_are_twins(found):
    for place, one in enumerate(found.best):
        for other in found.best[place + 1 :]:
            apart = abs(one.step_s / other.step_s - 1) > 0.009
            apart |= abs(one.peak_gib / other.peak_gib - 1) > 0.04
            assert apart or one.label.partition(" CP")[0] != other.label.partition(" CP")[0]


def test_best_are_in_order_of_expected_speed(found):
    speeds = [x.tokens_per_s_per_gpu * x.p_fits for x in found.best]
    assert speeds == sorted(speeds, reverse=True)


def test_funnel_narrows_and_accounts_for_every_layout(found):
    funnel = found.funnel
    assert funnel.drawn > funnel.legal > funnel.fitting > 10
    assert funnel.drawn == funnel.legal + sum(funnel.broken.values())
    counts = list(funnel.broken.values())
    assert counts == sorted(counts, reverse=True)


def test_plan_answers_quickly():
    target = find_target("glm-4.5", "h200", 128)
    began = time.process_time()
    plan(target)
    assert time.process_time() - began < 3 * 3  # three seconds on a free core


def test_nothing_fits_says_how_far_off():
    with pytest.raises(NothingFoundError, match=r"needs [\d.]+ GiB \([\d.]+ too many\)") as raised:
        plan(find_target("deepseek-v3", "a100-40", 8))
    assert raised.value.exit_code == 1


def test_what_would_fit_is_named_and_does_fit():
    with pytest.raises(NothingFoundError, match="It would fit with") as raised:
        plan(find_target("llama-3.1-70b", "h100", 8))
    count, layout = re.search(r"--count (\d+) \(`(.+?)`\)", str(raised.value)).groups()
    found = explain(find_target("llama-3.1-70b", "h100", int(count)), parse_layout(layout))
    assert found.legal and found.prediction.p_fits >= 0.5


def test_nothing_legal_names_the_commonest_rules(tmp_path):
    space = tmp_path / "space.yaml"
    space.write_text("name: odd\ntp: [7, 9]\n")
    with pytest.raises(NothingFoundError, match=r"legal.*grid\.world_divides"):
        plan(find_target("glm-4.5", "h200", 128), space=str(space))


def test_unknown_dimension_of_a_space_is_named(tmp_path):
    space = tmp_path / "space.yaml"
    space.write_text("name: odd\ntq: [1, 2]\n")
    with pytest.raises(AttuneError, match="tq"):
        plan(find_target("glm-4.5", "h200", 128), space=str(space))


def test_a_precision_that_the_gpu_lacks_is_refused() -> None:
    with pytest.raises(AttuneError, match="no fp8; use bf16"):
        find_target("llama-3.1-8b", "a100-80", 8, changes={"precision": "fp8"})
