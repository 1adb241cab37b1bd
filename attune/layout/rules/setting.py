"""What a layout is judged against: model, GPUs, workload, framework and its version."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from attune.catalog import Cluster, Model
from attune.catalog.framework import FrameworkFacts, load_framework_facts
from attune.workload import Workload


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Everything but the layout that a rule may ask for."""

    model: Model
    count: int
    """Number of GPUs."""
    workload: Workload
    per_node: int = 8
    """GPUs of one node."""
    architecture: str = "hopper"
    """hopper, blackwell, ampere, cdna3 or cpu."""
    framework: str = "megatron-core"
    version: tuple[int, int] = (0, 16)
    """Version of megatron-core underneath the framework."""

    @classmethod
    def of(
        cls,
        model: Model,
        cluster: Cluster,
        workload: Workload,
        framework: str = "megatron-core",
        framework_version: str | None = None,
    ) -> Setting:
        """The setting of `model` on `cluster`, with the megatron-core of the framework's version.

        Raises:
            AttuneError: no such framework, or a version of it that is not known.
        """
        return cls(
            model=model,
            count=cluster.count,
            workload=workload,
            per_node=cluster.per_node,
            architecture=cluster.gpu.architecture,
            framework=framework,
            version=load_framework_facts(framework).core_of(framework_version),
        )

    @cached_property
    def facts(self) -> FrameworkFacts:
        """What the catalogue says of the framework.

        Raises:
            AttuneError: no such framework.
        """
        return load_framework_facts(self.framework)
