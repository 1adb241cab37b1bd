"""A language model as the adviser: asked over an OpenAI-compatible endpoint, and never trusted.

It sees what the rules see and chooses one of the same legal, untried layouts. What it answers is
checked; where it answers nonsense, nothing, or too late, or its budget is spent, the rules stand
in. Every prompt and answer is kept in the experiment.
"""

from __future__ import annotations

import json
import os
import re
import socket
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from attune.errors import AttuneError
from attune.experiment.events import Advised, Judged
from attune.experiment.experiment import write_whole
from attune.search.advisor import Advice, Situation, advise_by_rules

URL, MODEL, KEY = "ATTUNE_LLM_URL", "ATTUNE_LLM_MODEL", "ATTUNE_LLM_KEY"
LIMIT, CALLS = "ATTUNE_LLM_LIMIT_S", "ATTUNE_LLM_CALLS"
_LIMIT_S, _CALLS = 60.0, 50
_MOST_TOKENS = 1000
"""Of one answer."""
_MOST_TEXT = 20_000
"""Characters of an answer that are kept."""
_TASK = (
    "You advise the search for the fastest training layout. You get one run, the symptoms seen in "
    "it, hypotheses tested so far, and options: layouts that differ from the run in one knob. "
    "Choose the option whose trial would teach or gain the most, or none. Answer with one JSON "
    'object: {"option": <number of the option, or null>, "hypothesis": "<one sentence: what is '
    'slow, what the change does, and why>"}.'
)


class Answer(BaseModel):
    """What the language model must answer."""

    model_config = ConfigDict(extra="ignore", strict=True)

    option: int | None
    hypothesis: str = Field(max_length=2000)


@dataclass(frozen=True, kw_only=True)
class LanguageModel:
    """An adviser that asks a language model."""

    url: str
    model: str
    key: str
    folder: Path
    """Where prompts and answers are kept; their number is what the budget counts."""
    limit_s: float = _LIMIT_S
    calls: int = _CALLS

    @classmethod
    def of_environment(cls, folder: Path) -> LanguageModel:
        """The language model that the environment names.

        Raises:
            AttuneError: the environment names none, or the client is not installed.
        """
        url, model = os.environ.get(URL, ""), os.environ.get(MODEL, "")
        if not url.startswith(("http://", "https://")) or not model:
            raise AttuneError(
                f"--advisor llm asks the endpoint {URL} (as https://.../v1) for the model {MODEL}, "
                f"with the key {KEY}; set them, or use --advisor rules"
            )
        try:
            import openai  # noqa: F401
        except ImportError as error:
            raise AttuneError("--advisor llm needs its extra: pip install 'attune[llm]'") from error
        return cls(
            url=url,
            model=model,
            key=os.environ.get(KEY, ""),
            folder=folder,
            limit_s=_positive(LIMIT, _LIMIT_S),
            calls=int(_positive(CALLS, _CALLS)),
        )

    def __call__(self, situation: Situation) -> Advice:
        """The language model's choice, else that of the rules with the reason."""
        self.folder.mkdir(parents=True, exist_ok=True)
        number = sum(1 for _ in self.folder.glob("*.json"))
        if number >= self.calls:
            return _by_rules(situation, f"its {self.calls} calls are spent ({CALLS})")
        prompt = self._clean(prompt_of(situation))
        record: dict[str, Any] = {"model": self.model, "task": _TASK, "prompt": prompt}
        began = time.monotonic()
        text, problem = self._ask(prompt)
        advice, problem = (None, problem) if problem else read_answer(text, situation)
        record |= {
            "answer": self._clean(text[:_MOST_TEXT]),
            "problem": self._clean(problem),
            "seconds": round(time.monotonic() - began, 3),
        }
        place = self.folder / f"{number + 1:03d}.json"
        write_whole(place, json.dumps(record, indent=1, ensure_ascii=False) + "\n")
        return advice or _by_rules(situation, self._clean(problem))

    def _ask(self, prompt: str) -> tuple[str, str]:
        """The answer, and what went wrong.

        The client's own limit holds for each read, so that a server which trickles would keep it
        for ever; a thread is left behind at the limit, and ends with the process.
        """
        told: list[tuple[str, str]] = []
        thread = threading.Thread(target=lambda: told.append(self._call(prompt)), daemon=True)
        thread.start()
        thread.join(self.limit_s)
        return told[0] if told else ("", f"no answer within {self.limit_s:g} s ({LIMIT})")

    def _call(self, prompt: str) -> tuple[str, str]:
        import openai

        try:
            with openai.OpenAI(
                # The client refuses to be made without a key; local servers often have none.
                base_url=self.url,
                api_key=self.key or "none",
                timeout=self.limit_s,
                max_retries=0,
            ) as client:
                answer = client.chat.completions.create(
                    model=self.model,
                    max_tokens=_MOST_TOKENS,
                    response_format={"type": "json_object"},
                    messages=[
                        {"role": "system", "content": _TASK},
                        {"role": "user", "content": prompt},
                    ],
                )
                return answer.choices[0].message.content or "", ""
        # Whatever an endpoint answers, a campaign goes on: the client raises its own errors, and
        # others for bodies that are no chat completion.
        except Exception as error:
            return "", f"{type(error).__name__}: {error}"[:500]

    def _clean(self, text: str) -> str:
        """`text` without the key, this host's name and addresses of endpoints."""
        text = re.sub(r"https?://[^\s\"']+", "URL", text)
        for secret in (self.key, socket.gethostname()):
            # A name of one or two letters would eat into words.
            text = text.replace(secret, "***") if len(secret) > 2 else text
        return text


def _by_rules(situation: Situation, problem: str) -> Advice:
    advice = advise_by_rules(situation)
    return Advice(option=advice.option, words=advice.words, source="rules", problem=problem)


def prompt_of(situation: Situation) -> str:
    """What the language model is told, as JSON: figures and layouts, no names of machines."""
    base = situation.base
    told = {
        "campaign": situation.about,
        "run": {
            "run": base.run,
            "layout": base.layout,
            "step_time_s": base.step_time_s,
            "tokens_per_s_per_gpu": base.tokens_per_s_per_gpu,
            "peak_gib": base.peak_gib,
        },
        "symptoms": [f"{f.symptom}: {f.detail}" for f in situation.findings],
        "tested": list(_tested(situation)),
        "options": [
            {
                "option": number,
                "layout": option.layout,
                "knob": option.knob,
                "symptom": option.finding.symptom,
                "expected_gain_percent": round(option.expected_percent, 2),
                "interval_percent": [round(option.low_percent, 2), round(option.high_percent, 2)],
                "p_fits": round(option.p_fits, 3),
            }
            for number, option in enumerate(situation.options, start=1)
        ],
    }
    return json.dumps(told, indent=1)


def _tested(situation: Situation) -> list[dict[str, Any]]:
    supposed = {
        e.hypothesis.number: e.hypothesis
        for e in situation.told
        if isinstance(e, Advised) and e.hypothesis
    }
    return [
        {
            "hypothesis": supposed[e.hypothesis].words,
            "layout": supposed[e.hypothesis].layout,
            "expected_percent": round(e.expected_percent, 2),
            "showed_percent": e.measured_percent and round(e.measured_percent, 2),
            "verdict": e.verdict,
        }
        for e in situation.told
        if isinstance(e, Judged) and e.hypothesis in supposed
    ]


def read_answer(text: str, situation: Situation) -> tuple[Advice | None, str]:
    """The advice in an answer, or None and what is wrong with it."""
    found = re.search(r"\{.*\}", text, flags=re.DOTALL)
    if not found:
        return None, f"no JSON object in its answer: {text[:80]!r}"
    try:
        answer = Answer.model_validate_json(found[0])
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "its answer"
        return None, f"{place}: {first['msg']}"
    words = " ".join(answer.hypothesis.split())
    if answer.option is None:
        return Advice(option=None, words=words, source="llm"), ""
    if not 1 <= answer.option <= len(situation.options):
        return None, f"option {answer.option} is none of the {len(situation.options)} legal ones"
    if not words:
        return None, "a choice without a hypothesis"
    return Advice(option=situation.options[answer.option - 1], words=words, source="llm"), ""


def _positive(name: str, default: float) -> float:
    text = os.environ.get(name, "")
    try:
        value = float(text) if text else default
    except ValueError:
        value = 0.0
    if not 0 < value < 1e6:
        raise AttuneError(f"{name} must be a number over 0, not `{text}`")
    return value
