"""The component test of optimizer offload: its update against Adam in float64.

Both are AdamW with the betas and the decay of the default workload, at the tensors of one layer,
after one step and after three. Megatron-core's hybrid optimizer offloads nothing without CUDA.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from attune.workload import Optimization

Case = tuple[str | None, float, float]
Make = Callable[[list[torch.nn.Parameter]], Any]
SHARE = 0.9
"""Of the elements, as in the published recipes."""
_AFTER = (1, 3)
_VALUES = Optimization()
_ARGUMENTS: dict[str, Any] = {
    "lr": 1e-3,
    "betas": (_VALUES.adam_beta1, _VALUES.adam_beta2),
    "eps": _VALUES.adam_epsilon,
    "weight_decay": _VALUES.weight_decay,
}


def offload(shapes: Sequence[torch.Size], device: str) -> Case:
    """The hybrid optimizer against float64; its negative control has another beta2."""
    if device != "cuda":
        return None, 0.0, 0.0
    found: list[Any] = []
    value = worst_update(lambda parameters: _hybrid(parameters, found), shapes, device)
    control = worst_update(lambda parameters: _hybrid(parameters, [], beta2=0.9), shapes, device)
    held = sum(
        parameter.numel()
        for one in found[0].cpu_optimizers
        for group in one.param_groups
        for parameter in group["params"]
    )
    whole = sum(shape.numel() for shape in shapes)
    return f"{held} of {whole} elements offloaded" if held else None, value, control


def _hybrid(
    parameters: list[torch.nn.Parameter], made: list[Any], beta2: float | None = None
) -> Any:
    from megatron.core.optimizer.cpu_offloading import HybridDeviceOptimizer

    betas = (_VALUES.adam_beta1, _VALUES.adam_beta2 if beta2 is None else beta2)
    made.append(
        HybridDeviceOptimizer(
            [{"params": parameters}],
            offload_fraction=SHARE,
            cpu_optimizer_cls=torch.optim.AdamW,
            gpu_optimizer_cls=torch.optim.AdamW,
            **{**_ARGUMENTS, "betas": betas},
        )
    )
    return made[-1]


def worst_update(make: Make, shapes: Sequence[torch.Size], device: str) -> float:
    """Worst relative L2 difference of a tensor's update from float64, after one and three steps."""
    start = [_draw(shape, 1 + number) for number, shape in enumerate(shapes)]
    parameters = [torch.nn.Parameter(tensor.clone().to(device)) for tensor in start]
    optimizer, exact = make(parameters), [_Exact(tensor.double()) for tensor in start]
    worst = 0.0
    for step in range(1, max(_AFTER) + 1):
        for number, (parameter, reference) in enumerate(zip(parameters, exact)):
            gradient = 1e-2 * _draw(parameter.shape, 1000 * step + number)
            parameter.grad = gradient.to(device)
            reference.step(gradient.double(), step)
        optimizer.step()
        if step in _AFTER:
            worst = max(worst, *map(_apart, parameters, exact, start))
    return worst


class _Exact:
    """AdamW of one tensor in float64, as in the paper (Loshchilov and Hutter, arXiv 1711.05101)."""

    def __init__(self, value: torch.Tensor) -> None:
        self.value = value.clone()
        self.mean, self.square = torch.zeros_like(value), torch.zeros_like(value)

    def step(self, gradient: torch.Tensor, number: int) -> None:
        """One update; `number` counts from 1."""
        rate, (first, second) = _ARGUMENTS["lr"], _ARGUMENTS["betas"]
        self.mean = first * self.mean + (1 - first) * gradient
        self.square = second * self.square + (1 - second) * gradient**2
        mean, square = self.mean / (1 - first**number), self.square / (1 - second**number)
        self.value -= rate * _ARGUMENTS["weight_decay"] * self.value
        self.value -= rate * mean / (square.sqrt() + _ARGUMENTS["eps"])


def _apart(parameter: torch.nn.Parameter, exact: _Exact, start: torch.Tensor) -> float:
    update = exact.value - start.double()
    got = parameter.detach().cpu().double() - start.double()
    return float((got - update).norm() / update.norm())


def _draw(shape: torch.Size, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return 0.02 * torch.randn(shape, generator=generator)
