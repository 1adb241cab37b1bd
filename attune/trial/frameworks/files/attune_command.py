"""Becomes any program: `attune_command.py PROGRAM ARGUMENTS...`."""

import os
import sys

if __name__ == "__main__":
    os.execvp(sys.argv[1], sys.argv[1:])
