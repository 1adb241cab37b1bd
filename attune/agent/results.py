"""Tools that look at what was started: watched, told with its reasons, verified, exported."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from attune.agent.work import Work
from attune.errors import AttuneError
from attune.experiment import Experiment, experiments_folder
from attune.report.history import History, history_of
from attune.report.plain import plain

Id = Annotated[str, Field(max_length=128, description="What start_trial or start_campaign gave.")]
Wait = Annotated[float, Field(ge=0, le=60, description="Seconds to wait for something new.")]
TRIAL = re.compile(r"trial-\d{4,}")
"""The id of a single trial; any other id is the name of an experiment."""
_LOOK_S = 0.2
_MOST_LINES = 200


class Results:
    """The tools that look."""

    def __init__(self, work: Work) -> None:
        self._work = work

    @property
    def tools(self) -> tuple[Any, ...]:
        """Every tool, in the order of a campaign."""
        return (self.watch, self.list_experiments, self.history, self.verify, self.export)

    def watch(
        self, id: Id, after: Annotated[int, Field(ge=0)] = 0, wait_s: Wait = 20.0
    ) -> dict[str, Any]:
        """What happened since event `after`, its state and its cost; waits for something new.

        Give the answer's `next` as `after` of the following call.
        """
        end = time.monotonic() + wait_s
        while True:
            told = self._trial(id) if TRIAL.fullmatch(id) else self._campaign(id, after)
            if told["state"] != "running" or told.get("events") or time.monotonic() >= end:
                return told
            time.sleep(_LOOK_S)

    def _campaign(self, name: str, after: int) -> dict[str, Any]:
        from attune.report.lines import lines

        found = open_experiment(name)
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

    def list_experiments(self) -> dict[str, Any]:
        """Every experiment of this folder, with its state and best figure."""
        from attune.verbs.report import find_experiments

        return {"experiments": [plain(found) for found in find_experiments()]}

    def history(self, experiment: Id) -> dict[str, Any]:
        """Every run of a campaign with what the advisor saw in it, the hypotheses with their
        verdicts, the result, and where the gain comes from."""
        history = history_of(open_experiment(experiment).events())
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

        found = open_experiment(experiment)
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
        from attune.verbs.export import export_recipe

        if not re.fullmatch(r"[\w-][\w.-]*\.yaml", file):
            raise AttuneError(f"`file` is a plain name that ends in .yaml, not `{file[:80]}`")
        folder = experiments_folder().parent / "exported"
        folder.mkdir(parents=True, exist_ok=True)
        path: Path = export_recipe(open_experiment(experiment).name, folder / file)
        return {"path": str(path), "recipe": path.read_text("utf-8")}


def open_experiment(name: str) -> Experiment:
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
