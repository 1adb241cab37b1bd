"""A rule that a layout keeps or breaks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from attune.layout.layout import Layout
from attune.layout.rules.setting import Setting
from attune.layout.table import Bools, LayoutTable

Version = tuple[int, int]
Verdict = Literal["illegal", "silently_wrong", "risky"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """One condition, what to say where it is broken, and how to mend the layout."""

    id: str
    """Stable name, `family.condition`."""
    holds: Callable[[Setting, LayoutTable], Bools]
    """Condition over a table, [n]; a rule that does not concern a row holds there."""
    message: Callable[[Setting, Layout], str]
    """What is wrong, the value got, the remedy, for a layout that breaks the rule."""
    cure: Callable[[Setting, Layout], Layout | None]
    """The layout with the least change that keeps this rule; None where no layout does."""
    source: str
    """Where the condition is enforced or reported."""
    verdict: Verdict = "illegal"
    """`illegal`: the framework rejects it. `silently_wrong`: it is accepted and another model is
    trained. `risky`: it is accepted, and known to hang or to go wrong; never proposed."""
    since: Version = (0, 12)
    """First megatron-core that has the rule; 0.12 stands for all earlier ones too."""
    before: Version | None = None
    """First megatron-core that no longer has it."""
    architecture: str | None = None
    """The only GPU architecture that it concerns; None for all."""
    extra: bool = False
    """Whether only frameworks that list the rule in the catalogue have it."""
    needs: frozenset[str] = frozenset()
    """Inputs without which a row of a CSV table cannot be judged by this rule."""

    @property
    def silent(self) -> bool:
        """Whether the framework accepts such a layout and trains something else."""
        return self.verdict == "silently_wrong"

    def applies(self, setting: Setting) -> bool:
        """Whether this framework, version and GPU have the rule."""
        if self.architecture not in (None, setting.architecture):
            return False
        if setting.version < self.since or (self.before and setting.version >= self.before):
            return False
        facts = setting.facts
        return self.id in facts.rules if self.extra else self.id not in facts.exempt


def always(table: LayoutTable) -> Bools:
    """[n] true: the rule does not concern this setting."""
    return np.ones(len(table), dtype=np.bool_)
