"""Layouts per second of other estimators, on the layouts of the speed benchmark.

Each runs from its own checkout, one layout a time as its interface has it. A layout that it refuses
counts as answered, which is in its favour: refusing is quick.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from attune.catalog import Cluster, Model
from attune.layout import Layout, LayoutTable
from attune.workload import Workload

SAMPLE = 200
"""Layouts that a peer gets, evenly spaced over the list."""
Judge = Callable[[Layout], None]


def sample(table: LayoutTable, size: int = SAMPLE) -> LayoutTable:
    """Evenly spaced rows of the distinct ones."""
    distinct = LayoutTable.of(list(dict.fromkeys(map(table.row, range(len(table))))))
    places = np.unique(np.linspace(0, len(distinct) - 1, size).astype(np.int64))
    return distinct.take(places)


def measure(judge: Judge, table: LayoutTable) -> dict[str, Any]:
    """Rate by time on the core, and how many layouts the peer answered with figures."""
    rows = [table.row(index) for index in range(len(table))]
    judged = 0
    wall, core = time.perf_counter(), time.process_time()
    for layout in rows:
        # A peer refuses by assertions and errors of its own; a refusal is an answer too.
        with contextlib.suppress(Exception), contextlib.redirect_stdout(io.StringIO()):
            judge(layout)
            judged += 1
    wall, core = time.perf_counter() - wall, time.process_time() - core
    return {
        "layouts_per_s": round(len(rows) / wall, 1),
        "layouts_per_core_s": round(len(rows) / core, 1),
        "layouts": len(rows),
        "judged": judged,
    }


def simumax(checkout: Path, model: Model, cluster: Cluster, workload: Workload) -> Judge:
    """SimuMax (MooreThreads): memory and step time of one layout, its B200 system."""
    sys.path.insert(0, str(checkout))
    from simumax.core.config import (  # type: ignore[import-not-found]
        ModelConfig,
        StrategyConfig,
        SystemConfig,
    )
    from simumax.core.perf_llm import PerfLLM  # type: ignore[import-not-found]

    logging.disable(logging.CRITICAL)
    system = checkout / "configs" / "system" / "b200_bf16_ceperm.json"
    sizes = _simumax_sizes(model)

    def judge(layout: Layout) -> None:
        dp = max(layout.dp(cluster.count), 1)
        rows = layout.rows_per_microbatch
        perf = PerfLLM()
        perf.configure(
            strategy_config=StrategyConfig(
                seq_len=workload.row_tokens,
                micro_batch_size=rows,
                micro_batch_num=max(workload.global_batch // (rows * dp), 1),
                world_size=cluster.count,
                tp_size=layout.tp,
                cp_size=layout.cp,
                pp_size=layout.pp,
                ep_size=layout.ep,
                etp_size=layout.etp,
                interleaving_size=layout.vpp,
                num_layers_in_first_pipeline_stage=layout.first,
                num_layers_in_last_pipeline_stage=layout.last,
                enable_sequence_parallel=layout.sequence_parallel,
                enable_recompute=layout.recompute != "none",
                recompute_granularity=_SIMUMAX_RECOMPUTE[layout.recompute],
                recompute_layer_num=model.layers if layout.recompute == "full" else 0,
            ),
            model_config=ModelConfig(**sizes),
            system_config=SystemConfig.init_from_config_file(str(system)),
        )
        perf.run_estimate()
        perf.analysis_mem()
        perf.analysis_cost()

    return judge


_SIMUMAX_RECOMPUTE = {"none": None, "selective": "selective_recompute", "full": "full_block"}


def _simumax_sizes(model: Model) -> dict[str, Any]:
    sizes: dict[str, Any] = {
        "hidden_size": model.hidden,
        "head_num": model.heads,
        "kv_head_num": model.query_groups,
        "head_size": model.head_dim,
        "intermediate_size": model.ffn,
        "layer_num": model.layers,
        "vocab_size": model.vocabulary,
        "use_swiglu": model.gated,
    }
    if model.experts:
        sizes |= {
            "model_type": "moe",
            "expert_num": model.experts.count,
            "topk": model.experts.top_k,
            "moe_ffn_hidden_size": model.experts.ffn,
            "moe_shared_expert_intermediate_size": model.experts.shared_ffn or None,
            "dense_layers": model.first_moe_layer,
        }
    if model.latent:
        sizes |= {
            "attention_type": "mla",
            "v_head_dim": model.latent.value_dim,
            "qk_head_dim": model.latent.nope_dim,
            "qk_pos_emb_head_dim": model.latent.rope_dim,
            "q_lora_rank": model.latent.q_rank,
            "kv_lora_rank": model.latent.kv_rank,
        }
    return sizes


def calculon(checkout: Path, model: Model, cluster: Cluster, workload: Workload) -> Judge:
    """calculon: a dense model of the same widths (it knows no experts), its H100 system."""
    sys.path.insert(0, str(checkout))
    from calculon.llm import Llm  # type: ignore[import-not-found]
    from calculon.system import System  # type: ignore[import-not-found]

    system = json.loads((checkout / "systems" / "h100_80g_nvl8.json").read_text(encoding="utf-8"))
    application = Llm.Application(
        {
            "hidden": model.hidden,
            "feedforward": model.ffn,
            "seq_size": workload.row_tokens,
            "attn_heads": model.heads,
            "attn_size": model.head_dim,
            "num_blocks": model.layers,
        }
    )

    def judge(layout: Layout) -> None:
        execution = {
            "num_procs": cluster.count // layout.cp,
            "tensor_par": layout.tp,
            "pipeline_par": layout.pp,
            "data_par": max(layout.dp(cluster.count), 1),
            "tensor_par_net": 0,
            "pipeline_par_net": 1,
            "data_par_net": 1,
            "batch_size": workload.global_batch,
            "microbatch_size": layout.rows_per_microbatch,
            "datatype": "float16",
            "fused_activation": True,
            "attention_type": "multihead",
            "activation_recompute": _CALCULON_RECOMPUTE[layout.recompute],
            "pipeline_interleaving": layout.vpp,
            "optimizer_sharding": True,
            "tensor_par_comm_type": "rs_ag" if layout.sequence_parallel else "ar",
            "tensor_par_overlap": "none",
            "seq_par_ag_redo": False,
            "data_par_overlap": False,
            "weight_offload": False,
            "activations_offload": False,
            "optimizer_offload": False,
            "training": True,
        }
        one = Llm(application, logging.getLogger("calculon"))
        own = System(system)
        one.compile(own, Llm.Execution.from_json(execution))
        one.run(own)
        one.get_stats_json(False)

    return judge


_CALCULON_RECOMPUTE = {"none": "none", "selective": "attn_only", "full": "full"}
PEERS = {"simumax": simumax, "calculon": calculon}
