"""A real Ray cluster of two nodes on this machine, on the loopback and gone with the test."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from attune.trial.launchers.guard import descendants, die_with_parent

_START_S = 180.0
_AGENT_PORTS = (
    "dashboard-agent-listen-port",
    "dashboard-agent-grpc-port",
    "metrics-export-port",
    "runtime-env-agent-port",
    "node-manager-port",
    "object-manager-port",
)


@contextmanager
def ray_cluster(nodes: int = 2) -> Iterator[str]:
    """A Ray cluster of so many nodes of two CPUs; the address of its dashboard."""
    folder = Path(tempfile.mkdtemp(prefix="attune-ray-", dir="/tmp"))
    port, dashboard, client = _free_ports(3)
    head = [
        *("--head", "--node-ip-address=127.0.0.1", f"--port={port}"),
        *(f"--ray-client-server-port={client}", f"--temp-dir={folder}"),
        *("--include-dashboard=true", "--dashboard-host=127.0.0.1"),
        f"--dashboard-port={dashboard}",
    ]
    more = [f"--address=127.0.0.1:{port}", "--node-ip-address=127.0.0.1"]
    address = f"http://127.0.0.1:{dashboard}"
    try:
        with ExitStack() as stack:
            stack.enter_context(_node(head, folder / "head.log"))
            _wait(address, 1)
            for number in range(1, nodes):
                stack.enter_context(_node(more, folder / f"node-{number}.log"))
            _wait(address, nodes)
            yield address
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _node(words: list[str], log: Path) -> Iterator[None]:
    ports = [f"--{name}={port}" for name, port in zip(_AGENT_PORTS, _free_ports(6))]
    size = ["--num-cpus=2", "--object-store-memory=100000000", "--disable-usage-stats"]
    ray = Path(sys.executable).with_name("ray")
    with log.open("wb") as output:
        node = subprocess.Popen(
            [str(ray), "start", *words, *size, *ports, "--block"],
            env={**os.environ, "RAY_DISABLE_MEMORY_MONITOR": "1"},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            preexec_fn=die_with_parent,
        )
    try:
        yield
    finally:
        below = descendants(node.pid)
        node.terminate()
        try:
            node.wait(30)
        except subprocess.TimeoutExpired:
            node.kill()
            node.wait()
        for process in below:
            _kill(process)


def _kill(process: int) -> None:
    """Kills a process of Ray, if it is still one: its number may be another's by now."""
    try:
        if b"ray" in Path(f"/proc/{process}/cmdline").read_bytes():
            os.kill(process, signal.SIGKILL)
    except OSError:
        pass


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def _wait(address: str, nodes: int) -> None:
    """Return once the dashboard takes jobs and knows so many live nodes."""
    import json
    from urllib.request import urlopen

    end = time.monotonic() + _START_S
    while True:
        try:
            with urlopen(f"{address}/api/jobs/", timeout=10) as answer:
                answer.read()
            with urlopen(f"{address}/nodes?view=summary", timeout=10) as answer:
                summary = json.load(answer)["data"]["summary"]
            if sum(node["raylet"].get("state") == "ALIVE" for node in summary) >= nodes:
                return
        except (OSError, ValueError, KeyError):
            pass
        assert time.monotonic() < end, f"Ray does not start at {address}"
        time.sleep(0.5)
