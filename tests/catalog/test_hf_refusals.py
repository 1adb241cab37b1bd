"""What is refused by name, and bad input: one line with the field, the value and the remedy."""

from __future__ import annotations

import json

import pytest
from published_configs import config_of, model_of

from attune.catalog import UnmodelledError, load_model
from attune.catalog.hf_config import import_model
from attune.errors import AttuneError

REFUSED = [
    ({"model_type": "mamba2", "hidden_size": 4096, "num_hidden_layers": 64}, "state-space"),
    ({"model_type": "jamba", "num_hidden_layers": 32, "attn_layer_period": 8}, "not attention"),
    (
        {
            "architectures": ["NemotronHForCausalLM"],
            "model_type": "nemotron_h",
            "num_hidden_layers": None,
            "hybrid_override_pattern": "MEM*",
        },
        "not attention",
    ),
    ({"model_type": "qwen3_next", "full_attention_interval": 4}, "not attention"),
    (
        {"model_type": "qwen3_5", "text_config": {"model_type": "qwen3_5_text"}},
        "not attention",
    ),
    ({"model_type": "t5", "is_encoder_decoder": True, "d_model": 512}, "encoder beside"),
    ({"model_type": "foo", "is_encoder_decoder": True}, "encoder beside"),
    ({"architectures": ["BertForMaskedLM"], "model_type": "bert"}, "encoder alone"),
    ({"_class_name": "FluxTransformer2DModel", "_diffusers_version": "0.30"}, "diffusion"),
    ({"model_type": "llama4", "text_config": {"model_type": "llama4_text"}}, "chunked"),
    (
        {"model_type": "gemma4", "text_config": {"model_type": "gemma4_text"}},
        "two head sizes",
    ),
    ({"model_type": "deepseek_v4", "architectures": ["DeepseekV4ForCausalLM"]}, "compressed"),
    ({"model_type": "gpt2", "n_embd": 768, "n_layer": 12}, "learned position"),
    ({"model_type": "never_seen", "hidden_size": 64}, "this class"),
]


@pytest.mark.parametrize(("config", "missing"), REFUSED, ids=lambda x: str(x)[:40])
def test_models_without_a_shape_are_refused_by_name(config, missing):
    with pytest.raises(UnmodelledError) as caught:
        import_model(config, "x", "config.json")
    assert missing in str(caught.value)
    assert "unmodelled: " in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "changes", "missing"),
    [
        ("llama-2-7b", {"architectures": ["LlamaForSequenceClassification"]}, "head for classes"),
        ("mistral-7b-v0.3", {"architectures": ["MistralModel"]}, "bare model"),
        ("llama-2-7b", {"hidden_act": "xielu"}, "activation `xielu`"),
        ("llama-2-7b", {"block_configs": [{"a": 1}]}, "block_configs"),
        ("llama-2-7b", {"num_kv_shared_layers": 4}, "num_kv_shared_layers"),
        ("qwen3-30b-a3b", {"num_experts_per_layer": [8, 4]}, "num_experts_per_layer"),
        ("llama-2-7b", {"extra_mlp_width": 7}, "extra_mlp_width"),
        ("qwen3-8b", {"layer_types": ["linear_attention"] * 36}, "linear_attention"),
        ("deepseek-v3", {"attention_bias": True}, "attention_bias"),
        ("deepseek-v3", {"scoring_func": "sqrtsoftplus"}, "sqrtsoftplus"),
        ("minimax-m2", {"qk_norm_type": "per_head"}, "qk_norm_type"),
        ("llama-2-7b", {"rope_scaling": {"type": "spiral"}}, "spiral"),
        (
            "gemma-3-270m",
            {"layer_types": ["full_attention"] * 2 + ["sliding_attention"] * 16},
            "irregular",
        ),
        ("phi-2", {"qk_layernorm": True}, "qk_layernorm"),
    ],
)
def test_shapes_that_cannot_be_expressed_are_refused(name, changes, missing):
    with pytest.raises(UnmodelledError) as caught:
        model_of(name, **changes)
    assert missing in str(caught.value)


@pytest.mark.parametrize(
    ("name", "changes", "parts"),
    [
        ("llama-2-7b", {"hidden_size": "4096"}, ["hidden_size", "'4096'", "whole number"]),
        ("llama-2-7b", {"hidden_size": None}, ["hidden_size", "null"]),
        ("llama-2-7b", {"hidden_size": 4096.5}, ["hidden_size", "4096.5"]),
        ("llama-2-7b", {"hidden_size": True}, ["hidden_size", "True"]),
        ("llama-2-7b", {"hidden_size": -4096}, ["hidden_size", "-4096"]),
        ("llama-2-7b", {"hidden_size": 10**40}, ["hidden_size", "2^31"]),
        ("llama-2-7b", {"hidden_size": 4097}, ["hidden_size", "4097", "num_attention_heads"]),
        ("llama-2-7b", {"num_hidden_layers": None}, ["num_hidden_layers", "null"]),
        ("llama-2-7b", {"num_hidden_layers": ...}, ["num_hidden_layers", "missing"]),
        ("llama-2-7b", {"vocab_size": ...}, ["vocab_size", "missing"]),
        ("llama-2-7b", {"num_hidden_layers": 9999}, ["layers", "9999"]),
        ("llama-2-7b", {"num_attention_heads": 0}, ["num_attention_heads", "0"]),
        ("llama-2-7b", {"num_key_value_heads": 0}, ["num_key_value_heads", "0"]),
        ("llama-2-7b", {"num_key_value_heads": 7}, ["num_key_value_heads", "7", "32"]),
        ("llama-2-7b", {"tie_word_embeddings": "false"}, ["tie_word_embeddings", "'false'"]),
        ("llama-2-7b", {"rope_theta": "1e4"}, ["rope_theta", "'1e4'"]),
        ("llama-2-7b", {"rms_norm_eps": 0}, ["rms_norm_eps", "0"]),
        ("llama-2-7b", {"rope_scaling": "linear"}, ["rope_scaling", "linear"]),
        ("llama-2-7b", {"n_layer": 30}, ["num_hidden_layers", "32", "n_layer", "30"]),
        ("llama-2-7b", {"model_type": "qwen2"}, ["LlamaForCausalLM", "qwen2"]),
        ("llama-3.1-8b", {"rope_parameters": {"rope_theta": 1.0}}, ["rope_theta", "500000"]),
        (
            "qwen3-30b-a3b",
            {"n_routed_experts": 64},
            ["num_experts", "128", "n_routed_experts", "64", "contradict"],
        ),
        ("qwen3-30b-a3b", {"num_experts_per_tok": 200}, ["num_experts_per_tok", "200", "128"]),
        ("qwen3-30b-a3b", {"mlp_only_layers": [48]}, ["mlp_only_layers", "48"]),
        ("qwen3-30b-a3b", {"num_experts": ...}, ["num_experts", "missing"]),
        ("deepseek-v3", {"num_experts_per_tok": ...}, ["num_experts_per_tok", "missing"]),
        ("qwen3-30b-a3b", {"decoder_sparse_step": 0}, ["decoder_sparse_step", "0"]),
        ("mixtral-8x7b", {"num_local_experts": 0}, ["num_local_experts", "0"]),
        ("gpt-oss-20b", {"layer_types": ["full_attention"] * 23}, ["layer_types", "23", "24"]),
        ("glm-4.7-flash", {"mlp_layer_types": ["dense"] * 9}, ["mlp_layer_types", "9", "47"]),
        (
            "glm-4.7-flash",
            {"mlp_layer_types": ["dense"] * 2 + ["sparse"] * 45},
            ["mlp_layer_types", "first_k_dense_replace"],
        ),
        ("deepseek-v3", {"n_group": 7}, ["n_group", "7", "256"]),
        ("gemma-3-27b", {"text_config": [1]}, ["text_config", "[1]"]),
        ("llama-3.1-8b", {"rope_theta": 10**400}, ("`rope_theta`", "finite")),
        ("llama-3.1-8b", {"rope_theta": float("nan")}, ("`rope_theta`", "nan")),
        ("llama-3.1-8b", {"rope_scaling": {"type": "linear", "factor": "2"}}, ("factor", "'2'")),
        ("llama-3.1-8b", {"rope_scaling": {"rope_type": []}}, ("rotary positions", "[]")),
        ("llama-3.1-8b", {"hidden_act": ["silu"]}, ("activation", "silu")),
        ("qwen3-30b-a3b", {"mlp_only_layers": [True]}, ("`mlp_only_layers`", "[True]")),
        ("dbrx", {"attn_config": 5}, ("`attn_config`", "5")),
        ("hunyuan-a13b", {"moe_topk": [8] * 3}, ("`moe_topk`", "3 entries", "32 layers")),
        ("hunyuan-a13b", {"moe_topk": [8] * 31 + [7]}, ("differing `moe_topk`",)),
        ("qwen-7b", {"no_bias": False}, ("`no_bias`", "False")),
        ("falcon-7b", {"alibi": True}, ("ALiBi",)),
        ("baichuan2-7b", {"hidden_size": 5120}, ("ALiBi",)),
        ("granite-4-micro", {"layer_types": ["mamba"] * 40}, ("state-space", "mamba")),
    ],
)
def test_bad_fields_are_named_with_the_value(name, changes, parts):
    with pytest.raises(AttuneError) as caught:
        model_of(name, **changes)
    message = str(caught.value)
    assert [part for part in parts if part not in message] == []
    assert "\n" not in message and len(message) < 400


@pytest.mark.parametrize(
    ("config", "part"),
    [
        ({"dim": 4096, "n_layers": 32, "n_heads": 32}, "Meta's params.json"),
        ({"num_layers": 32, "tensor_model_parallel_size": 8}, "Megatron"),
        ({"zero_optimization": {"stage": 3}}, "DeepSpeed"),
        ({"peft_type": "LORA", "r": 8}, "adapter"),
        ({}, "model_type"),
        ({"hidden_size": 4096}, "model_type"),
    ],
)
def test_configs_of_other_programs_are_told(config, part):
    with pytest.raises(AttuneError, match=part):
        import_model(config, "x", "config.json")


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ('{"model_type": "llama", "hidden_size": 40', "not valid JSON"),
        ("", "not valid JSON"),
        ("[1, 2]", "must be a JSON object"),
        ("[" * 100_000, "not valid JSON"),
        ('{"a": ' + "9" * 5000 + "}", "not valid JSON"),
        ('{"hidden_size": 1, "hidden_size": 2}', "stands twice"),
        ("\x00\x01", "not valid JSON"),
        ('{"a": "' + "x" * 16_100_000 + '"}', "over 16000000 bytes"),
        ('{"model_type": "llama\\n\\u001b[31mred\\ud800"}', "model_type `llama"),
        ('{"model_type": "' + "x" * 5000 + '"}', "is not supported"),
    ],
)
def test_damaged_files_are_one_line(tmp_path, text, part):
    path = tmp_path / "config.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(AttuneError) as caught:
        load_model(str(path))
    assert part in str(caught.value)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("name", ["x" * 300, "x" * 5000, "x" * 300 + ".json", "a/" * 3000])
def test_a_path_too_long_to_look_for_is_one_line(name):
    with pytest.raises(AttuneError, match="check the path"):
        load_model(name)


def test_folders_and_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "My Model"
    folder.mkdir()
    with pytest.raises(AttuneError, match=r"holds no config\.json"):
        load_model(str(folder))
    with pytest.raises(AttuneError, match="no file"):
        load_model("nowhere/config.json")
    (folder / "config.json").write_text(json.dumps(config_of("qwen3-8b")))
    model = load_model(str(folder))
    assert (model.id, model.name) == ("my-model", "My Model")
    assert load_model(str(folder / "config.json")).id == "my-model"
    (folder / "model_index.json").write_text("{}")
    (folder / "config.json").unlink()
    with pytest.raises(AttuneError, match="diffusion"):
        load_model(str(folder))


def test_a_hub_id_is_found_in_the_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    model = tmp_path / "models--someone--New-7B"
    (model / "snapshots" / "abc").mkdir(parents=True)
    (model / "refs").mkdir()
    (model / "refs" / "main").write_text("abc")
    (model / "snapshots" / "abc" / "config.json").write_text(json.dumps(config_of("qwen2.5-7b")))
    assert load_model("someone/New-7B").id == "new-7b"
    with pytest.raises(AttuneError, match="no model named"):
        load_model("someone/Other-9B")
    assert load_model("zai-org/GLM-4.5").id == "glm-4.5"
