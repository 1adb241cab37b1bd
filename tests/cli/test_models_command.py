"""`attune models show` and `add` on Hugging Face configs, as a user and a script see them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from attune.catalog import load_model
from attune.cli.app import run

CONFIG = {
    "architectures": ["Qwen3MoeForCausalLM"],
    "model_type": "qwen3_moe",
    "decoder_sparse_step": 1,
    "head_dim": 128,
    "hidden_act": "silu",
    "hidden_size": 2048,
    "intermediate_size": 6144,
    "max_position_embeddings": 40960,
    "mlp_only_layers": [],
    "moe_intermediate_size": 768,
    "norm_topk_prob": True,
    "num_attention_heads": 32,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "num_hidden_layers": 48,
    "num_key_value_heads": 4,
    "quantization_config": {"quant_method": "fp8"},
    "rms_norm_eps": 1e-6,
    "rope_theta": 1000000.0,
    "tie_word_embeddings": False,
    "vocab_size": 151936,
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ATTUNE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "100")
    path = tmp_path / "Own-30B"
    path.mkdir()
    (path / "config.json").write_text(json.dumps(CONFIG))
    return path


def test_show_gives_the_sizes_under_their_megatron_names(folder, capsys):
    assert run(["models", "show", str(folder), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    expected = {
        "supported": True,
        "num_layers": 48,
        "hidden_size": 2048,
        "num_dense_layers": 0,
        "num_experts": 128,
        "moe_topk": 8,
        "moe_ffn_hidden_size": 768,
        "shared_ffn_hidden_size": 0,
        "num_attention_heads": 32,
        "num_query_groups": 4,
        "kv_channels": 128,
        "mla": False,
        "latent_attention": None,
        "vocab_size": 151936,
        "tied_embeddings": False,
        "mtp_layers": 0,
        "total_parameters": 30_532_122_624,
    }
    assert {key: shown[key] for key in expected} == expected
    assert {item["field"] for item in shown["defaulted"]} == {"attention_bias"} | {
        "use_sliding_window"
    }
    assert {item["field"] for item in shown["ignored"]} == {
        "quantization_config",
        "intermediate_size",
    }
    assert shown["listed"]["id"] == "own-30b"
    assert shown["architecture"]["experts"]["count"] == 128


def test_show_names_what_was_defaulted_and_ignored(folder, capsys):
    assert run(["models", "show", str(folder / "config.json")]) == 0
    text = capsys.readouterr().out
    assert "parameters: 30,532,122,624" in text
    assert "defaulted attention_bias: False" in text
    assert "ignored quantization_config: checkpoint quantization" in text


def test_a_refused_model_gives_no_number(tmp_path, capsys):
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"model_type": "mamba2", "hidden_size": 4096}))
    assert run(["models", "show", str(path), "--json"]) == 2
    captured = capsys.readouterr()
    shown = json.loads(captured.out)
    assert shown["supported"] is False
    assert "state-space" in shown["unmodelled"]
    assert not {"num_layers", "total_parameters"} & set(shown)
    assert captured.err.count("\n") == 1 and "unmodelled: state-space" in captured.err


def test_add_writes_a_catalogue_file_that_has_a_name(folder, tmp_path, capsys):
    assert run(["models", "add", str(folder)]) == 0
    file = tmp_path / "home" / "models" / "own-30b.yaml"
    assert str(file) in capsys.readouterr().out
    assert load_model("Own 30B") == load_model(str(file)) == load_model(str(folder))
    assert run(["models"]) == 0
    assert "own-30b" in capsys.readouterr().out
    assert run(["models", "add", str(folder)]) == 2
    assert "exists" in capsys.readouterr().err
    assert run(["models", "add", str(folder), "--replace"]) == 0
    assert run(["models", "add", str(folder), "--id", "glm-4.5"]) == 2
    assert run(["models", "add", "glm-4.5"]) == 2


def test_a_config_can_be_planned(folder, capsys):
    arguments = ["plan", "--model", str(folder / "config.json"), "--gpu", "h100", "--count", "64"]
    assert run(arguments) == 0
    assert "Own-30B on 64 H100" in capsys.readouterr().out
