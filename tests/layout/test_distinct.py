from __future__ import annotations

import numpy as np

from attune.layout.distinct import distinct_rows


def test_rows_come_back_from_their_combination() -> None:
    generator = np.random.default_rng(1)
    for high in (3, 2**40):
        columns = [generator.integers(-high, high, 500) for _ in range(3)]
        first, place = distinct_rows(columns)
        for column in columns:
            assert np.array_equal(column[first][place], column)
        rows = np.stack(columns, axis=1)
        assert len(first) == len(np.unique(rows, axis=0))


def test_no_rows_have_no_combinations() -> None:
    first, place = distinct_rows([np.zeros(0, dtype=np.int64)])
    assert len(first) == len(place) == 0
