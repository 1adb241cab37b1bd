"""Ways to train that no formula here covers, by the names that people give them."""

from __future__ import annotations

from collections.abc import Iterable

from attune.errors import AttuneError

UNMODELLED = {
    "FSDP": ("fsdp", "hsdp", "zero2", "zero3", "torchfsdp2", "megatronfsdp"),
    "FP4 weights": ("fp4", "nvfp4", "mxfp4"),
    "hybrid Mamba layers": ("mamba", "mamba2", "hybridmamba", "ssm"),
    "LoRA": ("lora", "qlora", "peft", "dora"),
    "activations offloaded one by one": ("finegrainedactivationoffloading", "cpuoffloading"),
}
"""What is not modelled, and its names without separators."""


def unmodelled(name: str) -> str | None:
    """What is not modelled about a field or word of that name, if anything."""
    plain = "".join(letter for letter in name.lower() if letter.isalnum())
    for prefix in ("use", "no"):
        plain = plain.removeprefix(prefix) if plain != prefix else plain
    return next((what for what, names in UNMODELLED.items() if plain in names), None)


def refuse_unmodelled(names: Iterable[str]) -> None:
    """Refuses what no estimate covers.

    Raises:
        AttuneError: `unmodelled: <what>`, at the first of `names` that is not modelled.
    """
    for name in names:
        what = unmodelled(name)
        if what:
            raise AttuneError(
                f"unmodelled: {what} (`{name[:40]}`); memory and time of it are not estimated"
            )
