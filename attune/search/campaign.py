"""The campaign: reference, candidates, winner, proof, recipe.

Everything it decides follows from the journal and the study, so it may be killed at any moment
and goes on where it was.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator

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
from attune.experiment.requests import forget_requests
from attune.layout import Layout, parse_layout, write_layout
from attune.layout.nearest import nearest_layout
from attune.search.advisers import load_adviser
from attune.search.advisor import Advisor
from attune.search.candidates import Candidates, Funnel, find_candidates
from attune.search.prober import load_prober
from attune.search.probes import Probes
from attune.search.progress import RETRIES, last, machine_fault
from attune.search.reference import Reference, choose_reference, nearest_safe, with_reference
from attune.search.runs import Runs
from attune.search.sampler import FiniteSampler
from attune.search.stopping import reason_to_stop
from attune.search.study import enqueue, open_study, readable_study
from attune.search.winner import crown
from attune.trial.launchers import load_launcher

REFERENCE_TRIES = 3
"""Runs of the reference arm before the campaign goes on without one."""
ROOMIER = 0.9
"""Share of the memory of a reference that did not fit which the next may be predicted to need."""

Events = Generator[Event, None, None]


def run_campaign(experiment: Experiment, *, resumed: bool = False) -> Events:
    """Runs or goes on with the campaign of `experiment`; the last event is `Completed`.

    Raises:
        AttuneError: the experiment is locked or damaged, or its space differs from when it began.
        NothingFoundError: no legal layout, or none that fits.
        KeyboardInterrupt: passed on after the run in flight is stopped and written down.
    """
    with experiment.locked(), readable_study(experiment.study_path):
        experiment.mend_journal()
        forget_requests(experiment)
        try:
            yield from Campaign(experiment).events(resumed)
        finally:
            forget_requests(experiment)


class Campaign:
    """One campaign over one finite table."""

    def __init__(self, experiment: Experiment) -> None:
        self.experiment = experiment
        self.inputs = experiment.inputs()
        self.launcher = load_launcher(self.inputs.launcher, self.inputs.launcher_options)

    def events(self, resumed: bool) -> Events:
        """Everything that happens, as it happens."""
        inputs = self.inputs
        started = self._started(resumed)
        done = last(self.experiment.events(), Completed)
        if done is not None:
            # Not journaled: the journal of a campaign that is over ends with its result.
            yield from (started, done)
            return
        self._same_provenance()
        yield self.experiment.append(started)
        about = (inputs.model, inputs.planned_cluster, inputs.workload)
        funnel = find_candidates(
            *about,
            inputs.space,
            dict(inputs.fixed),
            calibration=inputs.known,
            framework=inputs.framework,
            framework_version=inputs.setup.version,
        )
        yield self.experiment.append(_enumerated(inputs.space.name, funnel))
        reference = self._reference(funnel.candidates)
        yield self.experiment.append(
            ReferenceChosen(layout=write_layout(reference.layout), source=reference.source)
        )
        self._open(funnel.candidates, reference)
        yield from self.runs.recover()
        yield from self._run_reference(reference)
        yield from self._run_candidates()
        yield from crown(self.runs)

    def _open(self, found: Candidates, reference: Reference) -> None:
        """The candidates, and the sampler, study and runs over them."""
        inputs = self.inputs
        self.candidates = with_reference(
            inputs.model,
            inputs.planned_cluster,
            inputs.workload,
            found,
            reference.layout,
            calibration=inputs.known,
            framework=inputs.framework,
            framework_version=inputs.setup.version,
        )
        self._same_table(self.candidates)
        self.sampler = FiniteSampler(self.candidates, inputs.model.layers, inputs.known)
        self.study = open_study(self.experiment.study_path, self.sampler)
        self.runs = Runs(self.experiment, self.inputs, self.launcher, self.candidates, self.study)
        self.probes = Probes(self.runs, load_prober(inputs, self.launcher))
        self.advisor = Advisor(self.runs, load_adviser(self.inputs.advisor, self.experiment))

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

    def _same_provenance(self) -> None:
        """Figures of hardware and of a virtual cluster never stand in one campaign."""
        runs = [e for e in self.experiment.events() if isinstance(e, Finished)]
        others = {run.provenance for run in runs} - {self.launcher.provenance}
        if others:
            raise AttuneError(
                f"`{self.experiment.name}` holds {others.pop()} runs, and its launcher "
                f"`{self.inputs.launcher}` would add {self.launcher.provenance} ones; put the "
                "launcher in experiment.yaml back, or start a new experiment"
            )

    def _run_reference(self, reference: Reference) -> Events:
        """Runs the reference, or the next nearest that fits when it runs out of memory."""
        why = "the trusted arm runs first"
        while not self.runs.standing.reference:
            tried = [r for r in self.runs.standing.runs if r.purpose == "reference"]
            row = self._reference_row(reference, tried)
            if row is None or len(tried) >= REFERENCE_TRIES or not self._affordable(row):
                return
            enqueue(self.study, self.sampler.parameters.of(row), why)
            trial = self.study.ask(self.sampler.parameters.distributions())
            yield from self.runs.run(row, "reference", why, trial=trial.number)

    def _reference_row(self, reference: Reference, tried: list[Finished]) -> int | None:
        """The layout to run as reference; None where no roomier one is left."""
        if not tried:
            return self._row(reference.layout)
        rows = [self._row(parse_layout(run.layout)) for run in tried]
        if machine_fault(tried[-1]):
            return rows[-1]
        roomy = self.candidates.device_gib < ROOMIER * self.candidates.device_gib[rows].min()
        if not roomy.any():
            return None
        return self._row(nearest_safe(reference.layout, self.candidates.take(roomy)))

    def _affordable(self, row: int) -> bool:
        """Whether the budget holds a run of `row`.

        Raises:
            AttuneError: it holds no run at all.
        """
        hours = self.runs.expected_hours(row)
        if hours <= self.runs.hours_left():
            return True
        if self.runs.standing.runs:
            return False
        raise AttuneError(
            f"--gpu-hours {self.inputs.gpu_hours} is less than one run needs "
            f"(about {hours:.2f}); allow more, or fewer --steps"
        )

    def _row(self, layout: Layout) -> int:
        row = self.candidates.find(layout)
        assert row is not None, "references are candidates"
        return row

    def _run_candidates(self) -> Events:
        if isinstance(last(self.experiment.events(), Stopped), Stopped):
            return
        self._enqueue_first()
        while True:
            yield from self.advisor.events(self.sampler.scores(self.study))
            scores = self.sampler.scores(self.study)
            row = scores.next()
            reason = reason_to_stop(self.runs, row, scores.expected_gain)
            if reason:
                stopped = Stopped(reason=reason, expected_gain=scores.expected_gain)
                yield self.runs.record(stopped)
                return
            if self.probes.worth(row, scores):
                yield self.probes.buy(row, scores)
                continue
            trial = self.study.ask(self.sampler.parameters.distributions())
            assert trial.params == self.sampler.parameters.of(row), "one process asks"
            why = trial.user_attrs.get("why") or (
                f"expected gain {scores.gain[row]:.1%}, P(fits) {scores.believed.p_fits[row]:.0%}"
            )
            yield from self.runs.run(
                row,
                "candidate",
                why,
                believed=scores.believed,
                trial=trial.number,
                expected_gain=float(scores.gain[row]),
            )
            self._again_after_fault(row)

    def _enqueue_first(self) -> None:
        """Puts in line what is tried before the sampler chooses, unless it was tried already."""
        free = self.sampler.scores(self.study).free
        for row, why in self._first():
            if free[row]:
                enqueue(self.study, self.sampler.parameters.of(row), why)

    def _first(self) -> Iterator[tuple[int, str]]:
        if self.inputs.warm_start:
            wanted = parse_layout(self.inputs.warm_start)
            row = nearest_layout(wanted, self.candidates.table)
            moved = "" if self.candidates.find(wanted) is not None else ", nearest that may fit"
            yield row, f"warm start: {self.inputs.warm_start_source}{moved}"
        yield self.candidates.first_choice(), "the estimator's first choice"

    def _again_after_fault(self, row: int) -> None:
        run = self.runs.standing.runs[-1]
        faults = self.runs.standing.faults(run.layout, "candidate")
        if machine_fault(run) and faults <= RETRIES:
            why = f"run {run.run} again: {run.outcome} is not the layout's fault"
            enqueue(self.study, self.sampler.parameters.of(row), why)


def _enumerated(space: str, funnel: Funnel) -> Enumerated:
    return Enumerated(
        space=space,
        drawn=funnel.drawn,
        legal=funnel.legal,
        fitting=funnel.fitting,
        candidates=len(funnel.candidates),
        cut=funnel.cut,
    )
