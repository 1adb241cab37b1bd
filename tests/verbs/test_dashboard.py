from __future__ import annotations

import builtins
import hashlib
import io
import json
import shutil
from pathlib import Path

import pytest

from attune.errors import AttuneError, NothingFoundError
from attune.verbs.dashboard import dashboard_server

EXAMPLE = Path(__file__).resolve().parents[2] / "experiments" / "example"


def _get(application, path: str):
    """One answer of a WSGI application, as JSON."""
    status = []
    environ = {
        "REQUEST_METHOD": "GET",
        "PATH_INFO": path,
        "QUERY_STRING": "after=0",
        "SERVER_NAME": "127.0.0.1",
        "SERVER_PORT": "80",
        "wsgi.input": io.BytesIO(),
        "wsgi.url_scheme": "http",
    }
    body = b"".join(application(environ, lambda told, *_: status.append(told)))
    assert status[0].startswith("200"), status
    return json.loads(body)


@pytest.fixture
def copy(tmp_path) -> Path:
    return Path(shutil.copytree(EXAMPLE, tmp_path / "copy"))


def test_the_study_with_notes_names_and_what_did_not_fit(copy):
    pytest.importorskip("optuna_dashboard")
    before = hashlib.sha256((copy / "study.db").read_bytes()).hexdigest()
    with dashboard_server(str(copy), 0) as server:
        assert server.server_address[0] == "127.0.0.1"
        application = server.get_app()
        (study,) = _get(application, "/api/studies")["study_summaries"]
        assert study["study_name"] == "copy"
        told = _get(application, f"/api/studies/{study['study_id']}")
    assert "winner: tp=1" in told["note"]["body"]
    assert told["objective_names"] == ["step time, s"]
    constraints = [trial["constraints"] for trial in told["trials"]]
    assert [bool(c and c[0] > 0) for c in constraints] == [False, False, False, True, True]
    notes = [trial["note"]["body"] for trial in told["trials"]]
    assert all(f"run {number}" in note for number, note in enumerate(notes[:4]))
    assert r"outcome: out\_of\_memory" in notes[3]
    assert hashlib.sha256((copy / "study.db").read_bytes()).hexdigest() == before


def test_without_the_extra_it_is_one_message(copy, monkeypatch):
    real = builtins.__import__

    def without(name, *rest):
        if name.startswith("optuna_dashboard"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(AttuneError, match=r"attune\[dashboard\]"), dashboard_server(str(copy), 0):
        pass


def test_no_study_or_a_damaged_one(copy):
    pytest.importorskip("optuna_dashboard")
    (copy / "study.db").write_bytes(b"no database" * 200)
    with pytest.raises(AttuneError, match="cannot be used"), dashboard_server(str(copy), 0):
        pass
    (copy / "study.db").unlink()
    with pytest.raises(NothingFoundError, match="no study yet"), dashboard_server(str(copy), 0):
        pass
    assert not (copy / "study.db").exists()
