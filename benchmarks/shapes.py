"""Architectures of measured rows (archs.yaml) as models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from attune.catalog import Model


class UnmodelledError(Exception):
    """A row that cannot be predicted, and why."""


def read_shapes(path: Path) -> dict[str, dict[str, Any]]:
    """Shapes by architecture id."""
    shapes: dict[str, dict[str, Any]] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return shapes


def model_of(name: str, shapes: dict[str, dict[str, Any]], tp: int = 1) -> Model:
    """The model of an architecture id; its vocabulary is padded as stated there for `tp`.

    Raises:
        UnmodelledError: no such architecture, or one that a model cannot describe.
    """
    shape = shapes.get(name)
    if shape is None:
        raise UnmodelledError(f"architecture {name} is not in archs.yaml")
    if shape.get("unmodelled"):
        raise UnmodelledError(str(shape["unmodelled"]))
    heads, hidden = shape["num_attention_heads"], shape["hidden_size"]
    bias = bool(shape.get("linear_bias"))
    try:
        return Model(
            id=name,
            name=name,
            source=str(shape.get("source", "archs.yaml")),
            layers=shape["num_layers"],
            dense_layers=shape["num_dense_layers"] if shape["num_experts"] else None,
            hidden=hidden,
            ffn=shape["ffn_hidden_size"] or shape["moe_ffn_hidden_size"],
            gated=shape["gated_mlp"],
            heads=heads,
            query_groups=shape["num_query_groups"],
            head_dim=shape["kv_channels"] or hidden // heads,
            vocabulary=_vocabulary(shape, tp),
            qk_norm=bool(shape["qk_layernorm"] or shape["mla"]),
            qkv_bias=bool(shape["qkv_bias"] or bias),
            output_bias=bias,
            mlp_bias=bias or name.startswith("gpt-oss"),
            tied_embeddings=bool(shape["tied_embeddings"]),
            mtp_layers=shape["mtp_layers"] or 0,
            latent=_latent(shape["mla"]),
            experts=_experts(shape, name),
            sinks=name.startswith("gpt-oss"),
            window=128 if name.startswith("gpt-oss") else None,  # its published configuration
        )
    except (KeyError, TypeError, ValueError) as error:
        raise UnmodelledError(f"shape of {name}: {' '.join(str(error).split())[:120]}") from error


def _vocabulary(shape: dict[str, Any], tp: int) -> int:
    multiple = int(shape.get("make_vocab_size_divisible_by", 128)) * tp
    return -(-int(shape["vocab_size"]) // multiple) * multiple


def _latent(mla: dict[str, Any] | None) -> dict[str, Any] | None:
    if not mla:
        return None
    return {
        "q_rank": mla["q_lora_rank"],
        "kv_rank": mla["kv_lora_rank"],
        "nope_dim": mla["qk_nope_head_dim"],
        "rope_dim": mla["qk_rope_head_dim"],
        "value_dim": mla["v_head_dim"],
    }


_GROUPS = {"deepseek-v3": (8, 4), "deepseek-v3-nomtp": (8, 4)}
"""Groups of experts and how many a token may choose, of the published configurations."""


def _experts(shape: dict[str, Any], name: str) -> dict[str, Any] | None:
    if not shape["num_experts"]:
        return None
    groups, chosen = _GROUPS.get(name, (1, 1))
    return {
        "groups": groups,
        "group_top_k": chosen,
        "count": shape["num_experts"],
        "top_k": shape["moe_topk"],
        "ffn": shape["moe_ffn_hidden_size"],
        "shared_ffn": shape["moe_shared_ffn_hidden_size"] or 0,
    }
