"""Runs `node.sh` of its folder on every node that Ray gives; started by path, with Ray alone.

`ray_job.json` says what is needed: nodes, resources of a node, nodes to leave out, time limit.
`logs/ray-state.json` says where it stands, for whoever waits.
"""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayError
from ray.util import placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

STATE = Path("logs") / "ray-state.json"
_STOP_S = 2.5
"""Ray kills a job's driver 3 s after it asked it to stop (RAY_JOB_STOP_WAIT_TIME_S)."""


class Node:
    """One node of the job: its address, and the script on it."""

    def __init__(self, directory: str) -> None:
        self._directory = Path(directory)
        self._script: subprocess.Popen[bytes] | None = None

    def place(self) -> tuple[str, str, int]:
        """Address, name and a free port of the node."""
        if not (self._directory / "node.sh").exists():
            raise FileNotFoundError(
                f"node {socket.gethostname()} does not see {self._directory}: put it on a file "
                "system that all nodes share"
            )
        with socket.socket() as free:
            free.bind(("", 0))
            port = free.getsockname()[1]
        return ray.util.get_node_ip_address(), socket.gethostname(), port

    def run(self, number: int, head: str, port: int) -> int:
        """Exit code of the script; it ends when this worker of Ray does, by its standard input."""
        import os

        told = {"ATTUNE_NODE": str(number), "ATTUNE_HEAD": head, "ATTUNE_PORT": str(port)}
        with (self._directory / "logs" / f"node-{number}.log").open("ab") as output:
            self._script = subprocess.Popen(
                ["sh", str(self._directory / "node.sh")],
                env={**os.environ, **told},
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        return self._script.wait()

    def stop(self) -> None:
        """Ends the script and all below it."""
        if self._script is not None and self._script.stdin is not None:
            self._script.stdin.close()
            self._script.wait()


def main() -> int:
    """Exit code of the job: of the first node whose script fails."""
    job = json.loads(Path("ray_job.json").read_text(encoding="utf-8"))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    ray.init(address="auto", log_to_driver=False)
    group = placement_group(_bundles(job), strategy="STRICT_SPREAD")
    try:
        _wait_for(group, job)
        return _run(job, group)
    except RayError as error:
        tell(phase="ended", fault=" ".join(str(error).split())[:400])
        return 70  # EX_UNAVAILABLE of sysexits.h
    finally:
        remove_placement_group(group)


def _bundles(job: dict[str, Any]) -> list[dict[str, float]]:
    """What each node must give; with nodes to leave out, on those that are named instead."""
    resources: dict[str, float] = job["resources"]
    if not job["exclude"]:
        return [dict(resources) for _ in range(job["nodes"])]
    free = ray._private.state.available_resources_per_node()
    usable = [
        node["NodeManagerAddress"]
        for node in ray.nodes()
        if node["Alive"]
        and not {node["NodeManagerAddress"], node["NodeManagerHostname"]} & set(job["exclude"])
        and all(free.get(node["NodeID"], {}).get(k, 0) >= v for k, v in resources.items())
    ]
    pinned = [{**resources, f"node:{address}": 0.001} for address in usable[: job["nodes"]]]
    # Where too few are usable, the rest is asked for in a way that waits.
    return pinned + [dict(resources, excluded=1) for _ in range(job["nodes"] - len(pinned))]


def _wait_for(group: Any, job: dict[str, Any]) -> None:
    ready = group.ready()
    while True:
        done, _ = ray.wait([ready], timeout=1.0)
        if done:
            ray.get(ready)
            return
        alive = [node for node in ray.nodes() if node["Alive"]]
        large = [
            node
            for node in alive
            if all(node["Resources"].get(k, 0) >= v for k, v in job["resources"].items())
        ]
        tell(
            phase="queued",
            reason=f"placement group of {job['nodes']} nodes with {job['resources']} is pending; "
            f"{len(large)} of {len(alive)} live nodes have that, free or not",
        )


def _run(job: dict[str, Any], group: Any) -> int:
    kind = ray.remote(Node)
    needs = job["resources"]
    nodes = [
        kind.options(
            num_cpus=needs.get("CPU", 0),
            num_gpus=needs.get("GPU", 0),
            max_concurrency=2,
            scheduling_strategy=PlacementGroupSchedulingStrategy(group, index),
        ).remote(job["directory"])
        for index in range(job["nodes"])
    ]
    try:
        # Ranks follow the addresses, so that two runs on the same nodes have the same order.
        places = sorted(
            zip(ray.get([node.place.remote() for node in nodes]), nodes), key=lambda at: at[0][:2]
        )
        head, _, port = places[0][0]
        tell(phase="running", nodes=[name for (_, name, _), _ in places], started=time.time())
        runs = [node.run.remote(i, head, port) for i, (_, node) in enumerate(places)]
        return _first_failure(runs, time.monotonic() + job["limit_s"])
    finally:
        ray.wait([node.stop.remote() for node in nodes], num_returns=len(nodes), timeout=_STOP_S)


def _first_failure(runs: list[Any], end: float) -> int:
    while runs:
        done, runs = ray.wait(runs, timeout=1.0)
        code = max((abs(ray.get(one)) for one in done), default=0)
        if code:
            return code
        if time.monotonic() > end:
            tell(phase="ended", limit=True)
            return 124
    return 0


def tell(**changes: Any) -> None:
    """Where the job stands, in one stroke; what was known stays."""
    known = json.loads(STATE.read_text(encoding="utf-8")) if STATE.exists() else {}
    draft = STATE.with_suffix(".tmp")
    draft.write_text(json.dumps({**known, **changes}), encoding="utf-8")
    draft.replace(STATE)


if __name__ == "__main__":
    sys.exit(main())
