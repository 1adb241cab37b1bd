"""What attune asks of a Kubernetes cluster, through the official client."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from attune.errors import AttuneError

_GROUP, _VERSION, _PLURAL = "trainer.kubeflow.org", "v1alpha1", "trainjobs"
_LIMIT_S = 30.0
"""How long one answer may take."""
_PATIENCE_S = 60.0
_GONE = 404


class KubernetesSilentError(Exception):
    """The cluster did not answer; it may the next time."""


@dataclass(frozen=True)
class TrainJobs:
    """The TrainJobs of one namespace, and their pods."""

    namespace: str
    _custom: Any
    _core: Any

    @classmethod
    def of(cls, namespace: str, context: str | None) -> TrainJobs:
        """Those that the kubeconfig reaches, or the service account of the pod that attune is in.

        Raises:
            AttuneError: the client is not installed, or there is neither.
        """
        try:
            from kubernetes import client, config
        except ImportError as error:
            raise AttuneError(
                "launcher kubernetes needs its client; run `pip install attune[kubernetes]`"
            ) from error
        try:
            config.load_config(context=context) if context else config.load_config()
        except config.ConfigException as error:
            raise AttuneError(
                f"no way to a Kubernetes cluster: {error}; set KUBECONFIG, or pass "
                "--launcher-option context=NAME"
            ) from error
        return cls(namespace, client.CustomObjectsApi(), client.CoreV1Api())

    def check(self) -> None:
        """See that the cluster answers and knows TrainJobs.

        Raises:
            AttuneError: it does not.
        """
        try:
            self._call(self._custom.list_namespaced_custom_object, *self._kind, limit=1)
        except KubernetesSilentError as error:
            raise AttuneError(f"the Kubernetes cluster does not answer: {error}") from error
        except LookupError as error:
            raise AttuneError(
                "this Kubernetes cluster has no TrainJobs; install Kubeflow Trainer 2.2 or later"
            ) from error

    def create(self, manifest: dict[str, Any]) -> None:
        """Creates a job.

        Raises:
            AttuneError: the cluster refuses it; its own words.
        """
        try:
            self._call(self._custom.create_namespaced_custom_object, *self._kind, manifest)
        except KubernetesSilentError as error:
            # It may have taken the job before it fell silent.
            if not self._has(manifest["metadata"]["name"]):
                raise AttuneError(f"the Kubernetes cluster does not answer: {error}") from error

    def _has(self, name: str) -> bool:
        end = time.monotonic() + _PATIENCE_S
        while time.monotonic() < end:
            try:
                return self.read(name) is not None
            except KubernetesSilentError:
                time.sleep(1.0)
        return False

    def read(self, name: str) -> dict[str, Any] | None:
        """A job; None where there is none.

        Raises:
            AttuneError: the cluster refuses to tell.
            KubernetesSilentError: it does not answer.
        """
        try:
            job: dict[str, Any] = self._call(
                self._custom.get_namespaced_custom_object, *self._kind, name
            )
        except LookupError:
            return None
        return job

    def delete(self, name: str) -> None:
        """Deletes a job with its pods; one that is gone stays so."""
        try:
            self._call(
                self._custom.delete_namespaced_custom_object,
                *self._kind,
                name,
                propagation_policy="Foreground",
            )
        except LookupError:
            return

    def pods(self, name: str) -> list[Any]:
        """Pods of a job's nodes, in the order of the nodes."""
        # The JobSet of a TrainJob has its name, and its job of training nodes is called `node`.
        chosen = f"jobset.sigs.k8s.io/jobset-name={name},jobset.sigs.k8s.io/replicatedjob-name=node"
        listed = self._call(self._core.list_namespaced_pod, self.namespace, label_selector=chosen)
        return sorted(listed.items, key=_index)

    def log(self, pod: str, since_s: int | None) -> list[str]:
        """Lines of a pod's log, each after its time."""
        limits = {} if since_s is None else {"since_seconds": since_s}
        try:
            answer = self._call(
                self._core.read_namespaced_pod_log,
                pod,
                self.namespace,
                timestamps=True,
                _preload_content=False,
                **limits,
            )
        except (LookupError, AttuneError):
            # Its container has not started, or the pod is gone.
            return []
        text = answer.data.decode("utf-8", errors="replace")
        # A last line without its end is read again when it is whole.
        lines: list[str] = text[: text.rfind("\n") + 1].split("\n")[:-1]
        return lines

    @property
    def _kind(self) -> tuple[str, str, str, str]:
        return _GROUP, _VERSION, self.namespace, _PLURAL

    def _call(self, function: Any, *words: Any, **more: Any) -> Any:
        from kubernetes.client.exceptions import ApiException
        from urllib3.exceptions import HTTPError

        try:
            return function(*words, _request_timeout=_LIMIT_S, **more)
        except ApiException as error:
            if error.status == _GONE:
                raise LookupError(error.reason) from error
            if error.status is None or error.status >= 500 or error.status == 429:
                raise KubernetesSilentError(f"{error.status} {error.reason}") from error
            said = f"{error.status} {error.reason}: {error.body or ''}"
            raise AttuneError(f"Kubernetes refuses: {' '.join(said.split())[:400]}") from error
        except (HTTPError, OSError) as error:
            raise KubernetesSilentError(" ".join(str(error).split())[:200]) from error


def _index(pod: Any) -> int:
    labels = pod.metadata.labels or {}
    return int(labels.get("batch.kubernetes.io/job-completion-index", 0))
