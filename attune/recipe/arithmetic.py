"""Checks of a recipe's numbers: grid, stage split, packed rows, throughput figures."""

from __future__ import annotations

from collections.abc import Iterator

from attune.counts import mfu, usd_per_million_tokens
from attune.layout.microbatches import rows_per_bin
from attune.recipe.blocks import Result
from attune.recipe.problem import Problem, known_gpu, known_model
from attune.recipe.schema import Recipe


def check_grid(recipe: Recipe) -> Iterator[Problem]:
    """GPUs fill nodes and the parallel grid; DP is what remains; experts divide."""
    gpu, layout = recipe.gpu, recipe.layout
    if gpu.count > gpu.per_node and gpu.count % gpu.per_node:
        yield Problem("gpu.count", gpu.count, f"nodes hold {gpu.per_node} GPUs each")
    ranks = layout.tp * layout.pp * layout.cp
    if gpu.count % ranks:
        yield Problem("gpu.count", gpu.count, f"TP x PP x CP = {ranks} must divide it")
    elif layout.dp != gpu.count // ranks:
        wanted = f"{gpu.count} GPUs / (TP x PP x CP = {ranks}) is {gpu.count // ranks}"
        yield Problem("layout.dp", layout.dp, wanted)
    if gpu.count % (layout.etp * layout.ep * layout.pp):
        grid = layout.etp * layout.ep * layout.pp
        yield Problem("layout.ep", layout.ep, f"ETP x EP x PP = {grid} must divide {gpu.count}")
    if layout.vpp > 1 and layout.pp == 1:
        yield Problem("layout.vpp", layout.vpp, "virtual stages need PP over 1")
    if recipe.workload.global_batch < layout.dp:
        rows = recipe.workload.global_batch
        yield Problem("workload.global_batch", rows, f"each of DP {layout.dp} ranks needs a row")


def check_model(recipe: Recipe) -> Iterator[Problem]:
    """What the catalogue's model allows: experts over EP, layers over stages."""
    model, layout = known_model(recipe), recipe.layout
    split = layout.layer_split
    if layout.pp == 1 and split is not None:
        wanted = "there is one stage (PP 1); leave it null"
        yield Problem("layout.layer_split", split.model_dump(), wanted)
        return
    if model is None:
        return
    experts = model.experts.count if model.experts else 1
    if experts % layout.ep:
        yield Problem(
            "layout.ep", layout.ep, f"it must divide the {experts} experts of {model.name}"
        )
    if model.experts and layout.dispatcher is None:
        yield Problem("layout.dispatcher", None, f"{model.name} has experts to reach")
    if recipe.attune is None or "pipeline_layout=" not in recipe.attune.layout:
        yield from _check_split(recipe, model.layers)


def _check_split(recipe: Recipe, layers: int) -> Iterator[Problem]:
    layout = recipe.layout
    split = layout.layer_split.model_dump() if layout.layer_split else {}
    given = [split[end] for end in ("first", "last") if split.get(end) is not None]
    others, rest = layout.pp - len(given), layers - sum(given)
    fits = rest == 0 if others == 0 else rest > 0 and rest % (others * layout.vpp) == 0
    if not fits or any(x % layout.vpp for x in given):
        pieces = f"{others} other stages" if given else f"{others} stages"
        chunks = f" of {layout.vpp} chunks" if layout.vpp > 1 else ""
        wanted = f"of {layers} layers {rest} remain for {pieces}{chunks}, which must share evenly"
        yield Problem("layout.layer_split", split or None, wanted)


def check_microbatch(recipe: Recipe) -> Iterator[Problem]:
    """Rows per microbatch as dynamic batching packs them: floor(budget x CP / row), at least 1."""
    layout, row = recipe.layout, recipe.workload.row_tokens
    rows = rows_per_bin(layout.max_tokens_per_gpu, row, layout.cp)
    if layout.rows_per_microbatch != rows:
        budget = f"{layout.max_tokens_per_gpu} tokens x CP {layout.cp}"
        wanted = f"{budget} hold {rows} rows of {row} tokens"
        yield Problem("layout.rows_per_microbatch", layout.rows_per_microbatch, wanted)


def check_result(recipe: Recipe) -> Iterator[Problem]:
    """Window, tokens, MFU, price and GPU-hours agree with each other and the catalogue."""
    if recipe.result is None:
        return
    yield from _check_window(recipe, recipe.result)
    yield from _check_mfu(recipe, recipe.result)
    yield from _check_price(recipe, recipe.result)


def _check_window(recipe: Recipe, result: Result) -> Iterator[Problem]:
    first, last = result.window
    if not first <= last < result.steps_per_run:
        wanted = f"it must lie in the run's steps 0 to {result.steps_per_run - 1}, in order"
        yield Problem("result.window", result.window, wanted)
        return
    steps = last - first + 1
    per_step = recipe.workload.global_batch * recipe.workload.row_tokens
    if result.window_tokens != steps * per_step:
        wanted = f"{steps} steps of {per_step} tokens are {steps * per_step}"
        yield Problem("result.window_tokens", result.window_tokens, wanted)
        return
    # The run is at least its timed window long; GPU-hours are rounded to two decimals.
    least = result.window_tokens / result.tokens_per_s_per_gpu / 3600
    if result.gpu_hours is not None and result.gpu_hours < 0.99 * least - 0.005:
        wanted = f"the timed window alone takes {least:.2f} at that rate"
        yield Problem("result.gpu_hours", result.gpu_hours, wanted)


def _check_mfu(recipe: Recipe, result: Result) -> Iterator[Problem]:
    if result.mfu is None or result.mfu_note:
        return
    if result.active_params is None:
        yield Problem("result.active_params", None, "MFU needs the parameters it reckons with")
        return
    gpu, own = known_gpu(recipe), recipe.attune.peak_tflops if recipe.attune else None
    peak = own or (gpu.peak_tflops.get(recipe.workload.precision) if gpu else None)
    if peak is None:
        return
    wanted = mfu(result.tokens_per_s_per_gpu, result.active_params.count, peak)
    # Pages round MFU to four decimals, and tokens/s to two.
    if abs(result.mfu - wanted) > 6e-5 + wanted * _rounding(result):
        sum_ = (
            f"6 x {result.active_params.count} x {result.tokens_per_s_per_gpu} / {peak:g} TFLOP/s"
        )
        yield Problem("result.mfu", result.mfu, f"{sum_} is {wanted:.4f}")


def _check_price(recipe: Recipe, result: Result) -> Iterator[Problem]:
    gpu, own = known_gpu(recipe), recipe.attune.usd_per_gpu_hour if recipe.attune else None
    hourly = own if own is not None else (gpu.usd_per_gpu_hour if gpu else None)
    if result.usd_per_million_tokens is None or hourly is None:
        return
    wanted = usd_per_million_tokens(result.tokens_per_s_per_gpu, hourly)
    # Rounded to cents; hourly prices are rounded to cents too (0.1 % of a dollar figure).
    if abs(result.usd_per_million_tokens - wanted) > 0.0051 + wanted * (0.001 + _rounding(result)):
        wanted_words = f"${hourly:g} per GPU-hour at that rate is {wanted:.2f}"
        yield Problem("result.usd_per_million_tokens", result.usd_per_million_tokens, wanted_words)


def _rounding(result: Result) -> float:
    """Relative error of a rate that is rounded to two decimals."""
    return 0.005 / result.tokens_per_s_per_gpu
