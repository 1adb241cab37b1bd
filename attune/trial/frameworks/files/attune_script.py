"""Runs a script of a framework's checkout: `attune_script.py SCRIPT ARGUMENTS...`."""

import os
import runpy
import sys


def main() -> None:
    """Runs the script in place of this one, as if it had been started itself."""
    path = os.path.abspath(os.path.expandvars(sys.argv[1]))
    sys.argv = [path, *sys.argv[2:]]
    sys.path[0] = os.path.dirname(path)
    runpy.run_path(path, run_name="__main__")


if __name__ == "__main__":
    main()
