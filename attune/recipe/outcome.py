"""The `result:` and `correctness:` blocks of a recipe that attune writes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

from attune.catalog import Cluster, Model
from attune.counts import active_parameters, mfu, usd_per_million_tokens
from attune.recipe.blocks import ActiveParameters, Result
from attune.recipe.schema import Check, ComponentTest, Convergence, Correctness, Verdict
from attune.trial.result import Provenance, TrialResult
from attune.workload import Workload

NO_PEAK = "not stated: the peak of this hardware at this precision is not known"
SIMULATED = "simulated: no hardware ran"
RULES = (
    "configuration: model, workload, framework and options equal in both arms; megatron_bridge: "
    "validate_convergence with its pipeline thresholds; layout_bound and gradient_norm: relative "
    "difference of every step within the noise floor of the precision; drift: paired test of the "
    "losses; parity: norms of every tensor's gradient and update; component tests by knob"
)


def result_block(
    result: TrialResult,
    model: Model,
    cluster: Cluster,
    workload: Workload,
    measured: date | None,
    runs: int,
) -> Result | None:
    """Figures of a completed run; None where no step of the window was timed."""
    rate = result.tokens_per_s_per_gpu
    if rate is None:
        return None
    gpu, active = cluster.gpu, active_parameters(model)
    peak, hourly = gpu.peak_tflops.get(workload.precision), gpu.usd_per_gpu_hour
    utilisation = mfu(rate, active, peak) if peak and gpu.architecture != "cpu" else None
    impossible = utilisation is not None and utilisation > 1
    spread = result.step_time_cv_percent
    return Result(
        tokens_per_s_per_gpu=_rate(rate),
        usd_per_million_tokens=round(usd_per_million_tokens(rate, hourly), 2) if hourly else None,
        step_time_cv_percent=None if spread is None else round(spread, 2),
        mfu=None if utilisation is None or impossible else round(utilisation, 4),
        mfu_note=NO_PEAK if utilisation is None or impossible else None,
        active_params=ActiveParameters(count=active, source=model.source),
        measured=measured,
        steps_per_run=result.steps_asked,
        window=list(result.window),
        window_tokens=(result.window[1] - result.window[0] + 1) * result.tokens_per_step,
        runs=runs,
        gpu_hours=round(result.gpu_hours, 2),
        gpu_hours_note=SIMULATED
        if measured is None
        else "GPUs x (launch to end), start-up included",
    )


def _rate(tokens_per_s: float) -> float:
    """Two decimals as on the published pages; four significant digits below one."""
    return round(tokens_per_s, 2) if tokens_per_s >= 1 else float(f"{tokens_per_s:.4g}")


def correctness_block(
    checks: Sequence[Check], provenance: Provenance, reference: str
) -> Correctness:
    """Every check with its status; a simulated curve proves nothing, so none of its checks ran."""
    if provenance == "predicted":
        checks = [_simulated(check) for check in checks]
    verdict = _overall(checks)
    return Correctness(
        result=verdict,
        summary=_summary(checks, verdict),
        reference=reference,
        configuration=_verdict_of(checks, "configuration"),
        component_tests=[_component(c) for c in checks if c.values.get("shape")],
        convergence=_convergence(checks),
        rules=RULES,
        checks=list(checks),
    )


def _simulated(check: Check) -> Check:
    if check.detail.startswith(SIMULATED):
        return check
    detail = f"{SIMULATED}; on simulated curves: {check.status} ({check.detail})"
    return check.model_copy(update={"status": "not run", "detail": detail})


def _overall(checks: Sequence[Check]) -> Verdict:
    """Fail if any check failed, pass if every needed one passed, else not run."""
    if any(check.status == "failed" for check in checks):
        return "fail"
    needed = [check for check in checks if check.needed]
    return "pass" if needed and all(c.status == "passed" for c in needed) else "not run"


def _summary(checks: Sequence[Check], verdict: Verdict) -> str:
    failed = [check.name for check in checks if check.status == "failed"]
    missing = [check.name for check in checks if check.needed and check.status == "not run"]
    parts = ["passed"] if verdict == "pass" else []
    parts += [f"failed: {', '.join(failed)}"] if failed else []
    parts += [f"not run: {', '.join(missing)}"] if missing else []
    return "; ".join(parts) or "no check ran"


_VERDICTS: dict[str, Verdict] = {"passed": "pass", "failed": "fail", "not run": "not run"}


def _verdict_of(checks: Sequence[Check], name: str) -> Verdict:
    return next((_VERDICTS[c.status] for c in checks if c.name == name), "not run")


def _component(check: Check) -> ComponentTest:
    """A component test that ran, as the published pages show it."""
    values = check.values
    return ComponentTest(
        test=check.name.partition(".")[2].replace("_", " "),
        shape=values["shape"],
        gpu=values["gpu"],
        date=date.fromisoformat(values["date"]),
        result=_VERDICTS[check.status],
        detail=check.detail,
    )


def _convergence(checks: Sequence[Check]) -> Convergence | None:
    """Figures of Megatron-Bridge's check, where it ran."""
    check = next((c for c in checks if c.name == "megatron_bridge"), None)
    if check is None or check.status == "not run":
        return None
    return Convergence(
        steps=check.values["steps"],
        result=_VERDICTS[check.status],
        correlation=check.values["correlation"],
        final_loss_difference=check.values["final_loss_difference"],
        pointwise_failures=check.values["point_wise_failures"],
    )
