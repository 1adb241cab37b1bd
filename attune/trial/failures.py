"""Which line of a log means what: one table of patterns, and one of classes."""

from __future__ import annotations

import re
from typing import NamedTuple

from attune.trial.result import Outcome


class Meaning(NamedTuple):
    """What a class of lines says about the run."""

    outcome: Outcome | None
    """None decides nothing."""
    weight: int
    """0 a cause; 1 a cause, or what a peer's failure looks like from here; 2 only an exit; 3 an
    echo. Among lines without a time the lighter decides."""
    advice: str


CLASSES: dict[str, Meaning] = {
    "GPU_OOM": Meaning(
        "out_of_memory", 0, "use more TP or PP, fewer rows per microbatch, or recompute"
    ),
    "GPU_OOM_FRAGMENTATION": Meaning(
        "out_of_memory",
        0,
        "free memory lay in fragments: repeat with "
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True before giving this layout up",
    ),
    "HOST_OOM": Meaning(
        "host_out_of_memory", 0, "offload less of the optimizer, or use nodes with more memory"
    ),
    "SHM": Meaning("infrastructure", 0, "give the container more /dev/shm, or free disk space"),
    "NAN": Meaning(
        "diverged", 0, "not the layout's doing as a rule: look at learning rate, rows and router"
    ),
    "ILLEGAL_LAYOUT": Meaning(
        "illegal_layout", 0, "`attune explain --layout ...` names the rule and its cure"
    ),
    "MISCONFIGURED": Meaning(
        "infrastructure",
        0,
        "the trainer runs otherwise than it was asked to; check the flags of its setup",
    ),
    "MISSING_DEPENDENCY": Meaning("infrastructure", 0, "install what the line names"),
    "HARDWARE": Meaning("infrastructure", 0, "take the node out and repeat the trial"),
    "NCCL_TIMEOUT": Meaning(
        "infrastructure", 1, "one rank is missing or a link is slow: repeat, then check the nodes"
    ),
    "ILLEGAL_ACCESS": Meaning(
        "infrastructure", 1, "repeat with CUDA_LAUNCH_BLOCKING=1 to find the kernel"
    ),
    "CRASH": Meaning("infrastructure", 1, "read the traceback in the log of this rank"),
    "HOST_KILL": Meaning(
        "host_out_of_memory",
        2,
        "killed by signal 9 with no error: nearly always the host's memory; see `dmesg`",
    ),
    "SECONDARY": Meaning("infrastructure", 3, "only echoes were logged: read the node's own log"),
    "SLOW_START": Meaning(None, 4, ""),
    "PROGRESS": Meaning(None, 4, ""),
    "BENIGN": Meaning(None, 4, ""),
}
"""Classes of lines; HOST_KILL is reported as HOST_OOM."""


class Pattern(NamedTuple):
    """Lines that belong to a class."""

    log_class: str
    text: str
    source: str
    """Who prints it."""


# The first pattern that matches decides, so the special ones stand before the general ones.
PATTERNS = (
    Pattern("BENIGN", r"Warning: |did not call destroy_process_group", "python, torch"),
    Pattern("HOST_OOM", r"ray\.exceptions\.OutOfMemoryError|node running low on memory", "ray"),
    Pattern("HOST_OOM", r"(?i)oom[-_ ]kill|OOMKilled|Out of memory: Kill", "linux, slurm, k8s"),
    Pattern("HOST_OOM", r"SIGKILL by (the )?OOM|[Ee]xceeded .*memory limit", "ray, slurm"),
    Pattern("HOST_OOM", r"DataLoader worker .*killed by signal: Killed", "torch"),
    Pattern("HOST_OOM", r"(?i)(cudaHost|pin_memory|pinned memory).*(memory|fail)", "torch"),
    Pattern("HOST_OOM", r"DefaultCPUAllocator: (can't|not enough)", "torch"),
    Pattern(
        "HOST_OOM", r"std::bad_alloc|(?<!Of)MemoryError\b|Cannot allocate memory", "linux, numpy"
    ),
    Pattern("HOST_OOM", r"Out of memory allocating|failed to map segment from", "libgomp, glibc"),
    # How a thread that cannot be started ends a C++ program; its other words for it follow.
    Pattern("HOST_OOM", r"what\(\):\s+Resource temporarily unavailable", "libstdc++"),
    Pattern("HOST_OOM", r"(?i)thread.*Resource temporarily unavailable|start new thread", "linux"),
    Pattern("SHM", r"insufficient shared memory|unable to \w+ shared memory object", "torch"),
    Pattern("SHM", r"shared memory segment|/dev/shm|posix_fallocate failed", "nccl"),
    Pattern("SHM", r"\bBus error\b|No space left on device", "linux"),
    Pattern("GPU_OOM", r"(?i)(CUDA|HIP|XPU) (driver )?(error:? )?out of memory", "torch, vllm"),
    Pattern("GPU_OOM", r"(?i)cuda error: .*out of memory", "deepep, vllm"),
    Pattern("GPU_OOM", r"\bOutOfMemoryError\b", "torch (torch.cuda. before 2.5)"),
    Pattern("GPU_OOM", r"cudaErrorMemoryAllocation|(CUDA_ERROR_|hipError)OutOfMemory", "cuda"),
    Pattern("GPU_OOM", r"CUDA_ERROR_OUT_OF_MEMORY|Cuda failure (2\b|.*out of memory)", "nccl"),
    Pattern("GPU_OOM", r"Failed to CUDA (host )?(calloc|malloc)|NCCL.*out of memory", "nccl"),
    Pattern("GPU_OOM", r"(CUBLAS|CUDNN|CUSOLVER|HIPBLAS)_STATUS_ALLOC_FAILED", "cuda"),
    Pattern("GPU_OOM", r"CUresult error:? result=2\b|malloc return OOM", "torch_memory_saver"),
    Pattern("GPU_OOM", r"No available memory for the cache|Not enough memory\b", "vllm, sglang"),
    Pattern("GPU_OOM", r"(?i)sglang.*illegal memory access", "miles docs/developer/debug.md"),
    Pattern("NAN", r"(?i)found (nan|inf) in local|Unexpected result (nan|-?inf)", "megatron"),
    Pattern("NAN", r"(?i)(loss|grad[_ ]?norm)\W{1,4}(nan|-?inf)\b", "megatron, slime"),
    Pattern("NAN", r"number of nan iterations:\s+[1-9]", "megatron"),
    Pattern("NCCL_TIMEOUT", r"Watchdog caught collective operation timeout", "torch"),
    Pattern("NCCL_TIMEOUT", r"(?i)heartbeat ?monitor.*time|Socket Timeout", "torch"),
    Pattern("NCCL_TIMEOUT", r"(?i)wait timeout after \d+|(client socket has )?timed out", "torch"),
    Pattern("NCCL_TIMEOUT", r"Application timeout caused pair closure", "gloo"),
    Pattern("NCCL_TIMEOUT", r"(?i)DeepEP.*timeout|timeout \(?(dispatch|combine)", "deepep"),
    Pattern("ILLEGAL_ACCESS", r"illegal memory access|device-side assert", "cuda"),
    Pattern("ILLEGAL_ACCESS", r"unspecified launch failure|misaligned address", "cuda"),
    Pattern("HARDWARE", r"\bXid\b|fallen off the bus|uncorrectable ECC", "nvidia driver"),
    Pattern("HOST_KILL", r"(?i)exit ?code\W{0,9}(-9|137)\b|Signal 9 \(SIGKILL\)", "torch"),
    Pattern("SECONDARY", r"Connection (closed|reset|refused)|Broken pipe", "gloo, torch"),
    Pattern("SECONDARY", r"ChildFailedError|SignalException|Sending process \d+", "torch"),
    Pattern("SECONDARY", r"(?i)exit ?code\W{0,9}-?\d+|Signal \d+ \(SIG\w+\)", "torch"),
    Pattern("SECONDARY", r"Dist(Backend|Network|Store)Error", "torch"),
    Pattern("SECONDARY", r"nccl(Remote|System|Internal|UnhandledCuda)Error|NCCL WARN", "nccl"),
    Pattern("SECONDARY", r"(communicator|operation)s? (was|were) aborted|entire process", "torch"),
    Pattern("SECONDARY", r"SIGABRT|SIGTERM|SIGSEGV|Aborted \(core dumped\)", "linux"),
    Pattern("SECONDARY", r"ActorDiedError|terminate called", "ray, linux"),
    Pattern("MISSING_DEPENDENCY", r"(DeepEP|HybridEP) is not installed", "megatron"),
    Pattern("MISSING_DEPENDENCY", r"requires FusedAdam|Please install TE", "megatron"),
    Pattern("MISSING_DEPENDENCY", r"ModuleNotFoundError|ImportError:", "python"),
    Pattern(
        "ILLEGAL_LAYOUT",
        r"(AssertionError|ValueError|RuntimeError).*(not divisible|must be (a )?(multiple|divis)"
        r"|should be divisible|Mismatch: .* middle layers|should range in \[PP=|remainder of M"
        r"|[Nn]umber of layers|environment variable CUDA_DEVICE_MAX|only supported with"
        r"|cannot be (set|used)|must be used in conjunction|evenly divide)",
        "megatron",
    ),
    Pattern("CRASH", r"^(\[rank\d+\]:\s*)?([\w.]+\.)?\w+(Error|Exception)(:|$)", "python"),
    Pattern("SLOW_START", r"time to initialize megatron|loading fused kernels", "megatron"),
    Pattern("PROGRESS", r"\biteration\s+\d+/\s*\d+|memory \(MB\) \| allocated", "megatron, nemo"),
    Pattern("PROGRESS", r"\bstep:? \d+\b|Timer \w+ end", "torchtitan, slime, miles"),
)

TABLE = tuple((pattern.log_class, re.compile(pattern.text)) for pattern in PATTERNS)

# Failures of the host's allocators; on `cpu` these are the trainer's own memory.
HOST_ALLOCATOR = re.compile(
    r"(?i)DefaultCPUAllocator|bad_alloc|(?<!Of)MemoryError\b|Cannot allocate memory|thread"
    r"|Out of memory allocating|failed to map segment from|what\(\):"
)
