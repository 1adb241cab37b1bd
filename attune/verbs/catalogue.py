"""Lists what attune knows, models and GPUs, and adds a model."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from attune.catalog import (
    Gpu,
    ImportedModel,
    Model,
    UnmodelledError,
    gpu_names,
    load_gpu,
    load_hf_model,
    load_model,
    megatron_flags,
    model_names,
    own_model_files,
    own_models_folder,
    write_model,
)
from attune.catalog.hf_config import identifier_of
from attune.counts import active_parameters, total_parameters
from attune.errors import AttuneError
from attune.report.catalogue import ListedGpu, ListedModel
from attune.report.model import Reading, RefusedModel, ShownModel, show


def list_models() -> tuple[ListedModel, ...]:
    """Every model of the catalogue, by id, then those that the user added."""
    own = [str(path) for path in own_model_files().values()]
    return tuple(_listed(load_model(name)) for name in [*model_names(), *own])


def show_model(name: str) -> ShownModel | RefusedModel:
    """The model of that loose name, YAML file, Hugging Face config, its folder or hub id.

    Raises:
        AttuneError: no such model (the nearest is suggested), or a damaged file.
    """
    try:
        imported = load_hf_model(name)
    except UnmodelledError as error:
        return RefusedModel(
            supported=False, name=error.kind, unmodelled=error.missing, error=str(error)
        )
    model = imported.model if imported else load_model(name)
    return show(_listed(model), model, _reading(imported), megatron_flags(model))


def add_model(name: str, identifier: str | None = None, *, replace: bool = False) -> Path:
    """Writes the model of a Hugging Face config into the user's catalogue; gives the file.

    Raises:
        AttuneError: `name` is no config, or a model of that id is there already.
        UnmodelledError: a model that attune cannot express.
    """
    imported = load_hf_model(name)
    if imported is None:
        raise AttuneError(f"`{name}` is no config.json, no folder with one, nor in the hub's cache")
    model = imported.model
    if identifier is not None:
        model = model.model_copy(update={"id": identifier_of(identifier), "name": identifier})
    if model.id in model_names():
        raise AttuneError(f"the catalogue has a model `{model.id}`; give another name with --id")
    path = own_models_folder() / f"{model.id}.yaml"
    if path.exists() and not replace:
        raise AttuneError(f"{path} exists; give another name with --id, or --replace")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(write_model(model), encoding="utf-8")
    return path


def _reading(imported: ImportedModel | None) -> Reading:
    if imported is None:
        return Reading(family="", defaulted=(), by_class={}, ignored=())
    return Reading(
        family=imported.family,
        defaulted=tuple(asdict(item) for item in imported.defaulted),
        by_class=dict(imported.by_class),
        ignored=tuple(asdict(item) for item in imported.ignored),
    )


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
