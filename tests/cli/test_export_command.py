from __future__ import annotations

import os
from pathlib import Path

import yaml

from attune.recipe.library import recipe_files

EXAMPLE = Path(__file__).resolve().parents[2] / "experiments" / "example"
BRIDGE = next(path for path in recipe_files() if path.stem == "megatron-bridge-ep16")


def test_to_standard_output_and_to_a_file(attune, tmp_path):
    answer = attune("export", EXAMPLE)
    assert answer.code == 0 and answer.out == (EXAMPLE / "recipe.yaml").read_text()
    file = tmp_path / "out" / "train.sh"
    assert attune("export", EXAMPLE, "--to", "script", "-o", file).code == 0
    assert os.access(file, os.X_OK) and file.read_text().startswith("#!/bin/sh\n")
    again = attune("export", EXAMPLE, "--to", "script", "-o", file)
    assert again.code == 2 and "--overwrite" in again.err
    assert attune("export", EXAMPLE, "-o", file, "--overwrite").code == 0


def test_options_of_the_site(attune):
    site = ("--launcher-option", "image=site/train:1")
    job = yaml.safe_load(attune("export", BRIDGE, "--to", "k8s", *site).out)
    assert job["spec"]["trainer"]["image"] == "site/train:1"
    wrong = attune("export", BRIDGE, "--to", "sbatch", "--launcher-option", "partitoin=x")
    assert wrong.code == 2 and "did you mean `partition`?" in wrong.err


def test_what_is_neither_recipe_nor_experiment(attune, tmp_path):
    assert "no experiment `nowhere`" in attune("export", "nowhere").err
    file = tmp_path / "notes.yaml"
    file.write_text("- a list\n")
    answer = attune("export", file, "--to", "env")
    assert answer.code == 2 and "must be a mapping" in answer.err
    file.write_text("x" * 2_000_000)
    assert "is it the right file?" in attune("export", file).err
