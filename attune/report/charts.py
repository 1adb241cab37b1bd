"""The charts of a report, as Plotly figures in plain data; each has a table with the same numbers.

Colours are set by the page, so that light and dark fit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from attune.experiment.events import Finished
from attune.report.arms import Arm, ExperimentReport
from attune.report.chart import Chart, Figure, figure_of
from attune.report.schedule import schedule_chart
from attune.report.words import gib, number, percent, seconds
from attune.verify.noise import layout_bound


def charts(report: ExperimentReport) -> list[Chart]:
    """Every chart that the experiment has numbers for."""
    made = (make(report) for make in _MAKERS)
    return [chart for chart in made if chart.rows]


def _search(report: ExperimentReport) -> Chart:
    """Every run in order, and the best so far."""
    ran = [run for run in report.history.runs if run.tokens_per_s_per_gpu]
    best, line = 0.0, []
    for run in ran:
        if run.purpose == "candidate":
            best = max(best, run.tokens_per_s_per_gpu or 0.0)
        line.append(best or None)
    points = []
    for purpose in dict.fromkeys(run.purpose for run in ran):
        runs = [run for run in ran if run.purpose == purpose]
        numbers, rates = [run.run for run in runs], [run.tokens_per_s_per_gpu for run in runs]
        points.append(_points(purpose, runs, numbers, rates, marker={"size": 10}))
    lost = [run for run in report.history.runs if not run.tokens_per_s_per_gpu]
    cross = {"symbol": "x", "size": 10}
    outcomes = [f"run {run.run}: {run.outcome}" for run in lost]
    places = [run.run for run in lost]
    points.append(_points("no figure", lost, places, [0] * len(lost), marker=cross, text=outcomes))
    best_line: Figure = {"type": "scatter", "mode": "lines", "name": "best candidate so far"}
    best_line |= {"x": [run.run for run in ran], "y": line, "line": {"shape": "hv"}}
    return Chart(
        id="search",
        title="Search history",
        says="Each run in the order in which it ran; a cross is a run without a figure.",
        origin=_origin(report),
        figure=figure_of([best_line, *points], "run", "tokens/s per GPU"),
        head=("run", "purpose", "outcome", "tokens/s/GPU"),
        rows=tuple(
            (str(run.run), run.purpose, run.outcome, number(run.tokens_per_s_per_gpu))
            for run in report.history.runs
        ),
    )


def _points(
    name: str, runs: Sequence[Finished], x: Sequence[float], y: Sequence[float | None], **more: Any
) -> Figure:
    """A point for each run."""
    texts = [f"run {run.run}: {run.layout}" for run in runs]
    points = {"type": "scatter", "mode": "markers", "name": name, "x": list(x), "y": list(y)}
    return points | {"text": texts} | more


def _against(report: ExperimentReport) -> Chart:
    """Step times: what was predicted, with its interval, against what the run gave."""
    runs = [run for run in report.history.runs if run.step_time_s is not None]
    told = [run.predicted for run in runs]
    interval = {
        "type": "data",
        "symmetric": False,
        "array": [p.high_s - p.step_s for p in told],
        "arrayminus": [p.step_s - p.low_s for p in told],
    }
    ran, predicted = [run.step_time_s or 0.0 for run in runs], [p.step_s for p in told]
    return Chart(
        id="time",
        title="Step time: predicted against the run",
        says="On the line the prediction is right; bars are its 80 % interval, before the run.",
        origin=f"predicted, against {_origin(report)}",
        figure=figure_of(
            _beside(runs, ran, predicted, error_y=interval),
            "step time of the run, s",
            "predicted, s",
        ),
        head=("run", "step time, s", "predicted, s", "80 % interval, s", "error"),
        rows=tuple(
            (
                str(run.run),
                seconds(run.step_time_s),
                seconds(run.predicted.step_s),
                f"{seconds(run.predicted.low_s)} to {seconds(run.predicted.high_s)}",
                f"{100 * ((run.step_time_s or 0.0) / run.predicted.step_s - 1):+.1f} %",
            )
            for run in runs
        ),
    )


def _memory_against(report: ExperimentReport) -> Chart:
    """Peak memory of every run against what was predicted of it."""
    runs = [run for run in report.history.runs if run.peak_gib is not None]
    ran, predicted = [r.peak_gib or 0.0 for r in runs], [r.predicted.peak_gib for r in runs]
    return Chart(
        id="memory",
        title="Memory: predicted against the run",
        says="Reserved peak that the ranks reported against the device memory predicted.",
        origin=f"predicted, against {_origin(report)}",
        figure=figure_of(
            _beside(runs, ran, predicted), "reserved peak of the run, GiB", "predicted, GiB"
        ),
        head=("run", "outcome", "peak, GiB", "predicted, GiB", "P(fits)"),
        rows=tuple(
            (
                str(run.run),
                run.outcome,
                gib(run.peak_gib),
                gib(run.predicted.peak_gib),
                percent(run.predicted.p_fits, 0),
            )
            for run in report.history.runs
        ),
    )


def _beside(
    runs: Sequence[Finished], ran: Sequence[float], predicted: Sequence[float], **more: Any
) -> list[Figure]:
    """A point for each run, and the line on which a prediction is right."""
    ends = [min(*ran, *predicted), max(*ran, *predicted)] if runs else []
    line = {"type": "scatter", "mode": "lines", "name": "predicted = run", "line": {"dash": "dot"}}
    return [line | {"x": ends, "y": ends}, _points("run", runs, ran, predicted, **more)]


def _step_parts(report: ExperimentReport) -> Chart:
    """Where a step's time goes, by part, in both arms."""
    arms = report.arms
    names = dict.fromkeys(name for arm in arms for name in arm.explanation.step_parts)
    shares = {n: [arm.explanation.step_parts.get(n, 0.0) for arm in arms] for n in names}
    data = [_bar(name, [arm.name for arm in arms], values) for name, values in shares.items()]
    return Chart(
        id="step",
        title="Where a step's time goes",
        says="Parts that add up to the predicted step, winner and reference.",
        origin="predicted",
        figure=figure_of(data, "seconds", "", barmode="stack"),
        head=("part, s", *(arm.name for arm in arms)),
        rows=tuple((name, *map(seconds, values)) for name, values in shares.items()),
    )


def _bar(name: str, labels: Sequence[str], values: Sequence[float]) -> Figure:
    return {
        "type": "bar",
        "orientation": "h",
        "name": name,
        "y": list(labels),
        "x": [round(value, 6) for value in values],
    }


def _stages(report: ExperimentReport) -> Chart:
    """Allocated memory of every stage by part, both arms."""
    cells = [(arm, stage) for arm in report.arms for stage in arm.explanation.memory]
    labels = [f"{arm.name} {stage.stage}" for arm, stage in cells]
    names = dict.fromkeys(name for _, stage in cells for name in stage.parts)
    data = [_bar(n, labels, [s.parts.get(n, 0.0) for _, s in cells]) for n in names]
    return Chart(
        id="stages",
        title="Memory by pipeline stage",
        says=f"Parts that add up to allocated memory; the GPU has {gib(report.limit_gib)} GiB.",
        origin="predicted",
        figure=figure_of(data, "GiB", "stage", barmode="stack"),
        head=("stage, GiB", *names, "allocated", "reserved", "device"),
        rows=tuple(
            (
                label,
                *(gib(stage.parts.get(name, 0.0), report.limit_gib) for name in names),
                *(
                    gib(value, report.limit_gib)
                    for value in (stage.allocated_gib, stage.reserved_gib, stage.device_gib)
                ),
            )
            for label, (_, stage) in zip(labels, cells, strict=True)
        ),
    )


def _losses(report: ExperimentReport) -> Chart:
    """Loss curves of both arms."""
    data = [
        {
            "type": "scatter",
            "mode": "lines+markers",
            "name": arm.name,
            "x": [step.step for step in arm.steps],
            "y": [step.loss for step in arm.steps],
        }
        for arm in report.arms
    ]
    curves = [{step.step: step.loss for step in arm.steps} for arm in report.arms]
    shown = sorted({step for curve in curves for step in curve})
    return Chart(
        id="losses",
        title="Loss curves",
        says="The winner must train the same model as the reference, step for step.",
        origin=_origin(report),
        figure=figure_of(data, "step", "loss"),
        head=("step", *(arm.name for arm in report.arms)),
        rows=tuple((str(step), *(_loss(curve.get(step)) for curve in curves)) for step in shown),
    )


def _loss(value: float | None) -> str:
    return "-" if value is None else f"{value:.7g}"


def _loss_difference(report: ExperimentReport) -> Chart:
    """Relative difference of the two curves, within what reordered rounding may do."""
    pairs = list(_differences(report.arms))
    steps = [step for step, _ in pairs]
    curve = {"type": "scatter", "mode": "lines+markers", "name": "relative difference"}
    data: list[Figure] = [curve | {"x": steps, "y": [value for _, value in pairs]}]
    bounds = [layout_bound(step + 1) for step in steps] if report.float32 else []
    if bounds:
        band = {"type": "scatter", "mode": "lines", "name": "bound", "line": {"dash": "dash"}}
        data.append(band | {"x": steps, "y": bounds})
    return Chart(
        id="difference",
        title="Difference of the loss curves",
        says="Relative to the reference; the bound is known for float32 arms only.",
        origin=_origin(report),
        figure=figure_of(data, "step", "relative difference"),
        head=("step", "relative difference", "bound"),
        rows=tuple(
            (str(step), f"{value:.2e}", f"{layout_bound(step + 1):.1e}" if bounds else "-")
            for step, value in pairs
        ),
    )


def _differences(arms: Sequence[Arm]) -> Iterator[tuple[int, float]]:
    if len(arms) != 2:
        return
    theirs = {step.step: step.loss for step in arms[1].steps}
    for step in arms[0].steps:
        other = theirs.get(step.step)
        if step.loss is not None and other:
            yield step.step, abs(step.loss - other) / abs(other)


def _knobs(report: ExperimentReport) -> Chart:
    """What one knob alone would do to the winner, as the estimator sees it."""
    near = sorted(report.neighbours, key=lambda n: n.percent)
    data = [_bar("step time", [n.change for n in near], [n.percent for n in near])]
    return Chart(
        id="knobs",
        title="Around the winner",
        says="Predicted step time with one knob changed, percent of the winner's; P(fits) beside.",
        origin="predicted",
        figure=figure_of(data, "percent", ""),
        head=("change", "step time, s", "against the winner", "P(fits)"),
        rows=tuple(
            (n.change, seconds(n.step_s), f"{n.percent:+.1f} %", percent(n.p_fits, 0)) for n in near
        ),
    )


def _waterfall(report: ExperimentReport) -> Chart:
    """From the reference's speed to the winner's, knob by knob."""
    told = report.history.attributed
    parts = told.contributions if told else ()
    total = told.total_percent if told else 0.0
    bars = {
        "type": "waterfall",
        "name": "gain",
        "x": [*(part.knob for part in parts), "winner"],
        "y": [*(round(part.percent, 6) for part in parts), round(total, 6)],
        "measure": [*("relative" for _ in parts), "total"],
        "text": [*(f"{part.percent:+.1f} %, {part.provenance}" for part in parts), ""],
    }
    rows = [
        (
            part.knob,
            f"{part.before} -> {part.after}",
            f"{part.percent:+.2f} %",
            f"{part.deviation_percent:.2f} %",
            ", ".join(map(str, part.runs)) or "-",
            part.provenance,
        )
        for part in parts
    ]
    whole = ("all", "reference -> winner", f"{total:+.2f} %", "-", "-", _origin(report))
    return Chart(
        id="waterfall",
        title="Where the gain comes from",
        says="What each knob adds over the reference, the mean over the orders of turning them; "
        "the parts add up to the gain.",
        origin=" and ".join(sorted({part.provenance for part in parts})),
        figure=figure_of([bars], "", "tokens/s/GPU over the reference, %"),
        head=("knob", "change", "adds", "deviation", "runs", "from"),
        rows=(*rows, whole) if rows else (),
    )


def _origin(report: ExperimentReport) -> str:
    started = report.history.started
    if started is None:
        return "measured"
    if started.provenance == "predicted":
        return "predicted (a virtual cluster)"
    return started.provenance


_MAKERS: tuple[Callable[[ExperimentReport], Chart], ...] = (
    _search,
    _waterfall,
    _against,
    _memory_against,
    _step_parts,
    _stages,
    schedule_chart,
    _losses,
    _loss_difference,
    _knobs,
)
