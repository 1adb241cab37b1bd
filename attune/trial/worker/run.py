"""One run on one rank: process groups, model, training, report."""

from __future__ import annotations

import ctypes
import gc
import os
import signal
from datetime import timedelta

import torch
from megatron.core import parallel_state, tensor_parallel

from attune.rows.feed import Feed, open_feed
from attune.trial.probe import LayerProbe, MemoryProbe
from attune.trial.worker import cpu, faults, memory
from attune.trial.worker.config import Device, WorkerConfig
from attune.trial.worker.model import (
    build_chunks,
    chunk_count,
    has_transformer_engine,
    transformer_config,
)
from attune.trial.worker.optimization import build_optimization
from attune.trial.worker.probe_layers import probe_layers
from attune.trial.worker.probe_memory import join_fake_group, probe_memory
from attune.trial.worker.progress import Progress
from attune.trial.worker.refusal import refuse_unsupported
from attune.trial.worker.training import Training
from attune.trial.worker.weights import initialize_weights

_COLLECTIVE_TIMEOUT = timedelta(minutes=10)
"""NCCL's own default; a run that waits longer is hung."""
_PR_SET_PDEATHSIG = 1


def run(config: WorkerConfig) -> int:
    """Trains and reports on this rank; returns the exit code.

    Whatever goes wrong ends as one line of attune.trial.worker.log and exit code 1.
    """
    probe = config.probe if isinstance(config.probe, MemoryProbe) else None
    progress = Progress(
        rank=probe.rank if probe else int(os.environ["RANK"]),
        steps=probe.steps if probe else config.workload.steps,
        steps_file=config.steps_file,
    )
    world = probe.world if probe else int(os.environ["WORLD_SIZE"])
    baseline = None
    try:
        progress.enter("start")
        refuse_unsupported(config, world, has_transformer_engine())
        device = start_rank(config.device, probe)
        make_model_parallel(config)
        progress.stage = parallel_state.get_pipeline_model_parallel_rank()
        progress.speaks = progress.speaks or probe is not None
        # Opened before the baseline: the libraries that read rows are no memory of the model.
        feed = open_feed(config.workload, config.model.vocabulary)
        baseline = _baseline(config)
        _work(config, feed, device, progress)
    except Exception as error:
        memory.lift_limit()
        progress.log_failure(error)
        _report_memory(baseline, progress)
        return 1
    memory.lift_limit()
    _report_memory(baseline, progress)
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()
    return 0


def _work(
    config: WorkerConfig,
    feed: Feed,
    device: torch.device,
    progress: Progress,
) -> None:
    """Trains, or measures what the configuration asks for instead."""
    if isinstance(config.probe, MemoryProbe):
        probe_memory(config, config.probe, feed, device, progress)
    elif isinstance(config.probe, LayerProbe):
        probe_layers(config, config.probe, device, progress)
    else:
        train(config, feed, device, progress)


def train(config: WorkerConfig, feed: Feed, device: torch.device, progress: Progress) -> None:
    """Builds the model and trains every step, in process groups that are made."""
    progress.enter("build")
    progress.writes_steps = _is_first_of_last_stage()
    config = faults.mistaken(config)
    transformer = transformer_config(config)
    chunks = build_chunks(config, transformer)
    initialize_weights(chunks, config.model, config.workload.seed, config.options.fault)
    faults.spoil_model(config.options.fault, chunks)
    training = Training(config, feed, build_optimization(config, transformer, chunks), device)
    training.run(progress)
    progress.enter("end")


def start_rank(kind: Device, probe: MemoryProbe | None = None) -> torch.device:
    """This rank's device and its connection to the others, which a memory probe only plays."""
    _die_with_parent()
    device = _prepare_device(kind)
    if probe is not None:
        join_fake_group(probe)
        return device
    backend = "gloo" if kind == "cpu" else "nccl"
    torch.distributed.init_process_group(backend, timeout=_COLLECTIVE_TIMEOUT)
    return device


def _die_with_parent() -> None:
    """Asks Linux to kill this rank when torchrun dies, however it dies."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _prepare_device(kind: Device) -> torch.device:
    if kind == "cpu":
        memory.small_thread_stacks()
        torch.set_num_threads(1)
        cpu.prepare_megatron_for_cpu()
        return torch.device("cpu")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    return device


def make_model_parallel(config: WorkerConfig) -> None:
    """Megatron's process groups of the layout."""
    layout, chunks = config.layout, chunk_count(config)
    parallel_state.initialize_model_parallel(
        tensor_model_parallel_size=layout.tp,
        pipeline_model_parallel_size=layout.pp,
        virtual_pipeline_model_parallel_size=chunks if chunks > 1 else None,
        context_parallel_size=layout.cp,
        expert_model_parallel_size=layout.ep,
        expert_tensor_parallel_size=layout.etp,
        create_gloo_process_groups=False,
    )
    if config.device == "cuda":
        tensor_parallel.model_parallel_cuda_manual_seed(config.workload.seed)


def _is_first_of_last_stage() -> bool:
    last = parallel_state.get_pipeline_model_parallel_world_size() - 1
    return (
        parallel_state.get_pipeline_model_parallel_rank() == last
        and parallel_state.get_tensor_model_parallel_rank() == 0
        and parallel_state.get_data_parallel_rank(with_context_parallel=True) == 0
    )


def _baseline(config: WorkerConfig) -> memory.Baseline:
    # One collective makes the connections, whose buffers belong to the baseline.
    torch.distributed.barrier()
    gc.collect()
    baseline = memory.Baseline.here()
    if config.device == "cpu" and config.memory_gib is not None:
        memory.limit_data(config.memory_gib)
    return baseline


def _report_memory(baseline: memory.Baseline | None, progress: Progress) -> None:
    if baseline is not None:
        progress.log_memory(baseline.peak(progress.rank, progress.stage))
