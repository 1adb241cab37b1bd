"""Proves, or refutes, that two layouts train the same model."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from attune.catalog import load_cluster
from attune.catalog.components import load_components
from attune.errors import AttuneError
from attune.layout import Layout, write_layout
from attune.layout.space import load_space
from attune.recipe.files import read_data
from attune.report.verify import Checked
from attune.search.candidates import find_candidates
from attune.search.reference import nearest_safe
from attune.trial.components import run_components
from attune.trial.frameworks.megatron_core import PARITY
from attune.trial.job import Job
from attune.trial.launchers import choose_launcher, load_launcher
from attune.trial.result import TrialResult
from attune.trial.runner import run
from attune.trial.worker.config import Device, WorkerConfig
from attune.verbs.target import Target
from attune.verify import (
    Check,
    Verification,
    check_flags,
    check_of,
    check_parity,
    components_of,
    read_command,
    read_parity,
    verify,
    worker_file,
)
from attune.verify.checks import CURVES, not_run


def compare_configurations(candidate: str, reference: str) -> Checked:
    """Compares two recipes, scripts or command lines flag by flag; nothing is run.

    Raises:
        AttuneError: a file is missing, empty, too large, or has quotes that do not close.
    """
    check = check_flags(read_command(candidate), read_command(reference))
    return Checked(
        what=f"{_short(candidate)} against {_short(reference)}",
        verification=Verification(checks=(check,), provenance="predicted"),
    )


def check_components(target: Target, layout: Layout | None = None) -> Checked:
    """Runs the component tests that a layout needs, or all of them, on this machine.

    What passes on a CPU for another GPU is not a pass: it is told, and has not run there.

    Raises:
        AttuneError: the tests could not be started.
    """
    experts = target.model.experts is not None
    chosen = (
        list(load_components())
        if layout is None
        else components_of(layout, target.workload, experts=experts)
    )
    gpu = target.cluster.gpu.id
    device: Device = "cuda" if gpu != "cpu" and _has_cuda() else "cpu"
    names = [one.id for one in chosen]
    results = run_components(target.model, device, names) if names else ()
    today = datetime.now(UTC).date()
    checks = tuple(check_of(r, one, gpu, today) for r, one in zip(results, chosen, strict=True))
    return Checked(
        what=f"component tests of {target.words}" + ("" if names else ": this layout needs none"),
        verification=Verification(checks=checks, provenance="measured"),
    )


def verify_against(file: Path, reference: Path, *, parity: bool = True) -> Checked:
    """Verifies a recipe against a reference recipe again, and runs both arms where it can.

    Arms of attune's own trainer run on this machine, with the parity probe; of other frameworks
    the configuration alone is compared, and the other checks are said not to have run.

    Raises:
        AttuneError: a file is missing or damaged, or a run cannot be started.
    """
    for path in (file, reference):
        read_data(path)
    commands = [read_command(str(path)) for path in (file, reference)]
    configuration = check_flags(*commands)
    jobs = [_job(path) for path in (file, reference)]
    if None in jobs or configuration.status == "failed":
        why = "the configuration differs" if configuration.status == "failed" else _FOREIGN
        checks = (configuration, *not_run(["complete", *CURVES], why))
        return _checked(file, reference, Verification(checks=checks, provenance="predicted"))
    ours, theirs = (replace(job, parity=parity) for job in jobs if job)
    with tempfile.TemporaryDirectory(prefix="attune-verify-") as folder:
        places = Path(folder) / "reference", Path(folder) / "candidate"
        base, result = _run(theirs, places[0]), _run(ours, places[1])
        probe = _parity(places, (base, result), ours) if parity else None
    found = verify(ours, result, theirs, base, parity=probe)
    checks = (configuration, *(c for c in found.checks if c.name != "configuration"))
    note = found.note or _no_reference(theirs, base)
    return _checked(file, reference, found.model_copy(update={"checks": checks, "note": note}))


_FOREIGN = "attune runs only arms of its own trainer by itself; run both, and compare their logs"


def _checked(file: Path, reference: Path, verification: Verification) -> Checked:
    missing = ", ".join(verification.missing)
    words = "not verified: " + (
        f"failed {', '.join(verification.failed)}" if verification.failed else f"{missing} not run"
    )
    verified = verification.provenance == "verified"
    return Checked(
        what=f"{file} against {reference}",
        verification=verification,
        verdict="verified" if verified else words,
    )


def _job(path: Path) -> Job | None:
    """The job of a recipe of attune's own trainer; None for another framework's."""
    data = read_data(path)
    text = worker_file(str(data.get("run", "")))
    if text is None:
        return None
    config = WorkerConfig.model_validate_json(text)
    gpu: dict[str, Any] = data["gpu"]
    return Job(
        model=config.model,
        cluster=load_cluster(str(gpu["type"]), int(gpu["count"])),
        workload=config.workload,
        layout=config.layout,
        worker_options={
            name: str(value)
            for name, value in config.options.model_dump(exclude_defaults=True).items()
        },
    )


def _run(job: Job, directory: Path) -> TrialResult:
    name, reason = choose_launcher(job.cluster)
    if name == "simulated":
        raise AttuneError(
            f"these arms take {job.cluster.count} {job.cluster.gpu.name}, and {reason}; "
            "simulated runs verify nothing, so run it where the hardware is"
        )
    return run(job, load_launcher(name), directory)


def _parity(
    places: tuple[Path, Path], results: tuple[TrialResult, TrialResult], job: Job
) -> Check | None:
    if any(result.outcome != "completed" for result in results):
        return None
    theirs, ours = (read_parity(place / PARITY) for place in places)
    return check_parity(ours, theirs, job.workload.precision)


def _no_reference(job: Job, result: TrialResult) -> str:
    """What to take in place of a reference that ran out of memory."""
    if result.outcome not in ("out_of_memory", "host_out_of_memory"):
        return ""
    space = load_space("tiny" if job.cluster.gpu.id == "cpu" else "default")
    found = find_candidates(job.model, job.cluster, job.workload, space, {}).candidates
    roomy = found.take(found.p_fits >= 0.5)
    nearest = write_layout(nearest_safe(job.layout, roomy))
    return f"the reference ran out of memory; the nearest layout that should fit is `{nearest}`"


def _has_cuda() -> bool:
    from importlib.util import find_spec

    if find_spec("torch") is None:
        return False
    import torch

    return bool(torch.cuda.is_available())


def _short(source: str) -> str:
    text = " ".join(source.split())
    return text if len(text) <= 60 else text[:57] + "..."
