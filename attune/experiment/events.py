"""What a campaign does, as events; a line of `journal.jsonl` is one of them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from attune.trial.job import Purpose
from attune.trial.result import Outcome, Provenance


class _Event(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class Prediction(_Event):
    """What the estimator says of one layout, before it runs. Provenance: predicted."""

    step_s: float
    low_s: float
    high_s: float
    """80 % interval of the step time."""
    peak_gib: float
    """Device memory of the worst stage."""
    p_fits: float


class Started(_Event):
    """The campaign begins, or goes on after `--resume`."""

    kind: Literal["started"] = "started"
    experiment: str
    model: str
    gpu: str
    count: int
    launcher: str
    launcher_reason: str
    provenance: Provenance
    """What its trials will be: `measured`, or `predicted` on a virtual cluster."""
    workload: str
    trials: int
    gpu_hours: float | None
    seed: int
    resumed: bool = False


class Enumerated(_Event):
    """The funnel from the search space to the candidates."""

    kind: Literal["enumerated"] = "enumerated"
    space: str
    drawn: int
    legal: int
    fitting: int
    """Layouts predicted to fit with P(fits) of at least one half."""
    candidates: int
    """Layouts left to search: P(fits) of at least 1 %."""
    cut: dict[str, int]
    """Layouts refused, by the id of the first rule broken."""


class ReferenceChosen(_Event):
    """The trusted layout that every gain is measured against."""

    kind: Literal["reference_chosen"] = "reference_chosen"
    layout: str
    source: str


class Proposed(_Event):
    """A run is about to start."""

    kind: Literal["proposed"] = "proposed"
    run: int
    """Number of the run in this campaign; names its directory."""
    purpose: Purpose
    layout: str
    why: str
    predicted: Prediction
    expected_gain: float | None = None
    """Expected gain of this trial over the best so far, as a fraction."""


class Probed(_Event):
    """The memory of a candidate was probed on a part of the cluster before its trial."""

    kind: Literal["probed"] = "probed"
    number: int
    """Number of the probe in this campaign; names its directory."""
    layout: str
    fits: bool | None
    """False where the rank ran out of memory; None where the probe itself failed."""
    peak_gib: float | None
    """Reserved peak of the rank that was played."""
    p_fits: float
    """Believed before the probe."""
    gpu_hours: float
    spared_gpu_hours: float = 0.0
    """What the trial would have cost that the probe showed to be out of memory."""
    provenance: Provenance
    evidence: str = ""


class Progress(_Event):
    """One step of the run in flight; drawn, not journaled."""

    kind: Literal["progress"] = "progress"
    run: int
    step: int
    steps: int
    seconds: float
    loss: float | None


class Finished(_Event):
    """A run ended."""

    kind: Literal["finished"] = "finished"
    run: int
    purpose: Purpose
    layout: str
    outcome: Outcome
    log_class: str | None = None
    evidence: str = ""
    advice: str = ""
    step_time_s: float | None = None
    step_time_cv_percent: float | None = None
    tokens_per_s_per_gpu: float | None = None
    peak_gib: float | None = None
    """Largest reserved peak that a rank reported."""
    gpu_hours: float
    predicted: Prediction
    provenance: Provenance
    best: bool = False
    """Whether it is the fastest candidate so far."""


class Interrupted(_Event):
    """A run that was in flight when attune died; found on resume."""

    kind: Literal["interrupted"] = "interrupted"
    run: int
    layout: str
    gpu_hours: float


class Finding(_Event):
    """A symptom of one run, as the advisor sees it."""

    symptom: str
    detail: str
    strength: float
    """Share of the step time, or of the memory."""


class Hypothesis(_Event):
    """What one change should bring, to be tested by a trial."""

    number: int
    base: int
    """Run that is changed."""
    layout: str
    """Layout that tests it: the base with one knob turned."""
    knob: str
    symptom: str
    words: str
    expected_percent: float
    """Expected gain in tokens/s/GPU over the base. Provenance: predicted."""
    low_percent: float
    high_percent: float
    """80 % interval."""
    source: Literal["rules", "llm"]


class Advised(_Event):
    """What the advisor makes of a run that ended."""

    kind: Literal["advised"] = "advised"
    run: int
    findings: tuple[Finding, ...]
    hypothesis: Hypothesis | None = None
    problem: str = ""
    """Why the rules stand in for the language model; empty when they do not."""


class Judged(_Event):
    """What the trial of a hypothesis showed."""

    kind: Literal["judged"] = "judged"
    hypothesis: int
    run: int
    verdict: Literal["confirmed", "refuted", "unclear"]
    expected_percent: float
    measured_percent: float | None
    """Gain of the run over the base; None where it gave no figure."""
    words: str


class Contribution(_Event):
    """What one knob contributes to the winner's gain over the reference."""

    knob: str
    percent: float
    """Share of the gain in tokens/s/GPU, percent of the reference's; all add up to the gain."""
    provenance: Provenance
    """`predicted` where a layout of its paths was not run, or ran on a virtual cluster."""
    deviation_percent: float
    """Standard deviation by the noise of the runs; of the estimate where it is predicted."""
    before: str
    after: str
    """The knob's fields in the reference and in the winner."""
    runs: tuple[int, ...] = ()
    """Runs of the step on the path told."""
    before_tokens: float | None = None
    after_tokens: float | None = None
    """Tokens/s/GPU before and after the step on that path, of its runs; None where predicted."""


class Attributed(_Event):
    """Where the winner's gain over the reference comes from."""

    kind: Literal["attributed"] = "attributed"
    reference: str
    winner: str
    total_percent: float
    orders: int
    """Paths from reference to winner that were averaged."""
    contributions: tuple[Contribution, ...]


class Stopped(_Event):
    """No further candidate is tried, and why."""

    kind: Literal["stopped"] = "stopped"
    reason: str
    expected_gain: float | None = None


class CheckResult(_Event):
    """One correctness check of the winner against the reference arm."""

    name: str
    status: Literal["passed", "failed", "not run"]
    detail: str = ""


class Verified(_Event):
    """The checks of one candidate; it is refused when one failed."""

    kind: Literal["verified"] = "verified"
    run: int
    layout: str
    passed: bool
    checks: tuple[CheckResult, ...]


class Gain(_Event):
    """The winner against another arm."""

    over: str
    """`reference`, or `estimator's first choice`."""
    layout: str
    tokens_per_s_per_gpu: float | None
    percent: float | None
    """Gain in tokens/s/GPU, percent; None where the other arm gave no figure."""


class Completed(_Event):
    """The campaign is over."""

    kind: Literal["completed"] = "completed"
    winner: str | None
    """Layout of the winner; None when no candidate completed."""
    winner_run: int | None
    tokens_per_s_per_gpu: float | None
    step_time_s: float | None
    peak_gib: float | None
    usd_per_million_tokens: float | None
    mfu: float | None
    status: Provenance
    gains: tuple[Gain, ...]
    recipe: str | None
    """Path of the recipe, relative to the experiment."""
    gpu_hours: float
    problem: str = ""
    """Why there is no winner, or which check failed; empty when all is well."""


Event = Annotated[
    Started
    | Enumerated
    | ReferenceChosen
    | Proposed
    | Probed
    | Progress
    | Finished
    | Interrupted
    | Advised
    | Judged
    | Attributed
    | Stopped
    | Verified
    | Completed,
    Field(discriminator="kind"),
]
EVENT: TypeAdapter[Event] = TypeAdapter(Event)
"""Reads one journal line: `EVENT.validate_json(line)`."""
