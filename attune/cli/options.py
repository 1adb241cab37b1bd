"""The options that several verbs share, each in one place."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

_WORKLOAD = "Workload"
_WHERE = "Model and cluster"

ModelName = Annotated[
    str,
    typer.Option(
        "--model",
        "-m",
        help="Name (`attune models`), YAML file, config.json, its folder, or hub id in the cache.",
        rich_help_panel=_WHERE,
    ),
]
GpuName = Annotated[
    str,
    typer.Option("--gpu", "-g", help="Name (`attune gpus`) or YAML file.", rich_help_panel=_WHERE),
]
Count = Annotated[
    int, typer.Option("--count", "-n", help="Number of GPUs.", rich_help_panel=_WHERE)
]
ClusterFile = Annotated[
    Path | None,
    typer.Option(
        "--cluster",
        help="YAML file with your price, links, memory or GPUs per node.",
        rich_help_panel=_WHERE,
    ),
]
WorkloadFile = Annotated[
    Path | None,
    typer.Option("--workload", help="YAML file of the workload.", rich_help_panel=_WORKLOAD),
]
RowTokens = Annotated[
    int | None,
    typer.Option(
        "--row-tokens", help="Tokens of a row [8192; tiny models 128].", rich_help_panel=_WORKLOAD
    ),
]
GlobalBatch = Annotated[
    int | None,
    typer.Option(
        "--global-batch", help="Rows of a step [128; tiny models 16].", rich_help_panel=_WORKLOAD
    ),
]
PrecisionName = Annotated[
    str | None,
    typer.Option(
        "--precision", help="bf16, fp16, fp32 or fp8 [bf16; tiny fp32].", rich_help_panel=_WORKLOAD
    ),
]
Steps = Annotated[
    int | None,
    typer.Option("--steps", help="Steps of a trial [20].", rich_help_panel=_WORKLOAD),
]
Rows = Annotated[
    str | None,
    typer.Option(
        "--rows", help="`synthetic`, or a file of rows [synthetic].", rich_help_panel=_WORKLOAD
    ),
]
SpaceName = Annotated[
    str | None,
    typer.Option("--space", help="Search space: default, dense, moe, tiny, or a YAML file."),
]
LauncherName = Annotated[
    str,
    typer.Option(
        "--launcher",
        help="What starts a run: auto, local (this machine), slurm, ray, kubernetes or simulated.",
    ),
]
LauncherOption = Annotated[
    list[str] | None,
    typer.Option(
        "--launcher-option",
        help="What the site tells a launcher: partition=h200, account=..., template=FILE, ...",
    ),
]
FrameworkName = Annotated[
    str,
    typer.Option(
        "--framework",
        help="What trains: megatron-core, megatron-lm, megatron-bridge, miles, slime, or the YAML "
        "file of a setup.",
    ),
]
Checkout = Annotated[
    str | None,
    typer.Option("--checkout", help="Folder of the framework's checkout on the nodes."),
]
VirtualName = Annotated[
    Literal["near", "far", "adversarial"],
    typer.Option("--virtual", help="Simulated runs: how far the truth is from the estimator."),
]
VirtualSeed = Annotated[int, typer.Option(help="Seed of the virtual cluster.")]
LayoutText = Annotated[
    str, typer.Option("--layout", "-l", help='"tp=4 pp=16 ep=8", or a recipe file.')
]
TimeLimit = Annotated[float, typer.Option(help="Longest wall time of one run, seconds.")]
Output = Annotated[Path | None, typer.Option("--output", "-o", help="Directory of what is run.")]
CalibrationFile = Annotated[
    Path | None,
    typer.Option(
        "--calibration",
        help="File of what measured runs taught [in the user's cache].",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Spend GPU-hours without asking.")]


def pairs(words: list[str] | None) -> dict[str, str]:
    """`name=value` words as a mapping."""
    wrong = next((word for word in words or [] if "=" not in word), None)
    if wrong is not None:
        raise typer.BadParameter(f"`{wrong}` is not of the form name=value")
    return dict(word.split("=", 1) for word in words or [])
