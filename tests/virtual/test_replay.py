from __future__ import annotations

import time

import numpy as np
import pytest

from attune.virtual.replay import pipeline_ends, replay
from attune.virtual.schedule import plan_schedule


def _uniform(pp: int, vpp: int, forward: float, backward: float) -> np.ndarray:
    durations = np.full((2, vpp, pp, 1), forward)
    durations[1] = backward
    return durations


@pytest.mark.parametrize(("pp", "microbatches"), [(1, 5), (2, 2), (4, 8), (16, 64)])
def test_uniform_1f1b_is_the_closed_form(pp: int, microbatches: int) -> None:
    ends = replay(plan_schedule(pp, 1, microbatches), _uniform(pp, 1, 1.0, 2.0), np.zeros((pp, 1)))
    assert ends.max() == pytest.approx((microbatches + pp - 1) * 3.0)


def test_interleaving_divides_idle_time_by_its_chunks() -> None:
    plain = replay(plan_schedule(8, 1, 16), _uniform(8, 1, 4.0, 8.0), np.zeros((8, 1))).max()
    ideal = 16 * 12.0
    for vpp in (2, 4):
        durations = _uniform(8, vpp, 4.0 / vpp, 8.0 / vpp)
        ends = replay(plan_schedule(8, vpp, 16), durations, np.zeros((8, 1))).max()
        assert ends - ideal == pytest.approx((plain - ideal) / vpp)


def test_the_slowest_stage_sets_the_pace() -> None:
    durations = _uniform(4, 1, 1.0, 2.0)
    durations[:, :, 2] *= 2
    ends = replay(plan_schedule(4, 1, 32), durations, np.zeros((4, 1))).max()
    assert 32 * 6.0 <= ends <= 32 * 6.0 + 3 * 3.0


def test_delays_lengthen_the_way_in_and_out() -> None:
    durations, delays = _uniform(4, 1, 1.0, 2.0), np.full((4, 1), 0.25)
    ends = replay(plan_schedule(4, 1, 1), durations, delays).max()
    assert ends == pytest.approx(4 * 3.0 + 6 * 0.25)


def test_one_slow_microbatch_delays_the_step_once() -> None:
    plan = plan_schedule(4, 1, 8)
    durations = np.repeat(_uniform(4, 1, 1.0, 2.0)[:, :, :, None], 8, axis=3)
    usual = replay(plan, durations, np.zeros((4, 1))).max()
    durations[:, :, 1, 5] += 0.5
    assert usual < replay(plan, durations, np.zeros((4, 1))).max() <= usual + 1.0


@pytest.mark.parametrize(("pp", "vpp"), [(1, 1), (2, 1), (4, 1), (8, 1), (4, 2), (8, 3)])
def test_steady_state_agrees_with_the_whole_replay(pp: int, vpp: int) -> None:
    random = np.random.default_rng(pp + vpp)
    durations = random.uniform(0.8, 1.2, (2, vpp, pp, 1)) * random.uniform(0.9, 1.1, (1, 1, pp, 20))
    delays = random.uniform(0, 0.05, (pp, 20))
    microbatches = 48 * pp
    whole = pipeline_ends(durations, delays, microbatches, whole=True).max(axis=0)
    steady = pipeline_ends(durations, delays, microbatches, whole=False).max(axis=0)
    assert np.abs(steady / whole - 1).max() < 0.005


def test_many_layouts_equal_one_at_a_time() -> None:
    random = np.random.default_rng(0)
    durations, delays = random.uniform(1, 2, (2, 2, 4, 600)), random.uniform(0, 0.1, (4, 600))
    together = pipeline_ends(durations, delays, 8, whole=True)
    for index in (0, 255, 256, 599):
        one = slice(index, index + 1)
        alone = pipeline_ends(durations[..., one], delays[:, one], 8, whole=True)
        assert together[:, one] == pytest.approx(alone)


def test_a_replay_of_sixteen_stages_takes_milliseconds() -> None:
    durations, delays = _uniform(16, 1, 1.0, 2.0), np.zeros((16, 1))
    plan_schedule.cache_clear()
    best = np.inf
    for _ in range(5):
        begin = time.process_time()
        pipeline_ends(durations, delays, 64, whole=True)
        best = min(best, time.process_time() - begin)
    assert best < 0.02
