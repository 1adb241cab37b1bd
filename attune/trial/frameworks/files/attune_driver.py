"""Starts the driver of miles or slime with the model arguments of its own checkout.

Reads `driver.json` beside it: the checkout, the script, the command that prints the model
arguments, and the flags before and after them. Variables (`$HF_CKPT`) are filled in from the
environment. The working directory stays the trial's, so that Ray's workers import the files in it.
"""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path


def main() -> None:
    """Becomes the driver."""
    config = json.loads(Path("driver.json").read_text(encoding="utf-8"))
    checkout = str(Path(os.path.expandvars(config["checkout"])).resolve())
    words = [*config["before"], *model_args(config["model_args"], checkout), *config["after"]]
    words = [filled(word) for word in words]
    paths = [str(Path.cwd()), checkout, *filter(None, [os.environ.get("PYTHONPATH")])]
    # Ray would show one rank's line of many alike, and memory differs by rank.
    os.environ.setdefault("RAY_DEDUP_LOGS", "0")
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    script = str(Path(checkout) / config["script"])
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, script, *words])


def model_args(command: list, checkout: str) -> list:
    """The words that the checkout's own command prints."""
    if not command:
        return []
    program = [sys.executable if word == "python3" else word for word in command]
    done = subprocess.run(program, cwd=checkout, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"cannot read the model arguments of {checkout}: {done.stderr.strip()[-2000:]}")
    lines = done.stdout.splitlines()
    return shlex.split(lines[0]) if len(lines) == 1 else lines


def filled(word: str) -> str:
    """The word, with a variable that it consists of filled in."""
    if not word.startswith("$"):
        return word
    value = os.path.expandvars(word)
    if value == word:
        sys.exit(f"{word} is not set on the first node; set it, or name the path in the setup")
    return value


if __name__ == "__main__":
    main()
