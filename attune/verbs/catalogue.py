"""Lists what attune knows: models and GPUs."""

from __future__ import annotations

from attune.catalog import Gpu, Model, gpu_names, load_gpu, load_model, model_names
from attune.counts import active_parameters, total_parameters
from attune.report.catalogue import ListedGpu, ListedModel, ShownModel


def list_models() -> tuple[ListedModel, ...]:
    """Every model of the catalogue, by id."""
    return tuple(_listed(load_model(name)) for name in model_names())


def show_model(name: str) -> ShownModel:
    """The model of that loose name or YAML file.

    Raises:
        AttuneError: no such model (the nearest is suggested), or a damaged file.
    """
    model = load_model(name)
    return ShownModel(listed=_listed(model), architecture=model)


def list_gpus() -> tuple[ListedGpu, ...]:
    """Every GPU of the catalogue, by id."""
    return tuple(_listed_gpu(load_gpu(name)) for name in gpu_names())


def _listed(model: Model) -> ListedModel:
    return ListedModel(
        id=model.id,
        name=model.name,
        kind="MoE" if model.experts else "dense",
        layers=model.layers,
        total_parameters=total_parameters(model),
        active_parameters=active_parameters(model),
    )


def _listed_gpu(gpu: Gpu) -> ListedGpu:
    return ListedGpu(
        id=gpu.id,
        name=gpu.name,
        architecture=gpu.architecture,
        memory_gb=gpu.memory_gb,
        peak_bf16_tflops=gpu.peak_tflops["bf16"],
        per_node=gpu.per_node,
        usd_per_gpu_hour=gpu.usd_per_gpu_hour,
    )
