"""Logs as launchers and trainers write them: prefixes, colours, interleaved and cut lines."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from attune.trial.frameworks import load_framework
from attune.trial.logs import LogReader, RunLog
from attune.trial.outcome import Verdict, decide
from attune.trial.prefix import strip

ITERATION = (
    " [2026-01-01 00:0{n}:00.123456] iteration        {k}/      20 | consumed samples:   640 "
    "| elapsed time per iteration (ms): 5449.3 | throughput per GPU (TFLOP/s/GPU): 236.4 | "
    "learning rate: 1.500000E-04 | global batch size:   128 | lm loss: 1.08E+01 | loss scale: 1 | "
    "grad norm: 2.100 | number of skipped iterations:   0 | number of nan iterations:   0 |"
)
STEP = (
    "[2026-10-21 10:42:44.123 actor_cell0_rank120] model.py:854 - step {k}: {{'train/loss': 0.986, "
    "'train/grad_norm': 1.23, 'train/lr-pg_0': 5e-06, 'train/step': {k}}}"
)
PERF = (
    "[2026-10-21 10:42:44.130 actor_cell0_rank120] train_metric_utils.py:56 - perf {k}: "
    "{{'perf/train_wait_time': 0.41, 'perf/actor_train_time': 14.05, 'perf/step_time': 14.48}}"
)
OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has a total "
    "capacity of 79.11 GiB of which 1.20 GiB is free. Of the allocated memory 73.10 GiB is "
    "allocated by PyTorch, and 1.30 GiB is reserved by PyTorch but unallocated."
)


@pytest.mark.parametrize(
    ("line", "text", "rank"),
    [
        ("[rank3]: ValueError: x", "ValueError: x", 3),
        ("[default3]:ValueError: x", "ValueError: x", None),
        ("3: [rank27]: ValueError: x", "ValueError: x", 27),
        ("12: ValueError: x", "ValueError: x", 12),
        ("[1,7]<stderr>:ValueError: x", "ValueError: x", 7),
        ("(MegatronTrainRayActor pid=41, ip=10.0.3.7) ValueError: x", "ValueError: x", None),
        ("(MegatronTrainRayActor(rank=3) pid=41) [rank9]: ValueError: x", "ValueError: x", 9),
        ("(raylet, ip=10.0.0.2) ValueError: x", "ValueError: x", None),
        ("ip-10-0-3-7: ValueError: x", "ValueError: x", None),
        (
            "[pod/worker-0/trainer] 2026-10-21T10:42:44.123456789Z ValueError: x",
            "ValueError: x",
            None,
        ),
        ("2026-10-21 10:42:44,123 ERROR ValueError: x", "ValueError: x", None),
        (
            "[2026-10-21 10:42:44.123 actor_cell0_rank5] actor.py:7 - ValueError: x",
            "ValueError: x",
            5,
        ),
        ("ValueError: x", "ValueError: x", None),
        ("RuntimeError: 3: x", "RuntimeError: 3: x", None),
        ("(pid=7) ValueError: x [repeated 127x across cluster]", "ValueError: x", None),
    ],
)
def test_a_line_without_its_prefixes(line: str, text: str, rank: int | None) -> None:
    found = strip(line)
    assert (found.text, found.rank) == (text, rank)


PREFIXES = [
    "",
    "0: ",
    "[default0]:",
    "[1,0]<stdout>:",
    "node-7: ",
    "\x1b[36m(MegatronTrainRayActor pid=4121, ip=10.0.3.7)\x1b[0m ",
    "[pod/job-worker-3/pytorch] ",
    "2026-10-21T10:42:44.123456789Z ",
]


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize("framework", ["megatron-lm", "megatron-bridge", "miles", "slime"])
def test_steps_behind_any_prefix(framework: str, prefix: str, tmp_path: Path) -> None:
    lines = [ITERATION] if framework.startswith("megatron") else [STEP, PERF]
    first = 1 if framework.startswith("megatron") else 0
    text = "".join(
        prefix + line.format(k=k, n=k) + "\n" for k in range(first, first + 4) for line in lines
    )
    log = read(load_framework(framework).reader(), {"node-0": text}, tmp_path)
    assert [s.step for s in log.steps] == [0, 1, 2, 3]
    assert {s.seconds for s in log.steps} == {5.4493 if first else 14.48}
    assert {s.loss for s in log.steps} == {10.8 if first else 0.986}
    assert {s.grad_norm for s in log.steps} == {2.1 if first else 1.23}
    assert log.findings == []


def read(reader: LogReader, logs: dict[str, str], folder: Path) -> RunLog:
    for name, text in logs.items():
        (folder / f"{name}.log").write_text(text)
    log = RunLog(reader)
    list(log.look(sorted(folder.glob("*.log"))))
    log.close()
    return log


def verdict_of(text: str, folder: Path, framework: str = "megatron-lm") -> Verdict:
    log = read(load_framework(framework).reader(), {"launcher": text}, folder)
    return decide(log, steps_asked=20, exit_code=1)


@pytest.mark.parametrize("prefix", PREFIXES)
def test_an_error_behind_any_prefix(prefix: str, tmp_path: Path) -> None:
    trace = [
        "[rank3]: Traceback (most recent call last):",
        '[rank3]:   File "P/pretrain_gpt.py", line 301, in <module>',
        '[rank3]:   File "P/schedules.py", line 489, in backward_step',
        f"[rank3]: {OOM}",
    ]
    text = "".join(f"{prefix}{line}\n" for line in trace)
    found = verdict_of(ITERATION.format(k=1, n=1) + "\n" + text, tmp_path)
    assert (found.outcome, found.log_class, found.rank) == ("out_of_memory", "GPU_OOM", 3)
    assert (found.phase, found.requested_gib) == ("backward", 2.0)


def test_two_ranks_in_one_line(tmp_path: Path) -> None:
    """Processes that share a pipe may write into each other's lines."""
    glued = ITERATION.format(k=2, n=2) + f"[rank5]: {OOM}\n"
    cut = ITERATION.format(k=3, n=3)[:60] + f"[rank6]: {OOM}\n"
    log = read(load_framework("megatron-lm").reader(), {"all": glued + cut}, tmp_path)
    assert [s.step for s in log.steps] == [1]
    (found,) = log.findings
    assert found.log_class == "GPU_OOM" and "Tried to allocate" in found.line


def test_tracebacks_of_several_ranks_do_not_mix(tmp_path: Path) -> None:
    one = [
        "[rank1]: Traceback (most recent call last):",
        '[rank1]:   File "P/schedules.py", line 1, in forward_step',
        f"[rank1]: {OOM}",
    ]
    two = [
        "[rank2]: Traceback (most recent call last):",
        '[rank2]:   File "P/optimizer.py", line 9, in step_with_ready_grads',
        "[rank2]: RuntimeError: Connection closed by peer",
    ]
    for seed in range(10):
        lines, left = [], [list(one), list(two)]
        shuffle = random.Random(seed)
        while any(left):
            lines.append(shuffle.choice([x for x in left if x]).pop(0))
        found = verdict_of("\n".join(lines) + "\n", tmp_path)
        assert (found.log_class, found.rank, found.phase) == ("GPU_OOM", 1, "forward")


def test_a_loss_that_megatron_leaves_out_is_not_a_number(tmp_path: Path) -> None:
    lines = [ITERATION.format(k=k, n=k) for k in range(1, 4)]
    lines[1] = (
        lines[1]
        .replace(" lm loss: 1.08E+01 |", "")
        .replace("nan iterations:   0", "nan iterations:   1")
    )
    log = read(
        load_framework("megatron-lm").reader(), {"rank-7": "\n".join(lines) + "\n"}, tmp_path
    )
    assert [s.loss for s in log.steps] == [10.8, None, 10.8]
    found = decide(log, steps_asked=3, exit_code=0)
    assert (found.outcome, found.log_class) == ("diverged", "NAN")


def test_memory_of_bridge_is_in_units_of_1e9_bytes(tmp_path: Path) -> None:
    line = (
        "[Rank 8] (after 2 iterations) memory (GB) | mem-allocated-gigabytes: 46.9 | "
        "mem-max-allocated-gigabytes: 60.000 | mem-max-reserved-gigabytes: 64.425\n"
    )
    log = read(load_framework("megatron-bridge").reader(), {"rank-8": line}, tmp_path)
    assert log.ranks[8].reserved_gib == pytest.approx(60.0, rel=1e-3)


def test_the_largest_peak_of_a_rank_counts(tmp_path: Path) -> None:
    line = (
        "[Rank 0] (after {n} iterations) memory (MB) | allocated: 1.0 | max allocated: {a} | "
        "reserved: 9 | max reserved: {r}\n"
    )
    text = line.format(n=1, a=2048.0, r=9216.5) + line.format(n=2, a=4096.0, r=4096.0)
    log = read(load_framework("megatron-lm").reader(), {"rank-0": text}, tmp_path)
    assert (log.ranks[0].allocated_gib, log.ranks[0].reserved_gib) == (
        4.0,
        pytest.approx(9.0005, 1e-4),
    )


@pytest.mark.parametrize(
    "value",
    ["nan", "inf", "-inf", "tensor(nan)", "np.float64(nan)", "tensor(nan, device='cuda:0')"],
)
def test_numbers_of_slime_that_are_none(value: str, tmp_path: Path) -> None:
    step = f"step 0: {{'train/loss': {value}, 'train/grad_norm': 1.0}}\n"
    log = read(load_framework("slime").reader(), {"all": step + PERF.format(k=0) + "\n"}, tmp_path)
    assert decide(log, steps_asked=1, exit_code=0).outcome == "diverged"


def test_data_fetches_and_critics_are_no_steps(tmp_path: Path) -> None:
    text = (
        "perf 0: {'rollout/response_len/mean': 8191.0, 'perf/rollout_time': 0.2}\n"
        "critic-step 0: {'train/loss': 9.0, 'train/grad_norm': 1.0}\n"
        f"{STEP.format(k=0)}\n{STEP.format(k=0)}\n{PERF.format(k=0)}\n{PERF.format(k=0)}\n"
    )
    log = read(load_framework("miles").reader(), {"all": text}, tmp_path)
    assert [(s.step, s.loss, s.seconds) for s in log.steps] == [(0, 0.986, 14.48)]
