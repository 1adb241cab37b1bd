"""Experts, shared experts and which layers have them, as a config writes them down."""

from __future__ import annotations

from typing import Any

from attune.catalog.hf.fields import Fields
from attune.catalog.hf.refusal import UnmodelledError
from attune.catalog.hf.rules import ExpertRules


def experts(fields: Fields, layers: int) -> dict[str, Any]:
    """Fields `experts`, `dense_layers` and `moe_layers` of a model; empty for a dense one.

    Raises:
        AttuneError: a wrong or contradicting field.
        UnmodelledError: routing that attune does not know.
    """
    rules = fields.rules.experts
    if rules is None:
        return {}
    count = fields.optional_integer("expert_count", least=0)
    written = fields.keys("expert_count")
    # The classes with a sparse step take 0 for a dense model, the others null.
    may_be_dense = count is None or rules.pattern == "sparse_step"
    if rules.optional and written and may_be_dense and not count:
        return {}
    if count is None:
        raise fields.absent("expert_count")
    if not count:
        raise fields.wrong(written[0], f"must be at least 1, but got {count}")
    pattern = _pattern(fields, rules, layers)
    if not any(pattern):
        return {}
    return {"experts": _experts(fields, rules, count), **_place(pattern)}


def _place(pattern: list[bool]) -> dict[str, Any]:
    first = pattern.index(True)
    if all(pattern[first:]):
        return {"dense_layers": first}
    return {"moe_layers": [layer for layer, moe in enumerate(pattern) if moe]}


def _experts(fields: Fields, rules: ExpertRules, count: int) -> dict[str, Any]:
    top_k = fields.integer("expert_top_k")
    if top_k > count:
        key = fields.keys("expert_top_k")[0]
        raise fields.wrong(key, f"({top_k}) exceeds the number of experts ({count})")
    ffn = fields.integer("ffn" if rules.ffn == "intermediate_size" else rules.ffn)
    shared = _shared_ffn(fields, rules, ffn)
    score = _score(fields, rules)
    return {
        "count": count,
        "top_k": top_k,
        "ffn": ffn,
        "shared_ffn": shared,
        "shared_gate": rules.shared_gate,
        "score": score,
        "pre_softmax": score == "softmax" and _softmax_first(fields, rules),
        "expert_bias": _expert_bias(fields, rules),
        **_groups(fields, count),
        **_factor(fields),
    }


def _shared_ffn(fields: Fields, rules: ExpertRules, ffn: int) -> int:
    count = fields.optional_integer("shared_count", least=0) if rules.shared == "count" else None
    size = fields.optional_integer("shared_size", least=0) if rules.shared == "size" else None
    total = size if size is not None else (count or 0) * ffn
    odd = "shared_size" if rules.shared != "size" else "shared_count"
    for key in fields.keys(odd):
        if fields.data[key] and not (rules.shared == "count" and fields.data[key] == total):
            missing = f"shared experts in class {fields.rules.name} by `{key}`"
            raise UnmodelledError(fields.source, f"class {fields.rules.name}", missing)
    return total


def _score(fields: Fields, rules: ExpertRules) -> str:
    key, score = fields.value("scoring_func")
    if score not in (None, "softmax", "sigmoid"):
        missing = f"routing scores `{score}` (`{key}`)"
        raise UnmodelledError(fields.source, f"class {fields.rules.name}", missing)
    return score or rules.score


def _softmax_first(fields: Fields, rules: ExpertRules) -> bool:
    if fields.keys("norm_topk_prob") or "norm_topk_prob" in fields.rules.defaults:
        return not fields.boolean("norm_topk_prob")
    return rules.pre_softmax


def _expert_bias(fields: Fields, rules: ExpertRules) -> bool:
    fields.used.update(("topk_method", "use_routing_bias", "moe_router_enable_expert_bias"))
    method = fields.data.get("topk_method")
    if method is None:
        return rules.expert_bias
    if method not in ("noaux_tc", "greedy", "group_limited_greedy"):
        missing = f"routing by `{method}` (`topk_method`)"
        raise UnmodelledError(fields.source, f"class {fields.rules.name}", missing)
    return bool(method == "noaux_tc")


def _groups(fields: Fields, count: int) -> dict[str, int]:
    groups = fields.optional_integer("n_group") or 1
    chosen = fields.optional_integer("topk_group") or 1
    if count % groups or chosen > groups:
        raise fields.wrong("n_group", f"({groups}) must divide {count} experts, {chosen} chosen")
    return {"groups": groups, "group_top_k": chosen} if groups > 1 else {}


def _factor(fields: Fields) -> dict[str, float]:
    key, factor = fields.value("routed_scaling_factor")
    return {} if factor is None else {"scaling": fields.checked_number(key, factor)}


def _pattern(fields: Fields, rules: ExpertRules, layers: int) -> list[bool]:
    if rules.pattern == "dense_first":
        return _dense_first(fields, layers)
    if rules.pattern == "sparse_step":
        return _sparse_step(fields, layers)
    if rules.pattern == "interval":
        return _interval(fields, layers)
    return [True] * layers


def _dense_first(fields: Fields, layers: int) -> list[bool]:
    """`first_k_dense_replace` with `moe_layer_freq`, or a list with one entry per layer."""
    first = min(fields.optional_integer("first_k_dense_replace", least=0) or 0, layers)
    expected = [False] * first + [True] * (layers - first)
    for key, entries in (("mlp_layer_types", ("dense", "sparse")), ("moe_layer_freq", (0, 1))):
        if not isinstance(fields.data.get(key), list):
            continue
        listed = fields.listed(key, layers) or []
        if not set(listed) <= set(entries):
            raise fields.wrong(key, f"must hold {entries[0]!r} or {entries[1]!r} for each layer")
        pattern = [entry == entries[1] for entry in listed]
        if "first_k_dense_replace" in fields.data and pattern != expected:
            raise fields.wrong(key, f"contradicts `first_k_dense_replace` ({first})")
        return pattern
    fields.used.add("mlp_layer_types")
    every = fields.optional_integer("moe_layer_freq") or 1
    return [moe and layer % every == 0 for layer, moe in enumerate(expected)]


def _sparse_step(fields: Fields, layers: int) -> list[bool]:
    every = fields.integer("decoder_sparse_step")
    dense = fields.get("mlp_only_layers") or []
    if not isinstance(dense, list) or not all(
        type(layer) is int and 0 <= layer < layers for layer in dense
    ):
        raise fields.wrong(
            "mlp_only_layers", f"must list layers 0 to {layers - 1}, but got {dense!r:.60}"
        )
    return [(layer + 1) % every == 0 and layer not in dense for layer in range(layers)]


def _interval(fields: Fields, layers: int) -> list[bool]:
    every = fields.integer("moe_layer_interval")
    start = fields.integer("moe_layer_start_index", least=0)
    end = fields.optional_integer("moe_layer_end_index", least=-1)
    last = layers - 1 if end in (None, -1) else end
    return [(layer + 1) % every == 0 and start <= layer <= last for layer in range(layers)]
