"""miles: `train.py`, on the path of supervised training."""

from __future__ import annotations

from attune.trial.frameworks.sft_driver import SftDriver
from attune.trial.job import Job

_PRINTER = "miles/utils/external_utils/model_args_utils.py"


class Miles(SftDriver):
    """radixark/miles, whose model arguments are printed by a script of its checkout."""

    name = "miles"
    script = "train.py"

    def _command_of_model_args(self, model: str) -> list[str]:
        return ["python3", _PRINTER, model]

    def _read_model_args(self, job: Job) -> list[str]:
        return [
            f'MODEL_ARGS_LINE="$(python3 {_PRINTER} {self._quoted_model(job)})"',
            'read -ra MODEL_ARGS <<< "$MODEL_ARGS_LINE"',
        ]
