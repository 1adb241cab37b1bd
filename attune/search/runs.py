"""One run of a campaign, from the proposal to what it taught."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

from attune.experiment import Experiment, Inputs
from attune.experiment.events import Event, Finished, Interrupted, Progress, Proposed
from attune.experiment.requests import is_asked_to_stop
from attune.layout import parse_layout, write_layout
from attune.search.candidates import Candidates
from attune.search.progress import Standing
from attune.search.study import Parameters, abandon, enqueue, restore, tell, trial_id
from attune.trial.bad_nodes import FAILURES, bad_nodes
from attune.trial.job import Job, Purpose, Virtual
from attune.trial.launchers import Launcher
from attune.trial.result import Step, TrialResult
from attune.trial.runner import Steps, follow, read_result, resume, spent_s

if TYPE_CHECKING:
    import optuna

PRUNE_FACTOR = 1.25
"""A candidate slower than this many times the best is stopped early."""
PRUNE_AFTER = 5
"""Steady steps that a candidate may show before it is judged slow."""

Events = Generator[Event, None, None]


class Runs:
    """Runs jobs one after another and writes down what happens."""

    def __init__(
        self,
        experiment: Experiment,
        inputs: Inputs,
        launcher: Launcher,
        candidates: Candidates,
        study: optuna.Study,
    ) -> None:
        self.experiment = experiment
        self.inputs = inputs
        self.launcher = launcher
        self.candidates = candidates
        self.study = study
        self._events: list[Event] = experiment.events()

    @property
    def standing(self) -> Standing:
        """Where the campaign stands now."""
        return Standing(self._events, self.candidates.limit_gib)

    def record(self, event: Event) -> Event:
        """Journals `event` and gives it back, to be yielded."""
        self._events.append(event)
        return self.experiment.append(event)

    def run(
        self,
        row: int,
        purpose: Purpose,
        why: str,
        *,
        believed: Candidates | None = None,
        trial: int | None = None,
        expected_gain: float | None = None,
    ) -> Events:
        """Runs candidate `row`.

        Args:
            row: which candidate.
            purpose: what the run is for.
            why: the reason, for people.
            believed: the candidates with calibrated predictions; asked of the sampler by default.
            trial: number of the run's trial in the study, if it has one.
            expected_gain: expected gain over the best so far, as a fraction.

        Raises:
            KeyboardInterrupt: after the run is stopped and written down as cancelled.
        """
        number = self.standing.next_run
        if left_out := self._bad_nodes():
            why += f"; without {', '.join(left_out)}: {FAILURES} infrastructure failures there"
        if trial is not None:
            self.study._storage.set_trial_user_attr(trial_id(self.study, trial), "run", number)
        proposed = Proposed(
            run=number,
            purpose=purpose,
            layout=write_layout(self.candidates.table.row(row)),
            why=why,
            predicted=(believed or self._believed()).prediction(row),
            expected_gain=expected_gain,
        )
        yield self.record(proposed)
        # Counted by layout, so that a run which a kill cut short changes no later one.
        repeat = sum(run.layout == proposed.layout for run in self.standing.runs)
        job = self.job(row, purpose, repeat)
        try:
            result = yield from self._follow(job, number)
        except KeyboardInterrupt:
            self._finish_interrupted(proposed)
            raise
        yield self._finish(proposed, result, trial)

    def _believed(self) -> Candidates:
        """The candidates with predictions calibrated by the runs so far."""
        believed: Candidates = self.study.sampler.scores(self.study).believed
        return believed

    def job(self, row: int, purpose: Purpose, repeat: int = 0) -> Job:
        """The job of candidate `row`; the hidden worker options are for candidates alone.

        `repeat` is how many runs of this layout ended before.
        """
        inputs = self.inputs
        return Job(
            model=inputs.model,
            cluster=inputs.cluster,
            workload=inputs.workload,
            layout=self.candidates.table.row(row),
            framework=inputs.framework,
            setup=inputs.setup,
            purpose=purpose,
            run=repeat,
            limit_s=self._limit_s(),
            virtual=Virtual(kind=inputs.virtual, seed=inputs.seed),
            worker_options={} if purpose == "reference" else dict(inputs.worker_options),
        )

    def job_of(self, run: Finished) -> Job:
        """The job of a run that ended."""
        row = self.candidates.find(parse_layout(run.layout))
        assert row is not None, "every run is of a candidate"
        return self.job(row, run.purpose)

    def result(self, run: int) -> TrialResult | None:
        """What run `run` left behind."""
        return read_result(self.experiment.run_folder(run))

    def hours_left(self) -> float:
        """GPU-hours that the budget still holds."""
        if self.inputs.gpu_hours is None:
            return float("inf")
        return self.inputs.gpu_hours - self.standing.gpu_hours

    def expected_hours(self, row: int) -> float:
        """GPU-hours that a run of candidate `row` is expected to take, start-up included."""
        return self.start_hours() + self._step_hours(float(self.candidates.step_s[row]))

    def start_hours(self) -> float:
        """GPU-hours before the first step, known from runs that ended by themselves; a run at its
        time limit says nothing."""
        overhead = [
            run.gpu_hours - self._step_hours(run.step_time_s or 0.0)
            for run in self.standing.runs
            if run.outcome not in ("timed_out", "pruned")
        ]
        return max(overhead, default=0.0)

    def recover(self) -> Events:
        """Settles the run that was in flight when attune last died, and what was only asked for."""
        self._restore_study()
        if proposed := self.standing.in_flight():
            yield from self._settle(proposed)
        abandon(self.study)

    def _restore_study(self) -> None:
        """Teaches the study the runs that it does not know: its file was lost."""
        parameters = Parameters(self.candidates.table)
        for run in self.standing.runs:
            if run.purpose == "confirmation" or self._trial_of(run.run) is not None:
                continue
            result = self.result(run.run)
            row = self.candidates.find(parse_layout(run.layout))
            if result is not None and row is not None:
                space = parameters.distributions()
                trial = restore(self.study, run.run, parameters.of(row), space)
                tell(self.study, trial, result, self.candidates.limit_gib)

    def _settle(self, proposed: Proposed) -> Events:
        result = self.result(proposed.run)
        trial = self._trial_of(proposed.run)
        if result is None:
            result = yield from self._go_on(proposed)
        if result is not None and result.outcome != "cancelled":
            yield self._finish(proposed, result, trial)
            return
        yield self._finish_interrupted(proposed)
        if proposed.purpose == "candidate" and trial is not None:
            # Runs again at once: what was begun is what the sampler wanted next.
            parameters = self.study.trials[trial].params
            enqueue(self.study, parameters, f"run {proposed.run} again, which was interrupted")

    def _go_on(self, proposed: Proposed) -> Generator[Event, None, TrialResult | None]:
        """The result of a run that outlived the attune that started it; None where none did."""
        row = self.candidates.find(parse_layout(proposed.layout))
        if row is None:
            return None
        job = self.job(row, proposed.purpose)
        steps = resume(
            job,
            self.launcher,
            self.experiment.run_folder(proposed.run),
            asked_to_stop=self._is_asked_to_stop,
        )
        if steps is None:
            return None
        return (yield from self._watch(steps, job, proposed.run))

    def _bad_nodes(self) -> tuple[str, ...]:
        """Nodes that failed runs again and again: they get no more."""
        failed = (run.run for run in self.standing.runs if run.outcome == "infrastructure")
        return bad_nodes(filter(None, map(self.result, failed)))

    def _is_asked_to_stop(self) -> bool:
        return is_asked_to_stop(self.experiment)

    def _finish_interrupted(self, proposed: Proposed) -> Event:
        from optuna.trial import TrialState

        trial = self._trial_of(proposed.run)
        if trial is not None:
            self.study.tell(trial, state=TrialState.FAIL, skip_if_finished=True)
        seconds = spent_s(self.experiment.run_folder(proposed.run))
        hours = seconds * self.inputs.cluster.count / 3600
        return self.record(Interrupted(run=proposed.run, layout=proposed.layout, gpu_hours=hours))

    def _follow(self, job: Job, number: int) -> Generator[Event, None, TrialResult]:
        folder = self.experiment.run_folder(number)
        launcher = self.launcher.excluding(self._bad_nodes())
        steps = follow(job, launcher, folder, asked_to_stop=self._is_asked_to_stop)
        return (yield from self._watch(steps, job, number))

    def _watch(self, steps: Steps, job: Job, number: int) -> Generator[Event, None, TrialResult]:
        keep: bool | None = None
        seen: list[Step] = []
        while True:
            try:
                step = steps.send(keep)
            except StopIteration as stop:
                result: TrialResult = stop.value
                return result
            seen.append(step)
            keep = job.purpose != "candidate" or not self._is_slow(seen)
            yield Progress(
                run=number,
                step=step.step,
                steps=job.workload.steps,
                seconds=step.seconds,
                loss=step.loss,
            )

    def _is_slow(self, seen: list[Step]) -> bool:
        best = self.standing.best
        first = -(-self.inputs.workload.steps // 4)
        steady = sorted(s.seconds for s in seen if s.step >= first)
        if best is None or best.step_time_s is None or len(steady) < PRUNE_AFTER:
            return False
        return steady[len(steady) // 2] > PRUNE_FACTOR * best.step_time_s

    def _finish(self, proposed: Proposed, result: TrialResult, trial: int | None) -> Event:
        if trial is not None:
            tell(self.study, trial, result, self.candidates.limit_gib)
        before = self.standing.best
        time = result.step_time_s if result.outcome == "completed" else None
        beats = time is not None and (
            before is None or before.step_time_s is None or time < before.step_time_s
        )
        return self.record(
            Finished(
                run=proposed.run,
                purpose=proposed.purpose,
                layout=proposed.layout,
                outcome=result.outcome,
                log_class=result.log_class,
                evidence=result.evidence,
                advice=result.advice,
                step_time_s=time,
                step_time_cv_percent=result.step_time_cv_percent,
                tokens_per_s_per_gpu=result.tokens_per_s_per_gpu if time else None,
                peak_gib=result.peak_reserved_gib,
                gpu_hours=result.gpu_hours,
                predicted=proposed.predicted,
                provenance=result.provenance,
                best=beats and proposed.purpose in ("candidate", "reference"),
            )
        )

    def _limit_s(self) -> float:
        left = self.hours_left() * 3600 / self.inputs.cluster.count
        return min(self.inputs.trial_limit_s, max(left, 1.0))

    def _step_hours(self, step_s: float) -> float:
        return step_s * self.inputs.workload.steps * self.inputs.cluster.count / 3600

    def _trial_of(self, run: int) -> int | None:
        trials = self.study.get_trials(deepcopy=False)
        # The last one: a process killed before its proposal leaves a number to be used again.
        return next((t.number for t in reversed(trials) if t.user_attrs.get("run") == run), None)
