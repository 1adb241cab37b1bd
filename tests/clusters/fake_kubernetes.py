"""A server on the loopback that plays Kubernetes with Kubeflow Trainer for the real client.

It answers the few requests that attune makes, in the shape of the public interface, and runs the
container of each node as a process of this machine. Nothing else is played: no live cluster is
needed, and none was used.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import yaml

_JOBS = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/default/trainjobs"
_PODS = "/api/v1/namespaces/default/pods"


def _now(*, exact: bool = False) -> str:
    form = "%Y-%m-%dT%H:%M:%S.%fZ" if exact else "%Y-%m-%dT%H:%M:%SZ"
    return datetime.now(UTC).strftime(form)


class _Pod:
    """One node of a job: a process, and the lines that it wrote."""

    def __init__(self, job: dict[str, Any], index: int, port: int, *, fits: bool) -> None:
        trainer, name = job["spec"]["trainer"], job["metadata"]["name"]
        self.index, self.job = index, name
        self.name = f"{name}-node-0-{index}-abcde"
        self.lines: list[str] = []
        self.started = _now()
        self.process: subprocess.Popen[bytes] | None = None
        if not fits:
            return
        told = {
            "PET_NNODES": str(trainer["numNodes"]),
            "PET_NPROC_PER_NODE": str(trainer["numProcPerNode"]),
            "PET_NODE_RANK": str(index),
            "PET_MASTER_ADDR": "127.0.0.1",
            "PET_MASTER_PORT": str(port),
        }
        self.process = subprocess.Popen(
            trainer["command"],
            env={**os.environ, **told},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process is not None and self.process.stdout is not None
        for line in self.process.stdout:
            text = line.decode("utf-8", errors="replace").rstrip("\n")
            self.lines.append(f"{_now(exact=True)} {text}\n")

    @property
    def code(self) -> int | None:
        """Exit code, once all that it wrote is here."""
        if self.process is None or self.process.poll() is None:
            return None
        self._reader.join(30)
        return self.process.returncode

    def end(self) -> None:
        """SIGTERM to the container's first process, as the kubelet does, and then SIGKILL."""
        if self.process is None:
            return
        with suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def told(self) -> dict[str, Any]:
        labels = {
            "jobset.sigs.k8s.io/jobset-name": self.job,
            "jobset.sigs.k8s.io/replicatedjob-name": "node",
            "batch.kubernetes.io/job-completion-index": str(self.index),
        }
        return {
            "metadata": {"name": self.name, "namespace": "default", "labels": labels},
            "spec": {
                "containers": [{"name": "node"}],
                **({"nodeName": f"worker-{self.index}"} if self.process else {}),
            },
            "status": self._status(),
        }

    def _status(self) -> dict[str, Any]:
        if self.process is None:
            held = {
                "type": "PodScheduled",
                "status": "False",
                "reason": "Unschedulable",
                "message": "0/2 nodes are available: 2 Insufficient nvidia.com/gpu.",
            }
            return {"phase": "Pending", "conditions": [held]}
        code = self.code
        phase = "Running" if code is None else "Failed" if code else "Succeeded"
        ended = {"exitCode": 128 - code if code < 0 else code} if code is not None else None
        state = {"terminated": ended} if ended else {"running": {"startedAt": self.started}}
        container = {
            "name": "node",
            "image": "image",
            "imageID": "image",
            "ready": False,
            "restartCount": 0,
            "state": state,
        }
        return {"phase": phase, "startTime": self.started, "containerStatuses": [container]}


class _Cluster:
    """All jobs and pods."""

    def __init__(self) -> None:
        self.jobs: dict[str, dict[str, Any]] = {}
        self.pods: dict[str, list[_Pod]] = {}
        self.lock = threading.RLock()

    def create(self, job: dict[str, Any]) -> dict[str, Any]:
        with self.lock:
            name, nodes = job["metadata"]["name"], job["spec"]["trainer"]["numNodes"]
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                port = free.getsockname()[1]
            fits = job["spec"]["trainer"]["image"] != "too-large"
            self.jobs[name] = job
            self.pods[name] = [_Pod(job, i, port, fits=fits) for i in range(nodes)]
            return job

    def read(self, name: str) -> dict[str, Any] | None:
        """A job with its conditions: failed with its first pod, as a JobSet fails."""
        with self.lock:
            job, pods = self.jobs.get(name), self.pods.get(name, [])
            if job is not None and "status" not in job:
                codes = [pod.code for pod in pods]
                if any(codes):
                    self._end(job, "Failed", "JobsFailed")
                    for pod in pods:
                        pod.end()
                elif all(code == 0 for code in codes):
                    self._end(job, "Complete", "JobsCompleted")
            return job

    def _end(self, job: dict[str, Any], kind: str, reason: str) -> None:
        condition = {
            "type": kind,
            "status": "True",
            "reason": reason,
            "message": "jobset ended",
            "lastTransitionTime": _now(),
        }
        job["status"] = {"conditions": [condition]}

    def delete(self, name: str) -> bool:
        with self.lock:
            for pod in self.pods.pop(name, []):
                pod.end()
            # What a container wrote goes with it.
            shutil.rmtree(Path("/tmp") / name, ignore_errors=True)
            return self.jobs.pop(name, None) is not None

    def find_pod(self, name: str) -> _Pod | None:
        return next((p for pods in self.pods.values() for p in pods if p.name == name), None)


class _Handler(BaseHTTPRequestHandler):
    cluster: _Cluster

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        asked = parse_qs(url.query)
        if url.path == _JOBS:
            self._answer({"items": list(self.cluster.jobs.values())})
        elif url.path.startswith(_JOBS + "/"):
            self._answer(self.cluster.read(url.path.rpartition("/")[2]))
        elif url.path == _PODS:
            chosen = dict(word.split("=") for word in asked["labelSelector"][0].split(","))
            pods = self.cluster.pods.get(chosen["jobset.sigs.k8s.io/jobset-name"], [])
            self._answer({"kind": "PodList", "items": [pod.told() for pod in pods]})
        elif url.path.endswith("/log"):
            self._log(url.path.split("/")[-2], asked)
        else:
            self._answer(None)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self._answer(self.cluster.create(body), 201)

    def do_DELETE(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        found = self.cluster.delete(urlsplit(self.path).path.rpartition("/")[2])
        self._answer({"status": "Success"} if found else None)

    def _log(self, name: str, asked: dict[str, list[str]]) -> None:
        pod = self.cluster.find_pod(name)
        if pod is None or pod.process is None:
            self._answer({"message": "container is waiting to start"}, 400)
            return
        assert asked["timestamps"] == ["true"]
        lines = list(pod.lines)
        if "sinceSeconds" in asked:
            begin = datetime.now(UTC).timestamp() - int(asked["sinceSeconds"][0])
            lines = [x for x in lines if datetime.fromisoformat(x.split()[0]).timestamp() > begin]
        self._send("".join(lines).encode(), 200, "text/plain")

    def _answer(self, data: Any, status: int = 200) -> None:
        if data is None:
            data, status = {"kind": "Status", "reason": "NotFound", "code": 404}, 404
        self._send(json.dumps(data).encode(), status, "application/json")

    def _send(self, body: bytes, status: int, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def kubernetes(folder: Path) -> Iterator[_Cluster]:
    """A cluster behind a kubeconfig in `folder`, which KUBECONFIG names."""
    cluster = _Cluster()
    handler = type("Handler", (_Handler,), {"cluster": cluster})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    place = {"server": f"http://127.0.0.1:{server.server_port}"}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "fake",
        "clusters": [{"name": "fake", "cluster": place}],
        "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "nobody"}}],
        "users": [{"name": "nobody", "user": {}}],
    }
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    before = os.environ.get("KUBECONFIG")
    os.environ["KUBECONFIG"] = str(path)
    try:
        yield cluster
    finally:
        os.environ.pop("KUBECONFIG")
        if before is not None:
            os.environ["KUBECONFIG"] = before
        for name in list(cluster.jobs):
            cluster.delete(name)
        server.shutdown()
        server.server_close()
