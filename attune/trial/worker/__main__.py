"""`python -m attune.trial.worker --config worker.json`, started by torchrun."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import warnings
from pathlib import Path

from attune.errors import AttuneError
from attune.trial.worker.config import WorkerConfig


def main() -> int:
    """Trains what the configuration file says; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m attune.trial.worker")
    parser.add_argument("--config", type=Path, required=True, help="JSON file of WorkerConfig")
    try:
        config = WorkerConfig.read(parser.parse_args().config)
        _require_torchrun()
    except AttuneError as error:
        print(f"attune worker: {error}", file=sys.stderr)
        return error.exit_code
    # A rank that waits in a collective would not see Python's own handler.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    # Megatron-core and torch warn about what is not installed; errors have lines of their own.
    warnings.simplefilter("ignore")
    from attune.trial.worker.run import run

    return run(config)


def _require_torchrun() -> None:
    if "RANK" not in os.environ or "WORLD_SIZE" not in os.environ:
        raise AttuneError(
            "RANK and WORLD_SIZE are not set; start it as "
            "`torchrun --nproc-per-node N -m attune.trial.worker --config FILE`"
        )


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    # Leave at once: destructors of process groups may wait for peers that are gone.
    os._exit(code)
