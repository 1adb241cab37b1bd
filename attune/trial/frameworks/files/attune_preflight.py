"""Runs a framework's own check of its arguments, without a GPU and without starting anything.

`python attune_preflight.py KIND CHECKOUT WORLD MAJOR < words.json`, where KIND is megatron-lm,
miles or slime, WORLD the GPUs of the run and MAJOR their compute capability. The last line of its
output is `accepted`, `refused: ...`, or `unknown: ...` where the check cannot run here.
"""

import json
import os
import sys
import types
from typing import Any


def main() -> None:
    """Prints the verdict."""
    kind, checkout, world, major = sys.argv[1:]
    words = json.load(sys.stdin)
    sys.path[:0] = [checkout]
    os.environ.update(WORLD_SIZE=world, RANK="0", LOCAL_RANK="0")
    sys.argv = [kind, *words]
    try:
        check = prepare(kind, int(major))
    except Exception as error:
        print(f"unknown: {type(error).__name__}: {error}")
        return
    try:
        check()
    except (AssertionError, ValueError, RuntimeError) as error:
        print("refused:", " ".join(f"{type(error).__name__}: {error}".split()))
    except SystemExit as error:
        print(f"refused: unknown or malformed arguments (exit {error.code})" if error.code else "")
    except Exception as error:
        print(f"unknown: {type(error).__name__}: {error}")
    else:
        print("accepted")


def prepare(kind: str, major: int) -> Any:
    """The check, its modules imported and the device's properties told."""
    import torch

    if not torch.cuda.is_available():
        properties = types.SimpleNamespace(major=major, minor=0, name="GPU", total_memory=2**37)
        torch.cuda.get_device_properties = lambda *_, **__: properties
        torch.cuda.get_device_capability = lambda *_, **__: (major, 0)
        torch.cuda.device_count = lambda: 8
    if kind in ("miles", "slime"):
        module = __import__(f"{kind}.utils.arguments", fromlist=["parse_args"])
        return module.parse_args
    from megatron.training import arguments

    return lambda: arguments.validate_args(
        arguments.parse_args(), {"tokenizer_type": "GPT2BPETokenizer"}
    )


if __name__ == "__main__":
    main()
