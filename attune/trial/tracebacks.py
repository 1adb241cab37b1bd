"""What a rank was doing when it failed, from the frames of its traceback."""

from __future__ import annotations

import re

_FRAME = re.compile(r'File "([^"]+)", line \d+, in (\w+)')
_BEGIN = "Traceback (most recent call last)"

# The innermost frame that says something decides; source: megatron/training/training.py,
# megatron/core/pipeline_parallel/schedules.py, torch/autograd, megatron/core/optimizer.
_FUNCTIONS = {
    "initialize_megatron": "start",
    "initialize_model_parallel": "start",
    "validate_args": "start",
    "parse_args": "start",
    "init_process_group": "start",
    "setup_model_and_optimizer": "build",
    "get_model": "build",
    "model_provider": "build",
    "load_checkpoint": "build",
    "get_megatron_optimizer": "build",
    "init": "build",
    "forward_step": "forward",
    "forward": "forward",
    "forward_step_func": "forward",
    "backward_step": "backward",
    "backward": "backward",
    "_engine_run_backward": "backward",
    "finalize_model_grads": "backward",
    "start_grad_sync": "backward",
    "finish_grad_sync": "backward",
    "step_with_ready_grads": "optimizer",
    "prepare_grads": "optimizer",
    "_step": "optimizer",
}
_FILES = {"/optimizer/": "optimizer", "distrib_optimizer": "optimizer", "/optim/": "optimizer"}


class Traceback:
    """The traceback of one rank while its lines come."""

    __slots__ = ("phase",)

    def __init__(self) -> None:
        self.phase: str | None = None

    def read(self, line: str) -> bool:
        """Whether `line` belongs to a traceback; its frames are kept in mind."""
        if _BEGIN in line:
            self.phase = None
            return True
        match = _FRAME.search(line)
        if match is None:
            return False
        path, function = match.groups()
        named = next((phase for part, phase in _FILES.items() if part in path), None)
        # A step of the optimizer holds no forward; a recompute's forward is within backward.
        found = named if function in ("step", "_init_group") else _FUNCTIONS.get(function)
        if found and not (self.phase == "backward" and found == "forward"):
            self.phase = found or self.phase
        return True
