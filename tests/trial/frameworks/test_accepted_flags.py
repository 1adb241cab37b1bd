"""Every command holds only flags that its version of the framework accepts."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace

import pytest
from random_jobs import random_jobs

from attune.catalog.accepted_flags import accepted_flags, find_wrong_flag
from attune.catalog.framework import load_framework_facts
from attune.errors import AttuneError
from attune.trial.frameworks import load_framework
from attune.trial.frameworks.sft_driver import CONFIG
from attune.trial.job import Job
from attune.trial.setup import Setup

MODELS = ("qwen3-30b-a3b", "qwen3-8b")
VERSIONS = [
    (name, version)
    for name in ("megatron-lm", "megatron-bridge", "miles", "slime")
    for version in load_framework_facts(name).versions
]


def words_of(job: Job) -> list[str]:
    command = load_framework(job.framework).prepare(job)
    if CONFIG in command.files:
        config = json.loads(command.files[CONFIG])
        return [*config["before"], *config["after"]]
    return list(command.argv[2:])


def number(version: str) -> tuple[int, int]:
    major, minor = version.split(".")
    return int(major), int(minor)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(("framework", "version"), VERSIONS)
def test_commands_of_random_layouts(framework: str, version: str, model: str) -> None:
    jobs = random_jobs(framework, 200, model=model, version=version)
    assert len(jobs) == 200
    for job in jobs:
        words = words_of(job)
        if framework == "megatron-bridge":
            known = accepted_flags(framework, number(version))
            names = [word.partition("=")[0] for word in words[2:]]
            assert not [name for name in names if name not in known], job.layout
            assert max(Counter(names).values()) == 1
            continue
        assert find_wrong_flag(framework, number(version), words) is None, job.layout


def test_random_layouts_use_every_knob() -> None:
    jobs = random_jobs("megatron-lm", 400, version="0.19")
    for field in ("vpp", "cp", "ep", "etp", "first", "dispatcher", "recompute_method"):
        assert len({getattr(job.layout, field) for job in jobs}) > 1, field
    for field in ("overlap_experts", "overlap_gradients", "overlap_tensor", "cuda_graphs"):
        assert any(getattr(job.layout, field) for job in jobs), field


@pytest.mark.parametrize(("framework", "version"), VERSIONS)
def test_a_mistyped_flag_is_refused_before_anything_runs(framework: str, version: str) -> None:
    """slime would ignore it without a word."""
    (job,) = random_jobs(framework, 1, version=version)
    flags: dict[str, bool | int | float | str]
    flags, near = {"--clip-gradd": 2.0}, "--clip-grad"
    if framework == "megatron-bridge":
        flags, near = {"optimizer.clip_gradd": 2.0}, "optimizer.clip_grad"
    with pytest.raises(AttuneError, match=f"did you mean `{near}`"):
        load_framework(framework).prepare(replace(job, setup=Setup(version=version, flags=flags)))


def test_flags_that_changed_between_versions() -> None:
    job = next(j for j in random_jobs("megatron-lm", 200) if j.layout.dispatcher == "flex")
    old, new = (
        words_of(replace(job, setup=Setup(version=version))) for version in ("0.15", "0.16")
    )
    assert "--moe-enable-deepep" in old and "--moe-enable-deepep" not in new
    assert "--moe-flex-dispatcher-backend" in new and "--log-memory-interval" in new
    assert "--log-memory-interval" not in old


def test_an_unknown_version_is_named_with_those_that_are_known() -> None:
    job = replace(random_jobs("miles", 1)[0], setup=Setup(version="9.1"))
    with pytest.raises(AttuneError, match=r"miles 9\.1 is not known to attune; known: 0\.1"):
        load_framework("miles").prepare(job)
