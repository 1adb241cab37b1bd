"""One model as a person reads it, with how its config was understood."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from attune.catalog import Model
from attune.report.catalogue import ListedModel
from attune.report.words import number, say

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True, kw_only=True, slots=True)
class Reading:
    """How a Hugging Face config was read."""

    family: str
    """The class whose rules were used."""
    defaulted: tuple[dict[str, Any], ...]
    """Fields that the config does not give: `field`, `value`, `reason`."""
    by_class: dict[str, Any]
    """Fields of the model that the class's code sets, whatever the config."""
    ignored: tuple[dict[str, Any], ...]
    """Fields that nothing depends on: `field`, `reason`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ShownModel:
    """One model in full; the sizes are named as Megatron names them."""

    supported: bool
    num_layers: int
    hidden_size: int
    ffn_hidden_size: int
    num_dense_layers: int
    """Layers with a dense MLP in a MoE model; 0 for a dense one."""
    num_experts: int
    moe_topk: int
    moe_ffn_hidden_size: int
    shared_ffn_hidden_size: int
    num_attention_heads: int
    num_query_groups: int
    kv_channels: int
    mla: bool
    """Whether attention is latent; its ranks and head sizes are `latent_attention`."""
    latent_attention: dict[str, int | None] | None
    vocab_size: int
    tied_embeddings: bool
    mtp_layers: int
    total_parameters: int
    """Without the multi-token-prediction layers and without the buffers of the router."""
    active_parameters: int
    family: str | None
    defaulted: tuple[dict[str, Any], ...]
    by_class: dict[str, Any]
    ignored: tuple[dict[str, Any], ...]
    megatron_flags: dict[str, Any]
    listed: ListedModel
    architecture: Model


@dataclass(frozen=True, kw_only=True, slots=True)
class RefusedModel:
    """A model that attune cannot express; no number is given for it."""

    supported: bool
    name: str
    unmodelled: str
    """What is missing."""
    error: str


def show(listed: ListedModel, model: Model, reading: Reading, flags: dict[str, Any]) -> ShownModel:
    """`model` with its sizes under Megatron's names."""
    experts = model.experts
    return ShownModel(
        supported=True,
        num_layers=model.layers,
        hidden_size=model.hidden,
        ffn_hidden_size=model.ffn,
        num_dense_layers=model.layers - model.moe_count if experts else 0,
        num_experts=experts.count if experts else 0,
        moe_topk=experts.top_k if experts else 0,
        moe_ffn_hidden_size=experts.ffn if experts else 0,
        shared_ffn_hidden_size=experts.shared_ffn if experts else 0,
        num_attention_heads=model.heads,
        num_query_groups=model.query_groups,
        kv_channels=model.head_dim,
        mla=model.latent is not None,
        latent_attention=_latent(model),
        vocab_size=model.vocabulary,
        tied_embeddings=model.tied_embeddings,
        mtp_layers=model.mtp_layers,
        total_parameters=listed.total_parameters,
        active_parameters=listed.active_parameters,
        family=reading.family or None,
        defaulted=reading.defaulted,
        by_class=reading.by_class,
        ignored=reading.ignored,
        megatron_flags=flags,
        listed=listed,
        architecture=model,
    )


def _latent(model: Model) -> dict[str, int | None] | None:
    if model.latent is None:
        return None
    return {
        "q_lora_rank": model.latent.q_rank,
        "kv_lora_rank": model.latent.kv_rank,
        "qk_nope_head_dim": model.latent.nope_dim,
        "qk_rope_head_dim": model.latent.rope_dim,
        "v_head_dim": model.latent.value_dim,
    }


def draw_model(shown: ShownModel, console: Console) -> None:
    """Every field of one model, nested parts indented, then how its config was read."""
    listed = shown.listed
    say(console, f"{listed.name} ({listed.id}, {listed.kind})")
    say(console, f"parameters: {number(listed.total_parameters)}")
    say(console, f"active per token: {number(listed.active_parameters)}")
    _fields(shown.architecture.model_dump(exclude_none=True, exclude={"id", "name"}), console)
    if shown.family is None:
        return
    say(console, f"read by the rules of class {shown.family}")
    for item in shown.defaulted:
        say(console, f"defaulted {item['field']}: {item['value']} ({item['reason']})")
    for name, value in shown.by_class.items():
        say(console, f"set by the class {name}: {value}")
    for item in shown.ignored:
        say(console, f"ignored {item['field']}: {item['reason']}")


def _fields(data: dict[str, Any], console: Console, indent: str = "") -> None:
    for name, value in data.items():
        if isinstance(value, dict):
            say(console, f"{indent}{name}:")
            _fields(value, console, indent + "  ")
        else:
            text = ", ".join(map(str, value)) if isinstance(value, tuple) else value
            say(console, f"{indent}{name}: {text}")
