"""An experiment on disk: inputs, journal, study, trials, recipe."""

from __future__ import annotations

import json
import os
import re
import reprlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from filelock import FileLock, Timeout
from pydantic import BaseModel, ValidationError

from attune.catalog import parse, read_yaml
from attune.errors import AttuneError
from attune.experiment.events import EVENT, Event, Progress
from attune.experiment.inputs import Inputs

_NAME = re.compile(r"\w[\w .+-]{0,127}")
"""A name becomes a folder under `experiments/`, never one elsewhere."""


def experiments_folder() -> Path:
    """`experiments/` under `ATTUNE_HOME`, else under the current folder."""
    return Path(os.environ.get("ATTUNE_HOME", ".")) / "experiments"


class Experiment:
    """One campaign's folder; all paths that it writes into files are relative to it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    def create(cls, inputs: Inputs) -> Experiment:
        """A new experiment with its inputs on disk.

        Raises:
            AttuneError: an experiment of that name exists, or the name is no plain folder name.
        """
        if not _NAME.fullmatch(inputs.experiment):
            raise AttuneError(
                "an experiment's name is 1 to 128 letters, digits, spaces and -_.+, and begins "
                f"with a letter or digit, but got {reprlib.repr(inputs.experiment)}"
            )
        experiment = cls(experiments_folder() / inputs.experiment)
        if experiment.inputs_path.exists():
            raise AttuneError(
                f"experiment `{inputs.experiment}` exists; go on with --resume "
                f"{inputs.experiment}, or give another --experiment-name"
            )
        experiment.folder.mkdir(parents=True, exist_ok=True)
        experiment.write_inputs(inputs)
        return experiment

    @classmethod
    def open(cls, name: str) -> Experiment:
        """The experiment of that id, or in that folder.

        Raises:
            AttuneError: no such experiment; the existing ones are named.
        """
        for folder in (experiments_folder() / name, Path(name)):
            if (folder / "experiment.yaml").is_file():
                return cls(folder)
        known = [e.folder.name for e in list_experiments()]
        words = f"known: {', '.join(known[-5:])}" if known else "there is none yet"
        raise AttuneError(f"no experiment `{name}` in {experiments_folder()}; {words}")

    @property
    def name(self) -> str:
        return self.folder.resolve().name

    @property
    def inputs_path(self) -> Path:
        return self.folder / "experiment.yaml"

    @property
    def journal_path(self) -> Path:
        return self.folder / "journal.jsonl"

    @property
    def study_path(self) -> Path:
        return self.folder / "study.db"

    @property
    def recipe_path(self) -> Path:
        return self.folder / "recipe.yaml"

    def run_folder(self, run: int) -> Path:
        """Folder of run `run`; run 0 is the reference arm's first."""
        return self.folder / "trials" / str(run)

    def write_inputs(self, inputs: Inputs) -> None:
        """Writes `experiment.yaml` in one stroke."""
        text = yaml.safe_dump(inputs.model_dump(mode="json"), sort_keys=False, width=100)
        write_whole(self.inputs_path, text)

    def inputs(self) -> Inputs:
        """The inputs of `experiment.yaml`.

        Raises:
            AttuneError: the file is damaged, or from a version with other fields.
        """
        data = read_yaml(self.inputs_path)
        try:
            return parse(Inputs, data, str(self.inputs_path))
        except AttuneError as error:
            raise AttuneError(f"{error}{_other_version(data)}") from error

    def events(self) -> list[Event]:
        """All events of the journal; a last line cut short by a kill is left out.

        Raises:
            AttuneError: a line before the last is damaged, or of a kind that a newer attune wrote.
        """
        events, newer = self.known_events()
        if newer:
            raise AttuneError(
                f"{self.journal_path} has lines of a kind that this attune does not know "
                f"({', '.join(newer)}); a newer attune wrote them, so go on with that one"
            )
        return events

    def known_events(self) -> tuple[list[Event], tuple[str, ...]]:
        """The events of the journal that this attune knows, and the names of other kinds in it.

        Raises:
            AttuneError: a line before the last is damaged.
        """
        if not self.journal_path.exists():
            return [], ()
        lines = self.journal_path.read_text(encoding="utf-8", errors="replace").split("\n")
        events, newer = [], dict[str, None]()
        for number, line in enumerate(lines[:-1], start=1):
            try:
                events.append(EVENT.validate_json(line))
            except ValidationError as error:
                first = error.errors()[0]
                if first["type"] == "union_tag_invalid":
                    newer[str(first["ctx"]["tag"])[:40]] = None
                    continue
                place = ".".join(map(str, first["loc"][1:]))
                raise AttuneError(
                    f"{self.journal_path} line {number} is damaged, or a newer attune wrote it: "
                    f"{place}{': ' * bool(place)}{first['msg']}; mend or remove that line"
                ) from error
        return events, tuple(newer)

    def append(self, event: Event) -> Event:
        """Writes `event` to the journal, on disk before it returns; gives it back."""
        if not isinstance(event, Progress):
            with self.journal_path.open("a", encoding="utf-8") as journal:
                journal.write(event.model_dump_json() + "\n")
                journal.flush()
                os.fsync(journal.fileno())
        return event

    def mend_journal(self) -> None:
        """Cuts a last line that a kill left unfinished, so the next event starts its own."""
        if self.journal_path.exists():
            data = self.journal_path.read_bytes()
            os.truncate(self.journal_path, data.rfind(b"\n") + 1)

    def write_json(self, name: str, record: BaseModel | dict[str, Any]) -> None:
        """Writes a small JSON file of the experiment in one stroke."""
        data = record.model_dump(mode="json") if isinstance(record, BaseModel) else record
        write_whole(self.folder / name, json.dumps(data, indent=1) + "\n")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Holds the experiment for this process.

        Raises:
            AttuneError: another process holds it.
        """
        # Whoever only looks whether it is held holds it for a moment.
        lock = FileLock(self.folder / ".lock", timeout=1)
        try:
            lock.acquire()
        except Timeout:
            raise AttuneError(
                f"experiment `{self.name}` is in use by another process; "
                "wait for it, or stop it first"
            ) from None
        try:
            yield
        finally:
            lock.release()


def _other_version(data: Any) -> str:
    """Which attune wrote inputs that this one cannot read; empty where it was this one."""
    from attune import __version__

    versions = data.get("versions") if isinstance(data, dict) else None
    wrote = versions.get("attune") if isinstance(versions, dict) else None
    if wrote in (None, __version__):
        return ""
    return f"; attune {str(wrote)[:40]} wrote it, and this is {__version__}"


def list_experiments() -> list[Experiment]:
    """All experiments of the folder, oldest first."""
    files = experiments_folder().glob("*/experiment.yaml")
    return [Experiment(path.parent) for path in sorted(files, key=lambda p: p.stat().st_mtime)]


def write_whole(path: Path, text: str) -> None:
    """Writes a file so that a reader sees the old text or the new, never a part."""
    temporary = path.with_name(path.name + ".part")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)
