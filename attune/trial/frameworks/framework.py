"""What every framework offers: a command for a job, and a reader of the log that it prints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from attune.trial.job import Job
from attune.trial.logs import LogReader

Starter = Literal["torchrun", "ray_driver", "program"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Command:
    """What the nodes of a job run."""

    argv: tuple[str, ...]
    """Module or script with its arguments, as they follow torchrun's own, or Python's."""
    environment: dict[str, str]
    """Variables added to those of the machine."""
    files: dict[str, str]
    """Text of each file that the command reads, by its name in the trial directory."""
    processes_per_node: int
    nodes: int
    starter: Starter = "torchrun"
    """`torchrun`: one on every node, one process per GPU. `ray_driver`: Python once, on the first
    node, with a Ray cluster over all of them. `program`: Python once, on the first node."""
    simulated: bool = False
    """Whether it plays a run: its figures are predicted, whatever launcher starts it."""


class Framework(Protocol):
    """Turns a job into a command, and reads what that command logs."""

    @property
    def name(self) -> str: ...

    @property
    def modules(self) -> tuple[str, ...]:
        """Python modules that must be installed where it trains."""

    @property
    def held(self) -> Mapping[str, Any]:
        """Dimensions of a search space that it has at one value only."""

    def refuses(self, job: Job) -> str | None:
        """Why it cannot train the job, found without starting anything; None where it can."""

    def refuses_model(self, job: Job) -> str | None:
        """Why it can train no layout of the job's model and workload; None where it can."""

    def prepare(self, job: Job) -> Command:
        """The command of a job; nothing is written.

        Raises:
            LayoutError: the framework cannot express this layout.
        """

    def run_block(self, job: Job) -> str:
        """`run:` of a recipe: what another person types, without what only a trial needs.

        Raises:
            LayoutError: the framework cannot express this layout.
        """

    def own_weights(self, job: Job) -> str | None:
        """Why two layouts of the job would not start from the same weights; None where they do."""

    def reader(self, job: Job | None = None) -> LogReader:
        """A fresh reader of the log of one run; of a run that is not attune's without a job."""
