"""The stand-in: plays a trainer, in a framework's own log format, paced by the virtual cluster."""

from attune.trial.stand_in.part import Fault, FaultName, Line, Performance
from attune.trial.stand_in.program import stand_in_command
from attune.trial.stand_in.script import play, start_up_s
from attune.trial.stand_in.voices import load_voice

__all__ = [
    "Fault",
    "FaultName",
    "Line",
    "Performance",
    "load_voice",
    "play",
    "stand_in_command",
    "start_up_s",
]
