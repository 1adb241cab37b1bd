"""Component tests: one part of the step with a knob on and off, at one layer's shape.

`python -m attune.trial.worker.components --config FILE`, under torchrun. Every test first proves
that its variant ran; else its result is that it has not run, never a pass. A negative control,
the same test with a mistake in it, must fail.
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from attune.catalog.components import Component, load_components
from attune.trial.worker import component_cases as cases
from attune.trial.worker.component_config import LINE, ComponentResult, ComponentsConfig, Status
from attune.trial.worker.run import start_rank

NEEDS_CUDA = "needs CUDA"


@dataclass(frozen=True)
class Measured:
    """What a case found."""

    ran: str | None
    """The proof that the variant ran; None where it did not."""
    value: float
    control: float


CASES: dict[str, Callable[[cases.Shape], tuple[str | None, float, float]]] = {
    "recompute": cases.recompute,
    "dispatcher": cases.dispatcher,
    "cross_entropy": cases.cross_entropy,
    "context_parallel": cases.context_parallel,
    "bf16_gradients": cases.bf16_gradients,
    "optimizer_offload": cases.optimizer_offload,
}
"""All but the last are real on CPU. Those that are missing need CUDA and are not written yet."""


def main() -> int:
    """Runs the tests of the configuration and prints a JSON line for each, on rank 0."""
    parser = argparse.ArgumentParser(prog="python -m attune.trial.worker.components")
    parser.add_argument("--config", type=Path, required=True, help="JSON file of ComponentsConfig")
    text = parser.parse_args().config.read_text(encoding="utf-8")
    config = ComponentsConfig.model_validate_json(text)
    warnings.simplefilter("ignore")
    start_rank(config.device)
    known = {one.id: one for one in load_components()}
    for name in config.tests:
        result = run_component(known[name], config)
        if torch.distributed.get_rank() == 0:
            print(LINE + result.model_dump_json(), flush=True)
    torch.distributed.barrier()
    return 0


def run_component(component: Component, config: ComponentsConfig) -> ComponentResult:
    """The result of one test."""
    shape = cases.Shape.of(config.model, config.device)
    case = CASES.get(component.id)
    if component.id == "dispatcher" and shape.model.experts is None:
        return _result(component, shape, "not run", "not run: the model has no experts")
    if case is None and config.device == "cuda":
        return _result(component, shape, "not run", "not run: this test is not written yet")
    measured = Measured(*case(shape)) if case else Measured(None, 0.0, 0.0)
    if measured.ran is None:
        here = "the variant did not run here" if component.on_cpu else NEEDS_CUDA
        return _result(component, shape, "not run", f"not run: {here}")
    passed = measured.value <= component.bound < measured.control
    detail = (
        f"{measured.ran}; worst tensor relative L2 difference {measured.value:.2g} against a bound "
        f"of {component.bound:.2g}, the negative control {measured.control:.2g}"
    )
    return _result(component, shape, "passed" if passed else "failed", detail).model_copy(
        update={"value": measured.value, "control": measured.control}
    )


def _result(
    component: Component,
    shape: cases.Shape,
    status: Status,
    detail: str,
) -> ComponentResult:
    return ComponentResult(
        id=component.id,
        status=status,
        shape=shape.words,
        device=shape.device,
        bound=component.bound,
        detail=detail,
    )


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    # Leave at once: destructors of process groups may wait for peers that are gone.
    os._exit(code)
