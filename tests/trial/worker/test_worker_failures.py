"""Every failure of the worker ends as one line and a non-zero exit code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from attune.catalog import load_gpu, load_model
from attune.errors import LayoutError
from attune.layout import parse_layout
from attune.trial.worker import failure
from attune.trial.worker.config import WorkerConfig
from attune.trial.worker.refusal import refuse_unsupported
from attune.workload import Workload

SHORT = (("steps", 3),)


@pytest.mark.training
@pytest.mark.parametrize("layout", ["tp=1", "ep=4"])
def test_small_layouts_fit_the_memory_of_the_catalogue(
    train: Callable[..., Any], layout: str
) -> None:
    run = train("tiny-moe", layout, 4, memory_gib=load_gpu("cpu").memory_gib, workload=SHORT)
    assert run.code == 0, run.text
    assert len(run.memory) == 4
    assert all(0.005 < memory.allocated_gib < 0.046 for memory in run.memory)


@pytest.mark.training
def test_bfloat16_trains(train: Callable[..., Any]) -> None:
    run = train("tiny-moe", "ep=2", 2, workload=(("precision", "bf16"), *SHORT))
    assert run.code == 0, run.text
    assert run.losses[-1] < run.losses[0]


def test_an_exception_is_told_with_its_phase_and_step(train: Callable[..., Any]) -> None:
    run = train("tiny-dense", "tp=1", options=(("fail_at_step", 1),), workload=SHORT)
    assert run.code == 1
    (error,) = run.errors
    assert (error.kind, error.step, error.rank) == ("exception", 1, 0)
    assert "RuntimeError" in error.message
    assert len(run.steps) == 1


@pytest.mark.parametrize(
    ("text", "kind", "requested"),
    [
        (
            "DefaultCPUAllocator: can't allocate memory: you tried to allocate 4096 bytes. "
            "Error code 12 (Cannot allocate memory)",
            "out_of_memory",
            4096,
        ),
        ("CUDA out of memory. Tried to allocate 1.50 GiB. GPU 0 has", "out_of_memory", 3 * 2**29),
        ("std::bad_alloc", "out_of_memory", None),
        ("can't start new thread", "out_of_memory", None),
        ("Unable to allocate 2.00 KiB for an array with shape (256,)", "out_of_memory", 2048),
        ("mat1 and mat2 shapes cannot be multiplied", "exception", None),
    ],
)
def test_errors_are_classed(text: str, kind: str, requested: int | None) -> None:
    error = RuntimeError(text)
    assert failure.kind_of(error, "forward") == kind
    assert failure.requested_bytes(error) == requested


def test_memory_error_is_out_of_memory_and_divergence_is_not() -> None:
    assert failure.kind_of(MemoryError(), "optimizer") == "out_of_memory"
    assert failure.kind_of(failure.DivergenceError("loss is nan"), "optimizer") == "diverged"


def test_megatron_refusing_while_building_is_an_illegal_layout() -> None:
    assert failure.kind_of(AssertionError("must divide"), "build") == "illegal_layout"
    assert failure.kind_of(AssertionError("must divide"), "forward") == "exception"


def test_a_lost_peer_is_an_echo() -> None:
    assert failure.is_echo(RuntimeError("pair.cc:553] Connection closed by peer [127.0.0.1]:9"))
    assert not failure.is_echo(RuntimeError("std::bad_alloc"))


def test_phase_comes_from_the_traceback() -> None:
    def backward_step() -> None:
        raise MemoryError

    with pytest.raises(MemoryError) as caught:
        backward_step()
    assert failure.phase_of(caught.value, "forward") == "backward"


def _config(layout: str, model: str = "tiny-moe") -> WorkerConfig:
    return WorkerConfig(
        model=load_model(model),
        workload=Workload(precision="fp32", global_batch=16, row_tokens=128),
        layout=parse_layout(layout),
        device="cpu",
    )


@pytest.mark.parametrize(
    ("layout", "words"),
    [
        ("cp=256 rows=1", "TP x PP x CP = 256"),
        ("tp=3", "TP x PP x CP = 3"),
        ("rows=16", "global batch of 16"),
        ("tp=2 ep=2 etp=2", "ETP 1"),
        ("recompute=moe_act", "Transformer Engine"),
        ("dispatcher=flex", "flex"),
        ("cuda_graphs=on", "cuda_graphs"),
    ],
)
def test_what_it_cannot_train_is_refused_in_words(layout: str, words: str) -> None:
    with pytest.raises(LayoutError, match=words):
        refuse_unsupported(_config(layout), 4, transformer_engine=False)


def test_the_indexer_is_refused_and_a_legal_layout_is_not() -> None:
    with pytest.raises(LayoutError, match="sparse-attention indexer"):
        refuse_unsupported(_config("tp=2", "glm-5"), 4, transformer_engine=False)
    refuse_unsupported(_config("tp=2 pp=2 ep=2"), 4, transformer_engine=False)
    refuse_unsupported(_config("cp=2 ep=2", "tiny-mla"), 4, transformer_engine=False)


def test_a_row_that_context_ranks_cannot_share_is_refused() -> None:
    config = _config("cp=4")
    short = config.workload.model_copy(update={"row_tokens": 68})
    with pytest.raises(LayoutError, match="8 chunks"):
        refuse_unsupported(config.model_copy(update={"workload": short}), 4, False)


def test_latent_attention_on_tensor_ranks_needs_sequence_parallelism() -> None:
    with pytest.raises(LayoutError, match="rotated keys"):
        refuse_unsupported(_config("tp=2 sp=off", "tiny-mla"), 4, transformer_engine=False)


def test_message_leaves_out_the_stack_that_torch_appends() -> None:
    assert failure.describe(RuntimeError("a\nException raised from b")) == "RuntimeError: a"
