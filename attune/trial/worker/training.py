"""The training loop: steps of the global batch, timed and logged."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from megatron.core import parallel_state
from megatron.core.pipeline_parallel.schedules import get_forward_backward_func

from attune.rows.feed import Feed
from attune.trial.result import Step
from attune.trial.worker.config import WorkerConfig
from attune.trial.worker.context import places_here
from attune.trial.worker.failure import DivergenceError
from attune.trial.worker.faults import StepFaults
from attune.trial.worker.optimization import Optimization
from attune.trial.worker.parity import PROBED_STEPS, Probe
from attune.trial.worker.progress import Progress
from attune.trial.worker.rows import Microbatch, loss_of_rows, to_device


class Training:
    """All steps of one run on this rank."""

    def __init__(
        self, config: WorkerConfig, feed: Feed, optimization: Optimization, device: Any
    ) -> None:
        self.config = config
        self.device = device
        self.chunks = optimization.chunks
        self.optimizer = optimization.optimizer
        self.schedule = optimization.schedule
        self.rows = feed
        self.ranks = parallel_state.get_data_parallel_world_size()
        self.microbatches = config.workload.global_batch // (
            config.layout.rows_per_microbatch * self.ranks
        )
        self.faults = StepFaults(config, optimization.chunks)
        self.places = places_here(config.workload.row_tokens)
        self.probe = Probe(config, optimization) if config.parity_file else None
        self.mask = causal_mask(config.workload.row_tokens) if device.type == "cpu" else None

    def run(self, progress: Progress) -> None:
        """Trains every step of the workload.

        Raises:
            DivergenceError: loss or gradient norm is not finite.
        """
        for step in range(self.config.workload.steps):
            _check_finite(self.step(step, progress))

    def step(self, step: int, progress: Progress) -> Step:
        """One step: forward and backward passes of all microbatches, then the update."""
        progress.enter("forward", step)
        started = time.perf_counter()
        self._play_fault(step)
        rate = self.optimizer.param_groups[0]["lr"]
        loss = self._forward_backward(step)
        progress.enter("optimizer", step)
        self.faults.before_update()
        norm = self._probed_update(step, loss) if self._probes(step) else self._update()
        self._wait(started)
        seconds = time.perf_counter() - started
        done = Step(step=step, seconds=seconds, loss=loss, grad_norm=norm)
        if loss is not None:
            progress.log_step(done, rate)
        return done

    def _play_fault(self, step: int) -> None:
        options = self.config.options
        if torch.distributed.get_rank() == 0 and options.fail_at_step == step:
            raise RuntimeError(f"failed at step {step}, as the options ask")
        if torch.distributed.get_rank() == 0 and options.hang_at_step == step:
            time.sleep(1e8)

    def _wait(self, started: float) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize()
        left = self.config.options.slow_step_s - (time.perf_counter() - started)
        if left > 0:
            time.sleep(left)

    def _forward_backward(self, step: int) -> float | None:
        """Mean loss over the global batch on the last stage, None elsewhere."""
        for chunk in self.chunks:
            chunk.zero_grad_buffer()
        self.optimizer.zero_grad()
        several = len(self.chunks) > 1
        batches = [self._batches(step) for _ in self.chunks]
        losses = get_forward_backward_func()(
            forward_step_func=self._forward,
            data_iterator=batches if several else batches[0],
            model=self.chunks if several else self.chunks[0],
            num_microbatches=self.microbatches,
            seq_length=self.config.workload.row_tokens,
            micro_batch_size=self.config.layout.rows_per_microbatch,
            forward_only=False,
        )
        return self._mean(losses) if losses else None

    def _batches(self, step: int) -> Iterator[Microbatch]:
        """Microbatches of this data-parallel rank."""
        width = self.config.layout.rows_per_microbatch
        for index in range(self.microbatches):
            first = (index * self.ranks + parallel_state.get_data_parallel_rank()) * width
            rows = self.rows.batch(self.faults.step_of_rows(step), range(first, first + width))
            batch = self.faults.microbatch(to_device(rows, self.device))
            places = self.faults.places(batch.tokens.shape[1], self.places)
            yield Microbatch(*(field[:, places] for field in batch))

    def _forward(self, batches: Iterator[Microbatch], chunk: Any) -> tuple[torch.Tensor, Any]:
        batch = next(batches)
        positions = self.places.to(self.device).unsqueeze(0)
        self.faults.before_microbatch()
        output = chunk(batch.tokens, positions, self.mask, labels=batch.labels)
        return output, partial(self._loss, weights=batch.weights)

    def _loss(
        self, output: torch.Tensor, weights: torch.Tensor
    ) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        loss = loss_of_rows(output, weights)
        return self.faults.loss(loss), {"loss": loss.detach().clone()}

    def _mean(self, losses: list[dict[str, torch.Tensor]]) -> float:
        """Every microbatch has the same number of rows, so the mean of means is the batch's.

        Context-parallel ranks hold parts of the same rows: their losses are summed.
        """
        mean = torch.stack([entry["loss"] for entry in losses]).double().mean()
        group = parallel_state.get_data_parallel_group(with_context_parallel=True)
        torch.distributed.all_reduce(mean, group=group)
        return float(mean) / self.ranks

    def _probes(self, step: int) -> bool:
        return self.probe is not None and step < PROBED_STEPS

    def _probed_update(self, step: int, loss: float | None) -> float:
        assert self.probe is not None, "asked for only where it is"
        self.probe.take_gradients()
        norm = self._update()
        self.probe.report(step, loss)
        return norm

    def _update(self) -> float:
        _, norm, _ = self.optimizer.step()
        self.schedule.step(increment=1)
        return float(norm)


def causal_mask(tokens: int) -> torch.Tensor:
    """[1, 1, tokens, tokens], true where attention must not look; Megatron's own attention asks."""
    return torch.ones(tokens, tokens, dtype=torch.bool).triu(1)[None, None]


def _check_finite(step: Step) -> None:
    for name, value in (("loss", step.loss), ("gradient norm", step.grad_norm)):
        if value is not None and not math.isfinite(value):
            raise DivergenceError(f"{name} is {value} at step {step.step}")
