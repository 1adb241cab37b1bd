"""Tools that act: trials and campaigns are started, resumed and cancelled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from pydantic import Field

from attune.agent.limits import Limits
from attune.agent.questions import (
    Count,
    GlobalBatch,
    Name,
    Precision,
    RowTokens,
    Steps,
    Text,
    plain_name,
    target_of,
)
from attune.agent.results import TRIAL, Id, open_experiment
from attune.agent.work import Item, Work
from attune.errors import AttuneError
from attune.experiment import Experiment, experiments_folder


class Actions:
    """The tools that share one user's limits."""

    def __init__(self, limits: Limits, work: Work) -> None:
        self._limits = limits
        self._work = work

    @property
    def tools(self) -> tuple[Any, ...]:
        """Every tool, in the order of a campaign."""
        return (
            self.limits,
            self.start_trial,
            self.start_campaign,
            self.resume_campaign,
            self.cancel,
        )

    def limits(self) -> dict[str, Any]:
        """What the user allows: the launcher, and the GPU-hours that are left."""
        return {
            "launcher": self._limits.launcher,
            "max_gpu_hours": self._limits.max_gpu_hours,
            "gpu_hours_left": self._work.gpu_hours_left(),
            "at_once": 1,
        }

    def start_trial(
        self,
        model: Name,
        gpu: Name,
        count: Count,
        layout: Text,
        steps: Steps = None,
        row_tokens: RowTokens = None,
        global_batch: GlobalBatch = None,
        precision: Precision = None,
        limit_s: Annotated[float, Field(gt=0, le=86400)] = 1800.0,
    ) -> dict[str, Any]:
        """Runs one layout for a few steps; gives an id at once. Look with `watch`.

        It reserves limit_s x count of the budget until it ends: a smaller limit_s reserves less.
        """
        from attune.layout import parse_layout, write_layout
        from attune.verbs.trial import free_directory, refuse_illegal

        changes = {
            "row_tokens": row_tokens,
            "global_batch": global_batch,
            "precision": precision,
            "steps": steps,
        }
        target = target_of(model, gpu, count, **changes)
        parsed = parse_layout(layout)
        refuse_illegal(target, parsed)
        folder = free_directory("trials", None)
        item = Item(
            id=f"trial-{folder.name}",
            folder=folder,
            reserved_gpu_hours=limit_s * target.cluster.count / 3600,
        )
        words = ["trial", "-m", model, "-g", gpu, "-n", str(count), "-l", write_layout(parsed)]
        for name, value in changes.items():
            words += [f"--{name.replace('_', '-')}", str(value)] if value is not None else []
        words += ["--time-limit", str(limit_s), "-o", str(folder), "--yes"]
        self._work.start(item, words + self._launcher_words())
        return {"id": item.id, "state": "running"}

    def start_campaign(
        self,
        model: Name,
        gpu: Name,
        count: Count,
        name: Annotated[str | None, Field(max_length=100)] = None,
        trials: Annotated[int, Field(ge=1, le=200)] = 12,
        gpu_hours: Annotated[float | None, Field(gt=0)] = None,
        steps: Steps = None,
        row_tokens: RowTokens = None,
        global_batch: GlobalBatch = None,
        precision: Precision = None,
        space: Annotated[str | None, Field(max_length=100)] = None,
        fix: Annotated[list[str], Field(max_length=40)] = [],  # noqa: B006 (the schema's default)
        attribution_trials: Annotated[int, Field(ge=0, le=20)] = 0,
        seed: int = 0,
    ) -> dict[str, Any]:
        """Finds the fastest layout: reference, trials, proof, recipe. Gives an id at once.

        gpu_hours is a hard limit on all its runs; left out, it is all that the user's limit
        leaves. `fix` holds dimensions, as ["tp=4"]. Look with `watch`.
        """
        from attune.verbs.tune import TuneRequest, tune

        left = self._work.gpu_hours_left()
        if left is not None and left <= 0:
            raise AttuneError("nothing is left of --max-gpu-hours; ask the user for more")
        request = TuneRequest(
            model=plain_name(model),
            gpu=plain_name(gpu),
            count=count,
            name=name,
            trials=trials,
            gpu_hours=left if gpu_hours is None else gpu_hours,
            workload_fields={
                "row_tokens": row_tokens,
                "global_batch": global_batch,
                "precision": precision,
                "steps": steps,
            },
            space=space and plain_name(space),
            fix=fix,
            attribution_trials=attribution_trials,
            seed=seed,
            launcher=self._limits.launcher,
            launcher_options=dict(self._limits.launcher_options),
            virtual=self._limits.virtual,
            worker_options=dict(self._limits.worker_options),
        )
        inputs = tune(request).inputs
        folder = experiments_folder() / inputs.experiment
        item = Item(id=inputs.experiment, folder=folder, reserved_gpu_hours=inputs.gpu_hours or 0.0)
        return self._run(item, lambda: Experiment.create(inputs))

    def resume_campaign(self, experiment: Id) -> dict[str, Any]:
        """Goes on with a campaign that was cancelled or cut short; a finished one is not run."""
        found = open_experiment(experiment)
        item = self._work.find(found.name)
        if item is None:
            raise AttuneError(f"`{found.name}` was not started by an agent; its owner resumes it")
        inputs = found.inputs()
        if inputs.launcher != self._limits.launcher:
            raise AttuneError(
                f"`{found.name}` runs on {inputs.launcher}, and the user allows "
                f"{self._limits.launcher}; start a new campaign"
            )
        return self._run(item)

    def _run(self, item: Item, prepare: Callable[[], object] | None = None) -> dict[str, Any]:
        self._work.start(item, ["tune", "--resume", item.id, "--yes"], prepare)
        return {"id": item.id, "state": "running"}

    def cancel(self, id: Id) -> dict[str, Any]:
        """Ends a trial or campaign; the run in flight is written down as cancelled."""
        name = id if TRIAL.fullmatch(id) else open_experiment(id).name
        item = self._work.find(name)
        if item is None:
            raise AttuneError(f"`{name}` was not started by an agent; its owner ends it")
        if not self._work.runs(item):
            raise AttuneError(f"`{name}` is not running; there is nothing to cancel")
        ended = self._work.cancel(item)
        return {"id": name, "state": "cancelled" if ended else "ending"}

    def _launcher_words(self) -> list[str]:
        words = ["--launcher", self._limits.launcher, "--virtual", self._limits.virtual]
        for name, value in self._limits.launcher_options.items():
            words += ["--launcher-option", f"{name}={value}"]
        return words
