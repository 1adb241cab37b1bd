"""An explanation: one layout's sizes, broken rules, memory and step time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from attune.report.plan import Suggestion, workload_words
from attune.report.words import (
    badge,
    gib,
    grid,
    number,
    percent,
    say,
    say_marked,
    say_whole,
    seconds,
)
from attune.trial.result import Provenance
from attune.workload import Workload

if TYPE_CHECKING:
    from rich.console import Console


_SHOWN_S = 0.0005
"""Parts that three decimals would print as nothing are left out."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Sizes:
    """What follows from a layout."""

    dp: int
    """Data-parallel degree."""
    edp: int
    """Expert-data-parallel degree."""
    microbatches: int
    """Per step and data-parallel rank."""
    layers_per_stage: tuple[tuple[int, ...], ...]
    """Transformer layers of each virtual chunk of each stage."""
    tokens_per_microbatch_per_gpu: int
    """Tokens of one microbatch that one context-parallel rank holds."""
    idle_share: float
    """Share of a step that the pipeline idles while it fills and drains, 0 to 1."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BrokenRule:
    """A rule that the layout breaks, with its cure."""

    rule: str
    message: str
    cure: str | None
    """The change that mends it, as `--layout` takes it; None where there is none."""
    cured: str | None
    """The layout after the cure, as one line."""
    verdict: str
    """`illegal`, or what Megatron accepts: `silently_wrong`, `risky`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StageMemory:
    """Predicted memory of one GPU of a stage, GiB."""

    stage: int
    parts: dict[str, float]
    allocated_gib: float
    reserved_gib: float
    device_gib: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Explanation:
    """All that attune knows of one layout before it runs. Provenance: predicted."""

    model: str
    gpu: str
    count: int
    workload: Workload
    layout: str
    label: str
    broken: tuple[BrokenRule, ...]
    sizes: Sizes | None
    """None where the degrees need more GPUs than there are."""
    estimated: str | None = None
    """The layout that is estimated: this one, its cured form if illegal; None without either."""
    prediction: Suggestion | None = None
    memory: tuple[StageMemory, ...] = ()
    host_gib: float | None = None
    """Predicted host memory of a node, GiB."""
    step_parts: dict[str, float] = field(default_factory=dict)
    """Seconds of each part; they add up to the step time."""
    provenance: Provenance = "predicted"

    @property
    def legal(self) -> bool:
        """Whether no rule is broken."""
        return not self.broken


def draw_explanation(found: Explanation, console: Console) -> None:
    """Sizes, rules, memory by part and stage, step time by part."""
    say(console, f"{found.model} on {found.count} {found.gpu}: {workload_words(found.workload)}")
    say_whole(console, f"{found.label}  {found.layout}".strip())
    if found.sizes:
        _draw_sizes(found.sizes, console)
    _draw_rules(found, console)
    if found.prediction:
        if found.estimated != found.layout:
            say(console, f"\nEstimates are for the cured layout: {found.estimated}")
        _draw_memory(found, found.prediction, console)
        _draw_time(found, found.prediction, console)
    else:
        say(
            console,
            "\nno estimate: no cure leads to a legal layout; `attune plan` lists legal ones",
        )


def _draw_sizes(sizes: Sizes, console: Console) -> None:
    table = grid(["derived", ""])
    table.add_row("data-parallel degree (DP)", number(sizes.dp))
    table.add_row("expert-data-parallel degree (EDP)", number(sizes.edp))
    table.add_row("microbatches per step and DP rank", number(sizes.microbatches))
    table.add_row("tokens per microbatch and CP rank", number(sizes.tokens_per_microbatch_per_gpu))
    table.add_row("pipeline idle share", percent(sizes.idle_share))
    console.print(table)
    stages = " | ".join("+".join(map(str, chunks)) for chunks in sizes.layers_per_stage)
    say(console, f"layers per stage: {stages}")


def _draw_rules(found: Explanation, console: Console) -> None:
    if found.legal:
        say_marked(console, "\n[green]legal[/]: no rule is broken")
        return
    count = len(found.broken)
    say_marked(console, f"\n[red]illegal[/]: {count} rule{'s' if count > 1 else ''} broken")
    for broken in found.broken:
        say(console, f"  {broken.rule}{_ACCEPTED.get(broken.verdict, '')}: {broken.message}")
        say(console, f"    cure: {broken.cure or 'none; change the workload or the cluster'}")
        if broken.cured:
            say_whole(console, f"    then: {broken.cured}")


_ACCEPTED = {
    "silently_wrong": " (Megatron accepts it and trains another model)",
    "risky": " (Megatron accepts it, and is known to hang or fail)",
}
"""What to add for rules that Megatron itself does not enforce."""


def _draw_memory(found: Explanation, prediction: Suggestion, console: Console) -> None:
    say_marked(
        console,
        f"\nMemory per GPU, GiB, {badge(found.provenance)}: worst stage {prediction.stage} needs "
        f"{gib(prediction.peak_gib)} of {gib(prediction.limit_gib)}; "
        f"P(fits) {percent(prediction.p_fits, 0)}",
    )
    parts = list(found.memory[0].parts)
    table = grid(
        ["stage", *(_SHORT.get(part, part) for part in parts), "alloc", "reserv", "device"]
    )
    for stage in found.memory:
        values = [*stage.parts.values(), stage.allocated_gib, stage.reserved_gib, stage.device_gib]
        table.add_row(str(stage.stage), *(gib(value, prediction.limit_gib) for value in values))
    console.print(table)
    say(console, _COLUMNS)
    if found.host_gib is not None:
        say(console, f"host memory of a node: {gib(found.host_gib)} GiB")


_SHORT = {
    "gradients": "grads",
    "optimizer": "optim",
    "activations": "activ",
    "transient": "trans",
    "workspace": "work",
}
"""Column heads that let nine numbers stand in 80 columns."""
_COLUMNS = """\
grads: gradients; optim: optimizer; activ: activations kept for the backward pass;
trans: transient peak; work: workspace; alloc: the sum; reserv: with what the
allocator holds back; device: with the CUDA context and communication buffers"""
_PARTS = {
    "compute": "compute (GEMMs, norms, output head)",
    "attention": "attention core",
    "tensor": "tensor-parallel exchange",
    "context": "context-parallel exchange",
    "expert": "expert all-to-all",
    "host": "host launches",
    "transfer": "transfers between stages",
    "bubble": "pipeline bubble",
    "data": "gradient and parameter exchange",
    "optimizer": "optimizer",
    "offload": "offloaded optimizer, copies too",
    "fixed": "fixed costs of step and microbatch",
}
"""Names of the parts of a step in the words of the field."""


def _draw_time(found: Explanation, prediction: Suggestion, console: Console) -> None:
    say_marked(
        console,
        f"\nStep time, {badge(found.provenance)}: {seconds(prediction.step_s)} s "
        f"(80 %: {seconds(prediction.low_s)} to {seconds(prediction.high_s)} s), "
        f"{number(prediction.tokens_per_s_per_gpu)} tokens/s/GPU, MFU {percent(prediction.mfu)}",
    )
    table = grid(["part", "seconds", "%"])
    for part, value in sorted(found.step_parts.items(), key=lambda item: -item[1]):
        if value >= _SHOWN_S:
            table.add_row(
                _PARTS.get(part, part.replace("_", " ")),
                seconds(value),
                percent(value / prediction.step_s),
            )
    console.print(table)
