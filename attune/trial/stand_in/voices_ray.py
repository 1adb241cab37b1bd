"""How miles and slime log what a played run does, as their driver prints it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attune.trial.job import Job
from attune.trial.result import RankMemory, Step

if TYPE_CHECKING:
    from attune.trial.stand_in.voices import Failure

_FRAMES = {
    "start": ("megatron/core/parallel_state.py", "initialize_model_parallel"),
    "build": ("backends/megatron_utils/actor.py", "init"),
    "forward": ("megatron/core/pipeline_parallel/schedules.py", "forward_step"),
    "backward": ("megatron/core/pipeline_parallel/schedules.py", "backward_step"),
    "optimizer": ("megatron/core/optimizer/optimizer.py", "step_with_ready_grads"),
}
_KINDS = {"out_of_memory": "torch.OutOfMemoryError", "diverged": "RuntimeError"}


class SlimeVoice:
    """Lines of Ray actors: `(MegatronTrainRayActor pid=N, ip=A) [time] file.py:N - message`."""

    _step_file = "model.py:818"
    _perf_file = "train_metric_utils.py:50"

    def __init__(self, job: Job) -> None:
        self._job = job

    def begin(self, rank: int, after_s: float) -> str:
        """Training starts."""
        return self._said(rank, "timer.py:32", "Timer train_wait start")

    def step(self, step: Step, steps: int) -> str:
        """Loss and gradient norm, then the times of the same step; ids count from 0."""
        rank = self._speaker()
        tokens = self._job.workload.tokens_per_step / step.seconds
        metrics = (
            f"step {step.step}: {{'train/loss': {step.loss}, 'train/grad_norm': {step.grad_norm}, "
            f"'train/lr-pg_0': 1e-05, 'train/step': {step.step}}}"
        )
        perf = (
            f"perf {step.step}: {{'perf/train_wait_time': 0.4, 'perf/actor_train_time': "
            f"{step.seconds * 0.97}, 'perf/actor_train_tok_per_s': {tokens}, "
            f"'perf/step_time': {step.seconds}, 'perf/wait_time_ratio': 0.03}}"
        )
        return "\n".join(
            [
                self._said(rank, self._step_file, metrics),
                # The first data fetch prints a line of the same name without a step's time.
                self._said(
                    rank, "rollout.py:1227", f"perf {step.step}: {{'perf/rollout_time': 1}}"
                ),
                self._said(rank, self._perf_file, perf),
            ]
        )

    def memory(self, memory: RankMemory) -> str:
        """The line of the memory hook."""
        allocated, reserved = memory.allocated_gib * 1024, memory.reserved_gib * 1024
        return self._actor(memory.rank) + (
            f"[Rank {memory.rank}] (after 2 iterations) memory (MB) | allocated: "
            f"{0.9 * allocated:.2f} | max allocated: {allocated:.5f} | reserved: {reserved:.2f} | "
            f"max reserved: {reserved:.5f}"
        )

    def failure(self, failure: Failure) -> str:
        """The driver's traceback: Ray's own error, with the actor's traceback inside."""
        kind = _KINDS.get(failure.kind, "")
        message = f"{kind}: {failure.message}" if kind else failure.message
        path, function = _FRAMES.get(failure.phase, _FRAMES["forward"])
        name = (kind or failure.message.partition(":")[0]).rpartition(".")[2]
        actor = self._actor(failure.rank)
        lines = [
            "Traceback (most recent call last):",
            f'  File "{path}", line 400, in {function}',
            message,
        ]
        driver = (
            f"ray.exceptions.RayTaskError({name}): ray::MegatronTrainRayActor.train() (pid=7, ip=H)"
        )
        return "\n".join([*(actor + line for line in lines), driver])

    def echo(self, rank: int, message: str) -> str:
        """A rank stops because a peer did."""
        return self._actor(rank) + message

    def _speaker(self) -> int:
        layout = self._job.layout
        return (layout.pp - 1) * (self._job.cluster.count // layout.pp)

    def _actor(self, rank: int) -> str:
        node = rank // self._job.cluster.per_node
        place = f", ip=10.0.0.{node}" if node else ""
        return f"(MegatronTrainRayActor pid={4000 + rank}{place}) "

    def _said(self, rank: int, file: str, message: str) -> str:
        return f"{self._actor(rank)}[2026-01-01 00:00:00] {file} - {message}"


class MilesVoice(SlimeVoice):
    """As slime, with the rank in each line's mark and each step printed twice."""

    _step_file = "model.py:854"
    _perf_file = "train_metric_utils.py:56"

    def step(self, step: Step, steps: int) -> str:
        """The line of metrics twice, as miles logs it in two places."""
        lines = super().step(step, steps).split("\n")
        return "\n".join([lines[0].replace("model.py:854", "log_utils.py:542"), *lines])

    def _said(self, rank: int, file: str, message: str) -> str:
        mark = f"[2026-01-01 00:00:00.000 actor_cell0_rank{rank}]"
        return f"{self._actor(rank)}{mark} {file} - {message}"
