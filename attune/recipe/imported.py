"""A recipe from somebody's launch script: its layout as a reference, with no claim of speed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from attune.catalog import Cluster, Model, load_model, model_names
from attune.catalog.megatron_flags import megatron_flags
from attune.errors import AttuneError
from attune.layout import Layout, write_layout
from attune.recipe.blocks import Author, LayoutBlock, Stack, WorkloadBlock
from attune.recipe.build import gpu_block
from attune.recipe.flags import layout_of_flags, whole
from attune.recipe.launch_script import LaunchScript, Value
from attune.recipe.layouts import layout_block
from attune.recipe.schema import AttuneBlock, Recipe
from attune.workload import Workload

_TRAINERS = {"train.py": "miles", "train_async.py": "slime"}
_ALWAYS: dict[str, Value] = {
    "--use-distributed-optimizer": True,
    "--moe-token-dispatcher-type": "alltoall",
}
"""What miles and slime set whatever the command says (their arguments.py)."""
_IDENTITY = ("--num-layers", "--hidden-size", "--num-attention-heads", "--num-experts")
_ROW_TOKENS = 8192
"""Of packed rows whose length the command does not say: the one of the published pages."""


def model_of(script: LaunchScript) -> Model:
    """The catalogue's model whose layers, hidden size, heads and experts the script states.

    Raises:
        AttuneError: none has them, several have, or the script does not state them.
    """
    if "--num-layers" not in script.flags:
        unread = ", ".join(script.unread) or "nothing"
        raise AttuneError(
            f"the script does not state the model (it takes {unread} from elsewhere); pass --model"
        )
    said = {flag: script.flags.get(flag) for flag in _IDENTITY}
    found = [m for m in map(load_model, model_names()) if _states(m) == said]
    if len(found) == 1:
        return found[0]
    words = ", ".join(f"{flag} {value}" for flag, value in said.items() if value)
    names = f"{', '.join(m.id for m in found)} have" if found else "no model of the catalogue has"
    raise AttuneError(f"{names} {words}; pass --model with the one that it trains")


def _states(model: Model) -> dict[str, str | None]:
    flags = megatron_flags(model)
    return {flag: str(flags[flag]) if flag in flags else None for flag in _IDENTITY}


def count_of(script: LaunchScript) -> int | None:
    """GPUs that the script starts, where it says so."""
    pairs = (
        (script.flags, "--actor-num-nodes", "--actor-num-gpus-per-node"),
        (script.launcher_flags, "--nnodes", "--nproc_per_node"),
        (script.launcher_flags, "--nnodes", "--nproc-per-node"),
    )
    for flags, nodes, each in pairs:
        given = (flags.get(nodes), flags.get(each))
        if all(isinstance(value, str) and value.isdigit() for value in given):
            return int(str(given[0])) * int(str(given[1]))
    return None


def import_recipe(
    script: LaunchScript, text: str, *, model: Model, cluster: Cluster, source: str
) -> Recipe:
    """The `reference` recipe of a script; `run:` keeps its text, which nothing here runs.

    Raises:
        AttuneError: a flag has a value that Megatron refuses.
    """
    flags = _flags(script, model)
    _refuse_another_model(flags, model)
    row_tokens = whole(flags, "--seq-length", _ROW_TOKENS)
    layout = layout_of_flags(flags, model.layers, row_tokens)
    batch = whole(script.flags, "--global-batch-size", max(layout.dp(cluster.count), 1))
    workload = Workload(row_tokens=row_tokens, global_batch=batch)
    return Recipe(
        schema_version=1,
        model=model.name,
        gpu=gpu_block(cluster),
        author=Author(name=source),
        status="reference",
        stack=Stack(framework=_TRAINERS.get(script.program, "Megatron-LM")),
        workload=WorkloadBlock(
            row_tokens=row_tokens,
            rows="as the script reads them",
            global_batch=batch,
            precision=_precision(script),
        ),
        layout=LayoutBlock.model_validate(layout_block(layout, model, cluster.count, workload)),
        env={name: value for name, value in script.environment.items() if value},
        run=text.rstrip("\n") + "\n",
        attune=AttuneBlock(
            provenance="published",
            hardware=cluster.gpu.id,
            model_id=model.id,
            layout=write_layout(layout),
            source=f"imported from {source}; nothing of it was run",
        ),
    )


def _refuse_another_model(flags: Mapping[str, Value], model: Model) -> None:
    for flag, stated in _states(model).items():
        given = flags.get(flag)
        if given is not None and given != stated:
            raise AttuneError(
                f"the script says {flag} {given}, and {model.name} has {stated or 'none'}; pass "
                "--model with the one that it trains"
            )


def _flags(script: LaunchScript, model: Model) -> dict[str, Value]:
    """The command's flags, with what its trainer sets; a dense model dispatches no tokens."""
    flags = (_ALWAYS if script.program in _TRAINERS else {}) | dict(script.flags)
    if not model.experts:
        flags["--moe-token-dispatcher-type"] = Layout().dispatcher
    return flags


def _precision(script: LaunchScript) -> Literal["bf16", "fp32", "fp8"]:
    if "--fp8-format" in script.flags or "--fp8" in script.flags:
        return "fp8"
    return "bf16" if script.flags.get("--bf16") or script.program in _TRAINERS else "fp32"
