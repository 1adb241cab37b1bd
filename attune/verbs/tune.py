"""`attune tune`: from a model, a GPU and a count to a recipe."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from attune.catalog import Gpu, parse
from attune.errors import AttuneError
from attune.experiment import Experiment, Inputs
from attune.experiment.events import Event
from attune.verbs.tune_start import find_warm_start, merge_held, read_fixed, shrink

if TYPE_CHECKING:
    from attune.verbs.target import Target


@dataclass(frozen=True, kw_only=True)
class TuneRequest:
    """What the caller asks of a campaign, as typed."""

    model: str = ""
    """Name of a model, or the path of its YAML."""
    gpu: str = ""
    count: int = 0
    cluster: Path | None = None
    """YAML that overrides fields of the GPU."""
    workload: Path | None = None
    workload_fields: dict[str, Any] = field(default_factory=dict)
    """Fields of the workload given one by one; they win over the file."""
    space: str | None = None
    """Name of a shipped search space, or the path of one."""
    fix: Sequence[str] = ()
    """Dimensions held at one value, such as `tp=4`."""
    reference: Path | None = None
    """Recipe of the reference arm."""
    warm_start: str | None = None
    """Recipe file or experiment whose winner is tried first, moved to the nearest legal layout."""
    objective: Literal["throughput", "cost", "time-to-tokens"] = "throughput"
    project: int | None = None
    """GPUs that the winner is meant for, when it is tuned on fewer."""
    max_memory: float = 1.0
    """Share of the GPU's memory that the winner may use."""
    framework: str = "megatron-core"
    """Name of what trains, or the path of the YAML of its setup."""
    checkout: str | None = None
    """Folder of the framework's checkout on the nodes."""
    launcher: str = "auto"
    launcher_options: dict[str, str] = field(default_factory=dict)
    """What the site tells the launcher."""
    virtual: Literal["near", "far", "adversarial"] = "near"
    probes: bool = True
    """Whether memory may be probed on a part of the cluster before a trial."""
    advisor: Literal["rules", "none", "llm"] = "rules"
    """Who reads each run and supposes what would be faster."""
    attribution_trials: int = 0
    """Runs that may be spent on measuring where the winner's gain comes from."""
    trials: int = 12
    gpu_hours: float | None = None
    usd: float | None = None
    """Hard limit on the cost of all runs; the tighter of both budgets holds."""
    min_gain: float = 0.005
    trial_limit_s: float = 3600.0
    seed: int = 0
    calibration: Path | None = None
    """File of what measured runs taught; None is the one in the user's cache."""
    name: str | None = None
    resume: str | None = None
    """Experiment to go on with; every other field is then read from it."""
    worker_options: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Campaign:
    """A campaign ready to run: its inputs are resolved, nothing is spent yet."""

    inputs: Inputs
    resume: str | None
    """Id or folder of the experiment that goes on; None for a new one."""
    spends: bool
    """Whether running it uses GPUs (or this machine's processors) for real."""
    calibration: Path | None = None
    """File that learns from its measured runs; None is the one in the user's cache."""

    @property
    def resumed(self) -> bool:
        """Whether an experiment goes on."""
        return self.resume is not None

    @property
    def experiment(self) -> str:
        """What names the experiment to other commands."""
        return self.resume or self.inputs.experiment

    def events(self) -> Generator[Event, None, None]:
        """Runs it; every event as it happens.

        Raises:
            AttuneError, NothingFoundError, KeyboardInterrupt: as `run_campaign`.
        """
        from attune.search.campaign import run_campaign
        from attune.verbs.tune_learning import learning

        found = Experiment.open(self.resume) if self.resume else Experiment.create(self.inputs)
        events = run_campaign(found, resumed=self.resumed)
        yield from learning(events, found, self.calibration)


def tune(request: TuneRequest) -> Campaign:
    """Resolves a request into a campaign.

    Raises:
        AttuneError: unknown name, damaged file, count that does not fill nodes, a launcher that
            cannot run here, an experiment that does not exist, or rows that changed since it
            began, or a damaged calibration.
    """
    from attune.rows.feed import name_rows
    from attune.trial.launchers import load_launcher
    from attune.verbs.tune_learning import with_calibration

    inputs = Experiment.open(request.resume).inputs() if request.resume else _inputs(request)
    if request.resume and request.launcher not in ("auto", inputs.launcher):
        raise AttuneError(
            f"experiment `{request.resume}` runs on `{inputs.launcher}`, which --resume keeps; "
            f"leave --launcher {request.launcher} out, or start a new experiment with it"
        )
    if not request.resume:
        inputs = _with_setup(inputs)
    launcher = load_launcher(inputs.launcher, inputs.launcher_options)
    real = launcher.provenance != "predicted"
    if real and not request.resume:
        inputs = with_calibration(_trainable(inputs), request.calibration)
    workload = name_rows(inputs.workload, inputs.model.vocabulary, real=real)
    inputs = inputs.model_copy(update={"workload": workload})
    return Campaign(
        inputs=inputs,
        resume=request.resume,
        spends=real,
        calibration=request.calibration,
    )


def _with_setup(inputs: Inputs) -> Inputs:
    """The inputs with what their setup implies: dimensions without a name, a checkpoint's digest.

    Raises:
        AttuneError: the checkpoint is another than the setup names, or damaged.
    """
    from attune.trial.frameworks.checkpoint import name_checkpoint
    from attune.trial.frameworks.template import held_by

    held = held_by(inputs.setup) if inputs.framework == "command" else {}
    return inputs.model_copy(
        update={
            "setup": name_checkpoint(inputs.setup),
            "fixed": merge_held(inputs.fixed, held),
        }
    )


def _trainable(inputs: Inputs) -> Inputs:
    """The inputs with the space held to what the trainer can run.

    Raises:
        AttuneError: it can train no layout of this model.
    """
    from attune.layout import Layout
    from attune.trial.frameworks import load_framework
    from attune.trial.job import Job

    framework = load_framework(inputs.framework)
    job = Job(
        model=inputs.model,
        cluster=inputs.cluster,
        workload=inputs.workload,
        layout=Layout(),
        framework=inputs.framework,
        setup=inputs.setup,
    )
    if reason := framework.refuses_model(job):
        raise AttuneError(
            f"{reason}; `attune plan` proposes a layout all the same, and --launcher simulated "
            "plays a campaign"
        )
    return inputs.model_copy(update={"fixed": merge_held(inputs.fixed, framework.held)})


def _inputs(request: TuneRequest) -> Inputs:
    from attune.layout import write_layout
    from attune.layout.space import default_space, load_space
    from attune.recipe import layout_of, load_recipe
    from attune.trial.frameworks import load_framework
    from attune.trial.launchers import choose_launcher
    from attune.trial.setup import read_setup

    if not (request.model and request.gpu and request.count):
        raise AttuneError("tune needs --model, --gpu and --count, or --resume EXPERIMENT")
    target = _target(request, request.count)
    model, cluster, workload = target.model, target.cluster, target.workload
    if request.project is not None:
        meant = _target(request, request.project)
        workload = shrink(meant.workload, request.count, request.project)
    launcher, reason = request.launcher, "asked for"
    if launcher == "auto":
        launcher, reason = choose_launcher(cluster)
    recipe = load_recipe(request.reference) if request.reference else None
    warm = find_warm_start(request.warm_start) if request.warm_start else None
    space = load_space(request.space or default_space(model))
    framework, setup = read_setup(request.framework, checkout=request.checkout)
    load_framework(framework)
    fields = {
        "experiment": request.name or name_experiment(model.id, cluster.gpu.id, cluster.count),
        "model": model,
        "cluster": cluster,
        "workload": workload,
        "space": space,
        "fixed": read_fixed(request.fix, space),
        "reference": write_layout(layout_of(recipe)) if recipe else None,
        "reference_source": str(request.reference or ""),
        "warm_start": warm.layout if warm else None,
        "warm_start_source": warm.source if warm else "",
        "objective": request.objective,
        "project": request.project,
        "max_memory": request.max_memory,
        "framework": framework,
        "setup": setup,
        "launcher": launcher,
        "launcher_reason": reason,
        "launcher_options": request.launcher_options,
        "virtual": request.virtual,
        "probes": request.probes,
        "advisor": request.advisor,
        "attribution_trials": request.attribution_trials,
        "trials": request.trials,
        "gpu_hours": _budget(request, cluster.gpu),
        "min_gain": request.min_gain,
        "trial_limit_s": request.trial_limit_s,
        "seed": request.seed,
        "worker_options": request.worker_options,
        "versions": _versions(),
    }
    return parse(Inputs, fields, "the request")


def _budget(request: TuneRequest, gpu: Gpu) -> float | None:
    """GPU-hours that the tighter of both budgets allows; None without any."""
    limits = [request.gpu_hours] if request.gpu_hours is not None else []
    if request.usd is not None:
        if not gpu.usd_per_gpu_hour:
            raise AttuneError(
                f"--usd {request.usd:g} needs a price, and {gpu.name} has none; give "
                "`usd_per_gpu_hour` in --cluster FILE, or --gpu-hours"
            )
        limits.append(request.usd / gpu.usd_per_gpu_hour)
    return min(limits, default=None)


def _target(request: TuneRequest, count: int) -> Target:
    from attune.verbs.target import find_target

    return find_target(
        request.model,
        request.gpu,
        count,
        cluster=request.cluster,
        workload=request.workload,
        changes=request.workload_fields,
    )


def name_experiment(model: str, gpu: str, count: int | str) -> str:
    """A new experiment's name: `glm-4.5-h200-128-20261130-161500`, numbered when taken."""
    from attune.experiment import experiments_folder

    stem = f"{model}-{gpu}-{count}-{datetime.now(UTC):%Y%m%d-%H%M%S}"
    name, number = stem, 2
    while (experiments_folder() / name).exists():
        name, number = f"{stem}-{number}", number + 1
    return name


def _versions() -> dict[str, str]:
    from attune import __version__

    found = {"attune": __version__}
    for package in ("optuna", "torch", "megatron-core"):
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found
