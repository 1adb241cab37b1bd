"""Layouts, their rules, stage splits, microbatches and search spaces."""

from attune.layout.layout import Layout
from attune.layout.notation import label, parse_layout, write_layout
from attune.layout.stages import StageSplits, stage_splits
from attune.layout.table import LayoutTable

__all__ = [
    "Layout",
    "LayoutTable",
    "StageSplits",
    "label",
    "parse_layout",
    "stage_splits",
    "write_layout",
]
