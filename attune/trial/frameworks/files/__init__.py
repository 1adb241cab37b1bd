"""Files that frameworks place on the PYTHONPATH of a trainer's workers."""

from importlib import resources


def file_text(name: str) -> str:
    """The text of a file to place, such as `pretokenized_sft_rollout.py`."""
    return resources.files(__name__).joinpath(name).read_text(encoding="utf-8")
