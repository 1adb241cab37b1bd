"""slime: `train_async.py`, on the path of supervised training."""

from __future__ import annotations

from attune.trial.frameworks.sft_driver import SftDriver
from attune.trial.job import Job


class Slime(SftDriver):
    """THUDM/slime, whose model arguments are an array of a shell script of its checkout."""

    name = "slime"
    script = "train_async.py"

    def _command_of_model_args(self, model: str) -> list[str]:
        print_array = 'set -f; source "$1"; printf "%s\\n" "${MODEL_ARGS[@]}"'
        return ["bash", "-c", print_array, "bash", f"scripts/models/{model}.sh"]

    def _read_model_args(self, job: Job) -> list[str]:
        return [f"source scripts/models/{self._quoted_model(job)}.sh"]
