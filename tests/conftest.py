"""Property tests: no deadline on a busy machine, and in CI the same examples every time.

No test reads or writes the cache directory of whoever runs it.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

settings.register_profile("attune", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("attune")


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
