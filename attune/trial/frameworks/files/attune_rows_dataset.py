"""Feeds rows of attune to Megatron-LM: a data set in place of the one of its pretraining script.

An entry script passes `datasets_provider` to `megatron.training.pretrain` with the model provider
and forward step of Megatron's `pretrain_gpt.py`, and gives `--train-data-path ROWS.parquet
--dataloader-type single`, which reads rows in file order. Megatron's indexed data sets hold no
masks and cut the stream anew, so they cannot keep rows.

It imports nothing of attune, since it runs in the trainer's own environment.
"""

from bisect import bisect_right
from itertools import accumulate
from typing import Any


class RowsDataset:
    """Rows by number, each as the fields of Megatron's `GPTDataset`."""

    def __init__(self, path: str, count: int | None = None) -> None:
        self.path = path
        self._file: Any = None
        footer = self._open().metadata
        sizes = [footer.row_group(g).num_rows for g in range(footer.num_row_groups)]
        self._starts = [0, *accumulate(sizes)]
        if count is not None and count > self._starts[-1]:
            raise ValueError(f"{path} has {self._starts[-1]} rows, and the run needs {count}")
        self._held: tuple[int, Any] = (-1, None)

    def __len__(self) -> int:
        return self._starts[-1]

    def __getitem__(self, number: int) -> dict[str, Any]:
        """Tensors of [row_tokens]: tokens, labels, loss_mask and position_ids.

        The label of a token is the one after it; the last token has none, and a mask of 0.
        """
        import torch

        row = self._row(number)
        tokens = torch.tensor(row["input_ids"], dtype=torch.int64)
        mask = torch.tensor(row["loss_mask"], dtype=torch.float32)
        return {
            "tokens": tokens,
            "labels": torch.cat([tokens[1:], tokens.new_zeros(1)]),
            "loss_mask": torch.cat([mask[1:], mask.new_zeros(1)]),
            "position_ids": torch.arange(len(tokens)),
        }

    def _row(self, number: int) -> dict[str, Any]:
        group = bisect_right(self._starts, number) - 1
        if self._held[0] != group:
            self._held = (group, self._open().read_row_group(group, ["metadata"])["metadata"])
        found: dict[str, Any] = self._held[1][number - self._starts[group]].as_py()
        return found

    def _open(self) -> Any:
        """The file, opened anew in each process of a data loader."""
        if self._file is None:
            import pyarrow.parquet as pq

            self._file = pq.ParquetFile(self.path, memory_map=True)
        return self._file

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_file": None, "_held": (-1, None)}


def datasets_provider(counts: Any, vp_stage: int | None = None) -> tuple[RowsDataset, None, None]:
    """Training rows, no validation and no test; `counts` are the samples that the run needs."""
    from megatron.training import get_args

    paths = get_args().train_data_path
    if not paths or len(paths) != 1:
        raise ValueError("give one file of rows: --train-data-path ROWS.parquet")
    return RowsDataset(paths[0], counts[0]), None, None


datasets_provider.is_distributed = True  # type: ignore[attr-defined]
