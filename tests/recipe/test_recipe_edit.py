from __future__ import annotations

import pytest

from attune.errors import AttuneError
from attune.recipe.edit import edit_text
from attune.recipe.files import parse_text
from attune.recipe.library import recipe_files

TEXT = """\
# mine
model: GLM-4.5   # the big one
layout: {tp: 4, pp: 16}
cuda: '13.0'
run: |
  torchrun \\
    train.py   # two spaces

notes: >-
  folded
  text
"""


def test_one_field_changes_and_all_else_stays() -> None:
    changed = edit_text(TEXT, {"layout.tp": 8})
    assert changed == TEXT.replace("tp: 4", "tp: 8")


def test_a_missing_block_is_made() -> None:
    data = parse_text(edit_text(TEXT, {"result.mfu": 0.1, "result.runs": 2}))
    assert data["result"] == {"mfu": 0.1, "runs": 2}


@pytest.mark.parametrize("path", recipe_files(), ids=lambda path: path.stem)
def test_shipped_recipes_keep_their_comments(path) -> None:
    text = path.read_text(encoding="utf-8")
    edited = edit_text(text, {"author.name": "somebody"})
    old, new = parse_text(text), parse_text(edited)
    assert new["author"]["name"] == "somebody"
    assert new | {"author": old["author"]} == old
    comments = [line for line in text.splitlines() if line.startswith("#")]
    assert [line for line in edited.splitlines() if line.startswith("#")] == comments


def test_refused() -> None:
    with pytest.raises(AttuneError, match="holds no fields"):
        edit_text(TEXT, {"model.name": "x"})
    with pytest.raises(AttuneError, match="no mapping"):
        edit_text("- a list\n", {"model": "x"})
    with pytest.raises(AttuneError, match="no tags"):
        edit_text("model: !!python/object:os.system x\n", {"model": "x"})
