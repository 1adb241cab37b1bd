"""The flags of a model equal those of public training scripts (cases/megatron_flags.json)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from published_configs import CASES, model_of

from attune.catalog import Model, load_model
from attune.catalog.megatron_flags import beyond_flags, megatron_flags

ROWS = json.loads((CASES / "megatron_flags.json").read_text())["rows"]

MODELS = {
    "deepseek-v3-20layer": "deepseek-v3",
    "deepseek-v3-5layer": "deepseek-v3",
    "glm4-32B": "glm-4-32b-0414",
    "glm4-9B": "glm-4-9b-0414",
    "glm4.5-106B-A12B": "glm-4.5-air",
    "glm4.5-355B-A32B": "glm-4.5",
    "glm4.7-30B-A3B": "glm-4.7-flash",
    "glm4.7-flash": "glm-4.7-flash",
    "glm5-744B-A40B": "glm-5",
    "glm5-744B-A40B_20layer": "glm-5",
    "glm5-744B-A40B_4layer": "glm-5",
    "glm5.1-744B-A40B_6layer": "glm-5",
    "glm5.2-744B-A40B": "glm-5.2",
    "glm5.2-744B-A40B_5layer": "glm-5.2",
    "kimi-k25": "kimi-k2.5",
    "kimi-k25_2layer": "kimi-k2.5",
    "llama3.1-8B-Instruct": "llama-3.1-8b",
    "llama3.2-3B-Instruct-amd": "llama-3.2-3b",
    "moonlight": "moonlight-16b",
    "qwen3-30B-A3B-5layer": "qwen3-30b-a3b",
}
"""Script, and the published config it trains; other scripts bear the config's name."""

DEFAULTS = {
    "--norm-epsilon": 1e-5,
    "--rotary-base": 10000,
    "--rotary-percent": 1.0,
    "--position-embedding-type": "rope",
    "--moe-router-num-groups": 1,
    "--moe-router-group-topk": 1,
    "--moe-router-topk-scaling-factor": 1.0,
    "--moe-router-score-function": "softmax",
    "--rotary-scaling-factor": 1.0,
    "--original-max-position-embeddings": 4096,
    "--mscale": 1.0,
    "--mscale-all-dim": 1.0,
    "--beta-fast": 32,
    "--beta-slow": 1,
}
"""Megatron's own, so a script may leave them out."""

SAME = {
    "--use-rotary-position-embeddings": "the old name of --position-embedding-type rope",
    "--rope-type": "latent attention takes YaRN by default, and other attention has no flag for it",
    "--max-position-embeddings": "the longest row of a run in the scripts that state it",
    "--hidden-dropout": "the scripts' trainer sets it",
    "--attention-dropout": "the scripts' trainer sets it",
    "--mtp-num-layers": "whether these layers train is up to the run",
}
"""Flags that say nothing of the model, or say it twice."""


def explained(model: Model, script: str) -> dict[str, str]:
    """Flags of this script that may differ, each with the reason."""
    reasons = dict(SAME)
    if model.latent:
        reasons["--kv-channels"] = "unused with latent attention"
        reasons["--add-qkv-bias"] = "ignored with latent attention"
        if model.rope_scaling is None:
            reasons["--rotary-scaling-factor"] = "no scaling"
    if model.rope_scaling and not model.latent:
        why = "--rope-scaling-factor is the name without latent attention"
        reasons |= {"--rotary-scaling-factor": why, "--rope-scaling-factor": why}
    if model.experts and model.experts.score == "sigmoid":
        reasons["--moe-router-pre-softmax"] = "there is no softmax with sigmoid scores"
    if model.experts and model.sinks:
        reasons["--moe-layer-freq"] = "every layer by default"
        reasons["--moe-ffn-hidden-size"] = "equal to --ffn-hidden-size by default"
        for flag in ("--add-qkv-bias", "--disable-bias-linear"):
            reasons[flag] = "Megatron's linear biases, on by default, include those of QKV"
        why = "the script leaves YaRN to the checkpoint's config"
        reasons |= dict.fromkeys(("--original-max-position-embeddings",), why)
    return reasons | OWN.get(script, {})


OWN: dict[str, dict[str, str]] = {
    "glm4-32B": {
        "--num-layers": "the script says 64, but the published config has 61",
        "--num-query-groups": "the script says 8, but the published config has 2",
    },
    "qwen2.5-1.5B": {"--rotary-base": "the script says 10000, but the published config 1000000"},
    "kimi-k2": {"--beta-fast": "slime's script leaves out the 1.0 of the published config"},
    "kimi-k2-thinking": {"--beta-fast": "slime's script leaves out the 1.0 of the config"},
}


def own_model(script: str, flags: dict[str, Any]) -> Model:
    """The script's model, cut to its layers where it trains fewer."""
    model = model_of(MODELS.get(script, script.lower()))
    layers = flags["--num-layers"]
    return model.model_copy(update={"layers": layers}) if layers < model.layers else model


def with_defaults(flags: dict[str, Any], model: Model) -> dict[str, Any]:
    """`flags` with the defaults of Megatron that no script needs to state."""
    base = {"--kv-channels": model.hidden // model.heads, **DEFAULTS}
    merged = base | flags
    return {flag: float(v) if type(v) is int else v for flag, v in merged.items()}


@pytest.mark.parametrize(
    ("script", "flags"),
    [(name.split("/")[1], row["flags"]) for row in ROWS for name in row["scripts"][:1]],
    ids=[row["scripts"][0] for row in ROWS],
)
def test_flags_equal_those_of_the_script(script, flags):
    model = own_model(script, flags)
    ours = with_defaults(json.loads(json.dumps(megatron_flags(model))), model)
    theirs = with_defaults(flags, model)
    different = {
        flag: (ours.get(flag), theirs.get(flag))
        for flag in ours.keys() | theirs.keys()
        if ours.get(flag) != theirs.get(flag) and flag not in explained(model, script)
    }
    assert not different


def test_dropout_is_stated_as_megatron_would_have_some():
    flags = megatron_flags(load_model("qwen3-8b"))
    assert flags["--hidden-dropout"] == flags["--attention-dropout"] == 0.0


def test_every_supported_script_is_covered():
    assert sum(len(row["scripts"]) for row in ROWS) == 76


def test_flags_of_the_catalogue_equal_those_of_the_config():
    for name in ("deepseek-v3", "glm-5.2", "gpt-oss-120b", "qwen3-235b-a22b", "llama-3.1-405b"):
        assert megatron_flags(load_model(name)) == megatron_flags(model_of(name))


def test_what_no_flag_can_say_is_named():
    assert beyond_flags(model_of("qwen3-8b")) == ()
    assert beyond_flags(model_of("minimax-m2")) == ("qk_norm_whole",)
    assert beyond_flags(model_of("gemma-2-9b")) == ("logit_cap", "activation")
    assert beyond_flags(model_of("phi-2")) == ("parallel", "head_bias", "norms")
    assert beyond_flags(model_of("olmo-1b")) == ("norm_vectors",)
