"""Heads, latent attention and the sparse-attention indexer, as a config writes them down."""

from __future__ import annotations

from typing import Any

from attune.catalog.hf.fields import Fields
from attune.catalog.hf.refusal import UnmodelledError


def attention(fields: Fields, layers: int, hidden: int) -> dict[str, Any]:
    """Fields `heads`, `query_groups`, `head_dim`, `latent` and `indexer` of a model."""
    heads = fields.integer("heads")
    if fields.rules.latent:
        latent = _latent(fields)
        result = {
            "heads": heads,
            "query_groups": heads,
            "head_dim": latent["nope_dim"],
            "latent": latent,
        }
        return result | ({"indexer": _indexer(fields, layers)} if fields.rules.indexer else {})
    groups = fields.optional_integer("query_groups")
    if groups is None:
        groups = heads
        fields.derive("query_groups", heads, "as many as num_attention_heads")
    if heads % groups:
        key = fields.keys("query_groups")[0]
        raise fields.wrong(key, f"({groups}) must divide num_attention_heads ({heads})")
    return {"heads": heads, "query_groups": groups, "head_dim": _head_dim(fields, hidden, heads)}


def _head_dim(fields: Fields, hidden: int, heads: int) -> int:
    given = fields.optional_integer("head_dim")
    if given is not None and not (fields.rules.derived_head_dim and given * heads != hidden):
        return given
    if given is not None:
        words = f"is {given}, but class {fields.rules.name} takes hidden_size / num_attention_heads"
        raise fields.wrong("head_dim", words)
    if hidden % heads:
        key = fields.keys("hidden")[0]
        raise fields.wrong(
            key, f"({hidden}) must be a multiple of num_attention_heads ({heads}), or give head_dim"
        )
    fields.derive("head_dim", hidden // heads, "hidden_size / num_attention_heads")
    return hidden // heads


def _latent(fields: Fields) -> dict[str, Any]:
    if fields.get("attention_bias"):
        missing = "biases in latent attention (`attention_bias`)"
        raise UnmodelledError(fields.source, f"class {fields.rules.name}", missing)
    return {
        "q_rank": fields.optional_integer("q_lora_rank"),
        "kv_rank": fields.integer("kv_lora_rank"),
        "nope_dim": fields.integer("qk_nope_head_dim"),
        "rope_dim": fields.integer("qk_rope_head_dim"),
        "value_dim": fields.integer("v_head_dim"),
    }


def _indexer(fields: Fields, layers: int) -> dict[str, Any]:
    sizes = {
        "heads": fields.integer("index_n_heads"),
        "dim": fields.integer("index_head_dim"),
        "top_k": fields.integer("index_topk"),
    }
    return sizes | _schedule(fields, layers)


def _schedule(fields: Fields, layers: int) -> dict[str, int]:
    """Which layers compute an index of their own: by list, by pattern, or every n-th."""
    pattern = fields.data.get("index_topk_pattern")
    fields.used.add("index_topk_pattern")
    listed = fields.listed("indexer_types", layers)
    if isinstance(pattern, str):
        listed = [{"F": "full", "S": "shared"}.get(letter) for letter in pattern]
    if listed is None:
        frequency = fields.optional_integer("index_topk_freq") or 1
        offset = fields.optional_integer("index_skip_topk_offset", least=0)
        if frequency == 1:
            return {}
        return {"frequency": frequency, "offset": 2 if offset is None else offset}
    fields.used.update(("index_topk_freq", "index_skip_topk_offset"))
    return _regular(fields, listed, layers)


def _regular(fields: Fields, listed: list[Any], layers: int) -> dict[str, int]:
    computes = [kind == "full" for kind in listed]
    for frequency in range(1, layers + 1):
        for offset in range(layers):
            if len(computes) == layers and computes == [
                max(layer - offset, 0) % frequency == 0 for layer in range(1, layers + 1)
            ]:
                return {"frequency": frequency, "offset": offset}
    missing = "an irregular order of layers with an indexer (`indexer_types`)"
    raise UnmodelledError(fields.source, f"class {fields.rules.name}", missing)
