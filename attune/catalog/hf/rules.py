"""What attune knows of each class of Hugging Face models, from the YAML beside this file."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field

_FOLDER = Path(__file__).resolve().parent


class _Rules(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ExpertRules(_Rules):
    """How a class writes down its experts."""

    ffn: str = "moe_intermediate_size"
    """Key of the hidden size of one expert."""
    shared: Literal["count", "size"] | None = None
    """Shared experts as a count of experts, or as one hidden size; None where there are none."""
    shared_gate: bool = False
    pattern: Literal["all", "dense_first", "sparse_step", "interval"] = "all"
    """Which layers are MoE: all; those after `first_k_dense_replace`; every
    `decoder_sparse_step`-th not in `mlp_only_layers`; every `moe_layer_interval`-th from start to
    end index."""
    score: Literal["softmax", "sigmoid"] = "softmax"
    """Where no `scoring_func` says it."""
    expert_bias: bool = False
    """Where no `topk_method` says it."""
    pre_softmax: bool = False
    """The class takes the softmax before the choice unless `norm_topk_prob` is true."""
    optional: bool = False
    """Without a count of experts the class is a dense model."""


class ClassRules(_Rules):
    """One class: how its config is spelt, its defaults, and what its code fixes."""

    name: str
    source: str
    model_types: tuple[str, ...]
    architectures: tuple[str, ...]
    match: Mapping[str, tuple[Any, ...]] = {}
    """Keys, and their values, that tell this class from others of the same name."""
    nested: Mapping[str, Mapping[str, str]] = {}
    """Objects inside the config, and the key of each of their fields were it not nested."""
    defaults: Mapping[str, Any] = {}
    """Values that the class takes for absent keys."""
    fixed: Mapping[str, Any] = {}
    """Fields of `Model` that the class's code sets whatever the config."""
    switches: Mapping[str, tuple[str, ...]] = {}
    """Boolean keys, and the fields of `Model` that each turns on."""
    only: Mapping[str, tuple[Any, ...]] = {}
    """Keys of which attune knows these values alone."""
    window: Literal["none", "all", "pattern", "upper"] = "none"
    """Layers that slide where no `layer_types` says it: all, all but every n-th, those above
    `max_window_layers`."""
    no_rope: Literal["none", "interval", "full_attention"] = "none"
    """Layers without rotary position: every n-th, or those without a window."""
    ffn: str = "ffn"
    """Key, or meaning, of the size of the dense MLP."""
    ffn_share: float = 1.0
    """Share of the stated size of the dense MLP that each of its projections has."""
    ffn_multiple: int | None = None
    """The dense MLP in hidden sizes, where the config states none."""
    per_layer: tuple[str, ...] = ()
    """Keys that may hold one number per layer, all the same."""
    derived_head_dim: bool = False
    """The class divides the hidden size by the heads, whatever `head_dim` says."""
    latent: bool = False
    indexer: bool = False
    experts: ExpertRules | None = None
    ignored: Mapping[str, str] = {}


class CommonRules(_Rules):
    """What holds for every class."""

    spellings: Mapping[str, tuple[str, ...]]
    """Keys of one meaning."""
    activations: Mapping[str, str]
    rope_kinds: Mapping[str, str | None]
    text_configs: tuple[str, ...]
    """Keys under which a multimodal config keeps that of its language model."""
    towers: Mapping[str, str]
    """Keys of parts beside the language model."""
    expert_keys: tuple[str, ...]
    """Keys that mean nothing in a model without experts."""
    ignored: Mapping[str, tuple[str, ...]]
    """Keys that change neither shape nor speed of training, by the reason."""
    suspicious: str
    """Regular expression of keys that may carry a shape."""


class RefusalRules(_Rules):
    """What attune does not model, by `model_type`, and keys that betray it."""

    model_types: Mapping[str, tuple[str, ...]]
    """What is missing, and the model types that need it."""
    keys: Mapping[str, tuple[str, ...]]
    """What is missing, and the keys (`name` or a prefix `name*`) that need it."""
    layer_types: Mapping[str, tuple[str, ...]]
    heads: Mapping[str, tuple[str, ...]]
    """What is missing, and regular expressions of the end of architecture names that need it."""
    formats: Mapping[str, tuple[str, ...]]
    """Configs of other programs, and keys that tell them."""


class Shipped(BaseModel):
    """One file of classes."""

    source: str = Field(min_length=1)
    classes: dict[str, dict[str, Any]]


def _read(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


@lru_cache
def common_rules() -> CommonRules:
    """Spellings, activations, towers and harmless keys."""
    return CommonRules.model_validate(_read(_FOLDER / "common.yaml"))


@lru_cache
def refusal_rules() -> RefusalRules:
    """What attune does not model."""
    return RefusalRules.model_validate(_read(_FOLDER / "refused.yaml"))


@lru_cache
def class_rules() -> tuple[ClassRules, ...]:
    """Every class that attune understands, file by file."""
    found = []
    for path in sorted((_FOLDER / "classes").glob("*.yaml")):
        shipped = Shipped.model_validate(_read(path))
        for name, data in shipped.classes.items():
            found.append({"name": name, "model_types": [name], "source": shipped.source} | data)
    return tuple(ClassRules.model_validate(data) for data in found)
