"""Initial weights follow from seed and name, and shards put together give the whole."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("megatron.core")

from attune.catalog import load_model  # noqa: E402
from attune.trial.worker.weights import cut, full_tensor, name_seed  # noqa: E402

MODEL = load_model("tiny-moe")
LIKE = torch.empty(0)


def test_shards_of_a_gated_projection_hold_their_part_of_gate_and_up() -> None:
    gate, up = torch.arange(8.0)[:, None], torch.arange(8.0, 16.0)[:, None]
    first = cut(torch.cat([gate, up]), 0, 2, dimension=0, strides=2)
    second = cut(torch.cat([gate, up]), 1, 2, dimension=0, strides=2)
    assert first[:, 0].tolist() == [0, 1, 2, 3, 8, 9, 10, 11]
    assert second[:, 0].tolist() == [4, 5, 6, 7, 12, 13, 14, 15]


@pytest.mark.parametrize("dimension", [0, 1])
def test_plain_shards_put_together_are_the_whole(dimension: int) -> None:
    full = torch.arange(64.0).reshape(8, 8)
    parts = [cut(full, rank, 4, dimension=dimension, strides=1) for rank in range(4)]
    assert torch.equal(torch.cat(parts, dim=dimension), full)


def test_values_follow_from_seed_and_name() -> None:
    name = "decoder.layers.2.mlp.experts.5.linear_fc1.weight"
    first = full_tensor(name, (256, 128), MODEL, 1, LIKE)
    assert torch.equal(first, full_tensor(name, (256, 128), MODEL, 1, LIKE))
    assert not torch.equal(first, full_tensor(name, (256, 128), MODEL, 2, LIKE))
    assert not torch.equal(first, full_tensor(name.replace("5", "6"), (256, 128), MODEL, 1, LIKE))


def test_deviations_are_those_of_megatron() -> None:
    plain = full_tensor("decoder.layers.0.mlp.linear_fc1.weight", (512, 512), MODEL, 1, LIKE)
    output = full_tensor("decoder.layers.0.mlp.linear_fc2.weight", (512, 512), MODEL, 1, LIKE)
    assert float(plain.std()) == pytest.approx(0.02, rel=0.01)
    assert float(output.std()) == pytest.approx(0.02 / (2 * MODEL.layers) ** 0.5, rel=0.01)


def test_norms_are_one_and_biases_zero() -> None:
    norm = full_tensor("decoder.layers.0.input_layernorm.weight", (8,), MODEL, 1, LIKE)
    bias = full_tensor("decoder.layers.0.self_attention.linear_qkv.bias", (8,), MODEL, 1, LIKE)
    assert norm.eq(1).all() and bias.eq(0).all()


def test_seed_of_a_name_is_stable() -> None:
    assert name_seed(1234, "output_layer.weight") == name_seed(1234, "output_layer.weight")
    assert 0 <= name_seed(0, "") < 2**63
