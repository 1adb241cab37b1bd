"""Which checks a layout needs, and what they add up to."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict

from attune.layout import Layout
from attune.recipe.schema import Check
from attune.trial.frameworks import load_framework
from attune.trial.job import Job
from attune.trial.result import Provenance, TrialResult
from attune.verify.checks import CURVES, check_convergence, not_run
from attune.verify.components import component_checks
from attune.verify.configuration import check_configuration, check_reference_differs
from attune.verify.noise import noise_floor
from attune.workload import Workload

ALWAYS = ("configuration", "complete", "megatron_bridge", "layout_bound", "gradient_norm", "drift")
SIMULATED = "simulated: no hardware ran"
PROVES_NOTHING = f"{SIMULATED}, so these checks prove nothing about training"


class Verification(BaseModel):
    """`verification.json`: every check of one candidate, and the verdict."""

    model_config = ConfigDict(frozen=True)

    checks: tuple[Check, ...]
    provenance: Provenance
    """What may be claimed: `verified` only as `verdict` says."""
    note: str = ""
    """What the checks as a whole cannot say, such as that the arms were simulated."""

    @property
    def failed(self) -> tuple[str, ...]:
        """Names of the checks that failed; a layout with one must not be recommended."""
        return tuple(check.name for check in self.checks if check.status == "failed")

    @property
    def missing(self) -> tuple[str, ...]:
        """Names of needed checks that did not run."""
        return tuple(c.name for c in self.checks if c.needed and c.status == "not run")


def verify(
    candidate_job: Job,
    candidate: TrialResult,
    reference_job: Job,
    reference: TrialResult,
    *,
    again: TrialResult | None = None,
    parity: Check | None = None,
    components: Sequence[Check] = (),
) -> Verification:
    """All checks of a candidate run against the reference run, and the verdict.

    `verified` needs both arms measured. Checks of simulated curves that pass are said not to have
    run, since such curves prove nothing; one that fails still fails.

    Args:
        candidate_job, candidate: what the candidate arm was asked, and its run.
        reference_job, reference: the same of the reference arm.
        again: a second run of the reference arm, which shows the machine's own noise.
        parity: the outcome of the parity probe, where both arms ran with it.
        components: results of component tests.
    """
    measured = candidate.provenance == reference.provenance == "measured"
    checks: tuple[Check, ...] = (
        check_configuration(candidate_job, reference_job),
        *_convergence(candidate_job, candidate, reference_job, reference, again),
        parity or _NO_PARITY,
        check_reference_differs(candidate_job.layout, reference_job.layout),
        *component_checks(
            candidate_job.layout,
            candidate_job.workload,
            experts=candidate_job.model.experts is not None,
            results=components,
        ),
    )
    if measured:
        return Verification(checks=checks, provenance=verdict(checks, "measured"))
    return Verification(
        checks=tuple(map(_simulated, checks)), provenance="predicted", note=PROVES_NOTHING
    )


_NO_PARITY = Check(
    name="parity",
    status="not run",
    detail="the arms ran without the probe, as timed runs do; `attune verify recipe` runs it",
    needed=False,
)


def _simulated(check: Check) -> Check:
    if check.status != "passed":
        return check
    detail = f"{SIMULATED}; on simulated curves: passed ({check.detail})"
    return check.model_copy(update={"status": "not run", "detail": detail})


def _convergence(
    candidate_job: Job,
    candidate: TrialResult,
    reference_job: Job,
    reference: TrialResult,
    again: TrialResult | None,
) -> tuple[Check, ...]:
    """Loss curves compare only where both arms had the same rows and the same first weights."""
    ours, theirs = candidate_job.workload, reference_job.workload
    floor = noise_floor(
        ours,
        candidate_job.layout,
        reference_job.layout,
        None if again is None else (reference, again),
    )
    checks = check_convergence(candidate, reference, floor)
    if ours.rows_sha256 != theirs.rows_sha256:
        why = f"the arms trained on other rows: {ours.rows_sha256} against {theirs.rows_sha256}"
        return checks[0], *not_run(CURVES, why)
    if why_not := load_framework(candidate_job.framework).own_weights(candidate_job):
        return checks[0], *not_run(CURVES, f"the arms start from other weights: {why_not}")
    return checks


def needed_checks(layout: Layout, workload: Workload, *, experts: bool = True) -> tuple[str, ...]:
    """Names of the checks that `verified` rests on for this layout."""
    components = component_checks(layout, workload, experts=experts)
    return ALWAYS + tuple(check.name for check in components if check.needed)


def verdict(checks: Sequence[Check], provenance: Provenance) -> Provenance:
    """`verified` if the run was measured and every needed check is there and passed.

    Anything else leaves `provenance` as it is: a prediction is never upgraded.
    """
    names = {check.name for check in checks}
    needed = [check for check in checks if check.needed]
    proven = names.issuperset(ALWAYS) and all(check.status == "passed" for check in needed)
    return "verified" if proven and provenance == "measured" else provenance
