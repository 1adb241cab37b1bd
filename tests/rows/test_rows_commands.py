"""`attune rows` as a person uses it."""

from __future__ import annotations

import json

import pytest

from attune.cli.app import run
from attune.report.rows import draw_row
from attune.rows.show import show_row
from tests.rows.small_tokenizers import CONVERSATIONS


@pytest.fixture
def attune(capsys):
    def invoke(*arguments):
        code = run([str(argument) for argument in arguments])
        answer = capsys.readouterr()
        return code, answer.out, answer.err

    return invoke


def test_build_check_show(attune, tokenizer_of, tmp_path):
    path, tokenizer = tmp_path / "rows.parquet", tokenizer_of("qwen3")
    asked = ["--source", CONVERSATIONS, "--tokenizer", tokenizer, "--loss-mask", "qwen3"]
    asked += ["--row-tokens", "64", "--row-count", "40", "--processes", "1", "-o", path]
    code, out, _ = attune("rows", "build", *asked, "--json")
    assert code == 0
    manifest = json.loads(out)
    assert manifest["row_count"] == 40
    code, out, _ = attune("rows", "check", path)
    assert code == 0 and manifest["rows_sha256"] in out
    code, out, _ = attune("rows", "show", path, "--row", 3, "--tokenizer", tokenizer)
    assert code == 0 and "«" in out and "<|im_start|>" in out
    code, out, _ = attune("rows", "show", path, "--row", 3)
    assert code == 0 and "--tokenizer shows text" in out
    code, _, err = attune("rows", "show", path, "--row", 40)
    assert code == 2 and "rows 0 to 39" in err
    code, _, err = attune("rows", "show", path, "--tokenizer", tokenizer_of("glm45"))
    assert code == 2 and "did not make these rows" in err
    path.write_bytes(path.read_bytes() + b"x")
    assert attune("rows", "check", path)[0] == 1


def test_supervised_tokens_are_coloured(rows_file, tokenizer_of):
    from rich.console import Console

    console = Console(force_terminal=True, color_system="standard", record=True, width=200)
    draw_row(show_row(rows_file(), 3, str(tokenizer_of("glm45"))), console)
    text = console.export_text(styles=True)
    assert "\x1b[1;32m" in text and "«" not in text
