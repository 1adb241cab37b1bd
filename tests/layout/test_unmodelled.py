from __future__ import annotations

import pytest

from attune.errors import AttuneError
from attune.layout import parse_layout
from attune.layout.table import COLUMNS
from attune.layout.unmodelled import unmodelled


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("fsdp", "FSDP"),
        ("use_megatron_fsdp", "FSDP"),
        ("ZeRO-3", "FSDP"),
        ("nvfp4", "FP4 weights"),
        ("Mamba-2", "hybrid Mamba layers"),
        ("lora", "LoRA"),
    ],
)
def test_what_no_formula_covers_is_named(name: str, what: str) -> None:
    assert unmodelled(name) == what


def test_fields_of_a_layout_are_modelled() -> None:
    assert not any(map(unmodelled, COLUMNS))


def test_a_layout_with_fsdp_is_refused_by_its_name() -> None:
    with pytest.raises(AttuneError, match="unmodelled: FSDP"):
        parse_layout("tp=4 pp=2 fsdp=on")
