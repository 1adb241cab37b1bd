"""The manifest of a run on Kubernetes, from the site's template."""

from __future__ import annotations

import re
from typing import Any

import yaml

from attune.errors import AttuneError
from attune.trial.frameworks.framework import Command
from attune.trial.launchers.node_script import GUARD, node_script
from attune.trial.script import here_documents

_WORD = re.compile(r"\$(\w+)")
_LONGEST = 65536
"""Characters of one word of a command (trainjob_types.go: items:MaxLength)."""


def fill(template: str, words: dict[str, Any]) -> dict[str, Any]:
    """The manifest: the template as data, with each `$word` of its values put in.

    Raises:
        AttuneError: it is no YAML mapping, or names a word that attune has not.
    """
    try:
        data = yaml.safe_load(template)
    except yaml.YAMLError as error:
        raise AttuneError(f"the template of launcher kubernetes is no YAML: {error}") from error
    filled = _filled(data, words)
    if not isinstance(filled, dict):
        raise AttuneError("the template of launcher kubernetes must be one mapping, a TrainJob")
    return filled


def _filled(value: Any, words: dict[str, Any]) -> Any:
    if isinstance(value, dict):
        return {key: _filled(inner, words) for key, inner in value.items()}
    if isinstance(value, list):
        return [_filled(inner, words) for inner in value]
    if not isinstance(value, str):
        return value
    if (alone := _WORD.fullmatch(value)) is not None:
        return _word(alone[1], words)
    return _WORD.sub(lambda match: str(_word(match[1], words)), value)


def _word(name: str, words: dict[str, Any]) -> Any:
    if name not in words:
        raise AttuneError(
            f"the template of launcher kubernetes names ${name}; there are: "
            + ", ".join(f"${word}" for word in words)
        )
    return words[name]


def pod_script(command: Command, *, name: str, python: str) -> str:
    """What the container of a node runs: writes the run's files, then starts its ranks.

    Kubeflow Trainer gives rank, address and port of the nodes (constants.go: TorchEnv...).

    Raises:
        AttuneError: the files are too large for a manifest.
    """
    place = f"/tmp/{name}"
    files = {**command.files, GUARD.name: GUARD.read_text(encoding="utf-8")}
    script = node_script(command, place=place, python=python, mode="keep", tell=True)
    lines = [
        "set -eu",
        f"mkdir -p {place} && cd {place}",
        *here_documents(files),
        'export ATTUNE_NODE="${PET_NODE_RANK:-0}" ATTUNE_HEAD="${PET_MASTER_ADDR:-}"',
        'export ATTUNE_PORT="${PET_MASTER_PORT:-}"',
        *script.rstrip("\n").split("\n")[1:],  # a value may hold other line separators
    ]
    text = "\n".join(lines) + "\n"
    if len(text) > _LONGEST:
        raise AttuneError(
            f"the run's files make a command of {len(text)} characters, and a TrainJob takes "
            f"{_LONGEST}; put the rows on a volume of the image instead"
        )
    return text


def affinity_without(nodes: tuple[str, ...]) -> dict[str, Any]:
    """An affinity that keeps pods off some nodes; empty without any."""
    if not nodes:
        return {}
    without = {"key": "kubernetes.io/hostname", "operator": "NotIn", "values": list(nodes)}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [without]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
