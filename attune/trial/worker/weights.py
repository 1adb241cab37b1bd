"""Initial weights: a function of (seed, global parameter name), whatever the layout.

The full tensor of a parameter is drawn from a generator that its global name seeds; each rank
keeps its own shard, cut exactly as megatron-core lays tensors out.
"""

from __future__ import annotations

import hashlib
import math
import re

import torch
from megatron.core import parallel_state
from megatron.core.models.gpt.gpt_model import GPTModel

from attune.catalog import Model
from attune.trial.worker.faults import spoil_name

STANDARD_DEVIATION = 0.02
"""Megatron's default `--init-method-std`."""

_LAYER = re.compile(r"decoder\.layers\.(\d+)\.(.+)")
_LOCAL_EXPERT = re.compile(r"mlp\.experts\.local_experts\.(\d+)\.(.+)")
_GROUPED_EXPERT = re.compile(r"mlp\.experts\.(linear_fc[12])\.(weight|bias)(\d+)")
_FUSED_NORM = {
    "self_attention.linear_qkv.layer_norm_": "input_layernorm.",
    "self_attention.linear_q_up_proj.layer_norm_": "self_attention.q_layernorm.",
    "self_attention.linear_kv_up_proj.layer_norm_": "self_attention.kv_layernorm.",
    "mlp.linear_fc1.layer_norm_": "pre_mlp_layernorm.",
}


@torch.no_grad()
def initialize_weights(
    chunks: list[GPTModel], model: Model, seed: int, fault: str | None = None
) -> None:
    """Sets every parameter of this rank's chunks."""
    for chunk in chunks:
        for local_name, parameter in chunk.named_parameters():
            name = global_name(chunk, local_name, model.tied_embeddings)
            shape, source = _full_shape(name, parameter, model), spoil_name(fault, name)
            full = full_tensor(source, shape, model, seed, parameter)
            parameter.copy_(_shard(_padded(full, name, parameter), name, parameter, model))


def is_routed_expert(name: str) -> bool:
    """Whether a parameter of that name, local or global, belongs to a routed expert.

    Megatron-core 0.16 marks these (`allreduce` is False) only where EP is over 1.
    """
    return ".mlp.experts." in name


def global_name(chunk: GPTModel, local_name: str, tied: bool) -> str:
    """The name of a parameter in the whole model: global layer and expert numbers, from 0."""
    if tied and local_name == "output_layer.weight":
        return "embedding.word_embeddings.weight"
    match = _LAYER.fullmatch(local_name)
    if match is None:
        return local_name
    layer = chunk.decoder.layers[int(match[1])]
    return f"decoder.layers.{layer.layer_number - 1}.{_name_in_layer(layer, match[2])}"


def _name_in_layer(layer: torch.nn.Module, name: str) -> str:
    for fused, plain in _FUSED_NORM.items():
        name = name.replace(fused, plain)
    if match := _LOCAL_EXPERT.fullmatch(name):
        return f"mlp.experts.{layer.mlp.local_expert_indices[int(match[1])]}.{match[2]}"
    if match := _GROUPED_EXPERT.fullmatch(name):
        expert = layer.mlp.local_expert_indices[int(match[3])]
        return f"mlp.experts.{expert}.{match[1]}.{match[2]}"
    return name


def full_tensor(
    name: str, shape: tuple[int, ...], model: Model, seed: int, like: torch.Tensor
) -> torch.Tensor:
    """The whole parameter of that name, float32 on the device of `like`.

    Matrices are normal (output projections scaled down by sqrt(2 x layers), as Megatron does),
    norms one, biases zero.
    """
    if name.endswith("bias"):
        return torch.zeros(shape, device=like.device)
    if len(shape) == 1:
        return torch.ones(shape, device=like.device)
    generator = torch.Generator(device=like.device)
    generator.manual_seed(name_seed(seed, name))
    tensor = torch.empty(shape, device=like.device)
    return tensor.normal_(0.0, _deviation(name, model), generator=generator)


def name_seed(seed: int, name: str) -> int:
    """A stable 63-bit hash of seed and name."""
    digest = hashlib.sha256(f"{seed}:{name}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def _deviation(name: str, model: Model) -> float:
    if name.endswith(("linear_proj.weight", "linear_fc2.weight")):
        return STANDARD_DEVIATION / math.sqrt(2 * model.layers)
    return STANDARD_DEVIATION


def _full_shape(name: str, parameter: torch.nn.Parameter, model: Model) -> tuple[int, ...]:
    shape = list(parameter.shape)
    if _is_vocabulary(name):
        shape[0] = model.vocabulary
    elif _is_split(parameter):
        shape[parameter.partition_dim] *= _tensor_ranks(name)[1]
    return tuple(shape)


def _is_vocabulary(name: str) -> bool:
    return name in ("embedding.word_embeddings.weight", "output_layer.weight")


def _is_split(parameter: torch.nn.Parameter) -> bool:
    return getattr(parameter, "tensor_model_parallel", False)


def _tensor_ranks(name: str) -> tuple[int, int]:
    """Rank and size of the tensor-parallel group that shares this parameter."""
    if is_routed_expert(name):
        return (
            parallel_state.get_expert_tensor_parallel_rank(),
            parallel_state.get_expert_tensor_parallel_world_size(),
        )
    return (
        parallel_state.get_tensor_model_parallel_rank(),
        parallel_state.get_tensor_model_parallel_world_size(),
    )


def _padded(full: torch.Tensor, name: str, parameter: torch.nn.Parameter) -> torch.Tensor:
    """`full` with zero rows where Megatron pads the vocabulary."""
    if not _is_split(parameter):
        return full
    missing = parameter.shape[0] * _tensor_ranks(name)[1] - full.shape[0]
    if parameter.partition_dim or missing <= 0:
        return full
    return torch.nn.functional.pad(full, (0, 0, 0, missing))


def _shard(
    full: torch.Tensor, name: str, parameter: torch.nn.Parameter, model: Model
) -> torch.Tensor:
    """This rank's part of `full`."""
    if not _is_split(parameter):
        return full
    rank, size = _tensor_ranks(name)
    # A rank holds its part of the gate above its part of the up projection.
    strides = 2 if model.gated and ".linear_fc1." in name else 1
    return cut(full, rank, size, dimension=parameter.partition_dim, strides=strides)


def cut(full: torch.Tensor, rank: int, size: int, *, dimension: int, strides: int) -> torch.Tensor:
    """Part `rank` of `size` of each of the `strides` blocks of `full`, along `dimension`."""
    pieces = full.chunk(size * strides, dim=dimension)
    return torch.cat(pieces[rank::size], dim=dimension)
