from __future__ import annotations

import pytest

from attune.estimate import estimate_step_time
from attune.layout import LayoutTable, parse_layout
from attune.verbs.report_schedule import schedule_of
from attune.verbs.target import find_target


@pytest.fixture(scope="module")
def target():
    return find_target("glm-4.5", "h200", 128)


def test_no_pipeline_no_schedule(target):
    assert schedule_of(target, parse_layout("tp=8 ep=16")) is None


def test_the_schedule_of_a_pipeline(target):
    layout = parse_layout("tp=4 pp=16 ep=8 first=5 last=3 sp=true")
    found = schedule_of(target, layout)
    assert found.microbatches == 64 and len(found.busy_s) == 16
    assert len(found.drawn) <= 1_500 and found.drawn_microbatches >= layout.pp
    told = estimate_step_time(
        target.model, target.cluster, target.workload, LayoutTable.of([layout])
    )
    parts = sum(float(told.parts[n][0]) for n in ("data", "optimizer", "offload"))
    assert found.total_s == pytest.approx(float(told.total[0]) - parts, rel=0.1)
    assert max(found.busy_s) < found.total_s


def test_interleaved_and_wide_pipelines_stay_small(target):
    for words in ("tp=1 pp=4 vpp=2 ep=8", "tp=1 pp=64 ep=2", "tp=2 pp=4 vpp=23 ep=8"):
        found = schedule_of(target, parse_layout(words))
        assert found is not None and len(found.drawn) <= 1_500
        assert found.drawn_of == 2 * parse_layout(words).vpp * (
            parse_layout(words).pp * found.drawn_microbatches
        )
        assert all(done.end_s >= done.start_s for done in found.drawn)
