"""The campaign: reference, candidates, winner, proof, recipe.

Everything it decides follows from the journal and the study, so it may be killed at any moment
and goes on where it was.
"""

from __future__ import annotations

from collections.abc import Generator

from attune.errors import AttuneError
from attune.experiment import Experiment
from attune.experiment.events import (
    Completed,
    Enumerated,
    Event,
    Finished,
    ReferenceChosen,
    Started,
    Stopped,
)
from attune.layout import Layout, parse_layout, write_layout
from attune.search.candidates import Candidates, find_candidates
from attune.search.progress import RETRIES, last, machine_fault
from attune.search.reference import Reference, choose_reference, nearest_safe, with_reference
from attune.search.runs import Runs
from attune.search.sampler import FiniteSampler
from attune.search.study import enqueue, open_study
from attune.search.winner import crown
from attune.trial.launchers import load_launcher

FEWEST_TRIALS = 3
"""Candidates that must have completed before a small expected gain ends the search."""
MOST_FAULTS = 3
"""Faults of the machine in a row that end the campaign."""
REFERENCE_TRIES = 3

Events = Generator[Event, None, None]


def run_campaign(experiment: Experiment, *, resumed: bool = False) -> Events:
    """Runs or goes on with the campaign of `experiment`; the last event is `Completed`.

    Raises:
        AttuneError: the experiment is locked, or its space differs from when it began.
        NothingFoundError: no legal layout, or none that fits.
        KeyboardInterrupt: passed on after the run in flight is stopped and written down.
    """
    with experiment.locked():
        experiment.mend_journal()
        yield from Campaign(experiment).events(resumed)


class Campaign:
    """One campaign over one finite table."""

    def __init__(self, experiment: Experiment) -> None:
        self.experiment = experiment
        self.inputs = experiment.inputs()
        self.launcher = load_launcher(self.inputs.launcher)

    def events(self, resumed: bool) -> Events:
        """Everything that happens, as it happens."""
        inputs = self.inputs
        yield self.experiment.append(self._started(resumed))
        done = last(self.experiment.events(), Completed)
        if isinstance(done, Completed):
            yield done
            return
        funnel = find_candidates(
            inputs.model, inputs.cluster, inputs.workload, inputs.space, dict(inputs.fixed)
        )
        yield self.experiment.append(
            Enumerated(
                space=inputs.space.name,
                drawn=funnel.drawn,
                legal=funnel.legal,
                fitting=funnel.fitting,
                candidates=len(funnel.candidates),
                cut=funnel.cut,
            )
        )
        reference = self._reference(funnel.candidates)
        yield self.experiment.append(
            ReferenceChosen(layout=write_layout(reference.layout), source=reference.source)
        )
        candidates = with_reference(
            inputs.model, inputs.cluster, inputs.workload, funnel.candidates, reference.layout
        )
        self._same_table(candidates)
        self.candidates = candidates
        self.sampler = FiniteSampler(candidates, inputs.model.layers)
        self.study = open_study(self.experiment.study_path, self.sampler)
        self.runs = Runs(self.experiment, inputs, self.launcher, candidates, self.study)
        yield from self.runs.recover()
        yield from self._run_reference(reference)
        yield from self._run_candidates()
        yield from crown(self.runs)

    def _started(self, resumed: bool) -> Started:
        i = self.inputs
        w = i.workload
        return Started(
            experiment=self.experiment.name,
            model=i.model.name,
            gpu=i.cluster.gpu.name,
            count=i.cluster.count,
            launcher=i.launcher,
            launcher_reason=i.launcher_reason,
            provenance=self.launcher.provenance,
            workload=f"{w.row_tokens:,}-token rows, global batch {w.global_batch}, "
            f"{w.precision}, {w.steps} steps, rows {w.rows}",
            trials=i.trials,
            gpu_hours=i.gpu_hours,
            seed=i.seed,
            resumed=resumed,
        )

    def _reference(self, candidates: Candidates) -> Reference:
        chosen = last(self.experiment.events(), ReferenceChosen)
        if isinstance(chosen, ReferenceChosen):
            return Reference(layout=parse_layout(chosen.layout), source=chosen.source)
        asked = self.inputs.reference
        return choose_reference(
            self.inputs.model,
            self.inputs.cluster,
            candidates,
            parse_layout(asked) if asked else None,
            self.inputs.reference_source,
        )

    def _same_table(self, candidates: Candidates) -> None:
        digest = candidates.digest()
        if not self.inputs.table_digest:
            self.inputs = self.inputs.model_copy(update={"table_digest": digest})
            self.experiment.write_inputs(self.inputs)
        elif self.inputs.table_digest != digest:
            raise AttuneError(
                f"the candidates of `{self.experiment.name}` differ from when it began "
                "(another version of attune or of the space); start a new experiment, "
                "or install the version in its experiment.yaml"
            )

    def _run_reference(self, reference: Reference) -> Events:
        """Runs the reference, or the next nearest that fits when it runs out of memory."""
        layout = reference.layout
        if self._row(layout) is not None:
            hours = self.runs.expected_hours(self._row(layout) or 0)
            if not self.runs.standing.runs and hours > self.runs.hours_left():
                raise AttuneError(
                    f"--gpu-hours {self.inputs.gpu_hours} is less than one run needs "
                    f"(about {hours:.2f}); allow more, or fewer --steps"
                )
        while True:
            tried = [r for r in self.runs.standing.runs if r.purpose == "reference"]
            if self.runs.standing.reference or len(tried) >= REFERENCE_TRIES:
                return
            if tried and not machine_fault(tried[-1]):
                layout = self._next_reference(layout, tried)
            row = self._row(layout)
            if row is None:
                return
            enqueue(self.study, self.sampler.parameters.of(row), "the trusted arm")
            trial = self.study.ask(self.sampler.parameters.distributions())
            yield from self.runs.run(
                row, "reference", "the trusted arm runs first", trial=trial.number
            )

    def _next_reference(self, layout: Layout, tried: list[Finished]) -> Layout:
        failed = {self._row(parse_layout(r.layout)) for r in tried}
        roomy = self.candidates.device_gib < 0.9 * min(
            float(self.candidates.device_gib[row]) for row in failed if row is not None
        )
        if not roomy.any():
            return layout
        return nearest_safe(parse_layout(tried[0].layout), self.candidates.take(roomy))

    def _row(self, layout: Layout) -> int | None:
        return self.candidates.find(layout)

    def _run_candidates(self) -> Events:
        if isinstance(last(self.experiment.events(), Stopped), Stopped):
            return
        self._enqueue_first_choice()
        while True:
            scores = self.sampler.scores(self.study)
            reason = self._reason_to_stop(scores.best(), scores.expected_gain)
            if reason:
                stopped = Stopped(reason=reason, expected_gain=scores.expected_gain)
                yield self.runs.record(stopped)
                return
            trial = self.study.ask(self.sampler.parameters.distributions())
            row = self.sampler.parameters.row(trial.params)
            assert row is not None, "the sampler knows no other rows"
            why = trial.user_attrs.get("why") or (
                f"expected gain {scores.gain[row]:.1%}, P(fits) {scores.p_fits[row]:.0%}"
            )
            yield from self.runs.run(
                row,
                "candidate",
                why,
                trial=trial.number,
                expected_gain=float(scores.gain[row]),
            )
            self._again_after_fault(row)

    def _enqueue_first_choice(self) -> None:
        row = self.candidates.first_choice()
        if self.sampler.scores(self.study).free[row]:
            enqueue(self.study, self.sampler.parameters.of(row), "the estimator's first choice")

    def _again_after_fault(self, row: int) -> None:
        run = self.runs.standing.runs[-1]
        attempts = self.runs.standing.attempts(run.layout, "candidate")
        if machine_fault(run) and attempts <= RETRIES:
            enqueue(
                self.study,
                self.sampler.parameters.of(row),
                f"run {run.run} again: {run.outcome} is not the layout's fault",
            )

    def _reason_to_stop(self, row: int, gain: float) -> str:
        standing = self.runs.standing
        if standing.candidates_tried >= self.inputs.trials:
            return f"{self.inputs.trials} trials done"
        if row < 0:
            return "every candidate has been tried"
        faults = [machine_fault(r) for r in standing.runs[-MOST_FAULTS:]]
        if len(faults) == MOST_FAULTS and all(faults):
            return f"{MOST_FAULTS} faults of the machine in a row: {standing.runs[-1].evidence}"
        needed = self.runs.expected_hours(row)
        if standing.best:
            needed += standing.best.gpu_hours  # The winner is run once more.
        if needed > self.runs.hours_left():
            return (
                f"{self.runs.hours_left():.2f} GPU-hours are left and the next trial with the "
                f"winner's second run needs about {needed:.2f}"
            )
        if len(standing.completed("candidate")) >= FEWEST_TRIALS and gain < self.inputs.min_gain:
            return f"another trial is expected to gain {gain:.2%}, less than --min-gain"
        return ""
