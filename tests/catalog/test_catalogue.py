"""Figures of the shipped catalogue that others depend on."""

from __future__ import annotations

import pytest

from attune.catalog import gpu_names, load_gpu, load_model, model_names

MODELS = [
    "glm-4.5",
    "glm-4.5-air",
    "glm-5",
    "glm-5.2",
    "deepseek-v3",
    "kimi-k2",
    "qwen3-235b-a22b",
    "qwen3-30b-a3b",
    "qwen3-32b",
    "qwen3-8b",
    "llama-3.1-8b",
    "llama-3.1-70b",
    "llama-3.1-405b",
    "gpt-oss-120b",
    "mixtral-8x7b",
    "mixtral-8x22b",
    "moonlight-16b",
    "tiny-dense",
    "tiny-mla",
    "tiny-moe",
]
GPUS = ["h100", "h200", "b200", "b300", "gb200", "gb300", "a100-40", "a100-80", "mi300x", "cpu"]


def test_the_catalogue_is_complete():
    assert set(model_names()) == set(MODELS)
    assert set(gpu_names()) == set(GPUS)


# Megatron flags of the training scripts in THUDM/slime at 624b824a:
# layers, dense layers, hidden, ffn, experts, top-k, expert ffn, shared ffn, vocabulary, rotary
# base, rotary share, scaling of routing weights, norm epsilon.
SLIME = {
    "glm-4.5": (92, 3, 5120, 12288, 160, 8, 1536, 1536, 151552, 1e6, 0.5, 2.5, 1e-5),
    "glm-4.5-air": (46, 1, 4096, 10944, 128, 8, 1408, 1408, 151552, 1e6, 0.5, 1.0, 1e-5),
    "glm-5": (78, 3, 6144, 12288, 256, 8, 2048, 2048, 154880, 1e6, 1.0, 2.5, 1e-5),
    "glm-5.2": (78, 3, 6144, 12288, 256, 8, 2048, 2048, 154880, 8e6, 1.0, 2.5, 1e-5),
    "deepseek-v3": (61, 3, 7168, 18432, 256, 8, 2048, 2048, 129280, 1e4, 1.0, 2.5, 1e-6),
    "kimi-k2": (61, 1, 7168, 18432, 384, 8, 2048, 2048, 163840, 5e4, 1.0, 2.827, 1e-6),
    "moonlight-16b": (27, 1, 2048, 11264, 64, 6, 1408, 2816, 163840, 5e4, 1.0, 2.446, 1e-5),
    "qwen3-235b-a22b": (94, 0, 4096, 12288, 128, 8, 1536, 0, 151936, 1e6, 1.0, 1.0, 1e-6),
    "qwen3-30b-a3b": (48, 0, 2048, 6144, 128, 8, 768, 0, 151936, 1e6, 1.0, 1.0, 1e-6),
}


@pytest.mark.parametrize("name", SLIME)
def test_mixture_models_equal_published_training_flags(name):
    model = load_model(name)
    experts = model.experts
    assert experts is not None
    assert (
        model.layers,
        model.first_moe_layer,
        model.hidden,
        model.ffn,
        experts.count,
        experts.top_k,
        experts.ffn,
        experts.shared_ffn,
        model.vocabulary,
        model.rope_base,
        model.rope_share,
        experts.scaling,
        model.norm_epsilon,
    ) == SLIME[name]


def test_indexer_layers_of_glm_5_2():
    # miles docs/models/glm/glm5-2.md: layers 1, 2, 3, 7, 11, ..., 75 compute their index.
    indexer = load_model("glm-5.2").indexer
    assert indexer is not None
    computing = [layer for layer in range(1, 79) if indexer.computes(layer)]
    assert computing == [1, 2, 3, *range(7, 76, 4)]


@pytest.mark.parametrize("name", ["tiny-dense", "tiny-moe"])
def test_tiny_models_pad_their_vocabulary_for_no_layout(name):
    model = load_model(name)
    for tp in (1, 2, 4, 8):
        assert model.heads % tp == 0
        assert model.padded_vocabulary(tp) == model.vocabulary


def test_tiny_models_bring_their_workload():
    for name in ("tiny-dense", "tiny-moe"):
        workload = load_model(name).workload
        assert workload is not None
        assert workload["precision"] == "fp32"
        assert (workload["row_tokens"], workload["global_batch"]) == (128, 16)


def test_padding_is_a_multiple_of_128_tp():
    model = load_model("qwen3-8b")
    assert [model.padded_vocabulary(tp) for tp in (1, 4, 8)] == [151936, 152064, 152576]


@pytest.mark.parametrize("name", GPUS)
def test_gpus_are_plausible(name):
    gpu = load_gpu(name)
    assert 0.9 * gpu.memory_gb * 10**9 / 2**30 < gpu.memory_gib <= gpu.memory_gb
    assert gpu.network_link.bandwidth_gb_per_s <= gpu.node_link.bandwidth_gb_per_s
    assert gpu.peak_tflops["bf16"] >= gpu.peak_tflops["fp32"]


def test_prices_implied_by_published_recipes():
    prices = {name: load_gpu(name).usd_per_gpu_hour for name in ("h100", "h200", "b200")}
    assert prices == pytest.approx({"h100": 6.88, "h200": 7.92, "b200": 14.24}, rel=2e-3)
