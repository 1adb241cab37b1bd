"""What a campaign on real hardware may ask of attune's own trainer."""

from __future__ import annotations

from pathlib import Path

import pytest

from attune.errors import AttuneError
from attune.layout.space import enumerate_layouts
from attune.verbs.tune import TuneRequest, tune


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATTUNE_HOME", str(tmp_path))


def test_a_real_campaign_draws_only_what_the_worker_trains() -> None:
    request = TuneRequest(model="llama-3.1-8b", gpu="h100", count=8, launcher="local")
    inputs = tune(request).inputs
    drawn = enumerate_layouts(inputs.space, inputs.model, 8, dict(inputs.fixed))
    assert (drawn.table.optimizer_offload == 0).all() and (drawn.table.cp > 1).any()


def test_a_simulated_campaign_draws_the_whole_space() -> None:
    request = TuneRequest(model="llama-3.1-8b", gpu="h100", count=8, launcher="simulated")
    inputs = tune(request).inputs
    drawn = enumerate_layouts(inputs.space, inputs.model, 8, dict(inputs.fixed))
    assert (drawn.table.cp > 1).any() and not inputs.fixed


def test_a_model_that_the_worker_cannot_train_is_refused_before_anything_is_spent() -> None:
    request = TuneRequest(model="glm-5", gpu="h100", count=256, launcher="local")
    with pytest.raises(AttuneError, match="sparse-attention indexer"):
        tune(request)
