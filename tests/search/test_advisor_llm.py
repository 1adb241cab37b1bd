"""A language model as adviser: a server on loopback that answers well, nonsense, nothing, late."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from advisor_runs import begin

from attune.errors import AttuneError
from attune.experiment.events import Advised, Completed, Finding, Finished, Prediction
from attune.search import advisor_llm
from attune.search.advisor import Option, Situation
from attune.search.advisor_llm import LanguageModel, read_answer
from attune.search.campaign import run_campaign

KEY = "sk-very-secret"
FINDING = Finding(symptom="idle pipeline", detail="stages wait", strength=0.2)


class Endpoint:
    """Answers chat completions with what `content` gives, and remembers what it was sent."""

    def __init__(self) -> None:
        self.content: Callable[[], str | None] = lambda: None
        self.bodies: list[str] = []
        self.keys: list[str] = []
        self.released = threading.Event()
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                endpoint.keys.append(self.headers.get("Authorization", ""))
                size = int(self.headers.get("Content-Length", "0"))
                endpoint.bodies.append(self.rfile.read(size).decode())
                text = endpoint.content()
                if text is None:
                    return
                try:
                    self.send_response(200)
                    self.send_header("Content-Type", "application/json")
                    self.send_header("Content-Length", str(len(text.encode())))
                    self.end_headers()
                    self.wfile.write(text.encode())
                except OSError:
                    pass  # the client gave up

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}/v1"

    def hang(self) -> str | None:
        """Answers only when the test is over."""
        self.released.wait(120)
        return None

    def close(self) -> None:
        self.released.set()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    pytest.importorskip("openai")
    served = Endpoint()
    yield served
    served.close()


def completion(content: str) -> str:
    choice = {
        "index": 0,
        "finish_reason": "stop",
        "message": {"role": "assistant", "content": content},
    }
    return json.dumps(
        {"id": "1", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice]}
    )


def asked(endpoint: Endpoint, folder: Path, **changes: Any) -> LanguageModel:
    fields: dict[str, Any] = {"url": endpoint.url, "model": "m", "key": KEY, "folder": folder}
    return LanguageModel(**fields | changes)


def option(row: int, layout: str, worth: float) -> Option:
    return Option(
        row=row,
        layout=layout,
        knob="PP",
        finding=FINDING,
        expected_percent=5.0,
        low_percent=1.0,
        high_percent=9.0,
        p_fits=0.9,
        worth=worth,
    )


def situation(about: str = "a model on 16 GPUs") -> Situation:
    base = Finished(
        run=0,
        purpose="candidate",
        layout="pp=4",
        outcome="completed",
        step_time_s=10.0,
        tokens_per_s_per_gpu=100.0,
        peak_gib=60.0,
        gpu_hours=1.0,
        predicted=Prediction(step_s=10, low_s=9, high_s=11, peak_gib=50, p_fits=0.9),
        provenance="measured",
    )
    options = (option(3, "pp=2", 1.0), option(4, "pp=1", 0.1))
    return Situation(about=about, base=base, findings=(FINDING,), options=options, told=())


def test_a_sound_answer_is_followed_and_kept(endpoint, tmp_path):
    answer = json.dumps({"option": 2, "hypothesis": "One stage\nhas no bubble."})
    endpoint.content = lambda: completion(answer)
    advice = asked(endpoint, tmp_path)(situation())
    assert advice.source == "llm" and advice.option is not None and advice.option.row == 4
    assert advice.words == "One stage has no bubble." and not advice.problem
    (kept,) = [json.loads(path.read_text()) for path in tmp_path.glob("*.json")]
    assert kept["answer"] == answer and json.loads(kept["prompt"])["run"]["layout"] == "pp=4"
    assert endpoint.keys == [f"Bearer {KEY}"], "the key goes to the endpoint"
    assert KEY not in endpoint.bodies[0] + json.dumps(kept), "and nowhere else"


@pytest.mark.parametrize(
    "content",
    [
        "",
        "choose pp=7, trust me",
        '{"option": 3, "hypothesis": "beyond the list"}',
        '{"option": "2", "hypothesis": "a word for a number"}',
        '{"option": 0, "hypothesis": "x"}',
        '{"option": 1, "hypothesis": " "}',
        '{"option": 1}',
        "[1, 2]",
    ],
)
def test_nonsense_is_told_apart(content):
    advice, problem = read_answer(content, situation())
    assert advice is None and problem


@pytest.mark.parametrize("body", ["", "<html>busy</html>", "{}", '{"choices": []}', "null"])
def test_the_rules_stand_in_for_an_answer_that_is_none(endpoint, tmp_path, body):
    endpoint.content = lambda: body
    advice = asked(endpoint, tmp_path)(situation())
    assert advice.source == "rules" and advice.option is not None and advice.option.row == 3
    assert advice.problem and len(list(tmp_path.glob("*.json"))) == 1


def test_a_server_that_hangs_is_left(endpoint, tmp_path):
    endpoint.content = endpoint.hang
    advice = asked(endpoint, tmp_path, limit_s=0.5)(situation())
    assert advice.source == "rules" and advice.problem


def test_a_closed_connection_and_no_server_are_no_harm(endpoint, tmp_path):
    assert asked(endpoint, tmp_path)(situation()).source == "rules"
    gone = asked(endpoint, tmp_path, url="http://127.0.0.1:9/v1")
    assert gone(situation()).source == "rules"


def test_its_budget_holds(endpoint, tmp_path):
    endpoint.content = lambda: completion('{"option": null, "hypothesis": "nothing to gain"}')
    model = asked(endpoint, tmp_path, calls=2)
    advices = [model(situation()) for _ in range(3)]
    assert [a.source for a in advices] == ["llm", "llm", "rules"]
    assert advices[0].option is None and len(endpoint.bodies) == 2


def test_no_key_and_no_host_name_is_in_a_prompt(endpoint, tmp_path, monkeypatch):
    monkeypatch.setattr(advisor_llm.socket, "gethostname", lambda: "login7.cluster")
    endpoint.content = lambda: completion('{"option": 1, "hypothesis": "x"}')
    asked(endpoint, tmp_path)(situation(f"on login7.cluster with {KEY} at http://10.0.0.1/x"))
    (kept,) = tmp_path.glob("*.json")
    for text in (endpoint.bodies[0], kept.read_text()):
        assert not [word for word in ("login7", KEY, "10.0.0.1") if word in text]


@pytest.mark.parametrize(
    ("name", "value"), [("URL", ""), ("URL", "ftp://x"), ("MODEL", ""), ("LIMIT", "soon")]
)
def test_an_environment_that_names_none_is_refused(monkeypatch, tmp_path, name, value):
    pytest.importorskip("openai")
    given = {"URL": "http://127.0.0.1/v1", "MODEL": "m", "LIMIT": "5"} | {name: value}
    for key, text in given.items():
        monkeypatch.setenv(getattr(advisor_llm, key), text)
    with pytest.raises(AttuneError, match="ATTUNE_LLM_"):
        LanguageModel.of_environment(tmp_path)


def test_a_campaign_goes_on_under_a_model_that_talks_nonsense(endpoint, monkeypatch, tmp_path):
    monkeypatch.setenv("ATTUNE_HOME", str(tmp_path))
    monkeypatch.setenv(advisor_llm.URL, endpoint.url)
    monkeypatch.setenv(advisor_llm.MODEL, "m")
    monkeypatch.setenv(advisor_llm.KEY, KEY)
    endpoint.content = lambda: completion("I am a teapot")
    events = list(run_campaign(begin("talked", "llm")))
    assert isinstance(events[-1], Completed) and events[-1].winner
    asked_for = [e for e in events if isinstance(e, Advised) and e.problem]
    assert len(asked_for) == len(endpoint.bodies) > 0
    kept = (tmp_path / "experiments/talked/advisor").glob("*.json")
    assert len(list(kept)) == len(endpoint.bodies)
