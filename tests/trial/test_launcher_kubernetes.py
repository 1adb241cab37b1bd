"""The Kubernetes launcher: the real client against a server that plays Kubernetes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from fake_kubernetes import kubernetes
from launcher_conformance import LauncherConformance

from attune.errors import AttuneError
from attune.trial import run
from attune.trial.launchers import Launcher, load_launcher
from attune.trial.launchers.kubernetes_logs import _new, _Read

pytestmark = pytest.mark.kubernetes


@pytest.fixture(scope="module", autouse=True)
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with kubernetes(tmp_path_factory.mktemp("kubernetes")) as cluster:
        yield cluster


def launcher(**options: str) -> Launcher:
    told = {"image": "trainer", "python": sys.executable, "poll_s": "0.2", **options}
    return load_launcher("kubernetes", told)


class TestKubernetes(LauncherConformance):
    module = "test_launcher_kubernetes:TestKubernetes"
    nodes = 2
    survives = True
    queues = True

    def launcher(self) -> Launcher:
        return launcher()

    def waiting(self) -> Launcher:
        return launcher(image="too-large", queue_limit_s="1")

    @pytest.fixture(autouse=True)
    def tidy(self, cluster: Any) -> Iterator[None]:
        """Jobs that a test started without a runner, which tidies up, go at its end."""
        yield
        for name in list(cluster.jobs):
            cluster.delete(name)


def test_a_lost_node_is_no_fault_of_the_layout(tmp_path: Path, cluster: Any) -> None:
    def watch(step: Any) -> bool:
        if step.step == 1:
            (name,) = cluster.jobs
            cluster.delete(name)
        return True

    job = TestKubernetes().job(pause="0.3")
    result = run(job, launcher(), tmp_path, watch=watch)
    assert (result.outcome, result.log_class) == ("infrastructure", "SCHEDULER"), result
    assert "somebody deleted it" in result.evidence


def test_manifest_is_kept_and_the_template_can_be_edited(tmp_path: Path, cluster: Any) -> None:
    template = tmp_path / "mine.yaml"
    shipped = Path(load_launcher.__code__.co_filename).with_name("templates") / "trainjob.yaml"
    data = yaml.safe_load(shipped.read_text())
    data["metadata"]["labels"]["queue"] = "tuning-$name"
    template.write_text(yaml.safe_dump(data))
    made = launcher(template=str(template), exclude="worker-7,worker-8")
    assert run(TestKubernetes().job(), made, tmp_path / "trial").outcome == "completed"
    kept = yaml.safe_load((tmp_path / "trial" / "trainjob.yaml").read_text())
    assert kept["metadata"]["labels"]["queue"] == f"tuning-{kept['metadata']['name']}"
    assert kept["spec"]["trainer"]["numNodes"] == 2
    assert kept["spec"]["trainer"]["resourcesPerNode"]["limits"] == {"cpu": "1"}
    assert "worker-8" in str(kept["spec"]["runtimePatches"])
    assert cluster.jobs == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [("a: [", "no YAML"), ("- a", "one mapping"), ("a: $nodez", r"names \$nodez; there are")],
)
def test_a_wrong_template_is_told(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "mine.yaml").write_text(text)
    with pytest.raises(AttuneError, match=message):
        run(TestKubernetes().job(), launcher(template=str(tmp_path / "mine.yaml")), tmp_path / "t")


def test_an_image_is_asked_for(tmp_path: Path) -> None:
    with pytest.raises(AttuneError, match="image=REGISTRY"):
        run(TestKubernetes().job(), load_launcher("kubernetes"), tmp_path / "t")


def test_no_line_of_a_log_comes_twice_or_is_lost() -> None:
    read = _Read(at=0.0)
    first = ["2026-01-01T00:00:00.5Z a", "2026-01-01T00:00:00.5Z b"]
    assert _new(first, read) == ["a", "b"]
    again = [*first, "2026-01-01T00:00:00.5Z c", "2026-01-01T00:00:00.51Z d"]
    assert _new(again, read) == ["c", "d"]
    assert _new(again, read) == []
    assert _new(["2026-01-01T00:00:01Z e"], read) == ["e"]
