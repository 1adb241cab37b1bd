"""Reads a Hugging Face `config.json` as a model: right, or refused by name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from attune.catalog.hf.attention import attention
from attune.catalog.hf.experts import experts
from attune.catalog.hf.fields import Defaulted, Fields
from attune.catalog.hf.json_file import read_json
from attune.catalog.hf.leftovers import Ignored, ignored_fields
from attune.catalog.hf.positions import rope, windows
from attune.catalog.hf.refusal import (
    UnmodelledError,
    printable,
    refuse_other_formats,
    refuse_unmodelled,
    the_class,
)
from attune.catalog.hf.rules import ClassRules, common_rules
from attune.catalog.model import Model
from attune.errors import AttuneError


@dataclass(frozen=True, kw_only=True, slots=True)
class ImportedModel:
    """A model, and how its config was read."""

    model: Model
    family: str
    """The class whose rules were used."""
    defaulted: tuple[Defaulted, ...]
    """Fields that the config does not give."""
    by_class: Mapping[str, Any]
    """Fields of the model that the class's code sets."""
    ignored: tuple[Ignored, ...]


def read_hf_config(path: Path, name: str) -> ImportedModel:
    """The model of the config in that file.

    Raises:
        AttuneError: no such file, not JSON, a wrong, missing or contradicting field.
        UnmodelledError: a model that attune cannot express.
    """
    return import_model(read_json(path), name, str(path))


def import_model(data: Mapping[str, Any], name: str, source: str) -> ImportedModel:
    """The model that `data`, the object of a config, describes.

    Raises:
        AttuneError: a wrong, missing or contradicting field.
        UnmodelledError: a model that attune cannot express.
    """
    refuse_other_formats(data, source)
    text, outer = _language_model(data, source)
    for part in (outer, text):
        refuse_unmodelled(part, source)
    rules = the_class(text, source, whole=not outer)
    fields = Fields(data=_flat(text, rules, source), rules=rules, source=source, whole=not outer)
    shape = _shape(fields, outer)
    ignored = ignored_fields(fields, outer)
    words = {
        "id": identifier_of(name),
        "name": name,
        "source": f"{source} (class {rules.name}; rules from {rules.source})",
    }
    return ImportedModel(
        model=_model(words | shape, source),
        family=rules.name,
        defaulted=tuple(fields.defaulted),
        by_class=dict(rules.fixed),
        ignored=(*ignored, *_unused_ffn(fields, shape)),
    )


def _language_model(
    data: Mapping[str, Any], source: str
) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """The config of the language model, and the multimodal one around it (empty where none)."""
    for key in common_rules().text_configs:
        inner = data.get(key)
        if inner is None:
            continue
        if not isinstance(inner, dict):
            raise AttuneError(f"{source}: field `{key}` must be an object, but got {inner!r:.40}")
        text, between = _language_model(inner | _text_type(data, inner), source)
        return text, {**data, **between}
    return data, {}


def _text_type(outer: Mapping[str, Any], inner: Mapping[str, Any]) -> dict[str, Any]:
    """The model type of a nested config that leaves it out: that around it, with `_text`."""
    if inner.get("model_type") or inner.get("architectures"):
        return {}
    return {"model_type": f"{outer.get('model_type')}_text"}


def _flat(data: Mapping[str, Any], rules: ClassRules, source: str) -> dict[str, Any]:
    """`data` with the fields of the objects that its class nests at the top."""
    flat = {key: value for key, value in data.items() if key not in rules.nested}
    for outer, names in rules.nested.items():
        part = data.get(outer) or {}
        if not isinstance(part, dict):
            raise AttuneError(f"{source}: field `{outer}` must be an object, but got {part!r:.40}")
        for key, value in part.items():
            flat[names.get(key, f"{outer}.{key}")] = value
    return flat


def _shape(fields: Fields, outer: Mapping[str, Any]) -> dict[str, Any]:
    _refuse_values(fields)
    layers, hidden = fields.integer("layers"), fields.integer("hidden")
    heads = attention(fields, layers, hidden)
    routed = experts(fields, layers)
    return {
        "layers": layers,
        "hidden": hidden,
        "vocabulary": fields.integer("vocabulary"),
        **heads,
        **routed,
        "ffn": _ffn(fields, routed),
        **_activation(fields),
        **_switched(fields),
        **fields.rules.fixed,
        "tied_embeddings": _tied(fields, outer),
        "max_positions": fields.integer("positions"),
        "norm_epsilon": fields.number("norm_epsilon", 1e-5),
        "mtp_layers": _mtp_layers(fields),
        **_logit_cap(fields),
        **rope(fields, heads["head_dim"]),
        **windows(fields, layers),
    }


def _refuse_values(fields: Fields) -> None:
    for key, allowed in fields.rules.only.items():
        fields.used.add(key)
        value = fields.data.get(key, allowed[0])
        values = value if isinstance(value, list) else [value]
        for item in values:
            if item is not None and item not in allowed:
                missing = f"`{key}` of {item!r:.40}"
                raise UnmodelledError(fields.source, f"class {fields.rules.name}", missing)


def _ffn(fields: Fields, routed: Mapping[str, Any]) -> int:
    """Size of the dense MLP; where no layer has one, a config may leave it out."""
    everywhere = routed and not routed.get("dense_layers") and "moe_layers" not in routed
    meaning, multiple = fields.rules.ffn, fields.rules.ffn_multiple
    if everywhere and not fields.keys(meaning):
        return int(routed["experts"]["ffn"])
    if multiple is not None and fields.optional_integer(meaning) is None:
        size = multiple * fields.integer("hidden")
        fields.derive(meaning, size, f"{multiple} x hidden size")
        return size
    return int(fields.integer(meaning) * fields.rules.ffn_share)


def _unused_ffn(fields: Fields, shape: Mapping[str, Any]) -> tuple[Ignored, ...]:
    rules, keys = fields.rules.experts, fields.keys("ffn")
    if not keys or rules is None or rules.ffn == "intermediate_size" or "experts" not in shape:
        return ()
    if shape.get("dense_layers") or "moe_layers" in shape:
        return ()
    return (Ignored(field=keys[0], reason="no layer has a dense MLP"),)


def _activation(fields: Fields) -> dict[str, Any]:
    keys = ("hidden_activation", "hidden_act", "activation_function", "activation")
    fields.used.update(keys)
    given = [fields.data[key] for key in keys if fields.data.get(key) is not None]
    name = given[0] if given else fields.get("hidden_act") or "silu"
    known = common_rules().activations
    if not isinstance(name, str) or name not in known:
        missing = f"activation `{printable(name)}`"
        raise UnmodelledError(fields.source, f"class {fields.rules.name}", missing)
    return {"activation": known[name]}


def _switched(fields: Fields) -> dict[str, bool]:
    on: dict[str, bool] = {}
    for key, names in fields.rules.switches.items():
        value = fields.boolean(key)
        on |= {name: value or on.get(name, False) for name in names}
    return on


def _tied(fields: Fields, outer: Mapping[str, Any]) -> bool:
    """Whether embeddings are tied: the multimodal config's word wins over the nested one's."""
    if isinstance(outer.get("tie_word_embeddings"), bool):
        fields.used.add("tie_word_embeddings")
        return bool(outer["tie_word_embeddings"])
    return fields.boolean("tie_word_embeddings")


def _mtp_layers(fields: Fields) -> int:
    if fields.data.get("use_mtp") is False:
        fields.keys("mtp_layers")
        fields.used.add("use_mtp")
        return 0
    fields.used.update(("use_mtp", "mtp_transformer_layers"))
    return fields.optional_integer("mtp_layers", least=0) or 0


def _logit_cap(fields: Fields) -> dict[str, float]:
    key, cap = fields.value("final_logit_softcapping")
    return {} if cap is None else {"logit_cap": fields.checked_number(key, cap)}


def identifier_of(name: str) -> str:
    """The id of a model of that name: small letters, digits, dots and dashes."""
    return re.sub(r"[^a-z0-9.]+", "-", name.lower()).strip("-.") or "model"


def _model(data: Mapping[str, Any], source: str) -> Model:
    try:
        return Model.model_validate(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(step) for step in first["loc"])
        words = first["msg"].removeprefix("Value error, ")
        got = "" if isinstance(first["input"], dict) else f", but got {first['input']!r:.60}"
        raise AttuneError(f"{source}: {place + ': ' if place else ''}{words}{got}") from error
