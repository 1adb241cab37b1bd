"""Fields of a config that no part of a model depends on, each with the reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from attune.catalog.hf.fields import Fields
from attune.catalog.hf.refusal import refuse_unknown_keys
from attune.catalog.hf.rules import ClassRules, common_rules

_NAMES = ("model_type", "architectures")


@dataclass(frozen=True, kw_only=True, slots=True)
class Ignored:
    """A field of the config that attune read past."""

    field: str
    reason: str


def ignored_fields(fields: Fields, outer: Mapping[str, Any]) -> tuple[Ignored, ...]:
    """Every field that nothing read, in the config and in the multimodal one around it.

    Raises:
        UnmodelledError: a key that nobody knows and that may carry a shape.
    """
    known = _known(fields.rules)
    unread = {key: value for key, value in fields.data.items() if key not in _read(fields)}
    refuse_unknown_keys(
        {key: value for key, value in unread.items() if key not in known},
        fields.rules,
        fields.source,
    )
    inner = [Ignored(field=key, reason=known.get(key, _unknown(unread[key]))) for key in unread]
    return (*_outer(fields, outer, known), *inner)


def _read(fields: Fields) -> set[str]:
    return {*fields.used, *fields.rules.match, *_NAMES}


def _known(rules: ClassRules) -> dict[str, str]:
    common = common_rules()
    reasons = {key: reason for reason, keys in common.ignored.items() for key in keys}
    return {**reasons, **common.towers, **_unused(rules), **rules.ignored}


def _unused(rules: ClassRules) -> dict[str, str]:
    """Keys that other classes read, and this one does not."""
    reasons = {
        "sliding_window": "no layer slides",
        "max_window_layers": "no layer slides",
        "sliding_window_pattern": "no layer slides",
        "use_sliding_window": "no layer slides",
        "norm_topk_prob": "changes weights of the chosen experts, not their cost",
        "use_bidirectional_attention": "attention is causal here",
        "_sliding_window_pattern": "no layer slides",
        "use_parallel_residual": "of another class",
    }
    if rules.experts:
        names = common_rules().expert_keys
        reasons |= dict.fromkeys(names, "no layer has experts")
    if rules.latent:
        why = "latent attention: each head has its own keys, and sizes of its own"
        names = ("num_key_value_heads", "head_dim", "qk_head_dim")
        reasons |= dict.fromkeys(names, why)
    return reasons


def _unknown(value: Any) -> str:
    return "not set" if value in (None, False, 0, "", [], {}) else "unknown to attune"


def _outer(
    fields: Fields, outer: Mapping[str, Any], known: Mapping[str, str]
) -> tuple[Ignored, ...]:
    towers, texts = common_rules().towers, common_rules().text_configs
    why = "of the multimodal model around the language model"
    return tuple(
        Ignored(field=key, reason=towers.get(key) or known.get(key, why))
        for key in outer
        if key not in (*texts, *_NAMES, "tie_word_embeddings")
    )
