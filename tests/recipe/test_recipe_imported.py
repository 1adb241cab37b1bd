from __future__ import annotations

from pathlib import Path

import pytest

from attune.catalog import load_cluster, load_model
from attune.catalog.megatron_flags import megatron_flags
from attune.errors import AttuneError
from attune.layout import parse_layout
from attune.recipe import check_recipe, layout_of, load_recipe
from attune.recipe.flags import layout_of_flags
from attune.recipe.imported import count_of, import_recipe, model_of
from attune.recipe.launch_script import LaunchScript, read_flags, read_launch_script

FOLDER = Path(__file__).resolve().parents[1] / "cases" / "recipes"


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*.yaml")), ids=lambda file: file.stem)
def test_a_published_command_gives_the_published_layout(file: Path) -> None:
    recipe = load_recipe(file)
    script = read_launch_script(recipe.run)
    count = count_of(script)
    assert count == recipe.gpu.count
    made = import_recipe(
        script,
        recipe.run,
        model=load_model(recipe.model),
        cluster=load_cluster(recipe.gpu.type, count),
        source="launch.sh",
    )
    assert layout_of(made) == layout_of(recipe)
    # One page leaves sequence parallel out of its words.
    words = {"summary": recipe.layout.summary}
    assert made.layout.model_copy(update=words) == recipe.layout
    assert made.env == recipe.env
    assert (made.status, made.result) == ("reference", None)
    assert check_recipe(made) == []


def _script(*words: str, program: str = "pretrain_gpt.py") -> LaunchScript:
    return LaunchScript(
        program=program, flags=read_flags(list(words)), launcher_flags={}, environment={}
    )


@pytest.mark.parametrize("name", ["glm-4.5", "llama-3.1-70b", "qwen3-30b-a3b", "deepseek-v3"])
def test_the_model_is_found_by_its_flags(name: str) -> None:
    flags = megatron_flags(load_model(name))
    words = [str(w) for pair in flags.items() for w in pair if w is not True]
    assert model_of(_script(*words)).id == name


def test_a_script_of_another_model_is_refused() -> None:
    with pytest.raises(AttuneError, match=r"the script says --num-layers 92, and GLM-5\.2 has 78"):
        import_recipe(
            _script("--num-layers", "92"),
            "",
            model=load_model("glm-5.2"),
            cluster=load_cluster("b200", 64),
            source="train.sh",
        )


def test_a_model_that_is_not_stated_or_unknown() -> None:
    with pytest.raises(AttuneError, match="does not state the model"):
        model_of(_script("--lr", "1"))
    with pytest.raises(AttuneError, match="no model of the catalogue has --num-layers 7"):
        model_of(_script("--num-layers", "7", "--hidden-size", "64"))


@pytest.mark.parametrize(
    ("words", "layout"),
    [
        ("--tensor-model-parallel-size 4 --sequence-parallel", "tp=4 pp=1 etp=4"),
        (
            "--pipeline-model-parallel-size 4 --num-layers-per-virtual-pipeline-stage 2",
            "pp=4 vpp=4",
        ),
        ("--num-virtual-stages-per-pipeline-rank 2 --pipeline-model-parallel-size 4", "pp=4 vpp=2"),
        ("--recompute-activations", "recompute=selective"),
        (
            "--recompute-granularity selective --recompute-modules moe core_attn",
            "recompute=core_attn,moe",
        ),
        ("--optimizer-cpu-offload --use-precision-aware-optimizer", "offload=1"),
        ("--micro-batch-size 2 --context-parallel-size 2", "rows=2 cp=2"),
        ("--cuda-graph-impl local --tp-comm-overlap", "cuda_graphs=on overlap_tensor=on"),
    ],
)
def test_flags_of_megatron(words: str, layout: str) -> None:
    flags = read_flags(f"{words} --use-distributed-optimizer".split())
    wanted = parse_layout(f"{layout} dispatcher=allgather")
    assert layout_of_flags(flags, layers=32, row_tokens=4096) == wanted


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("--tensor-model-parallel-size four", "takes a whole number from 1, but got `four`"),
        ("--context-parallel-size 0", "but got `0`"),
        ("--num-layers-per-virtual-pipeline-stage 5", "does not divide the model's 32 layers"),
        ("--optimizer-cpu-offload --optimizer-offload-fraction 2", "from 0 to 1, but got `2`"),
        ("--micro-batch-size", "but got `True`"),
    ],
)
def test_bad_values(words: str, told: str) -> None:
    with pytest.raises(AttuneError, match=told):
        layout_of_flags(read_flags(words.split()), layers=32, row_tokens=4096)
