from __future__ import annotations

import pytest

from attune.errors import AttuneError
from attune.verbs.target import find_target
from attune.workload import Optimization


def test_loose_names_and_default_workload():
    target = find_target("GLM4.5", "H200-141GB", 128)
    assert target.words == "GLM-4.5 on 128 H200"
    assert (target.workload.row_tokens, target.workload.global_batch) == (8192, 128)
    assert target.workload.precision == "bf16"


def test_tiny_models_carry_their_own_workload():
    workload = find_target("tiny-moe", "cpu", 4).workload
    assert (workload.row_tokens, workload.global_batch, workload.precision) == (128, 16, "fp32")


def test_changes_win_over_file_and_file_over_model(tmp_path):
    path = tmp_path / "workload.yaml"
    path.write_text("row_tokens: 256\nglobal_batch: 32\n")
    target = find_target(
        "tiny-moe", "cpu", 4, workload=path, changes={"global_batch": 8, "row_tokens": None}
    )
    assert (target.workload.row_tokens, target.workload.global_batch) == (256, 8)
    assert target.workload.precision == "fp32"


def test_cluster_file_replaces_fields(tmp_path):
    path = tmp_path / "cluster.yaml"
    path.write_text("per_node: 4\nnetwork_link:\n  bandwidth_gb_per_s: 25\n")
    cluster = find_target("qwen3-8b", "h100", 12, cluster=path).cluster
    assert (cluster.per_node, cluster.nodes) == (4, 3)
    assert cluster.gpu.network_link.bandwidth_gb_per_s == 25


def test_a_part_of_an_inner_field_keeps_the_rest(tmp_path):
    path = tmp_path / "workload.yaml"
    path.write_text("optimization:\n  clip_grad: 0.5\n")
    plain = find_target("tiny-moe", "cpu", 4).workload.optimization
    changed = find_target("tiny-moe", "cpu", 4, workload=path).workload.optimization
    assert changed == plain.model_copy(update={"clip_grad": 0.5})
    assert plain.learning_rate != Optimization().learning_rate


@pytest.mark.parametrize("count", [0, -8, 9, 100])
def test_count_must_fill_nodes(count):
    with pytest.raises(AttuneError, match="count"):
        find_target("qwen3-8b", "h100", count)
