"""Who may advise a campaign: the rules, a language model, or nobody."""

from __future__ import annotations

from typing import Literal

from attune.experiment import Experiment
from attune.search.advisor import Adviser, advise_by_rules


def load_adviser(name: Literal["rules", "none", "llm"], experiment: Experiment) -> Adviser | None:
    """The adviser of that name; None where nobody advises.

    Raises:
        AttuneError: a language model that the environment does not name.
    """
    if name == "llm":
        from attune.search.advisor_llm import LanguageModel

        return LanguageModel.of_environment(experiment.folder / "advisor")
    return advise_by_rules if name == "rules" else None
