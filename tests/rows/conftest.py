"""Small tokenizers, once per test session."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.rows.small_tokenizers import make_tokenizer


@pytest.fixture(scope="session")
def tokenizer_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Folder of the small tokenizer of a chat format."""
    root = tmp_path_factory.mktemp("tokenizers")

    def folder(family: str) -> Path:
        place = root / family
        return place if place.exists() else make_tokenizer(family, place)

    return folder
