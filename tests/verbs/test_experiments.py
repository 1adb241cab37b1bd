from __future__ import annotations

import pytest

from attune.errors import AttuneError, NothingFoundError
from attune.experiment import Experiment
from attune.experiment.events import Completed
from attune.verbs.export import export_recipe
from attune.verbs.report import find_experiments, write_report


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("ATTUNE_HOME", str(tmp_path))
    experiment = tmp_path / "experiments" / "exp-1"
    experiment.mkdir(parents=True)
    (experiment / "experiment.yaml").write_text("experiment: exp-1\n")
    return experiment


def test_recipe_is_copied_out(folder, tmp_path):
    (folder / "recipe.yaml").write_text("schema_version: 1\n")
    output = export_recipe("exp-1", tmp_path / "deep" / "recipe.yaml")
    assert output.read_text() == "schema_version: 1\n"
    with pytest.raises(AttuneError, match="exists"):
        export_recipe("exp-1", output)
    export_recipe("exp-1", output, overwrite=True)


def test_no_recipe_yet_is_told_with_the_way_on(folder, tmp_path):
    with pytest.raises(NothingFoundError, match="--resume exp-1"):
        export_recipe("exp-1", tmp_path / "recipe.yaml")


def test_a_recipe_that_was_removed_is_no_reason_to_resume(folder, tmp_path):
    fields = dict.fromkeys(
        ("winner", "winner_run", "tokens_per_s_per_gpu", "step_time_s", "peak_gib", "mfu")
    )
    done = Completed(
        **fields,
        usd_per_million_tokens=None,
        status="predicted",
        gains=(),
        recipe="recipe.yaml",
        gpu_hours=1.0,
    )
    Experiment(folder).append(done)
    with pytest.raises(AttuneError, match="gone since the campaign ended"):
        export_recipe("exp-1", tmp_path / "recipe.yaml")


def test_recipe_cannot_be_written_where_a_file_is_in_the_way(folder, tmp_path):
    (folder / "recipe.yaml").write_text("schema_version: 1\n")
    (tmp_path / "file").write_text("")
    with pytest.raises(AttuneError, match="cannot write"):
        export_recipe("exp-1", tmp_path / "file" / "recipe.yaml")


def test_empty_journal_is_told_with_the_way_on(folder):
    with pytest.raises(NothingFoundError, match="--resume exp-1"):
        write_report("exp-1")


def test_damaged_experiment_is_listed_as_damaged(folder):
    (found,) = find_experiments()
    assert (found.id, found.state) == ("exp-1", "damaged")
    assert "experiment.yaml" in found.problem


def test_unknown_experiment_names_the_known(folder):
    with pytest.raises(AttuneError, match="known: exp-1"):
        write_report("exp-2")
