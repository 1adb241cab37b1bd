from __future__ import annotations

import json

import pytest

from attune.catalog import load_cluster
from attune.estimate import Calibration
from attune.experiment import save_calibration


@pytest.fixture
def saved():
    mean = (0.25, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    return save_calibration(
        Calibration(mean=mean, observations=3), load_cluster("h200", 8), "megatron-core"
    )


def test_nothing_saved_says_how_to_get_one(attune):
    answer = attune("calibration")
    assert answer.code == 0 and "no calibration is saved" in answer.out
    assert json.loads(attune("calibration", "--json").out) == []


def test_table_fits_80_columns(attune, saved):
    answer = attune("calibration")
    assert answer.code == 0 and "3 measured runs" in answer.out and "1.28" in answer.out
    table = [line for line in answer.out.splitlines() if line.count(" to ") == 2]
    assert len(table) == 7 and max(map(len, table)) <= 80


def test_json_has_every_multiplier(attune, saved):
    (one,) = json.loads(attune("calibration", "--json").out)
    assert one["trials"] == 3 and one["framework"] == "megatron-core"
    assert {"compute", "memory"} <= {m["name"] for m in one["multipliers"]}


def test_reset_asks_and_forgets(attune, saved):
    refused = attune("calibration", "--reset")
    assert refused.code == 2 and "--yes" in refused.err and saved.exists()
    assert json.loads(attune("calibration", "--reset", "--yes", "--json").out) == {"forgotten": 1}
    assert not saved.exists()


def test_damaged_file_can_be_forgotten(attune, tmp_path):
    file = tmp_path / "bad.yaml"
    file.write_text("version: [")
    shown = attune("calibration", "--calibration", str(file))
    assert shown.code == 2 and f"attune calibration --reset --calibration {file}" in shown.err
    assert attune("calibration", "--reset", "--yes", "--calibration", str(file)).code == 0
    assert "no calibration" in attune("calibration", "--calibration", str(file)).out
