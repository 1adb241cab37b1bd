"""Which checks a layout needs, and what they add up to."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict

from attune.layout import Layout
from attune.recipe.schema import Check
from attune.trial.job import Job
from attune.trial.result import Provenance, TrialResult
from attune.verify.checks import check_convergence
from attune.verify.configuration import check_configuration
from attune.workload import Workload

ALWAYS = ("configuration", "complete", "megatron_bridge")


class Verification(BaseModel):
    """`verification.json`: every check of one candidate, and the verdict."""

    model_config = ConfigDict(frozen=True)

    checks: tuple[Check, ...]
    provenance: Provenance
    """What may be claimed: `verified` only as `verdict` says."""

    @property
    def failed(self) -> tuple[str, ...]:
        """Names of the checks that failed; a layout with one must not be recommended."""
        return tuple(check.name for check in self.checks if check.status == "failed")

    @property
    def missing(self) -> tuple[str, ...]:
        """Names of needed checks that did not run."""
        return tuple(c.name for c in self.checks if c.needed and c.status == "not run")


def verify(
    candidate_job: Job, candidate: TrialResult, reference_job: Job, reference: TrialResult
) -> Verification:
    """All checks of a candidate run against the reference run, and the verdict.

    `verified` needs both arms measured.
    """
    workload = candidate_job.workload
    checks = (
        check_configuration(candidate_job, reference_job),
        *_convergence(candidate_job, candidate, reference_job, reference),
        *component_tests(candidate_job.layout, workload),
    )
    both = {candidate.provenance, reference.provenance}
    claimed = candidate.provenance if both == {candidate.provenance} else "predicted"
    return Verification(checks=checks, provenance=verdict(checks, claimed))


def _convergence(
    candidate_job: Job, candidate: TrialResult, reference_job: Job, reference: TrialResult
) -> tuple[Check, ...]:
    """Loss curves compare only where both arms trained on the same rows."""
    ours, theirs = candidate_job.workload, reference_job.workload
    checks = check_convergence(candidate, reference, ours)
    if ours.rows_sha256 == theirs.rows_sha256:
        return checks
    why = f"the arms trained on other rows: {ours.rows_sha256} against {theirs.rows_sha256}"
    return checks[0], *(Check(name=c.name, status="not run", detail=why) for c in checks[1:])


def needed_checks(layout: Layout, workload: Workload) -> tuple[str, ...]:
    """Names of the checks that `verified` rests on for this layout.

    A component test is needed whenever the layout has the knob, even if the reference shares it:
    two arms with one fault agree with each other.
    """
    bound = ("layout_bound",) if workload.precision == "fp32" else ()
    return ALWAYS + bound + tuple(test.name for test in component_tests(layout, workload))


def component_tests(layout: Layout, workload: Workload) -> tuple[Check, ...]:
    """One check for each knob of the layout that changes arithmetic; none has run yet.

    Source: the published recipe pages test optimizer offload so; the precision-aware optimizer
    and fp8 change rounding in the same way.
    """
    knobs = {
        "component.optimizer_offload": layout.optimizer_offload > 0,
        "component.precision_aware_optimizer": layout.precision_aware_optimizer,
        "component.fp8": workload.precision == "fp8",
    }
    why = "this knob changes arithmetic, and its component test at the model's shape has not run"
    return tuple(
        Check(name=name, status="not run", detail=why) for name, present in knobs.items() if present
    )


def verdict(checks: Sequence[Check], provenance: Provenance) -> Provenance:
    """`verified` if the run was measured and every needed check is there and passed.

    Anything else leaves `provenance` as it is: a prediction is never upgraded.
    """
    names = {check.name for check in checks}
    needed = [check for check in checks if check.needed]
    proven = names.issuperset(ALWAYS) and all(check.status == "passed" for check in needed)
    return "verified" if proven and provenance == "measured" else provenance
