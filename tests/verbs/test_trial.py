from __future__ import annotations

import pytest

from attune.errors import AttuneError, LayoutError
from attune.layout import parse_layout
from attune.verbs.target import find_target
from attune.verbs.trial import find_launcher, run_trial

LAYOUT = parse_layout("tp=4 pp=16 ep=8 first=5 last=3")


@pytest.fixture
def glm(tmp_path, monkeypatch):
    monkeypatch.setenv("ATTUNE_HOME", str(tmp_path))
    return find_target("glm-4.5", "h200", 128)


def test_simulated_trial_is_predicted_and_watched(glm):
    seen = []
    run = run_trial(glm, LAYOUT, launcher=find_launcher(glm, "simulated"), watch=seen.append)
    assert run.completed and len(seen) == 20
    assert run.result.provenance == "predicted" and run.result.hardware == "virtual h200"
    assert (run.directory / "result.json").is_file()
    assert run.predicted.step_s > 0


def test_each_trial_has_its_own_directory(glm, tmp_path):
    launcher = find_launcher(glm, "simulated")
    first = run_trial(glm, LAYOUT, launcher=launcher)
    second = run_trial(glm, LAYOUT, launcher=launcher)
    assert first.directory != second.directory
    with pytest.raises(AttuneError, match="holds a finished trial"):
        run_trial(glm, LAYOUT, launcher=launcher, directory=first.directory)


def test_illegal_layout_names_rule_and_cure_and_runs_nothing(glm, tmp_path):
    with pytest.raises(LayoutError, match="cure: first=5 last=3") as raised:
        layout = parse_layout("tp=4 pp=16 ep=8")
        run_trial(glm, layout, launcher=find_launcher(glm, "simulated"))
    assert raised.value.rule == "pp.layers_divide"
    assert not list(tmp_path.iterdir())


def test_launcher_is_chosen_with_its_reason():
    found = find_launcher(find_target("tiny-moe", "cpu", 4))
    assert found.name == "local" and not found.simulated and found.reason
