"""Asks before GPU-hours are spent."""

from __future__ import annotations

import sys

import typer

from attune.errors import AttuneError


def ask(question: str) -> None:
    """Returns when a person at a terminal says yes.

    Raises:
        AttuneError: there is no terminal to ask at, or the answer is no.
    """
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise AttuneError(f"{question} There is no terminal to ask at; say --yes to go ahead")
    if not typer.confirm(question, err=True):
        raise AttuneError("nothing was run, as you answered")
