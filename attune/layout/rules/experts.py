"""Rules of expert parallelism and the token dispatcher."""

from __future__ import annotations

from dataclasses import replace

from attune.layout.divisors import largest_divisor
from attune.layout.layout import Layout
from attune.layout.rules.rule import Rule, always
from attune.layout.rules.setting import Setting
from attune.layout.table import DISPATCHERS, Bools, LayoutTable, degree

_ALLTOALL, _FLEX = DISPATCHERS.index("alltoall"), DISPATCHERS.index("flex")


def _present(setting: Setting, table: LayoutTable) -> Bools:
    if setting.model.experts:
        return always(table)
    good: Bools = table.ep <= 1
    return good


def _present_message(setting: Setting, layout: Layout) -> str:
    return f"{setting.model.name} has no experts, so EP must be 1, but got {layout.ep}"


def _present_cure(setting: Setting, layout: Layout) -> Layout:
    return replace(layout, ep=1)


def _count(setting: Setting) -> int:
    return setting.model.experts.count if setting.model.experts else 0


def _divide(setting: Setting, table: LayoutTable) -> Bools:
    good: Bools = _count(setting) % degree(table.ep) == 0
    return good


def _divide_message(setting: Setting, layout: Layout) -> str:
    return f"EP ({layout.ep}) must divide the experts ({_count(setting)}); lower EP to a divisor"


def _divide_cure(setting: Setting, layout: Layout) -> Layout:
    return replace(layout, ep=largest_divisor(_count(setting), layout.ep))


def _ffn(setting: Setting) -> int:
    return setting.model.experts.ffn if setting.model.experts else 0


def _ffn_divides(setting: Setting, table: LayoutTable) -> Bools:
    good: Bools = _ffn(setting) % degree(table.etp) == 0
    return good


def _ffn_message(setting: Setting, layout: Layout) -> str:
    return (
        f"ETP ({layout.etp}) must divide the hidden size of an expert ({_ffn(setting)}); "
        "lower ETP to a divisor (it is TP where it is not given)"
    )


def _ffn_cure(setting: Setting, layout: Layout) -> Layout:
    return replace(layout, etp=largest_divisor(_ffn(setting), layout.etp))


def _bias(setting: Setting, table: LayoutTable) -> Bools:
    if not (setting.model.experts and setting.model.mlp_bias):
        return always(table)
    good: Bools = table.etp <= 1
    return good


def _bias_message(setting: Setting, layout: Layout) -> str:
    return f"experts with a bias need ETP 1, but got ETP {layout.etp}; set ETP to 1"


def _one_expert_tensor(setting: Setting, layout: Layout) -> Layout:
    return replace(layout, etp=1)


def _gradients(setting: Setting, table: LayoutTable) -> Bools:
    if setting.model.experts is None:
        return always(table)
    good: Bools = (table.ep != 1) | (table.etp == table.tp)
    return good


def _gradients_message(setting: Setting, layout: Layout) -> str:
    return (
        f"with EP 1 and ETP ({layout.etp}) other than TP ({layout.tp}), this megatron-core reduces "
        "expert gradients over the wrong group and their copies drift apart; raise EP, or set ETP "
        "to TP"
    )


def _gradients_cure(setting: Setting, layout: Layout) -> Layout:
    return replace(layout, etp=layout.tp)


def _flex(setting: Setting, table: LayoutTable) -> Bools:
    if setting.model.experts is None:
        return always(table)
    good: Bools = (table.dispatcher != _FLEX) | (degree(table.etp) * degree(table.ep) > 1)
    return good


def _flex_message(setting: Setting, layout: Layout) -> str:
    return (
        f"the flex dispatcher needs ETP x EP over 1, but got {layout.etp} x {layout.ep}; "
        "use the alltoall dispatcher, or raise EP"
    )


def _alltoall(setting: Setting, layout: Layout) -> Layout:
    return replace(layout, dispatcher="alltoall")


def _shared_alltoall(setting: Setting, table: LayoutTable) -> Bools:
    good: Bools = _no_shared_overlap(setting, table) | (table.dispatcher == _ALLTOALL)
    return good


def _shared_flex(setting: Setting, table: LayoutTable) -> Bools:
    flex: Bools = table.dispatcher == _FLEX
    return _shared_alltoall(setting, table) | flex


def _no_shared_overlap(setting: Setting, table: LayoutTable) -> Bools:
    if setting.model.experts is None or not setting.model.experts.shared_ffn:
        return always(table)
    off: Bools = ~table.overlap_shared_experts
    return off


def _shared_message(setting: Setting, layout: Layout) -> str:
    return (
        "shared-expert overlap does not work with the dispatcher "
        f"`{layout.dispatcher}`; use alltoall, or turn the overlap off"
    )


_DISPATCHER = frozenset({"dispatcher"})

RULES = (
    Rule(
        id="ep.needs_experts",
        holds=_present,
        message=_present_message,
        cure=_present_cure,
        source="training/arguments.py",
    ),
    Rule(
        id="ep.experts_divide",
        holds=_divide,
        message=_divide_message,
        cure=_divide_cure,
        source="training/arguments.py",
    ),
    Rule(
        id="etp.ffn_divides",
        holds=_ffn_divides,
        message=_ffn_message,
        cure=_ffn_cure,
        source="tensor_parallel/layers.py divide()",
    ),
    Rule(
        id="etp.bias_needs_one",
        holds=_bias,
        message=_bias_message,
        cure=_one_expert_tensor,
        source="transformer_config.py",
    ),
    Rule(
        id="etp.gradient_group",
        holds=_gradients,
        message=_gradients_message,
        cure=_gradients_cure,
        source="tensor_parallel/layers.py (allreduce is False only with EP over 1)",
        verdict="risky",
        before=(0, 19),
    ),
    Rule(
        id="dispatcher.flex_needs_ranks",
        holds=_flex,
        message=_flex_message,
        cure=_alltoall,
        source="moe/token_dispatcher.py",
        needs=_DISPATCHER,
    ),
    Rule(
        id="dispatcher.shared_overlap_alltoall",
        holds=_shared_alltoall,
        message=_shared_message,
        cure=_alltoall,
        source="transformer_config.py",
        before=(0, 18),
        needs=_DISPATCHER,
    ),
    Rule(
        id="dispatcher.shared_overlap",
        holds=_shared_flex,
        message=_shared_message,
        cure=_alltoall,
        source="transformer_config.py",
        since=(0, 18),
        needs=_DISPATCHER,
    ),
)
