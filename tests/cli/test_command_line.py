from __future__ import annotations

import json
import signal
import subprocess
import sys

import pytest

import attune as door

GLM = ("--model", "glm-4.5", "--gpu", "h200", "--count", "128")
LAYOUT = "tp=4 pp=16 ep=8 first=5 last=3"


def test_help_names_every_verb(attune):
    answer = attune("--help")
    assert answer.code == 0
    for verb in (
        "plan",
        "explain",
        "trial",
        "tune",
        "report",
        "export",
        "recipe",
        "models",
        "calibration",
    ):
        assert verb in answer.out


def test_help_loads_nothing_heavy():
    heavy = ("torch", "megatron", "pandas", "optuna", "plotly", "scipy", "sklearn", "numpy")
    program = (
        "import sys; from attune.cli.app import run; code = run(['--help']); "
        f"print(code, [m for m in {heavy!r} if m in sys.modules], file=sys.stderr)"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ended.stderr.strip() == "0 []"


def test_version(attune):
    assert attune("--version").out == f"attune {door.__version__}\n"


def test_models_as_json_carry_exact_counts(attune):
    models = {model["id"]: model for model in json.loads(attune("models", "--json").out)}
    assert models["glm-4.5"]["active_parameters"] == 32_854_016_000
    assert models["glm-5.2"]["active_parameters"] == 40_297_758_720
    assert all(model["total_parameters"] > 0 for model in models.values())


def test_models_and_gpus_fit_80_columns(attune):
    for command in ("models", "gpus"):
        answer = attune(command)
        assert answer.code == 0 and max(map(len, answer.out.splitlines())) <= 80
    assert "tiny-moe" in attune("models").out and "h200" in attune("gpus").out
    assert "h200" in [gpu["id"] for gpu in json.loads(attune("gpus", "--json").out)]


def test_one_model_is_shown(attune):
    assert "layers: 92" in attune("models", "show", "GLM4.5").out
    shown = json.loads(attune("models", "show", "glm-4.5", "--json").out)
    assert shown["architecture"]["layers"] == 92
    assert shown["listed"]["active_parameters"] == 32_854_016_000


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("models", "show", "glm-4.55"), "did you mean `glm-4.5`"),
        (("plan", "-m", "glm-4.7x", "-g", "h200", "-n", "128"), "did you mean `glm-4.5`"),
        (("plan", "-m", "glm-4.5", "-g", "h201", "-n", "128"), "no GPU named `h201`"),
        (("plan", "-m", "glm-4.5", "-g", "h200", "-n", "100"), "use 96 or 104"),
        (("plan", "-m", "glm-4.5", "-g", "h200", "-n", "0"), "count must be"),
        (("plan", *GLM, "--precision", "fp7"), "precision"),
        (("plan", *GLM, "--global-batch", "0"), "global_batch"),
        (("plan", *GLM, "--workload", "nowhere.yaml"), "nowhere.yaml"),
        (("plan", *GLM, "--cluster", "nowhere.yaml"), "nowhere.yaml"),
        (("plan", *GLM, "--space", "no-such-space"), "no-such-space"),
        (("explain", *GLM, "--layout", "tp=4 pq=2"), "no field `pq`"),
        (("explain", *GLM, "--layout", "tp=four"), "`tp` is a whole number"),
        (("explain", *GLM, "--layout", "nowhere.yaml"), "nowhere.yaml"),
        (("explain", "--layout", "tp=4"), "--model"),
        (("explain", "--csv", "in.csv"), "-o OUT"),
        (("explain", "--csv", "nowhere.csv", "-o", "out.csv"), "nowhere.csv"),
        (("trial", *GLM, "--layout", LAYOUT, "--launcher", "locl"), "did you mean `local`"),
        (("trial", *GLM, "--layout", LAYOUT, "--launcher", "local"), "--yes"),
        (("trial", *GLM, "--layout", "tp=3", "--launcher", "simulated"), "cannot run"),
        (("tune", "--gpu", "h200"), "--model"),
        (("tune", "--resume", "nothing"), "no experiment `nothing`"),
        (("report", "nothing"), "no experiment `nothing`"),
        (("export", "nothing", "-o", "x.yaml"), "no experiment `nothing`"),
        (("recipe", "check", "nowhere.yaml"), "nowhere.yaml"),
    ],
)
def test_bad_input_is_one_message_and_exit_code_2(attune, arguments, words):
    answer = attune(*arguments)
    assert answer.code == 2
    assert words in answer.err and "Traceback" not in answer.err
    assert answer.err.startswith("attune: ") and answer.err.count("\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [("frobnicate",), ("plan",), ("plan", *GLM, "--frob"), ("plan", *GLM[:-1], "many")],
)
def test_wrong_usage_is_exit_code_2(attune, arguments):
    answer = attune(*arguments)
    assert answer.code == 2 and "Error" in answer.err


@pytest.mark.parametrize("option", ["--cluster", "--workload"])
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: [1", "not valid YAML"),
        ("- 1\n- 2\n", "mapping"),
        ("frobnicate: 1\n", "frobnicate"),
    ],
)
def test_damaged_files_are_named(attune, tmp_path, option, text, words):
    path = tmp_path / "given.yaml"
    path.write_text(text)
    answer = attune("plan", *GLM, option, path)
    assert answer.code == 2 and words in answer.err
    assert "given.yaml" in answer.err or "workload" in answer.err


def test_interrupt_is_exit_code_130(attune, monkeypatch):
    def interrupt() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("attune.verbs.catalogue.list_models", interrupt)
    answer = attune("models")
    assert answer.code == 130 and answer.err.strip() == "attune: interrupted"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_end_is_an_interrupt(number):
    program = (
        "import time, attune.verbs.catalogue as verbs; from attune.cli import main\n"
        "verbs.list_models = lambda: (print('here', flush=True), time.sleep(60))\n"
        "main(['models'])"
    )
    words = [sys.executable, "-c", program]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"here\n"
        process.send_signal(number)
        _, errors = process.communicate(timeout=120)
    assert process.returncode == 130
    assert errors == b"attune: interrupted\n"


def test_full_disk_is_one_message(attune, monkeypatch):
    def fail() -> None:
        raise OSError(28, "No space left on device", "/somewhere")

    monkeypatch.setattr("attune.verbs.catalogue.list_models", fail)
    answer = attune("models")
    assert answer.code == 2 and answer.err == "attune: /somewhere: No space left on device\n"


def test_no_experiments_yet(attune):
    assert "attune tune" in attune("experiments").out
    assert json.loads(attune("experiments", "--json").out) == []


def test_door_exports_verbs_and_no_room():
    import pkgutil

    rooms = {module.name for module in pkgutil.iter_modules(door.__path__)}
    assert not rooms & set(door.__all__)
    assert door.list_models.__module__ == "attune.verbs.catalogue"
    with pytest.raises(AttributeError, match="no `nothing`"):
        _ = door.nothing


@pytest.mark.parametrize(
    "arguments",
    [
        ("plan", "--model", "x" * 5000, "--gpu", "h200", "--count", "8"),
        ("recipe", "check", "x" * 5000),
        ("x" * 5000,),
        ("plan", "--" + "x" * 5000),
        ("tune", "--virtual", "x" * 5000),
    ],
)
def test_a_long_argument_is_echoed_short(attune, arguments):
    answer = attune(*arguments)
    assert answer.code == 2
    assert "xxx..." in answer.err
    assert len(answer.err) < 400
