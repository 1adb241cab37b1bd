"""Where a campaign starts: fixed dimensions and layouts that won elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from attune.errors import AttuneError
from attune.experiment import Experiment
from attune.experiment.events import Finished, Proposed
from attune.layout import parse_layout
from attune.layout.space import load_space
from attune.verbs.tune import TuneRequest, tune
from attune.verbs.tune_start import find_warm_start, merge_held, read_fixed

REQUEST = TuneRequest(model="tiny-moe", gpu="cpu", count=4, launcher="simulated", trials=2)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATTUNE_HOME", str(tmp_path))


def changed(**fields: object) -> TuneRequest:
    return TuneRequest(**{**vars(REQUEST), **fields})  # type: ignore[arg-type]


def test_fixed_words_are_numbers_switches_and_texts() -> None:
    words = ("tp=4", "optimizer_offload=0.5", "overlap_experts=on", "recompute=core_attn,moe")
    assert read_fixed(words, load_space("moe")) == {
        "tp": 4,
        "optimizer_offload": 0.5,
        "overlap_experts": True,
        "recompute": "core_attn,moe",
    }


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("tp",), "name=value"),
        (("=4",), "name=value"),
        (("tp=4", "tp=2"), "twice"),
        (("tpp=4",), "tpp"),
        (("tp=four",), "tp"),
        (("name=x: [",), "name"),
    ],
)
def test_words_that_fix_nothing_are_named(words: tuple[str, ...], named: str) -> None:
    with pytest.raises(AttuneError, match=named):
        read_fixed(words, load_space("moe"))


def test_what_the_trainer_holds_cannot_be_fixed_otherwise() -> None:
    assert merge_held({"tp": 2}, {"cp": 1}) == {"tp": 2, "cp": 1}
    with pytest.raises(AttuneError, match="cp=2"):
        merge_held({"cp": 2}, {"cp": 1})


def test_every_candidate_keeps_what_is_fixed() -> None:
    events = list(tune(changed(fix=("tp=2", "pp=1"), name="held")).events())
    layouts = [parse_layout(e.layout) for e in events if isinstance(e, Proposed)]
    tried = [e for e in events if isinstance(e, Proposed) and e.purpose == "candidate"]
    assert tried and all(parse_layout(e.layout).tp == 2 for e in tried)
    assert all(layout.pp == 1 for layout in layouts[1:])


def test_a_winner_elsewhere_is_tried_first() -> None:
    first = list(tune(changed(name="first")).events())
    won = first[-1].winner  # type: ignore[union-attr]
    warm = find_warm_start("first")
    assert warm.layout == won and "tiny-moe" in warm.source.lower()
    again = list(tune(changed(count=8, warm_start="first", name="second")).events())
    candidates = [e for e in again if isinstance(e, Proposed) and e.purpose == "candidate"]
    assert candidates[0].why.startswith("warm start: winner of first")
    recipe = Experiment.open("first").recipe_path
    assert find_warm_start(str(recipe)).layout == won


def test_an_experiment_without_a_winner_is_no_start() -> None:
    Experiment.create(tune(changed(name="begun")).inputs)
    with pytest.raises(AttuneError, match="has no winner"):
        find_warm_start("begun")
    with pytest.raises(AttuneError, match="no experiment"):
        find_warm_start("absent")


def test_the_winner_keeps_to_the_memory_that_may_be_used() -> None:
    free = list(tune(changed(trials=4, name="free")).events())
    peaks = [e.peak_gib for e in free if isinstance(e, Finished) and e.peak_gib]
    limit = tune(REQUEST).inputs.cluster.gpu.memory_gib
    share = (min(peaks) + max(peaks)) / 2 / limit
    held = list(tune(changed(trials=4, max_memory=share, name="held")).events())
    winner = held[-1].winner  # type: ignore[union-attr]
    assert winner is not None
    won = [e for e in held if isinstance(e, Finished) and e.layout == winner]
    assert all((e.peak_gib or 0) <= share * limit for e in won)


@pytest.mark.parametrize("share", [0.0, 1.5, -1.0, float("nan")])
def test_a_share_of_memory_is_between_nothing_and_all(share: float) -> None:
    with pytest.raises(AttuneError, match="max_memory"):
        tune(changed(max_memory=share))
