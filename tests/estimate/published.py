"""Models and clusters of published measurements (MooreThreads/SimuMax, Apache-2.0, one B200 node).

Proxies of 8 to 12 or 4 layers; balanced routing by capacity factor 1, TE fused loss.
"""

from __future__ import annotations

import csv
from pathlib import Path

from attune.catalog import Cluster, Experts, Latent, Model, load_gpu
from attune.estimate import Stack
from attune.layout import Layout
from attune.workload import Workload

CASES = Path(__file__).parent.parent / "cases"
STACK = Stack(loss_copies=2.0)
NODE = Cluster(gpu=load_gpu("b200"), count=8)


def _llama(layers: int) -> Model:
    return Model(
        id="llama3-70b-proxy",
        name="Llama-3-70B proxy",
        source="SimuMax launcher script",
        layers=layers,
        hidden=8192,
        ffn=28672,
        heads=64,
        query_groups=8,
        head_dim=128,
        vocabulary=128257,
    )


DEEPSEEK = Model(
    id="deepseekv2-proxy",
    name="DeepSeek-V2 proxy",
    source="SimuMax launcher script",
    layers=4,
    dense_layers=1,
    hidden=5120,
    ffn=12288,
    heads=128,
    query_groups=128,
    head_dim=128,
    vocabulary=102401,
    qk_norm=True,
    latent=Latent(q_rank=1536, kv_rank=512, nope_dim=128, rope_dim=64, value_dim=128),
    experts=Experts(count=160, top_k=6, ffn=1536, shared_ffn=3072),
)
MODELS = {"llama3-70b-l12": _llama(12), "llama3-70b-l8": _llama(8), "deepseekv2-l4": DEEPSEEK}


def rows(name: str) -> list[dict[str, str]]:
    """Rows of tests/cases/<name>.csv."""
    with (CASES / f"{name}.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def layout_of(row: dict[str, str]) -> Layout:
    return Layout(
        tp=int(row["tp"]),
        pp=int(row["pp"]),
        vpp=int(row.get("vpp", 1)),
        cp=int(row["cp"]),
        ep=int(row["ep"]),
        sequence_parallel=int(row["tp"]) > 1,
    )


def workload_of(row: dict[str, str]) -> Workload:
    return Workload(
        row_tokens=int(row["row_tokens"]),
        global_batch=int(row["global_batch"]),
        routing="balanced",
    )
