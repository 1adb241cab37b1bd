"""Builds as tests run them."""

from __future__ import annotations

from attune.rows.build import build_rows
from attune.rows.manifest import Manifest
from attune.rows.request import BuildRequest


def built(request: BuildRequest) -> Manifest:
    """The manifest at the end of a build."""
    *_, manifest = build_rows(request)
    assert isinstance(manifest, Manifest)
    return manifest
