"""What trainers get of rows, and which rows a workload may name."""

from __future__ import annotations

import numpy as np
import pytest

from attune.catalog import load_cluster, load_model
from attune.errors import AttuneError
from attune.layout import Layout
from attune.recipe.build import build_recipe
from attune.rows.feed import FileFeed, name_rows, open_feed
from attune.rows.manifest import load_manifest
from attune.rows.parquet import RowsFile
from attune.rows.synthetic import SyntheticRows, synthetic_digest
from attune.trial.job import Job
from attune.trial.result import Step, TrialResult
from attune.verbs.target import find_workload
from attune.verify import verify
from attune.workload import Workload
from tests.rows.builds import built

VOCABULARY = 1024
SMALL = {"row_tokens": 64, "global_batch": 8, "steps": 5, "precision": "fp32"}


def test_a_batch_is_rows_and_their_targets(rows_file):
    path = rows_file()
    batch = FileFeed(path, global_batch=8).batch(3, range(2, 4))
    file = RowsFile(path)
    for place, number in enumerate((26, 27)):
        ids, mask = file.row(number)
        assert np.array_equal(batch.tokens[place], ids)
        targets = np.flatnonzero(batch.weights[place]) + 1
        assert np.array_equal(targets, np.flatnonzero(mask))
        assert np.array_equal(batch.labels[place, targets - 1], ids[targets])
    assert batch.weights.sum(axis=1) == pytest.approx([1, 1])


def test_synthetic_rows_feed_every_token():
    workload = Workload(**SMALL)
    batch = open_feed(workload, VOCABULARY).batch(1, range(3))
    assert np.array_equal(batch.tokens[:, 1:], batch.labels[:, :-1])
    assert batch.weights == pytest.approx(np.full((3, 64), 1 / 64))


def test_synthetic_rows_have_a_digest_like_any_others():
    workload = Workload(**SMALL)
    named = name_rows(workload, VOCABULARY, real=True)
    assert named.rows_sha256 == synthetic_digest(workload, VOCABULARY)
    assert name_rows(named, VOCABULARY, real=True) == named
    other = workload.model_copy(update={"seed": 5})
    assert synthetic_digest(other, VOCABULARY) != named.rows_sha256
    assert name_rows(workload, VOCABULARY, real=False).rows_sha256 is None
    first = SyntheticRows(vocabulary=VOCABULARY, row_tokens=64, seed=workload.seed).row(0, 0)
    assert np.array_equal(open_feed(workload, VOCABULARY).batch(0, range(1)).tokens[0], first[:-1])


def test_a_workload_takes_the_length_of_its_rows(rows_file):
    path = rows_file()
    changes = {"rows": str(path), "global_batch": 8, "steps": 5}
    workload = find_workload(load_model("tiny-moe"), None, changes)
    assert workload.row_tokens == 64
    named = name_rows(workload, VOCABULARY, real=True)
    assert named.rows_sha256 == load_manifest(path).rows_sha256


@pytest.mark.parametrize(
    ("fields", "vocabulary", "message"),
    [
        ({"row_tokens": 128}, 1024, "rows have 64 tokens"),
        ({"steps": 50}, 1024, r"40 rows, and 50 steps of 8 need 400"),
        ({}, 300, "the model knows 300"),
        ({"rows_sha256": "0" * 64}, 1024, "these rows changed"),
    ],
)
def test_rows_that_do_not_fit_are_refused(rows_file, fields, vocabulary, message):
    workload = Workload(**(SMALL | {"rows": str(rows_file())} | fields))
    with pytest.raises(AttuneError, match=message):
        open_feed(workload, vocabulary)
    with pytest.raises(AttuneError, match=message):
        name_rows(workload, vocabulary, real=True)


def test_changed_rows_are_refused(ask):
    path = ask().output
    built(ask())
    named = name_rows(Workload(**SMALL, rows=str(path)), VOCABULARY, real=True)
    built(ask(seed=9, overwrite=True))
    with pytest.raises(AttuneError, match="these rows changed"):
        name_rows(named, VOCABULARY, real=True)
    path.write_bytes(path.read_bytes() + b" ")
    with pytest.raises(AttuneError, match="not the file that its manifest describes"):
        name_rows(Workload(**SMALL, rows=str(path)), VOCABULARY, real=True)


def job(workload: Workload) -> Job:
    cluster = load_cluster("cpu", 2)
    return Job(model=load_model("tiny-moe"), cluster=cluster, workload=workload, layout=Layout())


def result() -> TrialResult:
    steps = tuple(Step(step=i, seconds=1.0, loss=5.0 - i / 10, grad_norm=1.0) for i in range(5))
    return TrialResult(
        outcome="completed",
        steps_asked=5,
        steps=steps,
        provenance="measured",
        launcher="local",
        tokens_per_step=512,
        gpus=2,
        wall_s=9.0,
        hardware="cpu",
    )


def test_arms_on_other_rows_do_not_compare(rows_file, tmp_path):
    mine = name_rows(Workload(**SMALL, rows=str(rows_file())), VOCABULARY, real=True)
    synthetic = name_rows(Workload(**SMALL), VOCABULARY, real=True)
    checks = {c.name: c for c in verify(job(mine), result(), job(synthetic), result()).checks}
    assert checks["configuration"].status == "failed"
    assert "rows_sha256" in checks["configuration"].detail
    assert checks["megatron_bridge"].status == checks["layout_bound"].status == "not run"
    assert mine.rows_sha256 in checks["megatron_bridge"].detail
    assert verify(job(mine), result(), job(synthetic), result()).provenance == "measured"
    moved = mine.model_copy(update={"rows": str(tmp_path / "a-copy.parquet")})
    assert verify(job(mine), result(), job(moved), result()).provenance == "verified"


def test_the_recipe_carries_the_digest(rows_file):
    path = rows_file()
    workload = name_rows(Workload(**SMALL, rows=str(path)), VOCABULARY, real=True)
    recipe = build_recipe(
        model=load_model("tiny-moe"),
        cluster=load_cluster("cpu", 2),
        workload=workload,
        layout=Layout(),
        result=result(),
        provenance="predicted",
        checks=(),
        reference="none",
        command="attune trial",
        stack={"framework": "megatron-core"},
    )
    manifest, dataset = load_manifest(path), recipe.workload.dataset
    assert dataset.rows_sha256 == manifest.rows_sha256
    assert dataset.build.parquet_sha256 == manifest.parquet_sha256
    assert dataset.build.loss_mask == "glm45"
    assert manifest.tokenizer.template_sha256 in dataset.build.tokenizer
