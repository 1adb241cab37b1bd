"""Property tests: no deadline on a busy machine, and in CI the same examples every time."""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("attune", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("attune")
