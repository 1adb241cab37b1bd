"""Runs one job: frameworks on launchers, their logs, and how a run ended."""

from attune.trial.frameworks import load_framework
from attune.trial.job import Job, Virtual
from attune.trial.launchers import choose_launcher, load_launcher
from attune.trial.result import RankMemory, Step, TrialResult
from attune.trial.runner import read_result, resume, run

__all__ = [
    "Job",
    "RankMemory",
    "Step",
    "TrialResult",
    "Virtual",
    "choose_launcher",
    "load_framework",
    "load_launcher",
    "read_result",
    "resume",
    "run",
]
