"""What trainers have in common that are one script of a checkout, started by torchrun."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from attune.catalog.framework import FrameworkFacts, load_framework_facts
from attune.trial.frameworks.files import file_text
from attune.trial.frameworks.framework import Command
from attune.trial.frameworks.megatron_log import MegatronReader
from attune.trial.job import Job
from attune.trial.script import shell_script


class MegatronScript(ABC):
    """A script of the user's checkout, by way of a small one of attune's, that logs as Megatron."""

    name: str
    modules: tuple[str, ...] = ()

    @property
    def facts(self) -> FrameworkFacts:
        """What the catalogue says of the framework."""
        return load_framework_facts(self.name)

    @abstractmethod
    def prepare(self, job: Job) -> Command:
        """The script with its arguments."""

    def _command(
        self, job: Job, script: str, words: Sequence[str], files: Sequence[str]
    ) -> Command:
        """`script` of the checkout, unless the setup names another; the first file starts it."""
        setup = job.setup
        return Command(
            argv=(files[0], f"{setup.checkout}/{setup.script or script}", *words),
            environment={**self.facts.environment, **setup.environment},
            files={name: file_text(name) for name in files},
            processes_per_node=job.cluster.per_node,
            nodes=job.cluster.nodes,
        )

    def run_block(self, job: Job) -> str:
        """The script of one node, with the files that it reads."""
        return shell_script(self.prepare(job), "python3", with_files=True)

    def own_weights(self, job: Job) -> str | None:
        """Without a checkpoint, initial weights depend on the layout (one random state a rank)."""
        if job.setup.checkpoint:
            return None
        return f"{self.facts.name} draws initial weights by rank; name a `checkpoint` in its setup"

    def reader(self, job: Job | None = None) -> MegatronReader:
        """A fresh reader of Megatron's log."""
        return MegatronReader(job)
