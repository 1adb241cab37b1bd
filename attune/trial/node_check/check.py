"""Starts a node check through a launcher, and says which nodes are slow."""

from __future__ import annotations

import statistics
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path

from attune.catalog import Cluster, load_model
from attune.errors import AttuneError
from attune.layout import Layout
from attune.trial.directory import begin_directory, write_command
from attune.trial.frameworks.framework import Command
from attune.trial.job import Job
from attune.trial.launchers.launcher import Handle, Launcher, State
from attune.trial.logs import Reading, RunLog
from attune.trial.node_check.line import RankSpeed, read_speed
from attune.trial.outcome import Stopped, decide
from attune.workload import Workload

TOLERANCE = 0.15
"""Share of the median by which a healthy node may be slower: as early stopping allows a trial."""
_PACKAGES = Path(__file__).resolve().parents[3]


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeSpeed:
    """What the slowest rank of one node measured."""

    node: str
    tflops: float
    memory_gib: float
    node_gb_per_s: float | None
    faults: tuple[str, ...]
    """In what it falls behind the median of all nodes; empty for a healthy one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeReport:
    """What a node check found."""

    nodes: tuple[NodeSpeed, ...]
    world_gb_per_s: float | None
    """All-reduce among all ranks, bus bandwidth; None for one rank."""
    seconds: float
    """From the allocation to its release."""
    gpus: int

    @property
    def slow(self) -> tuple[str, ...]:
        """Names of the nodes to leave out."""
        return tuple(node.node for node in self.nodes if node.faults)

    @property
    def gpu_hours(self) -> float:
        return self.gpus * self.seconds / 3600


def check_nodes(
    cluster: Cluster, launcher: Launcher, directory: Path, *, limit_s: float = 300.0
) -> NodeReport:
    """Measures every node of the cluster, all at once.

    Args:
        cluster: which nodes.
        launcher: what starts it.
        directory: receives command, logs and launch.json.
        limit_s: longest wall time once the nodes are there.

    Raises:
        AttuneError: it did not end well: the evidence, with the rank and node where known.
    """
    job = _job(cluster, limit_s)
    launcher.check(job, ())
    begin_directory(directory)
    command = node_check_command(cluster)
    write_command(command, directory)
    handle = launcher.start(job, command, directory)
    reader = _Speeds()
    log = RunLog(reader)
    try:
        state = _wait(handle, log, limit_s, launcher.queue_limit_s)
    finally:
        handle.cancel()
    deque(log.look(handle.log_files()), maxlen=0)
    log.close()
    if len(reader.speeds) < cluster.count:
        raise AttuneError(_failure(log, state, len(reader.speeds), cluster))
    return report(
        [reader.speeds[rank] for rank in sorted(reader.speeds)],
        per_node=cluster.per_node,
        names=state.nodes,
        seconds=handle.elapsed_s(),
    )


def node_check_command(cluster: Cluster, *more: str) -> Command:
    """The command of a check; small on CPU, where it is a rehearsal."""
    on_cpu = cluster.gpu.architecture == "cpu"
    small = ("--cpu", "--seconds", "0.5", "--size", "256", "--mib", "1", "--memory-gib", "0.07")
    words = small if on_cpu else ()
    return Command(
        argv=("-m", "attune.trial.node_check", *words, *more),
        environment={"PYTHONPATH": str(_PACKAGES)},
        files={},
        processes_per_node=cluster.per_node,
        nodes=cluster.nodes,
    )


def report(
    speeds: list[RankSpeed], *, per_node: int, names: tuple[str, ...], seconds: float
) -> NodeReport:
    """The speeds of all ranks, in their order, as those of nodes.

    A node is as fast as its slowest rank. What all ranks measure together (the all-reduce over all
    nodes) names nobody.
    """
    parts = [speeds[first : first + per_node] for first in range(0, len(speeds), per_node)]
    lowest = [
        {name: min(getattr(s, name) or 0.0 for s in part) for name in _FIGURES} for part in parts
    ]
    middle = {name: statistics.median(part[name] for part in lowest) for name in _FIGURES}
    nodes = [
        NodeSpeed(
            node=names[index] if index < len(names) else f"node {index}",
            tflops=part["tflops"],
            memory_gib=part["memory_gib"],
            node_gb_per_s=part["node_gb_per_s"] or None,
            faults=tuple(
                f"{words} {part[name]:.4g} {unit}, median {middle[name]:.4g}"
                for name, (words, unit) in _FIGURES.items()
                if part[name] < (1 - TOLERANCE) * middle[name]
            ),
        )
        for index, part in enumerate(lowest)
    ]
    return NodeReport(
        nodes=tuple(nodes),
        world_gb_per_s=min((s.world_gb_per_s for s in speeds if s.world_gb_per_s), default=None),
        seconds=seconds,
        gpus=len(speeds),
    )


_FIGURES = {
    "tflops": ("matrix rate", "TFLOP/s"),
    "memory_gib": ("memory", "GiB"),
    "node_gb_per_s": ("all-reduce of the node", "GB/s"),
}


class _Speeds:
    """Reads the lines of a check."""

    def __init__(self) -> None:
        self.speeds: dict[int, RankSpeed] = {}

    def read(self, line: str) -> Reading | None:
        if (speed := read_speed(line)) is not None:
            self.speeds[speed.rank] = speed
        return None


def _wait(handle: Handle, log: RunLog, limit_s: float, queue_limit_s: float) -> State:
    began = time.monotonic()
    while True:
        state = handle.poll()
        deque(log.look(handle.log_files()), maxlen=0)
        waited_s = time.monotonic() - began
        if not state.running or handle.elapsed_s() > limit_s:
            return state
        if state.queued and waited_s > queue_limit_s:
            return state
        time.sleep(handle.interval_s)


def _failure(log: RunLog, state: State, told: int, cluster: Cluster) -> str:
    stopped: Stopped | None = "timed_out" if state.running and not state.queued else None
    verdict = decide(log, steps_asked=1, exit_code=state.exit_code, stopped=stopped)
    where = ""
    if verdict.rank is not None:
        index = verdict.rank // cluster.per_node
        node = state.nodes[index] if index < len(state.nodes) else f"node {index}"
        where = f" (rank {verdict.rank}, {node})"
    why = state.reason or verdict.evidence or "no evidence in its logs"
    return f"the node check failed: {told} of {cluster.count} ranks answered; {why}{where}"


def _job(cluster: Cluster, limit_s: float) -> Job:
    """What a launcher reads of a job: its cluster and time limit."""
    return Job(
        model=load_model("tiny-dense"),
        cluster=cluster,
        workload=Workload(),
        layout=Layout(),
        limit_s=limit_s,
    )
