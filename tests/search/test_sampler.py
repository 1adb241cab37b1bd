"""The sampler over a finite list, on a small landscape with a biased estimator."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import optuna
import pytest

from attune.estimate.calibration import NAMES
from attune.layout import Layout, LayoutTable
from attune.search.candidates import Candidates
from attune.search.sampler import FiniteSampler
from attune.search.study import abandon, enqueue, open_study, tell
from attune.trial.result import RankMemory, Step, TrialResult

LIMIT_GIB = 100.0
LAYERS = 32


def make_candidates() -> Candidates:
    layouts = [
        Layout(tp=tp, pp=pp, rows_per_microbatch=rows, recompute="full" if full else "none")
        for tp, pp, rows, full in product((1, 2, 4, 8), (1, 2, 4, 8), (1, 2, 4), (False, True))
    ]
    table = LayoutTable.of(layouts)
    step = 10 * (1 + 0.1 * np.log2(table.tp) + 0.05 * np.log2(table.pp))
    step = step * np.where(table.recompute == 2, 1.3, 1.0) / table.rows_per_microbatch**0.1
    memory = 400 * table.rows_per_microbatch / (table.tp * table.pp) ** 0.8
    memory = memory * np.where(table.recompute == 2, 0.4, 1.0)
    return Candidates(
        table=table,
        step_s=step,
        low_s=step * 0.8,
        high_s=step * 1.2,
        reserved_gib=memory,
        device_gib=memory * 1.02,
        p_fits=1 / (1 + np.exp(20 * (memory / LIMIT_GIB - 1))),
        stage=np.zeros(len(table), dtype=np.int64),
        time_shares=np.zeros((len(table), len(NAMES))),
        memory_shares=np.zeros((len(table), 4)),
        limit_gib=LIMIT_GIB,
    )


def true_step(candidates: Candidates) -> np.ndarray:
    """The estimator is 20 % too slow, and wrong about TP."""
    return candidates.step_s * 0.8 * (1 - 0.08 * np.log2(candidates.table.tp))


def result_of(candidates: Candidates, row: int, memory_bias: float = 1.0) -> TrialResult:
    peak = candidates.reserved_gib[row] * memory_bias
    fits = peak <= LIMIT_GIB
    seconds = float(true_step(candidates)[row])
    return TrialResult(
        outcome="completed" if fits else "out_of_memory",
        steps=tuple(Step(step=i, seconds=seconds, loss=5.0) for i in range(20)) if fits else (),
        ranks=(RankMemory(rank=0, stage=0, allocated_gib=peak, reserved_gib=peak),) if fits else (),
        steps_asked=20,
        tokens_per_step=1024,
        gpus=64,
        wall_s=100.0,
        provenance="measured",
        hardware="h200",
        launcher="local",
    )


def play(study: optuna.Study, sampler: FiniteSampler, number: int, bias: float = 1.0) -> list[int]:
    rows = []
    for _ in range(number):
        trial = study.ask(sampler.parameters.distributions())
        row = sampler.parameters.row(trial.params)
        assert row is not None
        rows.append(row)
        tell(study, trial.number, result_of(sampler.candidates, row, bias), LIMIT_GIB)
    return rows


@pytest.fixture
def study_path(tmp_path: Path) -> Path:
    return tmp_path / "study.db"


def test_never_repeats_and_finds_the_best(study_path: Path) -> None:
    sampler = FiniteSampler(make_candidates(), LAYERS)
    rows = play(open_study(study_path, sampler), sampler, 12)
    assert len(set(rows)) == 12
    truth = true_step(sampler.candidates)
    best = truth[sampler.candidates.reserved_gib <= LIMIT_GIB].min()
    found = min(truth[r] for r in rows if sampler.candidates.reserved_gib[r] <= LIMIT_GIB)
    assert found <= best * 1.02


def test_same_history_gives_the_same_choice(tmp_path: Path) -> None:
    choices = []
    for name in ("a.db", "b.db"):
        sampler = FiniteSampler(make_candidates(), LAYERS)
        choices.append(play(open_study(tmp_path / name, sampler), sampler, 5))
    assert choices[0] == choices[1]


def test_a_new_process_goes_on_as_the_old_would(tmp_path: Path) -> None:
    whole_sampler = FiniteSampler(make_candidates(), LAYERS)
    whole = play(open_study(tmp_path / "whole.db", whole_sampler), whole_sampler, 6)
    parts = []
    for _ in range(2):
        sampler = FiniteSampler(make_candidates(), LAYERS)
        parts += play(open_study(tmp_path / "parts.db", sampler), sampler, 3)
    assert parts == whole


def test_trials_in_flight_are_distinct(study_path: Path) -> None:
    sampler = FiniteSampler(make_candidates(), LAYERS)
    study = open_study(study_path, sampler)
    play(study, sampler, 3)
    flying = [study.ask(sampler.parameters.distributions()).params for _ in range(4)]
    assert len({tuple(p.items()) for p in flying}) == 4


def test_enqueued_layouts_come_first(study_path: Path) -> None:
    sampler = FiniteSampler(make_candidates(), LAYERS)
    study = open_study(study_path, sampler)
    study.enqueue_trial(sampler.parameters.of(7))
    assert play(study, sampler, 1) == [7]


def test_out_of_memory_teaches_memory_and_not_time(study_path: Path) -> None:
    sampler = FiniteSampler(make_candidates(), LAYERS)
    study = open_study(study_path, sampler)
    before = sampler.scores(study)
    crowded = int(np.argmin(np.abs(sampler.candidates.device_gib - 95)))
    study.enqueue_trial(sampler.parameters.of(crowded))
    assert play(study, sampler, 1, bias=1.5) == [crowded]
    after = sampler.scores(study)
    assert after.believed.p_fits[crowded] < before.believed.p_fits[crowded]
    assert np.allclose(after.believed.step_s, before.believed.step_s)
    trial = study.trials[-1]
    assert trial.constraints["memory"] > 0 and np.isfinite(trial.value or np.inf)


def test_a_fault_of_the_machine_leaves_the_layout_free(study_path: Path) -> None:
    sampler = FiniteSampler(make_candidates(), LAYERS)
    study = open_study(study_path, sampler)
    trial = study.ask(sampler.parameters.distributions())
    row = sampler.parameters.row(trial.params)
    broken = result_of(sampler.candidates, int(row or 0)).model_copy(
        update={"outcome": "infrastructure"}
    )
    tell(study, trial.number, broken, LIMIT_GIB)
    assert sampler.scores(study).free[row]


def test_expected_gain_shrinks_as_trials_teach(study_path: Path) -> None:
    sampler = FiniteSampler(make_candidates(), LAYERS)
    study = open_study(study_path, sampler)
    play(study, sampler, 1)
    early = sampler.scores(study).expected_gain
    play(study, sampler, 9)
    assert sampler.scores(study).expected_gain < early


def test_one_candidate_is_no_special_case(study_path: Path) -> None:
    sampler = FiniteSampler(make_candidates().take(np.array([0])), LAYERS)
    study = open_study(study_path, sampler)
    assert play(study, sampler, 1) == [0]
    assert sampler.scores(study).best() == -1


def ask_killed(path: Path, sampler: FiniteSampler) -> int:
    """A trial that was asked for by a process that then died."""
    return open_study(path, sampler).ask(sampler.parameters.distributions()).number


def test_a_trial_whose_run_never_began_is_asked_for_again(tmp_path: Path) -> None:
    sampler = FiniteSampler(make_candidates(), LAYERS)
    path = tmp_path / "study.db"
    orphan = ask_killed(path, sampler)
    study = open_study(path, sampler)
    wanted = study.trials[orphan].params
    abandon(study)
    assert sampler.scores(study).free[sampler.parameters.row(wanted)]
    enqueue(study, wanted, "again")
    enqueue(study, wanted, "a second time")
    assert study.trials[orphan].state is optuna.trial.TrialState.FAIL
    assert study.ask(sampler.parameters.distributions()).params == wanted
    states = [t.state for t in study.trials]
    assert optuna.trial.TrialState.WAITING not in states, "one asking waits once"


def test_a_result_told_twice_counts_once(tmp_path: Path) -> None:
    candidates = make_candidates()
    sampler = FiniteSampler(candidates, LAYERS)
    path = tmp_path / "study.db"
    number = ask_killed(path, sampler)
    study = open_study(path, sampler)
    row = sampler.parameters.row(study.trials[number].params)
    assert row is not None
    tell(study, number, result_of(candidates, row), LIMIT_GIB)
    before = study.trials[number].value
    tell(study, number, result_of(candidates, row), LIMIT_GIB)
    assert len(study.trials) == 1 and study.trials[0].value == before


def test_predictions_learn_from_the_runs(study_path: Path) -> None:
    sampler = FiniteSampler(make_candidates(), LAYERS)
    study = open_study(study_path, sampler)
    before = sampler.scores(study).believed
    assert np.allclose(before.step_s, sampler.candidates.step_s)
    rows = play(study, sampler, 3)
    after = sampler.scores(study).believed
    truth = true_step(sampler.candidates)
    others = [i for i in range(len(truth)) if i not in rows]
    error = np.abs(np.log(after.step_s / truth))[others].mean()
    assert error < np.abs(np.log(before.step_s / truth))[others].mean()
    assert (after.low_s < after.step_s).all() and (after.step_s < after.high_s).all()
