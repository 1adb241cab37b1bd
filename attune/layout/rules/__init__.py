"""The rules that a layout must keep, each with an id, a message and a cure."""

from attune.layout.rules.judgement import (
    RULES,
    Broken,
    Judgement,
    broken_rules,
    change,
    check,
    explain,
)
from attune.layout.rules.rule import Rule
from attune.layout.rules.setting import Setting

__all__ = [
    "RULES",
    "Broken",
    "Judgement",
    "Rule",
    "Setting",
    "broken_rules",
    "change",
    "check",
    "explain",
]
