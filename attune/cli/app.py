"""The `attune` command: gathers the verbs, turns errors into one message and an exit code."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from typing import Annotated, NoReturn

import typer

from attune.cli import (
    calibration,
    dashboard,
    diagnose,
    doctor,
    experiments,
    explain,
    export,
    gpus,
    mcp,
    models,
    nodes,
    plan,
    probe,
    recipe,
    report,
    rows,
    site,
    stop,
    trial,
    tune,
    verify,
    watch,
)
from attune.cli.usage import ShortUsage, short_words
from attune.errors import AttuneError, LayoutError

INTERRUPTED = 130

app = typer.Typer(
    name="attune",
    cls=ShortUsage,
    help="Finds the Megatron layout that trains a large model fastest on your cluster.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from attune import __version__

        typer.echo(f"attune {__version__}")
        raise typer.Exit


@app.callback()
def _attune(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Version.")
    ] = False,
) -> None:
    pass


app.command("plan")(plan.plan)
app.command("explain")(explain.explain)
app.command("trial")(trial.trial)
app.command("tune")(tune.tune)
app.command("calibration")(calibration.calibration)
app.command("watch")(watch.watch)
app.command("stop")(stop.stop)
app.command("diagnose")(diagnose.diagnose)
app.command("nodes")(nodes.nodes)
app.command("doctor")(doctor.doctor)
app.command("report")(report.report)
app.command("dashboard")(dashboard.dashboard)
app.command("export")(export.export)
app.command("mcp")(mcp.mcp)
app.command("experiments")(experiments.experiments)
app.add_typer(probe.app, name="probe")
app.add_typer(recipe.app, name="recipe")
app.add_typer(verify.app, name="verify")
app.add_typer(rows.app, name="rows")
app.add_typer(site.app, name="site")
app.add_typer(models.app, name="models")
app.command("gpus")(gpus.gpus)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Runs the command line and exits: 0 done, 1 nothing found, 2 wrong input, 130 interrupted.

    A scheduler's SIGTERM and a closed terminal end it as Ctrl-C does: what runs is cancelled and
    written down.
    """
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, signal.default_int_handler)
    sys.exit(run(arguments))


def run(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and gives its exit code; an error is one message on stderr."""
    try:
        app(args=list(arguments) if arguments is not None else None, prog_name="attune")
    except SystemExit as ended:
        return _code(ended.code)
    except AttuneError as error:
        return _tell(error, error.exit_code)
    except LayoutError as error:
        return _tell(error, AttuneError.exit_code)
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        return _tell(f"{place}{error.strerror or error}", AttuneError.exit_code)
    except KeyboardInterrupt:
        return _tell("interrupted", INTERRUPTED)
    return 0


def _code(code: object) -> int:
    if code == INTERRUPTED:
        return _tell("interrupted", INTERRUPTED)
    return code if isinstance(code, int) else int(code is not None)


def _tell(message: object, code: int) -> int:
    from attune.report.words import visible

    print(f"attune: {visible(short_words(str(message)))}", file=sys.stderr)
    return code
