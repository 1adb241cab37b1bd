"""Models, GPUs, clusters and frameworks as data."""

from attune.catalog.gpu import Cluster, Gpu, Link
from attune.catalog.loader import (
    gpu_names,
    load_cluster,
    load_gpu,
    load_model,
    merged,
    model_names,
    nearest,
    parse,
    read_yaml,
)
from attune.catalog.model import Experts, Indexer, Latent, Model
from attune.catalog.resources import shipped

__all__ = [
    "Cluster",
    "Experts",
    "Gpu",
    "Indexer",
    "Latent",
    "Link",
    "Model",
    "gpu_names",
    "load_cluster",
    "load_gpu",
    "load_model",
    "merged",
    "model_names",
    "nearest",
    "parse",
    "read_yaml",
    "shipped",
]
