"""`framework: command`: the user's own command line, and regular expressions for its log."""

from __future__ import annotations

import re
import shlex
import string
from typing import Any

from attune.errors import AttuneError
from attune.layout import write_layout
from attune.layout.layout import Layout
from attune.layout.microbatches import tokens_per_gpu
from attune.trial.frameworks.files import file_text
from attune.trial.frameworks.framework import Command
from attune.trial.frameworks.pattern_log import PatternReader
from attune.trial.job import Job
from attune.trial.script import shell_script
from attune.trial.setup import Setup

_ENTRY = "attune_command.py"


class CommandTemplate:
    """Any trainer: a command with `{tp}`, `{pp}`, ... in it, filled in by the layout."""

    name = "command"
    modules = ()

    @property
    def held(self) -> dict[str, Any]:
        """Dimensions that the template does not name are not known here; see `refuses`."""
        return {}

    def refuses_model(self, job: Job) -> str | None:
        """Why it can train no layout of the job's model and workload."""
        if not job.setup.command or job.setup.patterns is None:
            return "framework `command` needs `command` and `patterns` in its setup file"
        try:
            _fill(job)
        except AttuneError as error:
            return str(error)
        return None

    def refuses(self, job: Job) -> str | None:
        """Why it cannot train the job: the layout has a value that the template cannot say."""
        return self.refuses_model(job) or _unsaid(job)

    def prepare(self, job: Job) -> Command:
        """The command with the layout filled in.

        Raises:
            AttuneError: no template, or one that names what a layout does not have.
        """
        words = _fill(job)
        python = words[0] in ("python", "python3")
        if job.setup.torchrun and not python and not words[0].endswith(".py"):
            raise AttuneError(
                f"torchrun starts Python, but the command begins with `{words[0]}`; begin it with "
                "a script, or say `torchrun: false`"
            )
        argv = words[1:] if python else words
        if not job.setup.torchrun and not python:
            argv = [_ENTRY, *words]
        return Command(
            argv=tuple(argv),
            environment=dict(job.setup.environment),
            files={_ENTRY: file_text(_ENTRY)} if argv[:1] == [_ENTRY] else {},
            processes_per_node=job.cluster.per_node,
            nodes=job.cluster.nodes,
            starter="torchrun" if job.setup.torchrun else "program",
        )

    def run_block(self, job: Job) -> str:
        """The command itself, with its exports."""
        if job.setup.torchrun:
            return shell_script(self.prepare(job), "python3")
        exports = [f"export {k}={shlex.quote(v)}" for k, v in job.setup.environment.items()]
        return "\n".join([*exports, shlex.join(_fill(job))]) + "\n"

    def own_weights(self, job: Job) -> str | None:
        """Only a checkpoint that the template names can be the same for all layouts."""
        if "checkpoint" in _fields(job.setup.command or "") and job.setup.checkpoint:
            return None
        return "the command template names no {checkpoint} that every layout starts from"

    def reader(self, job: Job | None = None) -> PatternReader:
        """A reader by the user's regular expressions; without a job it knows none."""
        return PatternReader(job.setup.patterns if job else None)


def _fill(job: Job) -> list[str]:
    if not job.setup.command:
        raise AttuneError("framework `command` needs a `command` in its setup file")
    values = _values(job)
    unknown = sorted(_fields(job.setup.command) - set(values))
    if unknown:
        known = ", ".join(sorted(values))
        raise AttuneError(f"the command names `{{{unknown[0]}}}`, which is none of {known}")
    try:
        return [word.format_map(values) for word in shlex.split(job.setup.command)]
    except (ValueError, IndexError, KeyError) as error:
        raise AttuneError(f"the command template is malformed: {error}") from error


def _fields(template: str) -> set[str]:
    try:
        found = {name for _, name, _, _ in string.Formatter().parse(template) if name is not None}
    except ValueError as error:
        raise AttuneError(f"the command template is malformed: {error}") from error
    return {re.split(r"[.\[]", name)[0] for name in found}


def _values(job: Job) -> dict[str, Any]:
    """What a template may name: fields of the layout, and a few of job and setup."""
    layout, workload = job.layout, job.workload
    fields = {name: _plain(getattr(layout, name)) for name in Layout.__dataclass_fields__}
    limit = tokens_per_gpu(layout.rows_per_microbatch, workload.row_tokens, layout.cp)
    return {
        **fields,
        "dp": layout.dp(job.cluster.count),
        "rows": layout.rows_per_microbatch,
        "max_tokens_per_gpu": limit,
        "layout": write_layout(layout),
        "gpus": job.cluster.count,
        "gpus_per_node": job.cluster.per_node,
        "nodes": job.cluster.nodes,
        "steps": workload.steps,
        "global_batch": workload.global_batch,
        "row_tokens": workload.row_tokens,
        "rows_file": workload.rows,
        "seed": workload.seed,
        "model": job.model.id,
        "checkpoint": job.setup.checkpoint or "",
        "hf_checkpoint": job.setup.hf_checkpoint or "",
        "checkout": job.setup.checkout,
    }


def _plain(value: Any) -> Any:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(value) if isinstance(value, tuple) else value


def held_by(setup: Setup) -> dict[str, Any]:
    """Dimensions of a search space that the template does not name, at the value they then have."""
    named = _fields(setup.command or "")
    if "layout" in named:
        return {}
    plain = Layout()
    held = {
        name: getattr(plain, name)
        for name in _DIMENSIONS
        if not _NAMED_BY.get(name, {name}) & named
    }
    if not {"first", "last", "pipeline_layout"} & named:
        held["stages"] = "even"
    return held


_DIMENSIONS = (
    *("tp", "pp", "vpp", "cp", "ep", "etp", "rows_per_microbatch", "recompute"),
    *("optimizer_offload", "dispatcher", "cuda_graphs", "delayed_weight_gradients"),
    *("overlap_shared_experts", "overlap_experts", "overlap_gradients", "overlap_parameters"),
    "overlap_tensor",
)
_NAMED_BY = {
    "rows_per_microbatch": {"rows_per_microbatch", "rows", "max_tokens_per_gpu"},
    "precision_aware_optimizer": {"precision_aware_optimizer", "optimizer_offload"},
    "overlap_offload": {"overlap_offload", "optimizer_offload"},
    "recompute_method": {"recompute_method", "recompute"},
    "recompute_layers": {"recompute_layers", "recompute"},
    "sequence_parallel": {"sequence_parallel", "tp"},
}
"""Other names in a template that state a field well enough."""


def _unsaid(job: Job) -> str | None:
    """A field of the layout that has another value than by default, and that no word states."""
    named = _fields(job.setup.command or "")
    if "layout" in named:
        return None
    plain = Layout()
    for field in Layout.__dataclass_fields__:
        changed = getattr(job.layout, field) != getattr(plain, field)
        if changed and not _NAMED_BY.get(field, {field}) & named:
            return (
                f"the command template does not name {{{field}}}, so it cannot train with "
                f"{field}={_plain(getattr(job.layout, field))}"
            )
    return None
