"""Feeds rows of attune to miles and slime: tokens and masks as they stand in the file.

Used with `--rollout-function-path pretokenized_sft_rollout.generate_rollout --prompt-data
ROWS.parquet --input-key messages --metadata-key metadata`, this file being on the PYTHONPATH of
the workers. It imports nothing of attune, since it runs in the trainer's own environment.

Written against miles 0.1.0 and slime 0.3.0, whose data buffers give groups of one sample each.
"""

from typing import Any


def generate_rollout(args: Any, rollout_id: int, data_buffer: Any, evaluation: bool = False) -> Any:
    """The samples of one rollout, each a row with its tokens, mask and response length.

    Raises:
        ValueError: asked to evaluate, several samples per prompt, or a sample that is no row.
    """
    if evaluation:
        raise ValueError("rows are for training; give no evaluation data")
    groups = data_buffer.get_samples(args.rollout_batch_size)
    for group in groups:
        if len(group) != 1:
            raise ValueError(f"{len(group)} samples of one row; give --n-samples-per-prompt 1")
        _fill(group[0])
    return groups


def _fill(sample: Any) -> None:
    row = sample.metadata or {}
    if "input_ids" not in row or "loss_mask" not in row:
        raise ValueError("no row in the sample; give --metadata-key metadata and rows of attune")
    # Lists, for the trainers tell a missing field by its truth value.
    tokens, mask = list(row["input_ids"]), list(row["loss_mask"])
    _check(tokens, mask, row.get("row_id"))
    # Both trainers take the last `response_length` tokens for the response and mask only those.
    # The token before it predicts its first one, so a response never starts at position 0.
    sample.response_length = len(tokens) - mask.index(1)
    sample.tokens = tokens
    sample.loss_mask = mask[-sample.response_length :]
    sample.reward = 0
    # The sample is sent to every rank; its tokens need not travel twice.
    sample.metadata = {"row_id": row.get("row_id")}


def _check(tokens: list[int], mask: list[int], row_id: Any) -> None:
    if len(tokens) != len(mask):
        raise ValueError(f"row {row_id} has {len(tokens)} tokens and a mask of {len(mask)}")
    if 1 not in mask:
        raise ValueError(f"row {row_id} has no supervised token")
    if mask[0]:
        raise ValueError(f"row {row_id} supervises its first token, which nothing predicts")
