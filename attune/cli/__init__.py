"""The command line: one file per verb, words and flags only."""

from attune.cli.app import main

__all__ = ["main"]
