"""Names, files and clusters of the catalogue; what a user may get wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from attune.catalog import (
    gpu_names,
    load_cluster,
    load_gpu,
    load_model,
    model_names,
    nearest,
    read_yaml,
)
from attune.errors import AttuneError

MODEL = """
layers: 4
hidden: 64
ffn: 128
heads: 4
query_groups: 2
head_dim: 16
vocabulary: 256
"""


def write(folder: Path, text: str, name: str = "own.yaml") -> str:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return str(path)


def refusal(function, *arguments) -> str:
    with pytest.raises(AttuneError) as caught:
        function(*arguments)
    assert caught.value.exit_code == 2
    return str(caught.value)


@pytest.mark.parametrize(
    ("name", "identifier"),
    [
        ("GLM4.5", "glm-4.5"),
        ("glm45", "glm-4.5"),
        ("GLM-4.5-355B-A32B", "glm-4.5"),
        ("zai-org/GLM-4.5", "glm-4.5"),
        ("glm 4.5 air", "glm-4.5-air"),
        ("Qwen3 30B A3B", "qwen3-30b-a3b"),
        ("Qwen/Qwen3-8B", "qwen3-8b"),
        ("DeepSeek_V3", "deepseek-v3"),
        ("GPT-OSS-120b", "gpt-oss-120b"),
        ("TINY MOE", "tiny-moe"),
    ],
)
def test_model_names_match_loosely(name, identifier):
    assert load_model(name).id == identifier


@pytest.mark.parametrize(
    ("name", "identifier"),
    [
        ("H200-141GB", "h200"),
        ("h200 sxm", "h200"),
        ("A100", "a100-40"),
        ("A100 80GB", "a100-80"),
        ("GB200", "gb200"),
        ("mi300X", "mi300x"),
        ("CPU", "cpu"),
    ],
)
def test_gpu_names_match_loosely(name, identifier):
    assert load_gpu(name).id == identifier


@pytest.mark.parametrize(
    ("load", "name", "near", "verb"),
    [
        (load_model, "glm-4.6", "glm-4.5", "attune models"),
        (load_model, "qwen3-235b-a23b", "qwen3-235b-a22b", "attune models"),
        (load_model, "zai-org/GLM-4.5-Aire", "glm-4.5-air", "attune models"),
        (load_gpu, "h20", "h200", "attune gpus"),
        (load_gpu, "b2000", "b200", "attune gpus"),
    ],
)
def test_a_miss_suggests_the_nearest(load, name, near, verb):
    message = refusal(load, name)
    assert f"`{name}`" in message
    assert f"did you mean `{near}`" in message
    assert verb in message


@pytest.mark.parametrize("name", ["", "zzzzzzzzz", "---", "a/b/"])
def test_a_name_like_no_other_is_refused_without_a_guess(name):
    assert "did you mean" not in refusal(load_model, name)


def test_nearest_ignores_spelling_and_may_find_nothing():
    assert nearest("Sequence-Paralel", ["sequence_parallel", "tp"]) == "sequence_parallel"
    assert nearest("x", ["sequence_parallel"]) is None


def test_a_model_of_the_user_takes_its_name_from_the_file(tmp_path):
    model = load_model(write(tmp_path, MODEL, "mine.yaml"))
    assert (model.id, model.name, model.layers) == ("mine", "mine", 4)
    assert model.source.endswith("mine.yaml")


def test_a_file_needs_no_yaml_ending(tmp_path):
    assert load_model(write(tmp_path, MODEL, "mine")).hidden == 64


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("layers: [1, 2", ["not valid YAML", "mend"]),
        ("layers: 4\n\tbad: 1", ["not valid YAML"]),
        ("name: 2026-13-45", ["not valid YAML"]),
        ("x: " + "[" * 2000, ["not valid YAML"]),
        ("x: !!python/object/apply:os.system ['true']", ["not valid YAML"]),
        ("", ["must be a mapping", "NoneType"]),
        ("- 1\n- 2", ["must be a mapping", "list"]),
        (MODEL + "laiers: 3", ["unknown field `laiers`", "did you mean `layers`"]),
        (MODEL.replace("hidden: 64", ""), ["field `hidden` is missing"]),
        (MODEL.replace("64", "wide"), ["field `hidden`", "but got 'wide'"]),
        (MODEL.replace("64", "-64"), ["field `hidden`", "greater than 0", "-64"]),
        (MODEL.replace("64", "99999999999999"), ["field `hidden`", "less than"]),
        (MODEL + "norm_epsilon: .nan", ["field `norm_epsilon`", "finite"]),
        (MODEL + "rope_base: .inf", ["field `rope_base`", "finite"]),
        (MODEL.replace("query_groups: 2", "query_groups: 3"), ["heads (4)", "query_groups (3)"]),
        (MODEL + "experts: {count: 2, top_k: 3, ffn: 8}", ["top_k (3)", "count (2)"]),
        (MODEL + "experts: {count: 8, top_k: 2, ffn: 8, groups: 3}", ["groups (3)", "(8)"]),
        (
            MODEL + "experts: {count: 2, top_k: 1, fn: 8}",
            ["experts.fn", "`experts.ffn` is missing"],
        ),
        (MODEL + "dense_layers: 5", ["dense_layers (5)", "layers (4)"]),
    ],
)
def test_a_damaged_model_file_names_field_and_reason(tmp_path, text, words):
    path = write(tmp_path, text)
    message = refusal(load_model, path)
    assert path in message
    for word in words:
        assert word in message


def test_a_nested_unknown_field_suggests_a_field_of_its_own_part(tmp_path):
    path = write(tmp_path, MODEL + "experts: {count: 2, top_k: 1, ffn: 8, shared_fn: 8}")
    assert "did you mean `shared_ffn`" in refusal(load_model, path)


def test_aliases_that_expand_without_bound_stay_short(tmp_path):
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    for level in range(1, 9):
        lines.append(f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 9)}]")
    path = write(tmp_path, MODEL.replace("layers: 4", "") + "\n".join(lines) + "\nlayers: *a8")
    assert len(refusal(load_model, path)) < 4000


def test_a_file_full_of_unknown_fields_gives_a_short_answer(tmp_path):
    path = write(tmp_path, MODEL + "\n".join(f"extra{i}: 1" for i in range(500)))
    message = refusal(load_model, path)
    assert "and 492 more" in message
    assert len(message) < 2000


def test_a_contradiction_is_told_without_the_whole_file(tmp_path):
    path = write(tmp_path, MODEL.replace("query_groups: 2", "query_groups: 3"))
    message = refusal(load_model, path)
    assert message.endswith("heads (4) must be a multiple of query_groups (3)")


def test_unreadable_files_are_refused(tmp_path):
    assert "cannot read" in refusal(read_yaml, tmp_path)
    assert "cannot read" in refusal(load_model, str(tmp_path / "absent.yaml"))
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00name")
    assert "cannot read" in refusal(load_model, str(tmp_path / "binary.yaml"))
    write(tmp_path, "x" * 1_000_001, "large.yaml")
    assert "over 1000000 bytes" in refusal(load_model, str(tmp_path / "large.yaml"))
    assert "over 1000000 bytes" in refusal(read_yaml, Path("/dev/zero"))


@pytest.mark.parametrize(
    ("gpu", "count", "nodes", "per_node", "link_domain"),
    [
        ("h200", 128, 16, 8, 8),
        ("h200", 4, 1, 4, 4),
        ("gb200", 72, 18, 4, 72),
        ("gb200", 144, 36, 4, 72),
        ("gb200", 8, 2, 4, 8),
        ("cpu", 4, 1, 4, 4),
    ],
)
def test_a_cluster_counts_its_nodes(gpu, count, nodes, per_node, link_domain):
    cluster = load_cluster(gpu, count)
    assert (cluster.nodes, cluster.per_node, cluster.link_domain) == (nodes, per_node, link_domain)


@pytest.mark.parametrize("count", [0, -8, 2**20 + 8])
def test_a_count_out_of_range_is_refused(count):
    assert str(count) in refusal(load_cluster, "h200", count)


def test_a_count_that_leaves_a_node_part_empty_names_the_neighbours():
    message = refusal(load_cluster, "h200", 100)
    assert "100" in message
    assert "use 96 or 104" in message


def test_overrides_merge_into_nested_parts(tmp_path):
    path = Path(write(tmp_path, "per_node: 4\nnetwork_link: {bandwidth_gb_per_s: 6.25}\n"))
    gpu = load_cluster("h200", 12, path).gpu
    assert (gpu.per_node, gpu.network_link.bandwidth_gb_per_s) == (4, 6.25)
    assert gpu.network_link.latency_us == load_gpu("h200").network_link.latency_us
    assert gpu.id == "h200"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("usd_per_hour: 3", ["unknown field `usd_per_hour`", "did you mean `usd_per_gpu_hour`"]),
        ("node_link: fast", ["field `node_link`", "'fast'"]),
        ("network_link: {bandwith_gbps: 3}", ["did you mean `bandwidth_gb_per_s`"]),
        ("memory_gib: .inf", ["field `memory_gib`", "finite"]),
        ("peak_tflops: {bf16: 0}", ["peak_tflops must be positive"]),
        ("link_domain: 12", ["link_domain (12)", "nodes of 8"]),
        ("- 3", ["mapping of GPU fields", "list"]),
    ],
)
def test_a_wrong_override_is_refused(tmp_path, text, words):
    message = refusal(load_cluster, "h200", 8, Path(write(tmp_path, text)))
    for word in words:
        assert word in message


def test_every_shipped_name_loads_and_no_two_share_a_spelling():
    for names, load in ((model_names(), load_model), (gpu_names(), load_gpu)):
        entries = [load(name) for name in names]
        spellings = [
            {"".join(filter(str.isalnum, word.lower())) for word in (x.id, x.name, *x.aliases)}
            for x in entries
        ]
        assert sum(map(len, spellings)) == len(set.union(*spellings))
        assert all(entry.source for entry in entries)


def test_a_field_given_twice_is_refused(tmp_path):
    path = tmp_path / "cluster.yaml"
    path.write_text("memory_gib: 80\nnode_link:\n  latency_us: 1\n  latency_us: 2\n")
    with pytest.raises(AttuneError, match="`latency_us` is given twice"):
        read_yaml(path)
