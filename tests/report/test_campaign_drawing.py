from __future__ import annotations

import io

from campaign_events import WINNER, campaign, finished, started
from rich.console import Console

from attune.report.campaign import ListedExperiment, Report, draw_experiments, draw_report
from attune.report.history import History, history_of
from attune.report.lines import lines
from attune.report.live import draw_events, picture


def test_plain_lines_begin_and_end_with_simulated(drawn):
    text = drawn(lambda events, console: draw_events(events, console), campaign())
    told = text.splitlines()
    notice = "SIMULATED (no H200 and no scheduler here): a virtual cluster plays 128 H200"
    assert told[0].startswith(notice) and told[-1].startswith(notice)
    assert "\x1b" not in text


def test_measured_campaign_says_nothing_of_simulation(drawn):
    event = started(provenance="measured", launcher="slurm", launcher_reason="sbatch is here")
    assert "SIMULATED" not in drawn(lambda e, console: draw_events(e, console), [event])


def test_plain_lines_tell_what_and_why(drawn):
    text = drawn(lambda events, console: draw_events(events, console), campaign())
    assert "100,000 drawn, 9,000 legal, 700 predicted to fit, 1,200 candidates" in text
    assert "run 1 out_of_memory: Tried to allocate 3.10 GiB" in text
    assert "advice: recompute more, or offload" in text
    assert "38.0 s, CV 1.20 %, 216 tokens/s/GPU, 121.5 GiB (predicted; step time -5.0 %" in text
    assert "failed   layout_bound: 4 % off at step 20" in text
    assert "not verified: layout_bound failed" in text
    assert "step 20/20" in text and "step 1/20" not in text


def test_markup_in_data_is_shown_as_it_is(drawn):
    event = finished(1, "tp=1 [/x]", outcome="infrastructure", evidence="[red]rank 3[/red] died")
    text = drawn(lambda e, console: draw_events(e, console), [event])
    assert "[red]rank 3[/red] died" in text
    history = history_of([event])
    assert "[/x]" in drawn(lambda h, console: console.print(picture(h, 1.0)), history)
    assert "[red]rank 3[/red] died" in drawn(draw_report, Report(experiment="x", history=history))


def test_live_picture_fits_80_columns(drawn):
    history = history_of(campaign()[:11])
    text = drawn(lambda h, console: console.print(picture(h, 120.0)), history)
    assert max(map(len, text.splitlines())) <= 80
    assert "run 2 candidate step 7/20, 38.1 s a step (predicted 40.0 s)" in text
    assert "budget: 1/3 trials, 60.0 virtual GPU-hours; about 2 min 00 s left at most" in text
    assert "best so far: none yet" in text


def test_live_picture_tells_gain_over_reference(drawn):
    text = drawn(lambda h, console: console.print(picture(h, 60.0)), history_of(campaign()[:12]))
    assert "+31.6 % over the reference" in " ".join(text.split())


def test_live_display_runs_in_a_terminal():
    stream = io.StringIO()
    console = Console(file=stream, width=80, force_terminal=True, _environ={"TERM": "xterm"})
    history = draw_events(campaign(), console)
    assert history.completed and "winner (predicted)" in stream.getvalue()


def test_resumed_history_is_kept(drawn):
    before = history_of(campaign()[:9])
    found = []
    drawn(lambda e, c: found.append(draw_events(e, c, before)), campaign()[9:])
    assert len(found[0].runs) == 3


def test_report_puts_the_verdict_first(drawn):
    text = drawn(draw_report, Report(experiment="exp-1", history=history_of(campaign())))
    assert text.index(WINNER) < text.index("reason 1")
    assert "against reference" in text and "+31.6 %" in text
    assert "not verified: layout_bound failed" in text
    assert "virtual cluster: 90.00 GPU-hours on its clock, none spent, in 3 runs" in text
    assert "-5.0 %" in text
    tables = [line for line in text.splitlines() if "tok/s/GPU" in line]
    assert tables and max(map(len, tables)) <= 80


def test_unfinished_report_can_be_drawn(drawn):
    for length in range(1, len(campaign())):
        report = Report(experiment="exp-1", history=history_of(campaign()[:length]))
        assert "exp-1" in drawn(draw_report, report)
    assert "unfinished" in drawn(draw_report, Report(experiment="x", history=History()))


def test_every_event_has_its_lines():
    assert all(isinstance(lines(event), list) for event in campaign())


def test_experiments_name_state_and_provenance(drawn):
    found = ListedExperiment(
        id="exp-1",
        model="GLM-4.5",
        gpu="H200",
        count=128,
        state="done",
        runs=3,
        tokens_per_s_per_gpu=215.6,
        provenance="predicted",
    )
    text = drawn(draw_experiments, [found])
    assert "exp-1" in text and "216" in text and "predicted" in text
    assert "attune tune" in drawn(draw_experiments, [])
