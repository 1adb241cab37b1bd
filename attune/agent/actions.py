"""Tools that act: trials and campaigns are started, watched, cancelled, verified and exported."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from pathlib import Path
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
from attune.agent.work import Item, Work
from attune.errors import AttuneError
from attune.experiment import Experiment, experiments_folder
from attune.report.history import History, history_of
from attune.report.plain import plain

Id = Annotated[str, Field(max_length=128, description="What start_trial or start_campaign gave.")]
Wait = Annotated[float, Field(ge=0, le=60, description="Seconds to wait for something new.")]
_LOOK_S = 0.2
_MOST_LINES = 200
_TRIAL = re.compile(r"trial-(\d{4,})")


class Actions:
    """The tools that share one user's limits."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._work = Work(limits)

    @property
    def tools(self) -> tuple[Any, ...]:
        """Every tool, in the order of a campaign."""
        return (
            self.limits,
            self.start_trial,
            self.start_campaign,
            self.resume_campaign,
            self.watch,
            self.cancel,
            self.list_experiments,
            self.history,
            self.verify,
            self.export,
        )

    def close(self) -> None:
        """Ends what still runs."""
        self._work.close()

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
        found = _open(experiment)
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

    def watch(
        self, id: Id, after: Annotated[int, Field(ge=0)] = 0, wait_s: Wait = 20.0
    ) -> dict[str, Any]:
        """What happened since event `after`, its state and its cost; waits for something new.

        Give the answer's `next` as `after` of the following call.
        """
        end = time.monotonic() + wait_s
        while True:
            told = self._trial(id) if _TRIAL.fullmatch(id) else self._campaign(id, after)
            if told["state"] != "running" or told.get("events") or time.monotonic() >= end:
                return told
            time.sleep(_LOOK_S)

    def _campaign(self, name: str, after: int) -> dict[str, Any]:
        from attune.report.lines import lines

        found = _open(name)
        item = self._work.find(found.name)
        # Whether it runs comes first, so that what it wrote last is told.
        running = self._work.runs(item) if item else False
        events = found.events()
        new = events[after:]
        history = history_of(events)
        told = {
            "id": found.name,
            "state": "running" if running else history.state,
            "next": len(events),
            "events": [line for event in new for line in lines(event)][-_MOST_LINES:],
            "gpu_hours": history.gpu_hours,
        }
        if item and not running and history.state == "unfinished":
            told["log"] = item.log()
        return told

    def _trial(self, identifier: str) -> dict[str, Any]:
        from attune.trial.runner import read_result

        item = self._work.find(identifier)
        if item is None:
            raise AttuneError(f"no trial `{identifier}` was started by an agent here")
        running = self._work.runs(item)
        result = None if running else read_result(item.folder)
        if result is None:
            state = "running" if running else "failed"
            return {"id": item.id, "state": state, "log": item.log()}
        return {
            "id": item.id,
            "state": "done",
            "outcome": result.outcome,
            "evidence": result.evidence,
            "advice": result.advice,
            "step_time_s": result.step_time_s,
            "tokens_per_s_per_gpu": result.tokens_per_s_per_gpu,
            "peak_gib": result.peak_reserved_gib,
            "provenance": result.provenance,
            "gpu_hours": result.gpu_hours,
        }

    def cancel(self, id: Id) -> dict[str, Any]:
        """Ends a trial or campaign; the run in flight is written down as cancelled."""
        name = id if _TRIAL.fullmatch(id) else _open(id).name
        item = self._work.find(name)
        if item is None:
            raise AttuneError(f"`{name}` was not started by an agent; its owner ends it")
        if not self._work.runs(item):
            raise AttuneError(f"`{name}` is not running; there is nothing to cancel")
        ended = self._work.cancel(item)
        return {"id": name, "state": "cancelled" if ended else "ending"}

    def list_experiments(self) -> dict[str, Any]:
        """Every experiment of this folder, with its state and best figure."""
        from attune.verbs.report import find_experiments

        return {"experiments": [plain(found) for found in find_experiments()]}

    def history(self, experiment: Id) -> dict[str, Any]:
        """Every run of a campaign with what the advisor saw in it, the hypotheses with their
        verdicts, the result, and where the gain comes from."""
        history = history_of(_open(experiment).events())
        return {
            "state": history.state,
            "reference": plain(history.reference),
            "runs": [
                plain(run) | {"why": history.reason(run.run), "findings": _seen(history, run.run)}
                for run in history.runs
            ],
            "hypotheses": [plain(a.hypothesis) for a in history.advised if a.hypothesis],
            "verdicts": [plain(judged) for judged in history.judged],
            "attribution": plain(history.attributed),
            "stopped": plain(history.stopped),
            "completed": plain(history.completed),
            "gpu_hours": history.gpu_hours,
        }

    def verify(self, experiment: Id) -> dict[str, Any]:
        """Every check of the winner against the reference arm, and of the recipe's own figures."""
        from attune.verbs.recipe import verify_recipe

        found = _open(experiment)
        history = history_of(found.events())
        done = history.completed
        if done is None:
            raise AttuneError(f"`{found.name}` has not ended ({history.state}); watch it first")
        place = found.folder / "verification.json"
        checks = json.loads(place.read_text("utf-8"))["checks"] if place.is_file() else []
        recipe = verify_recipe(found.recipe_path) if found.recipe_path.is_file() else None
        problems = plain(recipe.problems) if recipe else ["there is no recipe"]
        return {
            "status": done.status,
            "verified": done.status == "verified" and not done.problem and not problems,
            "problem": done.problem,
            "checks": checks,
            "recipe_problems": problems,
        }

    def export(
        self,
        experiment: Id,
        file: Annotated[str, Field(max_length=100, description="A plain name, `best.yaml`.")],
    ) -> dict[str, Any]:
        """Writes the recipe into the folder `exported` beside the experiments; gives its text."""
        from attune.verbs.recipe import export_recipe

        if not re.fullmatch(r"[\w-][\w.-]*\.yaml", file):
            raise AttuneError(f"`file` is a plain name that ends in .yaml, not `{file[:80]}`")
        folder = experiments_folder().parent / "exported"
        folder.mkdir(parents=True, exist_ok=True)
        path: Path = export_recipe(_open(experiment).name, folder / file)
        return {"path": str(path), "recipe": path.read_text("utf-8")}

    def _launcher_words(self) -> list[str]:
        words = ["--launcher", self._limits.launcher, "--virtual", self._limits.virtual]
        for name, value in self._limits.launcher_options.items():
            words += ["--launcher-option", f"{name}={value}"]
        return words


def _open(name: str) -> Experiment:
    """The experiment of that name in the folder of experiments, and none elsewhere.

    Raises:
        AttuneError: a path, or no such experiment; the existing ones are named.
    """
    if "/" in name or "\\" in name or name.startswith("."):
        raise AttuneError(f"give an experiment's name, not a path: `{name[:80]}`")
    found = Experiment.open(name)
    if found.folder.resolve().parent != experiments_folder().resolve():
        raise AttuneError(f"`{name}` is not in the folder of experiments")
    return found


def _seen(history: History, run: int) -> list[Any]:
    return [plain(f) for advised in history.advised if advised.run == run for f in advised.findings]
