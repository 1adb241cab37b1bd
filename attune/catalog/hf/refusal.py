"""Says what attune does not model, before anything is counted."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from attune.catalog.hf.rules import ClassRules, class_rules, common_rules, refusal_rules
from attune.errors import AttuneError


class UnmodelledError(AttuneError):
    """A model that attune cannot express; it gives no number for it."""

    def __init__(self, source: str, kind: str, missing: str) -> None:
        super().__init__(
            f"{source}: {kind} is not supported; unmodelled: {missing}. "
            "`attune models` lists what is; another model can be described in YAML"
        )
        self.kind = kind
        """What the config calls itself."""
        self.missing = missing


def kind_of(data: Mapping[str, Any]) -> str:
    """What a config calls itself: its model type, else its first architecture."""
    kind = data.get("model_type") or next(iter(architectures(data)), None)
    return f"model_type `{printable(kind)}`" if kind else "this model"


def printable(value: Any, longest: int = 60) -> str:
    """`value` as one line of bounded length, whatever a file holds."""
    text = str(value).encode("unicode_escape").decode("ascii")
    return text if len(text) <= longest else f"{text[: longest - 3]}..."


def architectures(data: Mapping[str, Any]) -> list[str]:
    """Names of the architectures; empty where there are none."""
    names = data.get("architectures")
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


def refuse_other_formats(data: Mapping[str, Any], source: str) -> None:
    """Raises for a config that is not one of a Hugging Face language model.

    Raises:
        UnmodelledError: a diffusion pipeline.
        AttuneError: a config of another program.
    """
    pipeline = data.get("_class_name")
    if pipeline or "_diffusers_version" in data:
        raise UnmodelledError(source, f"`{pipeline or 'diffusers'}`", "diffusion models")
    if data.get("model_type") or architectures(data):
        return
    for name, keys in refusal_rules().formats.items():
        found = [key for key in keys if key in data]
        if found:
            raise AttuneError(
                f"{source}: field `model_type` is missing, and `{found[0]}` is of {name}; "
                "give the config.json of a Hugging Face model"
            )
    raise AttuneError(
        f"{source}: fields `model_type` and `architectures` are missing; "
        "give the config.json of a Hugging Face model"
    )


def refuse_unmodelled(data: Mapping[str, Any], source: str) -> None:
    """Raises for a model whose kind or keys say that attune has no shape for it.

    Raises:
        UnmodelledError: the first thing that is missing.
    """
    for missing in _missing(data):
        raise UnmodelledError(source, kind_of(data), missing)


def _missing(data: Mapping[str, Any]) -> Iterator[str]:
    rules, kind = refusal_rules(), data.get("model_type")
    known = find_class(data)
    yield from (
        missing
        for missing, kinds in rules.model_types.items()
        if kind in kinds and not (known and architectures(data))
    )
    if data.get("is_encoder_decoder") is True:
        yield "an encoder beside the decoder, and cross-attention"
    harmless = known.ignored if known else {}
    for missing, keys in rules.keys.items():
        for key, value in data.items():
            matches = any(_matches(key, pattern) for pattern in keys)
            if matches and _is_set(value) and key not in harmless:
                yield f"{missing} (`{key}`)"
    for missing, kinds in rules.layer_types.items():
        listed = data.get("layer_types")
        for layer in listed if isinstance(listed, list) else []:
            if layer in kinds:
                yield f"{missing} (`layer_types` has `{layer}`)"
    if any(isinstance(data.get(key), dict) for key in common_rules().text_configs):
        return  # the name is that of the multimodal model around the language model
    for name in architectures(data):
        for missing, endings in rules.heads.items():
            if known is None or name not in known.architectures:
                yield from (
                    f"{missing} (`{printable(name)}`)"
                    for end in endings
                    if re.search(f"{end}$", name)
                )


def _matches(key: str, pattern: str) -> bool:
    return key.startswith(pattern[:-1]) if pattern.endswith("*") else key == pattern


def _is_set(value: Any) -> bool:
    return value not in (None, False, 0, "", [], {})


def find_class(data: Mapping[str, Any]) -> ClassRules | None:
    """The rules of the class that a config names, by architecture, else by model type."""
    kind = data.get("model_type")
    fitting = [rules for rules in class_rules() if _fits(rules, data)]
    fitting.sort(key=lambda rules: kind not in rules.model_types)
    for name in architectures(data):
        for rules in fitting:
            if name in rules.architectures:
                return rules
    return next((rules for rules in fitting if kind in rules.model_types), None)


def _fits(rules: ClassRules, data: Mapping[str, Any]) -> bool:
    return all(
        data.get(key, rules.defaults.get(key)) in values for key, values in rules.match.items()
    )


def the_class(data: Mapping[str, Any], source: str, *, whole: bool = True) -> ClassRules:
    """The rules of the class that a config names; `whole` where no other config is around it.

    Raises:
        UnmodelledError: an unknown class, or another architecture of a known one.
        AttuneError: `architectures` and `model_type` name two classes.
    """
    rules, kind = find_class(data), data.get("model_type")
    if rules is None:
        known = {name for rules in class_rules() for name in rules.model_types}
        missing = f"this class (the rules of {len(known)} others are known)"
        raise UnmodelledError(source, kind_of(data), missing)
    if kind is not None and kind not in rules.model_types:
        raise AttuneError(
            f"{source}: fields `architectures` ({printable(architectures(data)[0])}) and "
            f"`model_type` ({printable(kind)}) name two classes; the first goes with "
            + " or ".join(rules.model_types)
        )
    names = architectures(data)
    if whole and names and not set(names) & set(rules.architectures):
        missing = f"architecture `{printable(names[0])}` (known: {', '.join(rules.architectures)})"
        raise UnmodelledError(source, kind_of(data), missing)
    return rules


def refuse_unknown_keys(unread: Mapping[str, Any], rules: ClassRules, source: str) -> None:
    """Raises where a key that nobody knows may carry a shape.

    Raises:
        UnmodelledError: the first such key.
    """
    pattern = re.compile(common_rules().suspicious, re.IGNORECASE)
    for key, value in unread.items():
        if _is_set(value) and pattern.search(key):
            raise UnmodelledError(
                source, f"class {rules.name}", f"field `{printable(key)}` ({printable(value)})"
            )
