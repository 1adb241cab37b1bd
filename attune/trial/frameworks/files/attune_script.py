"""Runs a script of a framework's checkout: `attune_script.py SCRIPT ARGUMENTS...`."""

import os
import runpy
import sys
from pathlib import Path


def main() -> None:
    """Runs the script in place of this one, as if it had been started itself."""
    path = Path(os.path.expandvars(sys.argv[1])).resolve()
    sys.argv = [str(path), *sys.argv[2:]]
    sys.path[0] = str(path.parent)
    runpy.run_path(str(path), run_name="__main__")


if __name__ == "__main__":
    main()
