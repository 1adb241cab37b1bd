from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from filelock import FileLock

from attune.catalog import Cluster, Link, load_cluster
from attune.errors import AttuneError
from attune.estimate import NO_CALIBRATION, Calibration
from attune.experiment import (
    calibration_file,
    list_calibrations,
    load_calibration,
    reset_calibrations,
    save_calibration,
    update_calibration,
)
from attune.experiment import calibration_records as module

CLUSTER = load_cluster("h200", 128)
LEARNT = Calibration(mean=(0.1, 0.0, -0.2, 0.0, 0.0, 0.0, 0.03), observations=3)


def test_nothing_saved_is_no_calibration_and_writes_nothing(tmp_path: Path) -> None:
    assert load_calibration(CLUSTER, "megatron-core") is NO_CALIBRATION
    assert not calibration_file().exists()
    assert load_calibration(CLUSTER, "megatron-core", tmp_path / "new.yaml") is NO_CALIBRATION
    assert not list(tmp_path.iterdir())


def test_saved_is_loaded_on_any_number_of_such_nodes() -> None:
    path = save_calibration(LEARNT, CLUSTER, "megatron-core")
    assert path == calibration_file()
    for count in (1, 8, 256):
        assert load_calibration(load_cluster("h200", count), "megatron-core") == LEARNT


def test_other_gpu_framework_or_links_know_nothing_of_it() -> None:
    save_calibration(LEARNT, CLUSTER, "megatron-core")
    link = Link(bandwidth_gb_per_s=25.0, latency_us=9.0)
    slower = Cluster(gpu=CLUSTER.gpu.model_copy(update={"network_link": link}), count=128)
    assert load_calibration(CLUSTER, "miles") is NO_CALIBRATION
    assert load_calibration(load_cluster("h100", 128), "megatron-core") is NO_CALIBRATION
    assert load_calibration(slower, "megatron-core") is NO_CALIBRATION


def test_saving_replaces_its_own_and_keeps_the_others(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    save_calibration(LEARNT, CLUSTER, "megatron-core", file)
    save_calibration(NO_CALIBRATION, CLUSTER, "miles", file)
    later = Calibration(mean=LEARNT.mean, observations=9)
    save_calibration(later, CLUSTER, "megatron-core", file)
    assert load_calibration(CLUSTER, "megatron-core", file) == later
    assert [saved.key.framework for saved in list_calibrations(file)] == ["miles", "megatron-core"]
    assert not calibration_file().exists()


def test_changes_add_up() -> None:
    def once_more(before: Calibration) -> Calibration:
        return Calibration(mean=before.mean, observations=before.observations + 1)

    for _ in range(3):
        changed = update_calibration(once_more, CLUSTER, "megatron-core")
    assert changed.observations == 3
    assert load_calibration(CLUSTER, "megatron-core") == changed


def test_a_reader_sees_the_old_or_the_new(monkeypatch: pytest.MonkeyPatch) -> None:
    """A save that dies before its end leaves the earlier file whole."""
    save_calibration(LEARNT, CLUSTER, "megatron-core")

    def dies(self: Path, target: Path) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Path, "replace", dies)
        save_calibration(NO_CALIBRATION, CLUSTER, "megatron-core")
    assert load_calibration(CLUSTER, "megatron-core") == LEARNT


def test_newer_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "new.yaml"
    file.write_text("version: 2\ncalibrations: []\nmore: 1\n")
    with pytest.raises(AttuneError, match=r"has version 2, and this attune reads 1: update"):
        load_calibration(CLUSTER, "megatron-core", file)
    with pytest.raises(AttuneError, match="update attune"):
        save_calibration(LEARNT, CLUSTER, "megatron-core", file)
    assert "more: 1" in file.read_text()


@pytest.mark.parametrize(
    "text",
    [
        "version: [",
        "just words",
        "",
        "calibrations: []",
        "version: 1\ncalibrations: 3\n",
        "version: 1\ncalibrations: [{key: {gpu: h200}}]\n",
    ],
)
def test_damaged_file_names_itself_and_the_remedy(tmp_path: Path, text: str) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(text)
    with pytest.raises(AttuneError, match=r"bad\.yaml") as caught:
        load_calibration(CLUSTER, "megatron-core", file)
    assert "attune calibration --reset" in str(caught.value)


@pytest.mark.parametrize(
    "change",
    [
        {"names": ["compute"]},
        {"mean": ["a"] * 7},
        {"mean": [float("nan")] * 7},
        {"mean": [99.0] * 7},
        {"covariance": [[1.0]]},
        {"covariance": [[-1.0 if i == j else 0.0 for i in range(7)] for j in range(7)]},
        {"observations": -1},
        {"observations": "many"},
    ],
)
def test_damaged_numbers_are_refused(tmp_path: Path, change: dict[str, object]) -> None:
    file = tmp_path / "bad.yaml"
    save_calibration(LEARNT, CLUSTER, "megatron-core", file)
    data = yaml.safe_load(file.read_text())
    data["calibrations"][0]["calibration"] |= change
    file.write_text(yaml.safe_dump(data))
    with pytest.raises(AttuneError, match="calibrate again"):
        load_calibration(CLUSTER, "megatron-core", file)
    assert reset_calibrations(file=file) == 1
    assert load_calibration(CLUSTER, "megatron-core", file) is NO_CALIBRATION


def test_reset_forgets_what_is_named() -> None:
    save_calibration(LEARNT, CLUSTER, "megatron-core")
    save_calibration(LEARNT, load_cluster("b200", 8), "megatron-core")
    assert reset_calibrations(lambda key: key.gpu == "h200") == 1
    assert [saved.key.gpu for saved in list_calibrations()] == ["b200"]
    assert reset_calibrations() == 1
    assert reset_calibrations() == 0


def test_no_folder_and_no_permission(tmp_path: Path) -> None:
    with pytest.raises(AttuneError, match="no folder"):
        load_calibration(CLUSTER, "megatron-core", tmp_path / "no" / "file.yaml")
    (tmp_path / "plain").write_text("")
    with pytest.raises(AttuneError, match="cannot write the calibration"):
        save_calibration(LEARNT, CLUSTER, "megatron-core", tmp_path / "plain" / "file.yaml")


def test_held_by_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LOCK_LIMIT_S", 0.0)
    file = tmp_path / "mine.yaml"
    with (
        FileLock(tmp_path / ".mine.yaml.lock"),
        pytest.raises(AttuneError, match="held by another process"),
    ):
        save_calibration(LEARNT, CLUSTER, "megatron-core", file)
