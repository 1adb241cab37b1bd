"""What a software stack keeps in memory: the terms that depend on versions, as data."""

from __future__ import annotations

from dataclasses import dataclass, replace

from attune.errors import AttuneError

MIB = 2**20


@dataclass(frozen=True, kw_only=True, slots=True)
class Stack:
    """Memory habits of a framework with its kernels.

    Sources: formulas read from megatron-core 0.16 and Transformer Engine 2.11, checked on 64
    published per-rank peaks of one B200 node (MooreThreads/SimuMax, Apache-2.0).
    """

    fused: bool = True
    """Transformer Engine layers: fused norms, activations, rotary embedding."""
    flash: bool = True
    """Attention that keeps no scores."""
    loss_copies: float = 6.0
    """Peak of the loss in logits of two bytes: 2 for TE's fused loss, 6 unfused, 10 native."""
    head_gradient: bool = True
    """The head's backward allocates a weight gradient of its own."""
    dummy_gradients: bool = True
    """TE (2.3 and later) keeps a dummy weight gradient for each distinct weight shape."""
    context_output_kept: bool = True
    """Context parallelism by all-to-all keeps the attention output twice (TE 2.8 and later)."""
    dispatched_buffers: int = 4
    """Token buffers alive in the forward pass of the experts (3 with one local expert)."""
    router_bytes: float = 24.0
    """Bytes per token and expert that the router keeps."""
    workspace_bytes: float = 96 * MIB
    """cuBLAS workspaces of the forward and the autograd thread, and TE's."""
    engine_workspace_bytes: float = 32 * MIB
    """TE's workspace alone, on stages without a torch matmul."""
    grouped_workspace_bytes: float = 128 * MIB
    """Workspaces of the grouped GEMM."""
    hidden_dropout: bool = False
    """Dropout after attention, MLP and embedding: a mask of one byte per element each."""
    attention_dropout: bool = False
    """Dropout of unfused attention scores: a mask and the dropped scores."""
    attention_copy: bool = False
    """Attention keeps its output in two orders where a microbatch has several rows (FlashAttention
    2 behind TE; cuDNN's does not)."""
    attention_mask: bool = False
    """The data loader makes a mask of one byte per pair of tokens, for the ends of the pipeline."""
    moment_bytes: float = 4.0
    """Bytes of each of Adam's two moments per parameter."""
    quantized_weights: bool = False
    """The linears keep FP8 weights only (`fp8-param-gather`); otherwise bf16 ones beside them."""
    tensorwise: bool = False
    """One FP8 scale for a whole tensor (delayed or current scaling); otherwise one a block."""
    low_gradients: bool = False
    """bf16 gradients kept beside the accumulated float32 ones (DeepSpeed's BF16 engine)."""
    learned_positions: bool = False
    """A learned embedding of every position beside that of the vocabulary."""
    microbatch_group: int = 0
    """Microbatches that go through a virtual stage in one group; 0 is PP, the default."""
    optimizer_instances: int = 1
    """Copies of the distributed optimizer's shards (data-parallel ranks over ranks of a copy)."""
    mtp_layers: int = 0
    """Multi-token-prediction layers trained, on the last stage, each with the head's loss."""
    boundary_tensors: float = 3.0
    """Activations at the boundary held by a stage that receives from another: the next input,
    the gradient being sent back and the last one. Chosen after seeing the last-rank peaks of
    Megatron's 7B test with PP 4; DeepSeek-V2 on PP 2 agrees."""
    deferred_head_gradients: int = 0
    """Microbatches whose head weight gradient is deferred, with their logit gradients kept."""
    score_buffer: bool = False
    """One buffer for the scores of a microbatch, as megatron-core's own unfused attention keeps
    for the life of the process."""
    scattered_transfers: bool = False
    """Every tensor rank sends a part of the activations to the next stage without sequence
    parallelism too (Megatron of 2021)."""
    whole_graphs: bool = False
    """CUDA graphs hold a whole iteration, router and experts too."""
    balanced_stages: bool = False
    """Stages share the work evenly, by a split that is not stated."""
    reserved_dense: float = 1.03
    """Reserved over allocated, dense models."""
    reserved_moe: float = 1.065
    """Reserved over allocated, MoE models."""
    reserved_interleaved: float = 0.06
    """More of it with virtual stages, whose chunks free and take blocks of many sizes: Llama-3-70B
    with VPP 5 on H100 ran out of memory by fragmentation at 55 of 79 GiB allocated, and so did
    GLM-4.5 with VPP 2 on H200 (published runs without expandable segments)."""
    bucket_gib: float = 0.0
    """Gradients copied flat to be reduced, which the allocator keeps reserved."""
    context_gib: float = 1.2
    """Device memory outside the allocator: CUDA context, kernels, libraries."""
    communicator_gib: float = 0.6
    """NCCL's buffers of one communicator. With the two terms below 9 GiB in all where GLM-5.2 on
    352 H100 has 79.1 GiB in use and 69.7 reserved (Megatron-Bridge's card)."""
    peer_gib: float = 0.03
    """NCCL's buffers for each further rank of an all-to-all (send and receive, two channels)."""
    flex_gib: float = 3.0
    """Buffers of DeepEP or HybridEP, for NVLink and RDMA."""
    host_process_gib: float = 6.0
    """Host memory of one training process without offload."""
    host_weight_copies: int = 0
    """Copies of the local weights that the framework keeps on the host."""
    heap: float = 1.0
    """Memory that a heap really holds over what kept and transient tensors add up to."""
    state_copies: float = 0.0
    """Copies of weights and optimizer shards that a heap does not give back after the build and
    the first step."""
    exchange_bytes: float = 0.0
    """Buffers of collectives inside the process, with tensor or expert parallelism."""


_MEGATRON = Stack()
_CPU = Stack(
    fused=False,
    flash=False,
    loss_copies=3.0,
    dummy_gradients=False,
    workspace_bytes=7.4 * MIB,
    engine_workspace_bytes=7.4 * MIB,
    grouped_workspace_bytes=0.0,
    reserved_dense=1.0,
    reserved_moe=1.0,
    reserved_interleaved=0.0,
    context_gib=0.0,
    communicator_gib=0.0,
    peer_gib=0.0,
    host_process_gib=0.6,
    heap=0.94,
    state_copies=0.87,
    exchange_bytes=2.4 * MIB,
)
"""attune's worker on CPU: torch kernels, megatron-core's own attention. Loss copies, workspace,
heap, state copies and exchange are least squares over the resident peaks of 19 stages of the tiny
models above the baseline of the process (tests/estimate/test_memory_estimate.py; deviation 7 %)."""
_STACKS = {
    "megatron-core": _MEGATRON,
    "megatron-lm": _MEGATRON,
    "megatron-bridge": replace(_MEGATRON, quantized_weights=True),  # its FP8 recipes gather FP8
    "command": _MEGATRON,  # the user's own trainer is taken for one on Megatron
    # Both compute the loss on float32 copies of the logits, whatever fusion is asked for.
    "miles": replace(_MEGATRON, loss_copies=10.0),
    "slime": replace(_MEGATRON, loss_copies=10.0, host_weight_copies=1),
}


def stack_of(framework: str | Stack, architecture: str) -> Stack:
    """The stack of a framework on a GPU architecture.

    Raises:
        AttuneError: no such framework.
    """
    if isinstance(framework, Stack):
        return framework
    if framework not in _STACKS:
        raise AttuneError(f"no framework named `{framework}`; there are {', '.join(_STACKS)}")
    return _CPU if architecture == "cpu" else _STACKS[framework]
