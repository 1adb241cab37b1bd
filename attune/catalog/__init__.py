"""Models, GPUs, clusters and frameworks as data."""

from attune.catalog.gpu import Cluster, Gpu, Link
from attune.catalog.hf.refusal import UnmodelledError
from attune.catalog.hf_config import ImportedModel
from attune.catalog.loader import (
    gpu_names,
    load_cluster,
    load_gpu,
    load_hf_model,
    load_model,
    merged,
    model_names,
    own_model_files,
    write_model,
)
from attune.catalog.megatron_flags import megatron_flags
from attune.catalog.model import Experts, Indexer, Latent, Model, RopeScaling
from attune.catalog.names import nearest
from attune.catalog.places import own_models_folder
from attune.catalog.resources import shipped
from attune.catalog.yaml_file import parse, read_yaml

__all__ = [
    "Cluster",
    "Experts",
    "Gpu",
    "ImportedModel",
    "Indexer",
    "Latent",
    "Link",
    "Model",
    "RopeScaling",
    "UnmodelledError",
    "gpu_names",
    "load_cluster",
    "load_gpu",
    "load_hf_model",
    "load_model",
    "megatron_flags",
    "merged",
    "model_names",
    "nearest",
    "own_model_files",
    "own_models_folder",
    "parse",
    "read_yaml",
    "shipped",
    "write_model",
]
