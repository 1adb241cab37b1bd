"""A command as a script: it writes what it needs and survives awkward characters."""

from __future__ import annotations

import subprocess
from pathlib import Path

from attune.trial.frameworks.framework import Command
from attune.trial.script import shell_script


def make_command(**changes: object) -> Command:
    fields: dict[str, object] = {
        "argv": ("-m", "module", "it's"),
        "environment": {"A": "$HOME 'x'"},
        "files": {"config.json": '{"a": "END_OF_FILE $B `c`"}\n'},
        "processes_per_node": 8,
        "nodes": 1,
    }
    return Command(**(fields | changes))  # type: ignore[arg-type]


def test_the_script_brings_its_files_and_environment(tmp_path: Path) -> None:
    command = make_command(files={"config.json": '{"a": "END_OF_FILE\nEND_OF_FILE\n$B `c`"}\n'})
    text = shell_script(command, "echo", with_files=True)
    done = subprocess.run(["sh", "-c", text], cwd=tmp_path, capture_output=True, text=True)
    assert (tmp_path / "config.json").read_text() == command.files["config.json"]
    assert done.stdout.split()[-3:] == ["-m", "module", "it's"]


def test_several_nodes_ask_for_the_first(tmp_path: Path) -> None:
    text = shell_script(make_command(nodes=2), "echo", with_files=True)
    done = subprocess.run(["sh", "-c", text], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode != 0 and "name of the first node" in done.stderr
