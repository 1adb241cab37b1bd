"""Reads the log of a driver of miles or slime: metrics as dictionaries of Python."""

from __future__ import annotations

import re

from attune.trial.frameworks.megatron_log import MegatronReader, stage_of
from attune.trial.job import Job
from attune.trial.logs import Phase, Reading
from attune.trial.result import RankMemory, Step

_STEP = re.compile(r"(?<![\w-])step (\d+): (\{.*\})")
_TIMER = re.compile(r"\bTimer actor_train end \(elapsed: ([\d.]+)s\)")
_WAITS = "Timer train_wait start"
_PERF = re.compile(r"\bperf (\d+): (\{.*\})")
_USAGE = re.compile(r"\[Rank (\d+)\] Memory-Usage ([^:{]*): (\{.*\})")
_VALUE = re.compile(
    r"'([^']+)': (?:[\w.]+\()?'?([-+]?(?:nan|inf|\d[\d_]*\.?\d*(?:[eE][-+]?\d+)?|\.\d+))"
)
_TRAINED = "perf/actor_train_time"
_PHASES = (
    ("Creating placement group", "start"),
    ("Timer train_wait start", "training"),
    ("Timer actor_train start", "forward"),
)


class RayReader:
    """`step N: {...}` and `perf N: {...}` of the first rank of the last stage.

    Loss and gradient norm stand in one line and the time of the step in the next, so a step is
    reported once both have come. Steps count from 0. Data fetches print `perf` lines too; only
    those with the time of training are of steps. Where there is no `perf` line, the timer of the
    training phase counts, once the next wait begins.
    """

    def __init__(self, job: Job | None = None) -> None:
        self._job = job
        self._megatron = MegatronReader(job)
        self._losses: dict[int, tuple[float | None, float | None]] = {}
        self._seconds: dict[int, float] = {}
        self._reported = -1
        self._timer: float | None = None

    def read(self, line: str) -> Reading | None:
        """What a line says; None for a line that is not the driver's own."""
        if match := _STEP.search(line):
            return self._step(int(match[1]), _values(match[2]))
        if match := _PERF.search(line):
            return self._perf(int(match[1]), _values(match[2]))
        if match := _TIMER.search(line):
            self._timer = float(match[1])
        if _WAITS in line and self._timer is not None and self._losses:
            return self._timed(max(self._losses))
        if match := _USAGE.search(line):
            return self._usage(int(match[1]), _values(match[3]))
        if "memory (MB)" in line:
            return self._megatron.read_memory(line)
        return next((Phase(phase) for words, phase in _PHASES if words in line), None)

    def _step(self, step: int, values: dict[str, float]) -> Step | None:
        if "train/loss" not in values and "train/grad_norm" not in values:
            return None
        # miles prints each step twice; the first line counts.
        self._losses.setdefault(step, (values.get("train/loss"), values.get("train/grad_norm")))
        return self._both(step)

    def _perf(self, step: int, values: dict[str, float]) -> Step | None:
        seconds = values.get("perf/step_time")
        if _TRAINED not in values or seconds is None:
            return None
        self._seconds.setdefault(step, seconds)
        return self._both(step)

    def _timed(self, step: int) -> Step | None:
        """The step by the timer of the training phase, where its own time did not come."""
        seconds, self._timer = self._timer, None
        if seconds is not None and step > self._reported:
            self._seconds.setdefault(step, seconds)
        return self._both(step)

    def _both(self, step: int) -> Step | None:
        if step <= self._reported or step not in self._seconds or step not in self._losses:
            return None
        self._reported = step
        loss, grad_norm = self._losses.pop(step)
        return Step(step=step, seconds=self._seconds.pop(step), loss=loss, grad_norm=grad_norm)

    def _usage(self, rank: int, values: dict[str, float]) -> RankMemory | None:
        """What the allocator holds as a step ends: a peak since the last `empty_cache`."""
        reserved = values.get("reserved_GB")
        if reserved is None:
            return None
        # Printed in GB, and computed by 2^30 (utils/memory_utils.py).
        return RankMemory(
            rank=rank,
            stage=stage_of(rank, self._job),
            allocated_gib=values.get("allocated_GB", 0.0),
            reserved_gib=reserved,
        )


def _values(text: str) -> dict[str, float]:
    """Numbers of a printed dictionary: nan, inf, tensor(...) and np.float64(...) included."""
    return {name: float(value.replace("_", "")) for name, value in _VALUE.findall(text)}
