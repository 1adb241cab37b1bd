"""Small tokenizers, once per test session, and rows made with them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from attune.rows.request import BuildRequest
from tests.rows.builds import built
from tests.rows.small_tokenizers import CONVERSATIONS, make_tokenizer


@pytest.fixture(scope="session")
def tokenizer_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Folder of the small tokenizer of a chat format."""
    root = tmp_path_factory.mktemp("tokenizers")

    def folder(family: str) -> Path:
        place = root / family
        return place if place.exists() else make_tokenizer(family, place)

    return folder


@pytest.fixture
def ask(tokenizer_of, tmp_path) -> Callable[..., BuildRequest]:
    """A request with small rows in this test's folder; fields given win."""

    def request(**fields: Any) -> BuildRequest:
        family = fields.pop("family", "glm45")
        given = {
            "source": str(CONVERSATIONS),
            "tokenizer": str(tokenizer_of(family)),
            "loss_mask": family,
            "output": tmp_path / "rows.parquet",
            "row_tokens": 64,
            "row_count": 40,
            "processes": 1,
        }
        return BuildRequest(**(given | fields))

    return request


@pytest.fixture
def rows_file(ask) -> Callable[..., Path]:
    """Builds rows and gives their path."""

    def path(**fields: Any) -> Path:
        request = ask(**fields)
        built(request)
        return request.output

    return path
