"""Experiments as a kill, a full disk or a newer attune leaves them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).resolve().parents[2] / "experiments" / "example"


@pytest.fixture
def copy(tmp_path) -> Path:
    place = tmp_path / "home" / "experiments" / "copy"
    shutil.copytree(EXAMPLE, place)
    return place


def _flat(text: str) -> str:
    return " ".join(text.split())


def _reports(attune, words: str) -> None:
    """Terminal, JSON and page all say it, and nothing on stderr."""
    drawn = attune("report", "copy")
    assert drawn.code == 0 and words in _flat(drawn.out), drawn
    assert drawn.err == ""
    assert words in json.dumps(json.loads(attune("report", "copy", "--json").out)["remarks"])
    page = attune("report", "copy", "--html")
    assert page.code == 0, page.err
    folder = Path("".join(page.out.split("\n"))).parent
    assert words in (folder / "index.html").read_text(encoding="utf-8")
    assert words.split(" (")[0] in (folder / "report.md").read_text(encoding="utf-8")


def _lines(copy: Path) -> list[str]:
    return (copy / "journal.jsonl").read_text().splitlines(keepends=True)


def _write(copy: Path, lines: list[str]) -> None:
    (copy / "journal.jsonl").write_text("".join(lines))


def test_killed_during_a_run(attune, copy):
    lines = _lines(copy)
    place = max(i for i, line in enumerate(lines) if '"kind":"proposed"' in line)
    _write(copy, [*lines[: place + 1], lines[place + 1][:40]])
    (copy / "recipe.yaml").unlink()
    _reports(attune, "has no end in the journal: attune was killed during it")


def test_kinds_and_fields_of_a_newer_attune(attune, copy):
    lines = _lines(copy)
    first = json.loads(lines[0]) | {"colour": "green"}
    newer = [json.dumps(first) + "\n", '{"kind":"pondered","depth":3}\n', *lines[1:]]
    _write(copy, newer)
    _reports(attune, "lines that this attune does not know (pondered)")
    resumed = attune("tune", "--resume", "copy", "--dry-run")
    assert resumed.code in (0, 2) and "Traceback" not in resumed.err


def test_inputs_of_a_newer_attune(attune, copy):
    file = copy / "experiment.yaml"
    text = file.read_text().replace("versions:\n  attune: 0.1.0", "versions:\n  attune: 9.0.0")
    file.write_text(text + "moon_phase: full\n")
    assert attune("report", "copy").code == 0
    answer = attune("report", "copy", "--html")
    assert answer.code == 2 and len(answer.err.splitlines()) == 1
    assert "unknown field `moon_phase`" in answer.err and "attune 9.0.0 wrote it" in answer.err
    assert "attune 9.0.0 wrote it" in _flat(attune("experiments", "--json").out)


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda d: (d / "journal.jsonl").write_text("{}\n"), "line 1 is damaged"),
        (lambda d: (d / "journal.jsonl").write_text(""), "has no journal yet"),
        (lambda d: (d / "journal.jsonl").write_bytes(b"\xff\xfe\n"), "line 1 is damaged"),
        (lambda d: (d / "journal.jsonl").unlink(), "has no journal yet"),
    ],
    ids=["empty line", "empty", "binary", "none"],
)
def test_a_journal_that_tells_nothing(attune, copy, damage, words):
    damage(copy)
    for flags in ((), ("--html",)):
        answer = attune("report", "copy", *flags)
        assert answer.code in (1, 2) and len(answer.err.splitlines()) == 1
        assert words in answer.err
    assert attune("experiments").code == 0


def test_half_written_files(attune, copy):
    recipe = copy / "recipe.yaml"
    recipe.write_text(recipe.read_text()[:300] + '\nresult: "')
    _reports(attune, "the recipe cannot be read")
    results = list((copy / "trials").glob("*/result.json"))
    for result in results:
        result.write_text(result.read_text()[:50])
    answer = attune("report", "copy", "--html")
    assert results and answer.code == 2 and len(answer.err.splitlines()) == 1
    assert "result.json is damaged" in answer.err
    inputs = copy / "experiment.yaml"
    inputs.write_text(inputs.read_text()[:200] + "\n  x: [")
    answer = attune("report", "copy", "--html")
    assert answer.code == 2 and len(answer.err.splitlines()) == 1
    assert "damaged" in attune("experiments").out


def test_a_site_over_a_damaged_recipe(attune, copy, tmp_path):
    (copy / "recipe.yaml").write_text("schema_version: 2\n")
    answer = attune("site", "build", copy / "recipe.yaml", "-o", tmp_path / "site")
    assert answer.code == 2 and len(answer.err.splitlines()) == 1
    assert "schema_version" in answer.err
