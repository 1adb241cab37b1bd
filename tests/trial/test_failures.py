"""Lines of real logs, shortened, and the class that each must get."""

from __future__ import annotations

import re
import time

import pytest

from attune.trial.failures import CLASSES, PATTERNS
from attune.trial.findings import classify, requested_gib

# Shortened from public issue threads and from the sources of torch, NCCL and Megatron.
LINES = [
    # torch before 2.1: https://github.com/NVIDIA/Megatron-LM/issues/525
    (
        "GPU_OOM",
        "RuntimeError: CUDA out of memory. Tried to allocate 786.00 MiB (GPU 0; 31.74 GiB total "
        "capacity; 28.82 GiB already allocated; 412.12 MiB free; 29.97 GiB reserved in total by "
        "PyTorch)",
    ),
    (
        "GPU_OOM",
        "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 "
        "has a total capacity of 79.11 GiB of which 1.20 GiB is free. Of the allocated memory "
        "73.10 GiB is allocated by PyTorch, and 1.30 GiB is reserved by PyTorch but unallocated.",
    ),
    ("GPU_OOM", "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB"),
    ("GPU_OOM", "HIP out of memory. Tried to allocate 4.00 GiB. GPU 1 has a total capacity of 191"),
    ("GPU_OOM", "RuntimeError: CUDA error: out of memory"),
    ("GPU_OOM", "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate"),
    # https://github.com/NVIDIA/nccl/issues/1235
    ("GPU_OOM", "H:7:9 [0] NCCL WARN Cuda failure 'out of memory'"),
    ("GPU_OOM", "H:7:9 [0] NCCL WARN Failed to CUDA calloc 6291456 bytes"),
    # https://github.com/fzyzcjy/torch_memory_saver/issues/4
    (
        "GPU_OOM",
        "[torch_memory_saver.cpp] CUresult error result=2 file=core.cpp func=cu_mem_create line=8",
    ),
    (
        "GPU_OOM",
        "[torch_memory_saver.cpp] TorchMemorySaver::malloc return OOM since memory_margin_bytes="
        "1073741824 (alloc)size=2147483648",
    ),
    ("GPU_OOM", "CUDA Error: out of memory at /workspace/csrc/cumem_allocator.cpp:62"),
    ("GPU_OOM", "sglang scheduler: CUDA error: an illegal memory access was encountered"),
    (
        "GPU_OOM_FRAGMENTATION",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 4.00 GiB. GPU 0 has a total "
        "capacity of 79.11 GiB of which 1.04 GiB is free. Of the allocated memory 58.80 GiB is "
        "allocated by PyTorch, and 16.90 GiB is reserved by PyTorch but unallocated.",
    ),
    # https://github.com/volcengine/verl/issues/3453
    (
        "HOST_OOM",
        "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory. "
        "Memory on the node (IP: H) was 250.04GB / 251.54GB (0.994), exceeds the threshold",
    ),
    ("HOST_OOM", "slurmstepd: error: Detected 1 oom_kill event in StepId=77.0"),
    ("HOST_OOM", "RuntimeError: DataLoader worker (pid 77) is killed by signal: Killed."),
    ("HOST_OOM", "terminate called after throwing an instance of 'std::bad_alloc'"),
    ("HOST_OOM", "  what():  std::bad_alloc"),
    ("HOST_OOM", "  what():  Resource temporarily unavailable"),
    ("HOST_OOM", "OSError: [Errno 12] Cannot allocate memory"),
    ("HOST_OOM", "libgomp: Out of memory allocating 4096 bytes"),
    ("HOST_OOM", "ImportError: libm.so.6: failed to map segment from shared object"),
    ("HOST_OOM", "numpy._core._exceptions._ArrayMemoryError: Unable to allocate 2.00 GiB for an"),
    ("SECONDARY", "terminate called after throwing an instance of 'std::system_error'"),
    ("HOST_OOM", "libgomp: Thread creation failed: Resource temporarily unavailable"),
    ("HOST_OOM", "RuntimeError: can't start new thread"),
    ("HOST_OOM", "DefaultCPUAllocator: can't allocate memory: you tried to allocate 4096 bytes"),
    # https://github.com/hpcaitech/ColossalAI/issues/3677
    ("HOST_KILL", "torch.distributed.elastic.multiprocessing.api failed (exitcode: -9) local_rank"),
    ("HOST_KILL", "  exitcode  : -9 (pid: 4242)"),
    (
        "SHM",
        "ERROR: Unexpected bus error ... It is possible that dataloader's workers are out of "
        "shared memory: insufficient shared memory (shm)",
    ),
    ("SHM", "NCCL WARN Error while creating shared memory segment /dev/shm/nccl-x (size 9637888)"),
    ("SHM", "OSError: [Errno 28] No space left on device"),
    # https://github.com/NVIDIA/Megatron-LM/issues/935
    (
        "NCCL_TIMEOUT",
        "[E ProcessGroupNCCL.cpp:475] [Rank 6] Watchdog caught collective operation timeout: "
        "WorkNCCL(SeqNum=9, OpType=_REDUCE_SCATTER_BASE, NumelIn=7098994688, Timeout(ms)=600000) "
        "ran for 600410 milliseconds before timing out.",
    ),
    (
        "NCCL_TIMEOUT",
        "RuntimeError: [gloo/unbound_buffer.cc:81] Timed out waiting 1800000ms for "
        "recv operation to complete",
    ),
    # https://github.com/deepseek-ai/DeepEP/issues/570
    ("NCCL_TIMEOUT", "DeepEP timeout check failed: rank = 6, thread = 0, value = 0)"),
    ("NCCL_TIMEOUT", "RuntimeError: DeepEP error: timeout (dispatch CPU)"),
    # https://github.com/NVIDIA/Megatron-LM/issues/1301
    ("ILLEGAL_ACCESS", "RuntimeError: CUDA error: an illegal memory access was encountered"),
    # https://github.com/NVIDIA/Megatron-LM/issues/5026
    (
        "NAN",
        "RuntimeError: Unexpected result nan on rank 3 at iteration #3 invocation #2 "
        "(message='found NaN in local grad norm for bucket #0 in backward pass')",
    ),
    ("NAN", "model.py:649 - step 1: {'train/loss': 0.01, 'train/grad_norm': nan}"),
    (
        "NAN",
        " iteration 5/ 20 | consumed samples: 640 | lm loss: nan | number of nan iterations: 1 |",
    ),
    ("ILLEGAL_LAYOUT", "AssertionError: world size (12) is not divisible by 8"),
    ("ILLEGAL_LAYOUT", "AssertionError: Number of layers should be divisible by virtual stages"),
    ("ILLEGAL_LAYOUT", "ValueError: num_moe_experts must be a multiple of expert parallel size"),
    ("MISSING_DEPENDENCY", "ModuleNotFoundError: No module named 'transformer_engine'"),
    ("SECONDARY", "exitcode: -6 (SIGABRT)"),
    ("SECONDARY", "exitcode: -11 (SIGSEGV)"),
    ("SECONDARY", "  exitcode  : 143"),
    ("SECONDARY", "RuntimeError: [gloo/transport/tcp/pair.cc:547] Connection closed by peer"),
    ("SECONDARY", "torch.distributed.DistBackendError: NCCL error in: P, unhandled cuda error"),
    ("SECONDARY", "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:"),
    ("HARDWARE", "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus."),
    ("CRASH", "[rank0]: KeyError: 'decoder'"),
    ("CRASH", "RuntimeError: failed at step 2"),
    ("BENIGN", "P/checkpoint.py:9: UserWarning: torch.utils.checkpoint: OutOfMemoryError ..."),
    # https://github.com/NVIDIA/Megatron-LM/issues/756
    (
        "PROGRESS",
        " [2026-01-01 00:00:00.1] iteration 5/ 20 | consumed samples: 640 | elapsed time per "
        "iteration (ms): 5449.3 | lm loss: 1.08E+01 | loss scale: 1.0 | grad norm: 2.1 | number "
        "of skipped iterations: 0 | number of nan iterations: 0 |",
    ),
    ("PROGRESS", "model.py:649 - step 11: {'train/loss': 0.01, 'train/grad_norm': 0.3}"),
    ("PROGRESS", "Timer actor_train end (elapsed: 81.3s)"),
    ("PROGRESS", "Training epoch 0, iteration 9/99 | lr: 1e-5 | reduced_train_loss: 10.2"),
    ("PROGRESS", "step: 20  loss: 8.2  memory: 73.32GiB(92.70%)  tps: 11,636  mfu: 35.9%"),
    (
        "PROGRESS",
        "[Rank 0] (after 2 iterations) memory (MB) | allocated: 23105.1 | max allocated: 56551.2",
    ),
    ("SLOW_START", "time to initialize megatron (seconds): 190.7"),
]


@pytest.mark.parametrize(("log_class", "line"), LINES)
def test_class_of_line(log_class: str, line: str) -> None:
    found = classify(line)
    assert found is not None
    assert found.log_class == log_class


@pytest.mark.parametrize("line", ["", "loss 5.1, gradient norm 960", "saving checkpoint", "done"])
def test_ordinary_lines_have_no_class(line: str) -> None:
    assert classify(line) is None


def test_every_pattern_compiles_and_has_a_class_and_a_test() -> None:
    assert {pattern.log_class for pattern in PATTERNS} <= set(CLASSES)
    tested = {log_class for log_class, _ in LINES}
    assert {pattern.log_class for pattern in PATTERNS} <= tested
    for pattern in PATTERNS:
        re.compile(pattern.text)


@pytest.mark.parametrize(
    ("line", "gib"),
    [
        ("Tried to allocate 786.00 MiB (GPU 0", 786 / 1024),
        ("Tried to allocate 2.00 GiB. GPU 3 has", 2.0),
        ("you tried to allocate 4294967296 bytes. Error code 12", 4.0),
        ("NCCL WARN Failed to CUDA calloc 1073741824 bytes", 1.0),
        ("_ArrayMemoryError: Unable to allocate 2.00 GiB for an array with shape (2,)", 2.0),
        ("libgomp: Out of memory allocating 1048576 bytes", 1 / 1024),
        ("malloc return OOM since memory_margin_bytes=77 (alloc)size=2147483648", 2.0),
        ("CUBLAS_STATUS_ALLOC_FAILED", None),
    ],
)
def test_size_asked_for(line: str, gib: float | None) -> None:
    assert requested_gib(line) == (None if gib is None else pytest.approx(gib))


@pytest.mark.parametrize(
    "word",
    [
        "x",
        "CUDA ",
        "cudaHost",
        "thread",
        "exitcode \t\t",
        "AssertionError ",
        "Exceeded ",
        "a.b",
        "1.",
    ],
)
def test_no_line_takes_long(word: str) -> None:
    began = time.process_time()
    classify((word * (1 << 14))[: 1 << 14])
    assert time.process_time() - began < 0.25
