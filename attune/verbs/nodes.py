"""Checks the nodes of a cluster before a campaign is spent on them."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from attune.catalog import Cluster, load_cluster
from attune.errors import AttuneError
from attune.experiment import experiments_folder
from attune.trial.launchers import choose_launcher, load_launcher
from attune.trial.node_check import NodeReport, check_nodes


def find_slow_nodes(
    gpu: str,
    count: int,
    *,
    launcher: str = "auto",
    options: dict[str, str] | None = None,
    directory: Path | None = None,
    limit_s: float = 300.0,
) -> NodeReport:
    """Measures matrix rate, memory and collectives of every node, and names the slow ones.

    Raises:
        AttuneError: unknown GPU, a launcher that measures nothing, or a check that did not end.
    """
    cluster: Cluster = load_cluster(gpu, count)
    name = choose_launcher(cluster)[0] if launcher == "auto" else launcher
    found = load_launcher(name, options)
    if found.provenance != "measured":
        raise AttuneError(
            f"launcher {name} runs on no hardware, so it has no nodes to check; pass --launcher"
        )
    stamp = f"{datetime.now(UTC):%Y%m%d-%H%M%S}"
    place = directory or experiments_folder() / "node_checks" / stamp
    return check_nodes(cluster, found, place, limit_s=limit_s)
