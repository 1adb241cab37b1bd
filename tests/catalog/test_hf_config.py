"""What a config means: spellings, defaults, patterns, and what is named as ignored."""

from __future__ import annotations

import pytest
from published_configs import PUBLISHED, config_of, imported, model_of

from attune.catalog import load_model, write_model
from attune.catalog.hf_config import import_model
from attune.counts import total_parameters
from attune.errors import AttuneError


def defaulted(reading) -> dict:
    return {item.field: item.value for item in reading.defaulted}


def ignored(reading) -> dict:
    return {item.field: item.reason for item in reading.ignored}


@pytest.mark.parametrize("name", PUBLISHED)
def test_every_field_is_read_or_named(name):
    reading = imported(name)
    assert not [field for field, reason in ignored(reading).items() if "unknown" in reason]
    named = {*ignored(reading), *defaulted(reading)}
    assert "model_type" not in named
    assert "source" in type(reading.model).model_fields


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_catalogue_file_reads_back(name, tmp_path):
    model = model_of(name)
    path = tmp_path / f"{model.id}.yaml"
    path.write_text(write_model(model), encoding="utf-8")
    assert load_model(str(path)) == model


@pytest.mark.parametrize("spelling", ["num_local_experts", "num_experts", "n_routed_experts"])
def test_three_spellings_of_the_count_of_experts(spelling):
    model = model_of("mixtral-8x7b", **{"num_local_experts": ..., spelling: 8})
    assert model.experts is not None and model.experts.count == 8


def test_the_size_of_an_expert_is_named_differently():
    mixtral, qwen = model_of("mixtral-8x7b"), imported("qwen3-30b-a3b")
    assert mixtral.experts.ffn == 14336
    assert qwen.model.experts.ffn == 768
    assert ignored(qwen)["intermediate_size"] == "no layer has a dense MLP"
    with_other = imported("qwen3-30b-a3b", intermediate_size=5472).model
    assert total_parameters(with_other) == total_parameters(qwen.model)


def test_shared_experts_come_as_a_count_or_a_size():
    assert model_of("moonlight-16b").experts.shared_ffn == 2 * 1408
    assert model_of("qwen1.5-moe-a2.7b").experts.shared_ffn == 5632
    assert model_of("qwen1.5-moe-a2.7b").experts.shared_gate
    assert model_of("qwen3-30b-a3b").experts.shared_ffn == 0


def test_head_dim_explicit_null_and_absent():
    assert model_of("mistral-nemo-12b").head_dim == 128
    derived = imported("llama-3.2-3b", head_dim=None)
    assert derived.model.head_dim == 128
    assert defaulted(derived)["head_dim"] == 128
    assert defaulted(imported("llama-2-7b"))["head_dim"] == 128
    # Classes with a constant of their own take it where the key is absent.
    assert model_of("qwen3-4b", head_dim=...).head_dim == 128
    assert defaulted(imported("qwen3-4b", head_dim=...))["head_dim"] == 128
    assert model_of("gemma-3-270m", head_dim=...).head_dim == 256


def test_query_groups_absent_and_null():
    assert model_of("llama-2-70b", num_key_value_heads=...).query_groups == 64
    assert model_of("mistral-7b-v0.3", num_key_value_heads=...).query_groups == 8
    assert model_of("mistral-7b-v0.3", num_key_value_heads=None).query_groups == 32


def test_tied_embeddings_by_file_class_and_outer_config():
    assert model_of("qwen2.5-0.5b").tied_embeddings
    assert not model_of("qwen2.5-7b").tied_embeddings
    assert model_of("gemma-2-9b").tied_embeddings
    assert defaulted(imported("gemma-2-9b"))["tie_word_embeddings"] is True
    assert not model_of("llama-2-7b", tie_word_embeddings=...).tied_embeddings
    assert not model_of("gemma-3-27b", tie_word_embeddings=False).tied_embeddings


def test_a_nested_config_is_read_and_its_tower_named():
    reading = imported("gemma-3-27b")
    assert reading.model.vocabulary == 262208
    assert defaulted(reading)["vocab_size"] == 262208
    assert ignored(reading)["vision_config"] == "vision tower, left out"
    kimi = imported("kimi-k2.5")
    assert kimi.model.latent.q_rank == 1536
    assert "vision tower" in ignored(kimi)["vision_config"]


def test_a_language_model_under_another_key_is_read():
    outer = {"model_type": "internvl_chat", "architectures": ["InternVLChatModel"]}
    nested = {**outer, "llm_config": config_of("qwen2.5-7b"), "vision_config": {"depth": 24}}
    reading = import_model(nested, "x", "config.json")
    assert total_parameters(reading.model) == PUBLISHED["qwen2.5-7b"]["parameters"]
    assert "vision_config" in ignored(reading)


def test_latent_attention_ignores_what_it_has_no_use_for():
    reading = imported("moonlight-16b", head_dim=64)
    assert reading.model.latent.q_rank is None
    assert reading.model.query_groups == 16
    assert {"num_key_value_heads", "head_dim"} <= set(ignored(reading))
    assert model_of("deepseek-v3").latent.q_rank == 1536


def test_quantization_is_ignored_and_said():
    reading = imported("deepseek-v3")
    assert "quantization" in ignored(reading)["quantization_config"]
    assert reading.model.mtp_layers == 1
    assert model_of("kimi-k2").mtp_layers == 0


def test_dense_layers_first_by_count_and_by_list():
    assert model_of("glm-4.5").dense_layers == 3
    types = ["dense"] + ["sparse"] * 46
    listed = model_of("glm-4.7-flash", first_k_dense_replace=..., mlp_layer_types=types)
    assert listed.dense_layers == 1
    frequency = model_of("glm-5", first_k_dense_replace=..., moe_layer_freq=[0] * 4 + [1] * 74)
    assert frequency.dense_layers == 4


def test_sparse_steps_leave_dense_layers_between():
    model = model_of("qwen1.5-moe-a2.7b", decoder_sparse_step=2, mlp_only_layers=[1])
    assert model.moe_layers == tuple(range(3, 24, 2))
    assert model.moe_count == 11
    first = model_of("qwen3-30b-a3b", mlp_only_layers=[0, 1])
    assert (first.dense_layers, first.moe_count) == (2, 46)


def test_biases_that_the_class_sets():
    assert model_of("qwen2.5-7b").qkv_bias
    assert not model_of("qwen2.5-7b").output_bias
    assert model_of("glm-4.5").qkv_bias and not model_of("glm-4.5").output_bias
    assert model_of("llama-2-7b", attention_bias=True).output_bias
    assert imported("qwen2.5-7b").by_class == {"qkv_bias": True}


def test_sliding_windows():
    assert model_of("gpt-oss-20b").window == 128
    assert model_of("gpt-oss-20b").full_attention_every == 2
    assert model_of("gemma-3-270m").full_attention_every == 6
    assert model_of("mistral-7b-v0.1").windowed_share == 1.0
    assert model_of("mistral-7b-v0.3").window is None
    off = imported("qwen2.5-7b")
    assert off.model.window is None
    assert "sliding_window" in ignored(off)
    on = model_of("qwen2.5-7b", use_sliding_window=True, max_window_layers=0)
    assert (on.window, on.windowed_share) == (32768, 1.0)


def test_rotary_positions_old_and_new():
    assert model_of("glm-5").rope_base == 1e6
    assert model_of("llama-3.1-8b").rope_scaling.kind == "llama3"
    assert model_of("deepseek-v3").rope_scaling.factor == 40
    assert model_of("qwen3-4b").rope_scaling is None
    assert model_of("glm-4.5").rope_share == 0.5
    assert model_of("minimax-m2").rope_share == 0.5
    nested = {
        "full_attention": {"rope_theta": 1000000.0, "rope_type": "default"},
        "sliding_attention": {"rope_theta": 10000.0, "rope_type": "default"},
    }
    assert model_of("gemma-3-1b", rope_theta=..., rope_parameters=nested).rope_base == 1e6


def test_the_indexer_and_its_schedule():
    shared = model_of("glm-5.2").indexer
    assert sum(map(shared.computes, range(1, 79))) == 21
    kinds = ["full" if shared.computes(layer) else "shared" for layer in range(1, 79)]
    by_list = model_of(
        "glm-5", indexer_types=kinds, index_topk_freq=..., index_skip_topk_offset=...
    ).indexer
    assert [by_list.computes(x) for x in range(1, 79)] == [shared.computes(x) for x in range(1, 79)]
    assert model_of("deepseek-v3.2").indexer.heads == 64


def test_an_unknown_key_that_carries_no_shape_is_named():
    reading = imported("llama-2-7b", favourite_colour="blue")
    assert ignored(reading)["favourite_colour"] == "unknown to attune"


def test_no_experts_make_a_dense_model_where_the_class_says_so():
    dense = model_of("qwen3-30b-a3b", num_experts=0)
    assert dense.experts is None
    assert dense.ffn == 6144


def test_a_class_is_found_without_architectures():
    config = config_of("qwen3-8b", architectures=...)
    assert import_model(config, "x", "config.json").family == "qwen3"


def test_one_name_stands_for_several_classes():
    assert model_of("falcon-7b").query_groups == 1
    assert (model_of("falcon-7b").norms, model_of("falcon-40b").norms) == (1, 2)
    assert model_of("falcon-40b").query_groups == 8
    assert model_of("stablelm-2-12b").parallel
    assert model_of("stablelm-2-12b").norms == 1
    assert not model_of("redpajama-3b").parallel
    assert imported("minicpm-2b").family == "minicpm"
    assert imported("minicpm-moe-8x2b").family == "minicpm_moe"
    assert imported("phi-2-old").family == "phi-msft"


def test_the_dense_mlp_where_a_class_counts_it_otherwise():
    assert model_of("gpt-j-6b").ffn == 4 * 4096
    assert model_of("falcon-7b").ffn == 4 * 4544
    assert model_of("qwen-7b").ffn == 22016 // 2
    assert model_of("granite-4-micro").ffn == 8192


def test_fields_of_inner_objects_and_of_lists_per_layer():
    assert model_of("dbrx").query_groups == 8
    assert model_of("dbrx").rope_base == 500_000
    experts = model_of("hunyuan-a13b").experts
    assert (experts.top_k, experts.ffn, experts.shared_ffn) == (8, 3072, 3072)
    assert not experts.pre_softmax


def test_a_language_model_two_configs_deep_is_read():
    reading = imported("qwen2.5-omni-7b")
    assert reading.model.layers == 28
    towers = {item.field for item in reading.ignored if "left out" in item.reason}
    assert towers == {"talker_config", "token2wav_config", "audio_config", "vision_config"}


def test_keys_that_say_what_the_class_does_anyway():
    assert model_of("glm-5.2", index_share_for_mtp_iteration=True) == model_of("glm-5.2")
    sparse = ["deepseek_sparse_attention"] * 78
    assert model_of("glm-5.2", layer_types=sparse) == model_of("glm-5.2")
    assert model_of("qwen3-30b-a3b", use_qk_norm=True) == model_of("qwen3-30b-a3b")
    with pytest.raises(AttuneError, match="use_qk_norm"):
        model_of("qwen3-30b-a3b", use_qk_norm=False)


def test_the_base_of_rotation_has_a_factor_in_chatglm():
    assert model_of("glm-4-9b-chat").rope_base == 10_000 * 500


def test_a_size_of_shared_experts_beside_their_count_must_agree():
    key = "moe_shared_expert_intermediate_size"
    assert model_of("ling-mini-2.0").experts.shared_ffn == 512
    with pytest.raises(AttuneError, match=key):
        model_of("ling-mini-2.0", **{key: 1024})


SMALL = {
    "num_hidden_layers": 4,
    "hidden_size": 640,
    "intermediate_size": 1024,
    "num_attention_heads": 10,
    "num_key_value_heads": 5,
    "vocab_size": 1001,
}
EXPERTS = {"num_experts": 8, "num_experts_per_tok": 2}
# Counts of the classes of transformers 5.24.0, built from these configs on the meta device.
BUILT = [
    ({"model_type": "youtu", "num_key_value_heads": 10}, 34_241_792),
    ({"model_type": "jais2"}, 11_465_216),
    ({"model_type": "ministral", "head_dim": 64}, 14_066_560),
    ({"model_type": "flex_olmo", **EXPERTS}, 69_141_120),
    ({"model_type": "exaone_moe", "moe_intermediate_size": 128, **EXPERTS}, 14_819_712),
    ({"model_type": "hy_v3", "moe_intermediate_size": 128, **EXPERTS}, 19_735_424),
]


@pytest.mark.parametrize(("changes", "count"), BUILT)
def test_small_models_have_the_count_of_their_class(changes, count):
    reading = import_model({**SMALL, **changes}, "x", "config.json")
    assert total_parameters(reading.model) == count
