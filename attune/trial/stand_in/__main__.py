"""Plays one rank, or all of them where none is named."""

from __future__ import annotations

import sys

from attune.errors import AttuneError
from attune.trial.stand_in.program import main

try:
    sys.exit(main())
except AttuneError as error:
    print(error, file=sys.stderr)
    sys.exit(error.exit_code)
