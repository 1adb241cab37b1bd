from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from attune.errors import AttuneError
from attune.experiment import Experiment
from attune.recipe import dump_recipe, load_recipe
from attune.recipe.job import framework_of, job_of
from attune.recipe.launch_script import command_flags
from attune.recipe.library import recipe_files
from attune.trial.stand_in import stand_in_command
from attune.verbs import export_text as forms
from attune.verbs.export import export_recipe, export_text
from tests.report.hostile import HOSTILE

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "experiments" / "example"
FORMS = ("script", "sbatch", "ray", "k8s", "env")
SCRIPTS = ("script", "sbatch", "ray", "env")


def _published(name: str) -> Path:
    return next(path for path in recipe_files() if path.stem == name)


MILES = _published("published-tp4-pp16-ep8")
BRIDGE = _published("megatron-bridge-ep16")


def _parses(text: str) -> None:
    done = subprocess.run(["bash", "-n"], input=text, text=True, capture_output=True)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def played(monkeypatch):
    """The trainer is the stand-in: the scripts run, and nothing is trained."""
    monkeypatch.setattr(forms, "portable_command", stand_in_command)


def _bash(text: str, folder: Path, programs: dict[str, str] | None = None) -> str:
    """What a script prints, with `programs` on its PATH."""
    path = folder / "bin"
    path.mkdir()
    for name, body in (programs or {}).items():
        (path / name).write_text(f"#!/bin/bash\n{body}\n")
        (path / name).chmod(0o755)
    environment = {**os.environ, "PATH": f"{path}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-c", text], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_recipe_is_the_default_and_stays_as_it_is() -> None:
    text = (EXAMPLE / "recipe.yaml").read_text()
    assert export_text(str(EXAMPLE)) == text
    assert export_text(str(MILES)) == MILES.read_text()


@pytest.mark.parametrize("form", SCRIPTS)
@pytest.mark.parametrize("source", [EXAMPLE, MILES, BRIDGE], ids=lambda path: path.stem)
def test_every_script_is_one_to_a_shell(source: Path, form: str) -> None:
    _parses(export_text(str(source), form))


def test_the_script_runs(played, tmp_path: Path) -> None:
    text = export_text(str(EXAMPLE), "script", options={"python": sys.executable})
    out = _bash(text, tmp_path)
    assert out.count("attune step") == 20


def test_the_batch_script_runs_on_the_nodes_that_slurm_gives(played, tmp_path: Path) -> None:
    text = export_text(str(EXAMPLE), "sbatch", options={"python": sys.executable})
    srun = 'while [ "$1" != sh ]; do shift; done; exec "$@" < /dev/null'
    scontrol = "echo NodeName=a NodeAddr=127.0.0.1 "
    _bash(text, tmp_path, {"srun": srun, "scontrol": scontrol})
    (run,) = tmp_path.glob("attune-*")
    assert (run / "logs" / "exit-code").read_text() == "0\n"
    assert "step" in "".join(log.read_text() for log in run.glob("logs/rank-*.log"))


def test_the_orders_of_the_batch_script() -> None:
    given = {"partition": "h200 $(touch x)", "account": "me", "sbatch": "--mail-type=END"}
    text = export_text(str(MILES), "sbatch", options=given)
    head = re.findall(r"^#SBATCH (.*)$", text.split("\nset -e\n")[0], re.MULTILINE)
    orders = [word for line in head for word in shlex.split(line)]
    assert {"--nodes=16", "--ntasks-per-node=1", "--gres=gpu:8", "--account=me"} <= set(orders)
    assert {"--partition=h200 $(touch x)", "--mail-type=END"} <= set(orders)
    with pytest.raises(AttuneError, match="one line"):
        export_text(str(MILES), "sbatch", options={"partition": "a\ntouch x"})


def test_the_ray_script_submits_what_places_the_run(tmp_path: Path) -> None:
    text = export_text(str(EXAMPLE), "ray", options={"address": "http://head:8265"})
    told = _bash(text, tmp_path, {"ray": 'printf "%s\\n" "$@"'}).splitlines()
    assert told[:3] == ["job", "submit", "--address=http://head:8265"]
    run = Path(told[-1]).parent
    needs = json.loads((run / "ray_job.json").read_text())
    assert (needs["directory"], needs["nodes"]) == (str(run), 1)
    for script in ("start.sh", "node.sh"):
        _parses((run / script).read_text())


def test_the_ray_script_of_a_driver_hands_its_variables_on(tmp_path: Path) -> None:
    told = _bash(export_text(str(MILES), "ray"), tmp_path, {"ray": 'printf "%s\\n" "$@"'})
    runtime = re.search(r"^--runtime-env-json=(.*)$", told, re.MULTILINE)
    assert runtime and json.loads(runtime[1])["env_vars"]["FI_PROVIDER"] == "efa"
    assert told.rstrip().endswith("/node.sh")


def test_the_train_job() -> None:
    job = yaml.safe_load(export_text(str(BRIDGE), "k8s", options={"image": "site/train:1"}))
    assert (job["kind"], job["apiVersion"]) == ("TrainJob", "trainer.kubeflow.org/v1alpha1")
    trainer = job["spec"]["trainer"]
    assert (trainer["numNodes"], trainer["numProcPerNode"]) == (2, 8)
    assert trainer["image"] == "site/train:1" and job["metadata"]["name"].startswith("attune-")
    assert trainer["resourcesPerNode"]["limits"] == {"nvidia.com/gpu": "8"}
    assert trainer["command"][:2] == ["sh", "-c"]
    _parses(trainer["command"][2])
    with pytest.raises(AttuneError, match="--to ray"):
        export_text(str(MILES), "k8s")


def test_bridge_command_of_a_recipe_for_another_framework() -> None:
    text = export_text(str(MILES), "megatron-bridge", checkout="/opt/bridge")
    assert "model.pipeline_model_parallel_size=16" in text and "/opt/bridge/scripts" in text
    with pytest.raises(AttuneError, match="no recipe of Megatron-Bridge"):
        export_text(str(EXAMPLE), "megatron-bridge")


def _sourced(text: str, folder: Path) -> dict[str, str]:
    done = subprocess.run(
        ["bash", "-c", f"{text}\nenv -0"], cwd=folder, capture_output=True, env={}, check=True
    )
    pairs = (pair.split("=", 1) for pair in done.stdout.decode().split("\0") if pair)
    return dict(pairs)


def test_the_variables_can_be_sourced(tmp_path: Path) -> None:
    found = _sourced(export_text(str(MILES), "env"), tmp_path)
    recipe = load_recipe(MILES)
    assert {name: found[name] for name in recipe.env} == recipe.env


@pytest.mark.parametrize("form", FORMS)
def test_hostile_words_come_out_inert(form: str, tmp_path: Path) -> None:
    """Every string in the environment, the notes, the author, and the name of the experiment."""
    recipe = load_recipe(EXAMPLE / "recipe.yaml")
    names = {f"HOSTILE_{number}": text for number, text in enumerate(HOSTILE)}
    for text in ("\n", "touch harmed\n#SBATCH --wrap=x"):
        names[f"HOSTILE_{len(names)}"] = text
    assert len(HOSTILE) >= 50
    changed = recipe.model_copy(
        update={
            "env": names,
            "notes": "\n".join(HOSTILE),
            "run": "touch harmed\n",
            "author": recipe.author.model_copy(update={"name": "$(touch harmed)"}),
        }
    )
    file = tmp_path / "recipe.yaml"
    file.write_text(dump_recipe(changed))
    text = export_text(str(file), form)
    if form == "env":
        assert {name: _sourced(text, tmp_path)[name] for name in names} == names
    elif form == "k8s":
        _check_exports(yaml.safe_load(text)["spec"]["trainer"]["command"][2], names, tmp_path)
    else:
        _parses(text)
        _check_exports(text, names, tmp_path)
    assert not list(tmp_path.rglob("harmed"))


def _check_exports(text: str, names: dict[str, str], folder: Path) -> None:
    """The lines that set variables, run alone, set exactly these."""
    start = text.index("export ", text.index("HOSTILE_0=") - 10)
    last = max(names, key=lambda name: text.index(f"export {name}="))
    end = text.index(f"export {last}=") + len(f"export {last}={shlex.quote(names[last])}")
    found = _sourced(text[start:end], folder)
    assert {name: found.get(name) for name in names} == names


def test_a_name_that_is_no_variable_is_refused(tmp_path: Path) -> None:
    recipe = load_recipe(EXAMPLE / "recipe.yaml")
    file = tmp_path / "recipe.yaml"
    for name in ("A;touch harmed", "A B", "", "$(touch harmed)", "A\n"):
        file.write_text(dump_recipe(recipe.model_copy(update={"env": {name: "x"}})))
        with pytest.raises(AttuneError, match="no name of a variable"):
            export_text(str(file), "env")


def test_a_written_script_may_be_run(tmp_path: Path) -> None:
    script = export_recipe(str(EXAMPLE), tmp_path / "deep" / "train.sh", to="script")
    assert os.access(script, os.X_OK)
    with pytest.raises(AttuneError, match="--overwrite"):
        export_recipe(str(EXAMPLE), script, to="script")


@pytest.mark.parametrize("path", recipe_files(), ids=lambda path: path.stem)
def test_every_shipped_recipe_is_a_job(path: Path) -> None:
    recipe = load_recipe(path)
    job = job_of(recipe)
    assert job.cluster.count == recipe.gpu.count and job.cluster.per_node == recipe.gpu.per_node
    assert job.layout.tp == recipe.layout.tp and job.workload.rows == "synthetic"


PUBLISHED = [path for path in recipe_files() if path.stem.startswith("published-")]


@pytest.mark.parametrize("path", PUBLISHED, ids=lambda path: path.stem)
def test_an_export_trains_with_the_optimizer_of_the_recipe(path: Path) -> None:
    stated = command_flags(load_recipe(path).run)
    assert command_flags(export_text(str(path), "script")) == stated


def test_a_recipe_of_attunes_worker_keeps_its_training() -> None:
    recipe = load_recipe(EXAMPLE / "recipe.yaml")
    run = recipe.run.replace('"seed": 1234', '"seed": 7')
    run = run.replace('"routing": "natural"', '"routing": "balanced"')
    run = run.replace('"weight_decay": 0.033', '"weight_decay": 0.5')
    workload = job_of(recipe.model_copy(update={"run": run})).workload
    assert (workload.seed, workload.routing) == (7, "balanced")
    assert workload.optimization.weight_decay == 0.5
    assert workload.optimization.learning_rate == 2e-3


@pytest.mark.parametrize("text", ["[]", "{", '{"workload": 3}', "[" * 9999])
def test_a_damaged_configuration_of_the_worker_says_nothing(text: str) -> None:
    recipe = load_recipe(EXAMPLE / "recipe.yaml")
    run = f"cat > worker.json <<'END'\n{text}\nEND\n"
    assert job_of(recipe.model_copy(update={"run": run})).workload.seed == 1234


def test_a_figure_of_the_optimizer_that_is_none_is_told() -> None:
    recipe = load_recipe(MILES)
    run = recipe.run.replace("--weight-decay 0.033", "--weight-decay $DECAY")
    with pytest.raises(AttuneError, match=r"optimization\.weight_decay.*DECAY"):
        job_of(recipe.model_copy(update={"run": run}))


def test_the_experiment_itself_says_what_ran() -> None:
    inputs = Experiment(EXAMPLE).inputs()
    recipe = load_recipe(EXAMPLE / "recipe.yaml")
    job = replace(job_of(recipe), limit_s=inputs.trial_limit_s)
    assert (job.model, job.cluster) == (inputs.model, inputs.cluster)
    assert job.framework == inputs.framework


def test_unknown_names_are_told() -> None:
    recipe = load_recipe(MILES)
    other = recipe.stack.model_copy(update={"framework": "NeMo-RL 0.4"})
    with pytest.raises(AttuneError, match="begins with `nemo-rl`"):
        framework_of(recipe.model_copy(update={"stack": other}))
    with pytest.raises(AttuneError, match="no model `Some-Model`"):
        job_of(recipe.model_copy(update={"model": "Some-Model", "attune": None}))
