"""Bytes above the kept tensors at the worst moment of a microbatch, per stage.

The moment is one of: the loss, the head's backward, the backward of a chunk's last layer (with
what recompute brings back), the forward of the experts. Formulas: see `attune.estimate.stack`.
"""

from __future__ import annotations

import numpy as np

from attune.estimate.activations import LayerBytes
from attune.estimate.columns import Columns
from attune.estimate.in_flight import InFlight
from attune.estimate.stack import Stack
from attune.layout.table import Bools, Floats


def transient_bytes(
    columns: Columns, stack: Stack, layers: LayerBytes, alive: InFlight, last: Bools
) -> Floats:
    """[n, P] bytes; `last` [n, P] marks the stage that holds the head."""
    dense = _dense_backward(columns, layers)
    moe = np.maximum(_moe_backward(columns, layers), _moe_forward(columns, stack, layers))
    scores = layers.checkpoint + _scores_gradient(columns, stack)
    dense = np.maximum(dense, scores - layers.dense_mlp)
    moe = np.maximum(moe, scores - layers.moe_mlp)
    layer = np.where(alive.moe_last, moe[:, None], 0.0)
    layer = np.maximum(layer, np.where(alive.dense_last, dense[:, None], 0.0))
    head = _head(columns, stack)
    moment: Floats = np.where(last, np.maximum(layer, head[:, None]), layer)
    return moment


def _gathered(columns: Columns) -> Floats:
    """Input of a column-parallel linear, gathered again in its backward pass."""
    gathered = columns.width * columns.tokens * columns.model.hidden
    return np.where(columns.shards > 1, gathered, 0.0)


def _working_layers(columns: Columns) -> Floats:
    """Layers that one checkpoint brings back at once."""
    several = columns.full & ~columns.block
    return np.where(columns.full, np.where(several, columns.full_layers, 1.0), 0.0)


def _dense_backward(columns: Columns, layers: LayerBytes) -> Floats:
    hidden = columns.width * columns.tokens * columns.model.ffn / columns.tp
    up = (2 if columns.model.gated else 1) * hidden
    own = np.maximum(hidden + _gathered(columns), up)
    again = layers.mlp_recomputed + _working_layers(columns) * layers.dense_working
    return layers.checkpoint + own + again


def _moe_backward(columns: Columns, layers: LayerBytes) -> Floats:
    experts = columns.model.experts
    if experts is None:
        return np.zeros_like(columns.tokens)
    again = layers.moe_recomputed + _working_layers(columns) * layers.moe_working
    return layers.checkpoint + 2 * columns.width * columns.routed * columns.model.hidden + again


def _moe_forward(columns: Columns, stack: Stack, layers: LayerBytes) -> Floats:
    """Permuted, dispatched, computed and unsorted tokens of the experts, and the shared output."""
    experts = columns.model.experts
    if experts is None:
        return np.zeros_like(columns.tokens)
    buffers = np.where(columns.ep < experts.count, stack.dispatched_buffers, 3)
    routed = columns.width * columns.routed * columns.model.hidden
    shared = layers.checkpoint if experts.shared_ffn else 0.0
    moment: Floats = buffers * routed + shared + _working_layers(columns) * layers.moe_working
    return moment


def _scores_gradient(columns: Columns, stack: Stack) -> Floats:
    """Gradients of the scores of unfused attention, before and after the softmax."""
    if stack.flash:
        return np.zeros_like(columns.tokens)
    heads = columns.model.heads / columns.tp
    return 2 * columns.width * columns.tokens * columns.workload.row_tokens * heads


def _head(columns: Columns, stack: Stack) -> Floats:
    """Final norm, then the loss on the logits or the backward pass of the head."""
    model, width = columns.model, columns.width
    shard = np.ceil(model.vocabulary / (128 * columns.tp)) * 128
    logits = width * columns.tokens * shard
    norm = 2 * width * columns.sharded * model.hidden + 4 * columns.sharded
    gradient = width * model.hidden * shard * stack.head_gradient
    whole = width * columns.tokens * model.hidden
    backward = logits + gradient + _gathered(columns) + whole
    copies = stack.loss_copies / 2 + (model.logit_cap is not None)
    kept = stack.deferred_head_gradients * logits
    moment: Floats = norm + kept + np.maximum(copies * logits, backward)
    return moment
