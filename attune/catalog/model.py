"""A model: an architecture without weights."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

_LARGEST = 2**20
"""Bound on widths, so that products of sizes stay within 64 bits."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Latent(_Part):
    """Multi-head latent attention (MLA): ranks and head sizes."""

    q_rank: int | None = Field(None, gt=0)
    """Rank of the query down projection; None where queries are projected directly."""
    kv_rank: int = Field(gt=0)
    nope_dim: int = Field(gt=0)
    """Per-head size of query and key without position."""
    rope_dim: int = Field(gt=0)
    """Per-head size of query and key with rotary position."""
    value_dim: int = Field(gt=0)


class Indexer(_Part):
    """The sparse-attention indexer (DSA) that picks the keys a query attends to."""

    heads: int = Field(gt=0)
    dim: int = Field(gt=0)
    top_k: int = Field(gt=0)
    frequency: int = Field(1, gt=0)
    """A layer computes its index when max(layer - offset, 0) % frequency == 0 (1-based)."""
    offset: int = Field(0, ge=0)

    def computes(self, layer: int) -> bool:
        """Whether `layer` (1-based) computes its own index instead of sharing an earlier one."""
        return max(layer - self.offset, 0) % self.frequency == 0


class Experts(_Part):
    """The mixture-of-experts part of a layer."""

    count: int = Field(gt=0, le=_LARGEST)
    top_k: int = Field(gt=0)
    ffn: int = Field(gt=0, le=_LARGEST)
    """Hidden size of one routed expert."""
    shared_ffn: int = Field(0, ge=0, le=_LARGEST)
    """Hidden size of all shared experts together; 0 for none."""
    score: Literal["softmax", "sigmoid"] = "softmax"
    shared_gate: bool = False
    """A learned gate, one value per token, on the output of the shared experts."""
    pre_softmax: bool = False
    """The softmax stands before the choice of experts, so their weights do not add up to 1."""
    expert_bias: bool = False
    """Auxiliary-loss-free balancing: a bias per expert that no gradient reaches."""
    scaling: float = Field(1.0, gt=0)
    """Factor on the routing weights of the chosen experts."""
    groups: int = Field(1, gt=0)
    """Groups of experts; a token first chooses `group_top_k` of them."""
    group_top_k: int = Field(1, gt=0)


class RopeScaling(_Part):
    """How rotary positions are stretched beyond the length of pretraining."""

    kind: Literal["linear", "dynamic", "yarn", "llama3", "longrope", "mrope"]
    factor: float = Field(1.0, gt=0)
    original_positions: int | None = Field(None, gt=0)
    mscale: float | None = None
    mscale_all_dim: float | None = None
    beta_fast: float | None = None
    beta_slow: float | None = None


class Model(_Part):
    """An architecture: layers, hidden size, attention, experts."""

    id: str
    name: str
    aliases: tuple[str, ...] = ()
    source: str
    layers: int = Field(gt=0, le=2048)
    dense_layers: int | None = Field(None, ge=0)
    """Leading layers with a dense MLP in a MoE model (0 by default there); unused otherwise."""
    moe_layers: tuple[int, ...] | None = None
    """Indices (0-based) of the MoE layers, where they are not simply all after the dense ones."""
    hidden: int = Field(gt=0, le=_LARGEST)
    ffn: int = Field(gt=0, le=_LARGEST)
    """Hidden size of the dense MLP."""
    gated: bool = True
    """SwiGLU: the MLP has a gate beside the up projection."""
    activation: Literal["silu", "gelu", "gelu_tanh", "relu", "relu2"] = "silu"
    """Activation of the MLP; `gelu_tanh` is its tanh approximation, `relu2` is squared."""
    parallel: bool = False
    """Attention and MLP read the same normed input, side by side."""
    norm: Literal["rms", "layer"] = "rms"
    norms: int = Field(2, ge=1, le=4)
    """Norms of a layer over the hidden size, those of query and key apart."""
    norm_vectors: int = Field(1, ge=0, le=2)
    """Learned vectors of a norm: 0 for none, 1 for a scale, 2 for a scale and a bias."""
    heads: int = Field(gt=0, le=65536)
    query_groups: int = Field(gt=0)
    """Key and value heads; with latent attention every head has its own."""
    head_dim: int = Field(gt=0, le=65536)
    """Size of one head; with latent attention the sizes in `latent` count instead."""
    vocabulary: int = Field(gt=0, le=2**24)
    qk_norm: bool = False
    qk_norm_whole: bool = False
    """The norm of query and key has weights for all heads, not those of one head."""
    qkv_bias: bool = False
    output_bias: bool = False
    mlp_bias: bool = False
    head_bias: bool = False
    """A bias on the output head."""
    logit_cap: float | None = Field(None, gt=0)
    """The logits pass through cap x tanh(logits / cap)."""
    sinks: bool = False
    """One learned attention sink per head (gpt-oss)."""
    window: int | None = Field(None, gt=0)
    """Sliding attention window in tokens, on the layers that `full_attention_every` leaves."""
    full_attention_every: int = Field(2, ge=0)
    """With a window: every so many-th layer attends to the whole row; 0 for none."""
    no_rope_every: int = Field(0, ge=0)
    """Every so many-th layer has no rotary position; 0 for none."""
    tied_embeddings: bool = False
    max_positions: int = Field(131072, gt=0)
    rope_base: float = Field(10000.0, gt=0)
    rope_share: float = Field(1.0, gt=0, le=1)
    """Share of a head that is rotated."""
    rope_scaling: RopeScaling | None = None
    norm_epsilon: float = Field(1e-5, gt=0)
    latent: Latent | None = None
    indexer: Indexer | None = None
    experts: Experts | None = None
    mtp_layers: int = Field(0, ge=0)
    """Multi-token-prediction layers published with the model; not trained by default."""
    workload: dict[str, Any] | None = None
    """Fields of the workload that this model prefers (tiny models)."""

    @model_validator(mode="after")
    def _consistent(self) -> Model:
        if self.latent is None and self.heads % self.query_groups:
            raise ValueError(
                f"heads ({self.heads}) must be a multiple of query_groups ({self.query_groups})"
            )
        if self.experts and self.experts.top_k > self.experts.count:
            raise ValueError(
                f"experts.top_k ({self.experts.top_k}) exceeds experts.count ({self.experts.count})"
            )
        if self.experts and self.experts.count % self.experts.groups:
            raise ValueError(
                f"experts.groups ({self.experts.groups}) must divide experts.count "
                f"({self.experts.count})"
            )
        if self.dense_layers is not None and self.dense_layers > self.layers:
            raise ValueError(f"dense_layers ({self.dense_layers}) exceeds layers ({self.layers})")
        if self.moe_layers is not None:
            self._check_moe_layers(self.moe_layers)
        return self

    def _check_moe_layers(self, indices: tuple[int, ...]) -> None:
        if self.experts is None or self.dense_layers is not None:
            raise ValueError("moe_layers stands for dense_layers, in a model with experts")
        if sorted(set(indices)) != list(indices) or not indices:
            raise ValueError("moe_layers must be increasing indices of layers")
        if not 0 <= indices[0] <= indices[-1] < self.layers:
            raise ValueError(f"moe_layers must lie within 0 and {self.layers - 1}")

    @property
    def moe_pattern(self) -> tuple[bool, ...]:
        """Whether each layer is a MoE layer."""
        if self.experts is None:
            return (False,) * self.layers
        if self.moe_layers is not None:
            return tuple(layer in self.moe_layers for layer in range(self.layers))
        first = self.dense_layers or 0
        return (False,) * first + (True,) * (self.layers - first)

    @property
    def moe_count(self) -> int:
        """MoE layers; the others have a dense MLP."""
        return sum(self.moe_pattern)

    @property
    def first_moe_layer(self) -> int:
        """Index (0-based) of the first MoE layer; `layers` for a dense model."""
        return (*self.moe_pattern, True).index(True)

    @property
    def peculiarities(self) -> tuple[str, ...]:
        """Fields in which this model leaves the plain Llama block, scaling of positions apart."""
        plain = ("activation", "norm", "norms", "norm_vectors", "parallel", "qk_norm_whole")
        names = [*plain, "head_bias", "logit_cap", "no_rope_every"]
        odd = [
            name for name in names if getattr(self, name) != type(self).model_fields[name].default
        ]
        return (*odd, "shared_gate") if self.experts and self.experts.shared_gate else tuple(odd)

    @property
    def windowed_share(self) -> float:
        """Share of the layers whose attention slides in a window."""
        if self.window is None:
            return 0.0
        every = self.full_attention_every
        return 1 - (self.layers // every / self.layers if every else 0.0)

    def padded_vocabulary(self, tp: int) -> int:
        """Vocabulary rounded up to 128 x TP, as Megatron pads it."""
        return -(-self.vocabulary // (128 * tp)) * 128 * tp
