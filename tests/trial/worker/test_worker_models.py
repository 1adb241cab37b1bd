"""What models differ in reaches megatron-core, and trains the same under every layout."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from layout_bounds import WORKLOAD, assert_same

from attune.catalog import Model, load_model
from attune.layout import parse_layout
from attune.trial.worker.config import WorkerConfig
from attune.workload import Workload

DENSE = {
    "gated": False,
    "mlp_bias": True,
    "output_bias": True,
    "qkv_bias": True,
    "tied_embeddings": True,
    "rope_share": 0.5,
}
MOE = {
    "qk_norm": True,
    "qkv_bias": True,
    "tied_embeddings": True,
    "rope_share": 0.5,
    "experts": {
        "score": "sigmoid",
        "expert_bias": True,
        "scaling": 2.5,
        "groups": 2,
        "group_top_k": 1,
    },
}


def variant(name: str, changes: dict[str, Any]) -> Model:
    """The tiny model with other fields."""
    data = load_model(name).model_dump()
    experts = {**(data["experts"] or {}), **changes.get("experts", {})}
    return Model.model_validate({**data, **changes, "experts": experts or None})


def written(folder: Path, name: str, changes: dict[str, Any]) -> str:
    """Path of the variant as a model file."""
    path = folder / f"{name}.yaml"
    data = variant(name, changes).model_dump(mode="json", exclude={"id"})
    path.write_text(yaml.safe_dump(data))
    return str(path)


LATENT = {
    "latent": {"q_rank": None, "kv_rank": 32, "nope_dim": 16, "rope_dim": 8, "value_dim": 16},
    "rope_scaling": {"kind": "yarn", "factor": 40.0, "original_positions": 32, "mscale": 1.0},
}


@pytest.mark.training
@pytest.mark.parametrize(
    ("name", "changes", "layout"),
    [
        ("tiny-dense", DENSE, "tp=2 pp=2"),
        ("tiny-moe", MOE, "tp=2 pp=2 ep=2"),
        ("tiny-mla", LATENT, "tp=2 cp=2"),
    ],
)
def test_variants_train_the_same_model(
    train: Callable[..., Any], tmp_path: Path, name: str, changes: dict[str, Any], layout: str
) -> None:
    model = written(tmp_path, name, changes)
    assert_same(train, model, layout, 4)
    # Not the plain model: what was changed is in the loss.
    plain = train(name, "tp=1", workload=WORKLOAD).losses
    assert train(model, "tp=1", workload=WORKLOAD).losses[0] != pytest.approx(plain[0], rel=1e-5)


@pytest.mark.training
@pytest.mark.parametrize("changes", [{"rope_share": 0.5}, {"experts": {"scaling": 2.5}}])
def test_each_of_these_alone_is_in_the_loss(
    train: Callable[..., Any], tmp_path: Path, changes: dict[str, Any]
) -> None:
    short = (("steps", 3), ("global_batch", 2))
    plain = train("tiny-moe", "tp=1", workload=short).losses
    changed = train(written(tmp_path, "tiny-moe", changes), "tp=1", workload=short).losses
    assert len(changed) == 3 and changed[0] != pytest.approx(plain[0], rel=1e-6)


def test_fields_of_the_model_reach_megatron() -> None:
    pytest.importorskip("megatron.core", reason="the train extra is not installed")
    from attune.trial.worker.model import transformer_config

    config = WorkerConfig(
        model=variant("tiny-moe", MOE),
        workload=Workload(precision="fp32"),
        layout=parse_layout("tp=1"),
        device="cpu",
    )
    built = transformer_config(config)
    assert built.moe_router_topk_scaling_factor == 2.5
    assert built.moe_router_score_function == "sigmoid" and built.moe_router_enable_expert_bias
    assert built.moe_router_num_groups == 2 and built.moe_router_group_topk == 1
    assert built.qk_layernorm and built.add_qkv_bias and not built.add_bias_linear
