"""The parity probe names what differs and what it has in common."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from attune.errors import AttuneError
from attune.verify import check_parity, read_parity
from attune.verify.parity import ProbedStep, in_common

NAMES = [
    "embedding.word_embeddings.weight",
    *(
        f"decoder.layers.{layer}.{part}"
        for layer in range(4)
        for part in (
            "input_layernorm.weight",
            "self_attention.linear_qkv.weight",
            "mlp.router.weight",
            *(f"mlp.experts.{expert}.linear_fc1.weight" for expert in range(3)),
        )
    ),
    "decoder.final_layernorm.weight",
    "output_layer.weight",
]


def _steps(changed: dict[str, float] | None = None, what: str = "gradient") -> tuple[ProbedStep]:
    tensors = {name: {"gradient": 1.0, "update": 0.1, "spread": 0.0} for name in NAMES}
    for name, value in (changed or {}).items():
        tensors[name] = {**tensors[name], what: value}
    return (ProbedStep.model_validate({"step": 0, "loss": 6.9, "tensors": tensors}),)


def test_equal_norms_pass() -> None:
    check = check_parity(_steps(), _steps(), "fp32")
    assert check.status == "passed" and f"{len(NAMES)} tensors" in check.detail


@pytest.mark.parametrize(
    ("part", "words"),
    [
        ("layernorm", "norms (5 of 5)"),
        ("experts.1.", "experts.1 (4 of 4)"),
        ("layers.2.", "layers.2 (6 of 6)"),
        ("router", "mlp.router.weight (4 of 4)"),
        ("output_layer", "output_layer.weight (1 of 1)"),
    ],
)
def test_what_differs_is_named_by_what_it_shares(part: str, words: str) -> None:
    differing = [name for name in NAMES if part in name]
    check = check_parity(_steps(dict.fromkeys(differing, 0.9)), _steps(), "fp32")
    assert check.status == "failed" and words in check.detail
    assert check.values["tensors"] and set(check.values["tensors"]) == set(differing)


def test_all_tensors_have_nothing_in_common() -> None:
    assert in_common(NAMES, NAMES).startswith("nothing")
    assert in_common([NAMES[1], NAMES[8]], NAMES) == "layers 0 to 1"


def test_updates_are_compared_where_gradients_agree() -> None:
    check = check_parity(_steps({NAMES[1]: 0.2}, "update"), _steps(), "fp32")
    assert check.status == "failed" and check.values["what"] == "update"


def test_copies_that_lie_apart_are_found() -> None:
    check = check_parity(_steps({NAMES[1]: 0.3}, "spread"), _steps(), "fp32")
    assert check.status == "failed" and check.values["what"] == "spread"


def test_a_norm_of_rounding_alone_is_not_compared() -> None:
    ours, theirs = _steps({NAMES[1]: 1e-9}), _steps({NAMES[1]: 3e-9})
    assert check_parity(ours, theirs, "fp32").status == "passed"


def test_a_tensor_that_one_arm_lacks_is_found() -> None:
    whole = _steps()[0]
    short = {name: norms for name, norms in whole.tensors.items() if name != NAMES[2]}
    check = check_parity((whole.model_copy(update={"tensors": short}),), (whole,), "fp32")
    assert check.status == "failed" and check.values["tensors"] == [NAMES[2]]


def test_files_that_cannot_be_compared_are_refused_in_words(tmp_path: Path) -> None:
    file = tmp_path / "parity.jsonl"
    with pytest.raises(AttuneError, match="--parity"):
        read_parity(file)
    file.write_text("")
    with pytest.raises(AttuneError, match="empty"):
        read_parity(file)
    file.write_text('{"step": 0}\n')
    with pytest.raises(AttuneError, match="not a file of the parity probe"):
        read_parity(file)
    file.write_text(json.dumps(_steps()[0].model_dump()) + "\n")
    assert read_parity(file) == _steps()
