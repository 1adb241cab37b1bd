"""The component tests themselves; each gives (proof that the variant ran, difference, control).

Differences are the worst relative L2 over tensors, over all ranks.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from megatron.core import parallel_state
from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig
from megatron.core.fusions import fused_cross_entropy
from megatron.core.tensor_parallel import vocab_parallel_cross_entropy
from megatron.core.transformer.module import Float16Module
from megatron.core.transformer.moe import token_dispatcher

from attune.catalog import Model
from attune.layout import Layout
from attune.rows.synthetic import SyntheticRows
from attune.trial.worker import context
from attune.trial.worker.config import Device, WorkerConfig
from attune.trial.worker.layers import ScaledDotProductAttention
from attune.trial.worker.model import build_chunks, transformer_config
from attune.trial.worker.optimizer_case import offload
from attune.trial.worker.run import make_model_parallel
from attune.trial.worker.weights import global_name, initialize_weights
from attune.workload import Precision, Workload

Case = tuple[str | None, float, float]
Gradients = dict[str, torch.Tensor]
_TOKENS = 128
_MICROBATCHES = 16


@dataclass(frozen=True)
class Shape:
    """One layer of a model; on CPU a small one of the same kind."""

    model: Model
    device: Device
    whole: bool

    @classmethod
    def of(cls, model: Model, device: Device) -> Shape:
        """A layer of the model as the device can hold it."""
        whole = device == "cuda"
        return cls(_one_layer(model) if whole else _reduced(_one_layer(model)), device, whole)

    @property
    def words(self) -> str:
        """The shape in words, as a recipe says it."""
        model, experts = self.model, self.model.experts
        parts = f"hidden {model.hidden}, {model.heads} heads, FFN {model.ffn}"
        if experts:
            parts += f", {experts.count} experts, top-{experts.top_k}, expert FFN {experts.ffn}"
        size = "one layer" if self.whole else "one layer of reduced shape"
        return f"{size}: {parts}, {_TOKENS} tokens"

    def config(self, layout: Layout, precision: Precision = "fp32") -> WorkerConfig:
        """What the worker builds of it."""
        workload = Workload(precision=precision, row_tokens=_TOKENS, global_batch=8)
        return WorkerConfig(model=self.model, workload=workload, layout=layout, device=self.device)


def _one_layer(model: Model) -> Model:
    dense = {"dense_layers": 0, "moe_layers": None} if model.experts else {}
    return Model.model_validate(model.model_dump() | {"layers": 1, "mtp_layers": 0} | dense)


def _reduced(model: Model) -> Model:
    heads = min(model.heads, 8)
    experts = model.experts and model.experts.model_dump() | {
        "count": min(model.experts.count, 8),
        "top_k": min(model.experts.top_k, 2),
        "ffn": min(model.experts.ffn, 64),
        "shared_ffn": min(model.experts.shared_ffn, 64),
        "groups": 1,
        "group_top_k": 1,
    }
    latent = model.latent and model.latent.model_dump() | {"q_rank": 48, "kv_rank": 32}
    small = {
        "hidden": min(model.hidden, 128),
        "ffn": min(model.ffn, 256),
        "heads": heads,
        "query_groups": heads if model.latent else min(model.query_groups, 4),
        "head_dim": min(model.head_dim, 32),
        "vocabulary": min(model.vocabulary, 1024),
        "experts": experts,
        "latent": latent,
        "indexer": None,
    }
    return Model.model_validate(model.model_dump() | small)


def recompute(shape: Shape) -> Case:
    """Gradients of a layer with full recompute against those without."""
    plain, once = _gradients(shape, Layout())
    again, twice = _gradients(shape, Layout(recompute="full"))
    wrong, _ = _gradients(shape, Layout(recompute="full"), spoil=_nudge)
    ran = f"the layer ran {twice} times for {once}" if twice > once else None
    return ran, _worst(again, plain), _worst(wrong, plain)


def dispatcher(shape: Shape) -> Case:
    """Gradients of a MoE layer whose tokens travel by all-to-all, against all-gather."""
    ep = torch.distributed.get_world_size()
    plain, _ = _gradients(shape, Layout(ep=ep, dispatcher="allgather"))
    with _counted(token_dispatcher, "all_to_all") as calls:
        sent, _ = _gradients(shape, Layout(ep=ep))
    wrong, _ = _gradients(shape, Layout(ep=ep), spoil=_nudge)
    ran = f"{len(calls)} all-to-alls of tokens over {ep} ranks" if calls and ep > 1 else None
    return ran, _worst(sent, plain), _worst(wrong, plain)


def cross_entropy(shape: Shape) -> Case:
    """Megatron-core's fused cross-entropy against its plain one, over tensor ranks."""
    ranks = torch.distributed.get_world_size()
    make_model_parallel(shape.config(Layout(tp=ranks, sequence_parallel=ranks > 1)))
    group = parallel_state.get_tensor_model_parallel_group()
    draw = torch.Generator().manual_seed(1 + group.rank())
    logits = torch.randn(_TOKENS, 2, shape.model.vocabulary // ranks, generator=draw)
    logits = logits.to(shape.device)
    every = torch.Generator().manual_seed(0)
    targets = torch.randint(shape.model.vocabulary, (_TOKENS, 2), generator=every)
    targets = targets.to(shape.device)
    fused = fused_cross_entropy.fused_vocab_parallel_cross_entropy
    name = "calculate_predicted_logits"
    with _counted(fused_cross_entropy, name) as calls:
        ours = _loss_and_gradient(lambda x: fused(x, targets, group), logits)
    theirs = _loss_and_gradient(lambda x: vocab_parallel_cross_entropy(x, targets), logits)
    late = _loss_and_gradient(lambda x: fused(x, targets.roll(1, 0), group), logits)
    _leave()
    ran = f"{len(calls)} calls of the fused kernel" if calls else None
    return ran, _worst(ours, theirs), _worst(late, theirs)


def context_parallel(shape: Shape) -> Case:
    """Attention over the ranks of a row against one rank."""
    ranks = torch.distributed.get_world_size()
    make_model_parallel(shape.config(Layout(cp=ranks)))
    settings = transformer_config(shape.config(Layout(cp=ranks)))
    alone = transformer_config(shape.config(Layout()))
    draw = torch.Generator().manual_seed(0)
    size = (_TOKENS, 2, shape.model.heads, 16)
    whole = [torch.randn(size, generator=draw).to(shape.device) for _ in range(4)]
    places = context.places_here(_TOKENS)
    first = parallel_state.get_context_parallel_rank() * len(places)
    in_a_row = torch.arange(first, first + len(places))
    with _counted(context, "gather") as calls:
        ours = _attention(settings, [part[places] for part in whole])
    theirs = {name: x[places] for name, x in _attention(alone, whole).items()}
    scrambled = _attention(settings, [part[in_a_row] for part in whole])
    wrong = {name: x[in_a_row] for name, x in _attention(alone, whole).items()}
    _leave()
    ran = f"{len(calls)} gathers of keys and values over {ranks} ranks" if ranks > 1 else None
    return ran, _worst(ours, theirs), _worst(scrambled, wrong)


def optimizer_offload(shape: Shape) -> Case:
    """Megatron-core's hybrid optimizer at the layer's tensors, against Adam in float64."""
    config = shape.config(Layout())
    make_model_parallel(config)
    (chunk,) = build_chunks(config, transformer_config(config))
    shapes = [parameter.shape for parameter in chunk.decoder.parameters()]
    _leave()
    return offload(shapes, shape.device)


def bf16_gradients(shape: Shape) -> Case:
    """Gradients of 16 microbatches added in bfloat16 against their sum in float64."""
    config = shape.config(Layout(distributed_optimizer=False), "bf16")
    make_model_parallel(config)
    transformer = transformer_config(config)
    (chunk,) = build_chunks(config, transformer)
    initialize_weights([chunk], shape.model, 0)
    reduce = DistributedDataParallelConfig(grad_reduce_in_fp32=False)
    wrapped = DistributedDataParallel(transformer, reduce, Float16Module(transformer, chunk))
    parts = [_main_gradients(wrapped, chunk, config, [i]) for i in range(_MICROBATCHES)]
    exact = {name: sum(part[name].double() for part in parts) for name in parts[0]}
    summed = _main_gradients(wrapped, chunk, config, list(range(_MICROBATCHES)))
    short = _main_gradients(wrapped, chunk, config, list(range(1, _MICROBATCHES)))
    kinds = {parameter.main_grad.dtype for parameter in chunk.parameters()}
    _leave()
    ran = "gradients lie in bfloat16" if kinds == {torch.bfloat16} else None
    return ran, _worst(summed, exact), _worst(short, exact)


def _main_gradients(
    wrapped: Any, chunk: Any, config: WorkerConfig, microbatches: list[int]
) -> Gradients:
    """Gradients that Megatron's buffers hold after these microbatches."""
    wrapped.zero_grad_buffer()
    with wrapped.no_sync():
        for number in microbatches:
            _loss(wrapped, config, number).backward()
    return {name: p.main_grad.clone() for name, p in chunk.named_parameters()}


def _gradients(
    shape: Shape, layout: Layout, spoil: Callable[[Any], None] | None = None
) -> tuple[Gradients, int]:
    """Gradients of a layer by global name, and how often the layer ran."""
    config = shape.config(layout)
    make_model_parallel(config)
    (chunk,) = build_chunks(config, transformer_config(config))
    initialize_weights([chunk], shape.model, 0)
    if spoil:
        spoil(chunk)
    runs: list[None] = []
    chunk.decoder.layers[0].register_forward_pre_hook(lambda *_: runs.append(None))
    _loss(chunk, config, torch.distributed.get_rank()).backward()
    found = {
        global_name(chunk, name, False): parameter.grad
        for name, parameter in chunk.named_parameters()
        if parameter.grad is not None
    }
    _leave()
    return found, len(runs)


def _loss(model: Any, config: WorkerConfig, number: int) -> torch.Tensor:
    rows = SyntheticRows(vocabulary=config.model.vocabulary, row_tokens=_TOKENS, seed=0)
    tokens = torch.from_numpy(rows.rows(number, range(2)).copy()).to(config.device)
    mask = torch.ones(_TOKENS, _TOKENS, dtype=torch.bool, device=config.device).triu(1)[None, None]
    positions = torch.arange(_TOKENS, device=config.device)[None]
    loss: torch.Tensor = model(tokens[:, :-1], positions, mask, labels=tokens[:, 1:]).mean()
    return loss


def _attention(settings: Any, parts: list[torch.Tensor]) -> Gradients:
    """Output of the worker's attention and gradients of query, key and value."""
    query, key, value = (part.clone().requires_grad_() for part in parts[:3])
    output = ScaledDotProductAttention(settings, 1)(query, key, value, None)
    output.backward(parts[3].flatten(2))
    assert query.grad is not None and key.grad is not None and value.grad is not None
    return {"output": output.detach(), "query": query.grad, "key": key.grad, "value": value.grad}


def _loss_and_gradient(
    loss_of: Callable[[torch.Tensor], torch.Tensor], logits: torch.Tensor
) -> Gradients:
    # Megatron's losses write into the logits that they are given.
    leaf = logits.clone().requires_grad_()
    loss = loss_of(leaf * 1.0)
    loss.mean().backward()
    assert leaf.grad is not None
    return {"loss": loss.detach(), "gradient": leaf.grad}


def _nudge(chunk: Any) -> None:
    """The negative control's mistake: one weight matrix is 0.1 % too large."""
    with torch.no_grad():
        max(chunk.decoder.parameters(), key=torch.numel).mul_(1.001)


def _worst(ours: Gradients, theirs: Gradients) -> float:
    """Largest relative L2 difference of a tensor, over all ranks."""
    device = next(iter(theirs.values())).device
    worst = torch.zeros((), dtype=torch.float64, device=device)
    for name, expected in theirs.items():
        gap = (ours[name].double() - expected.double()).norm()
        worst = torch.maximum(worst, gap / max(float(expected.double().norm()), 1e-30))
    torch.distributed.all_reduce(worst, op=torch.distributed.ReduceOp.MAX)
    return float(worst)


def _leave() -> None:
    parallel_state.destroy_model_parallel()


@contextmanager
def _counted(place: Any, name: str) -> Iterator[list[None]]:
    """Counts the calls of a function by its place, while inside."""
    calls: list[None] = []
    holder = place
    if not hasattr(place, name):
        holder = next(x for x in vars(place).values() if isinstance(x, type) and hasattr(x, name))
    real = holder.__dict__[name] if isinstance(holder, type) else getattr(holder, name)
    plain = real.__func__ if isinstance(real, staticmethod) else real

    @functools.wraps(plain)
    def counting(*arguments: Any, **named: Any) -> Any:
        calls.append(None)
        return plain(*arguments, **named)

    setattr(holder, name, staticmethod(counting) if isinstance(real, staticmethod) else counting)
    try:
        yield calls
    finally:
        setattr(holder, name, real)
