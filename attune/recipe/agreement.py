"""Checks that a recipe's words and command agree with its layout."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from attune.errors import AttuneError
from attune.layout import Layout, label
from attune.recipe.layouts import layout_of
from attune.recipe.problem import Problem
from attune.recipe.schema import Recipe

_WORDS = {
    "tp": r"\bTP (\d+)",
    "pp": r"\bPP (\d+)",
    "vpp": r"\bVPP (\d+)",
    "cp": r"\bCP (\d+)",
    "ep": r"\bEP (\d+)",
    "etp": r"\bETP (\d+)",
    "dp": r"\bDP (\d+)",
    "max_tokens_per_gpu": r"\bmax ([\d,]+) tokens",
    "layer_split.first": r"\bfirst stage (\d+)",
    "layer_split.last": r"\blast(?: stage)? (\d+)",
}
"""How summary and highlights name a number of the layout."""

_FLAGS = {
    "layout.tp": "--tensor-model-parallel-size",
    "layout.pp": "--pipeline-model-parallel-size",
    "layout.cp": "--context-parallel-size",
    "layout.ep": "--expert-model-parallel-size",
    "layout.etp": "--expert-tensor-parallel-size",
    "layout.layer_split.first": "--decoder-first-pipeline-num-layers",
    "layout.layer_split.last": "--decoder-last-pipeline-num-layers",
    "layout.max_tokens_per_gpu": "--max-tokens-per-gpu",
    "layout.recompute.granularity": "--recompute-granularity",
    "layout.offload.optimizer_fraction": "--optimizer-offload-fraction",
    "layout.dispatcher": "--moe-token-dispatcher-type",
    "workload.global_batch": "--global-batch-size",
    "result.steps_per_run": "--num-rollout",
    "gpu.per_node": "--actor-num-gpus-per-node",
}
"""Flags of the command that state a field; the last one given counts, as argparse reads them."""

_SHARED = ("tp", "pp", "vpp", "cp", "ep", "etp", "sequence_parallel", "rows_per_microbatch")


def check_words(recipe: Recipe) -> Iterator[Problem]:
    """Label, summary and highlights follow from the layout."""
    layout = recipe.layout
    degrees = {name: getattr(layout, name) for name in ("tp", "pp", "vpp", "cp", "ep")}
    wanted = label(Layout(**degrees), recipe.gpu.count)
    if layout.label != wanted and layout.dp == recipe.gpu.count // (
        layout.tp * layout.pp * layout.cp
    ):
        yield Problem("layout.label", layout.label, f"the degrees give `{wanted}`")
    for field in ("summary", "highlights"):
        text = getattr(layout, field)
        yield from _check_numbers(recipe, f"layout.{field}", text)
        yield from _check_memory_words(recipe, f"layout.{field}", text)


def _check_numbers(recipe: Recipe, field: str, text: str) -> Iterator[Problem]:
    for name, pattern in _WORDS.items():
        found, value = re.search(pattern, text), _value(recipe, f"layout.{name}")
        if found and value is not None and int(found[1].replace(",", "")) != value:
            yield Problem(field, found[0], f"layout.{name} is {value}")


def _check_memory_words(recipe: Recipe, field: str, text: str) -> Iterator[Problem]:
    """Recompute and offload are said as they are."""
    recompute, offload = recipe.layout.recompute, recipe.layout.offload
    found = re.search(r"\b(no|full|selective) recompute", text)
    wanted = recompute.granularity if recompute else "no"
    if found and found[1] != wanted:
        yield Problem(field, found[0], f"layout.recompute says {wanted} recompute")
    share = re.search(r"offload \(fraction ([\d.]+)\)", text)
    fraction = offload.optimizer_fraction if offload else 0.0
    if share and float(share[1]) != fraction:
        yield Problem(field, share[0], f"layout.offload has a fraction of {fraction:g}")


def check_command(recipe: Recipe) -> Iterator[Problem]:
    """`run:` sets the flags and the environment that the recipe states."""
    for field, flag in _FLAGS.items():
        given = re.findall(rf"(?<!\S){flag}[ =]+(\S+)", recipe.run)
        value = _value(recipe, field)
        if given and value is not None and given[-1] != f"{value}":
            yield Problem("run", f"{flag} {given[-1]}", f"{field} is {value}")
    nodes = re.findall(r"(?<!\S)--actor-num-nodes[ =]+(\d+)", recipe.run)
    if nodes and int(nodes[-1]) * recipe.gpu.per_node != recipe.gpu.count:
        wanted = f"gpu.count is {recipe.gpu.count} at {recipe.gpu.per_node} per node"
        yield Problem("run", f"--actor-num-nodes {nodes[-1]}", wanted)
    for name, text in re.findall(r"^\s*export (\w+)=(.*?)(?:\s+#.*)?$", recipe.run, re.MULTILINE):
        if name in recipe.env and recipe.env[name] not in (text, _unquoted(text)):
            yield Problem("run", f"export {name}={text}", f"env.{name} is {recipe.env[name]!r}")


def check_own_layout(recipe: Recipe) -> Iterator[Problem]:
    """attune's own layout line says the same as the layout block."""
    if recipe.attune is None:
        return
    try:
        layout = layout_of(recipe)
    except AttuneError as error:
        yield Problem("attune.layout", recipe.attune.layout, str(error))
        return
    block = recipe.layout
    pairs = {name: (getattr(layout, name), getattr(block, name)) for name in _SHARED}
    granularity = block.recompute.granularity if block.recompute else "none"
    fraction = block.offload.optimizer_fraction if block.offload else 0.0
    pairs["recompute"] = (layout.recompute, granularity)
    pairs["optimizer_offload"] = (layout.optimizer_offload, fraction)
    for name, (own, stated) in pairs.items():
        if own != stated:
            yield Problem("attune.layout", f"{name}={own}", f"the layout block says {stated}")


def _value(recipe: Recipe, path: str) -> object:
    value: object = recipe
    for name in path.split("."):
        value = getattr(value, name, None)
    return value


def _unquoted(text: str) -> str:
    try:
        return " ".join(shlex.split(text))
    except ValueError:
        return text
