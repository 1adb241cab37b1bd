from __future__ import annotations

import json

from attune.recipe import load_recipe
from attune.recipe.library import recipe_files

FIRST, THIRD = [
    p for p in recipe_files() if p.stem in ("published-tp4-pp2-cp4-mt16k", "published-tp4-pp2-cp8")
]


def test_show_says_where_figures_come_from(attune):
    answer = attune("recipe", "show", FIRST)
    assert answer.code == 0 and "146.80 (published)" in answer.out
    assert "--tensor-model-parallel-size 4 \\\n" in answer.out
    assert json.loads(attune("recipe", "show", FIRST, "--json").out)["layout"]["cp"] == 4


def test_diff_names_the_knob_and_the_change(attune):
    answer = attune("recipe", "diff", FIRST, THIRD)
    assert "  cp: 4 -> 8\n" in answer.out
    assert "tokens_per_s_per_gpu: 146.8 -> 136.48 (-7.0 %)" in answer.out
    assert "the same in layout" in attune("recipe", "diff", FIRST, FIRST).out


def test_rank_of_the_shipped_recipes_and_of_a_folder(attune, tmp_path):
    boards = json.loads(attune("recipe", "rank", "--json").out)
    board = next(b for b in boards if (b["model"], b["gpu"]) == ("GLM-5.2", "B200"))
    assert [row["place"] for row in board["ranked"]] == [1, 2, 3]
    drawn = attune("recipe", "rank", FIRST.parent).out
    assert max(map(len, drawn.splitlines())) <= 80 and "GLM-5.2 on B200" in drawn
    empty = attune("recipe", "rank", tmp_path)
    assert empty.code == 1 and "no recipe (*.yaml) in" in empty.err


def test_import_of_a_launch_script(attune, tmp_path):
    script, recipe = tmp_path / "train.sh", tmp_path / "out" / "recipe.yaml"
    script.write_text(load_recipe(FIRST).run)
    answer = attune("recipe", "import", script, "-g", "b200", "-o", recipe)
    assert answer.code == 2 and "pass --model" in answer.err
    answer = attune("recipe", "import", script, "-g", "b200", "-m", "glm-5.2", "-o", recipe)
    assert answer.code == 0, answer.err
    assert attune("recipe", "check", recipe).code == 0
    assert load_recipe(recipe).layout.label == "TP4 PP2 CP4 EP32 DP2"
    again = attune("recipe", "import", script, "-g", "b200", "-m", "glm-5.2", "-o", recipe)
    assert again.code == 2 and "--overwrite" in again.err


def test_import_without_a_count(attune, tmp_path):
    script = tmp_path / "train.sh"
    script.write_text("torchrun pretrain_gpt.py --bf16\n")
    answer = attune("recipe", "import", script, "-g", "h100", "-o", tmp_path / "r.yaml")
    assert answer.code == 2 and "pass --count" in answer.err
