"""The two errors that attune raises on purpose."""

from __future__ import annotations


class AttuneError(Exception):
    """You must act: wrong usage, missing input, damaged file, no such name.

    The message says what is wrong, the value got, and the remedy.
    """

    exit_code = 2


class NothingFoundError(AttuneError):
    """The work ran and found nothing: no legal layout, nothing fits, or a check failed."""

    exit_code = 1


class LayoutError(Exception):
    """This layout cannot run; a search counts it by rule and goes on."""

    def __init__(self, message: str, *, rule: str = "") -> None:
        super().__init__(message)
        self.rule = rule
        """Id of the first rule broken, as in `attune explain`."""
