from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attune.catalog import load_cluster, load_model
from attune.estimate import estimate_memory, estimate_step_time
from attune.layout import Layout, LayoutTable
from attune.workload import Workload

DEGREES = st.sampled_from([0, 1, 2, 3, 5, 8, 64])
LAYOUTS = st.builds(
    Layout,
    tp=DEGREES,
    pp=DEGREES,
    vpp=st.sampled_from([0, 1, 2, 3]),
    cp=DEGREES,
    ep=DEGREES,
    etp=st.sampled_from([0, 1, 3, 8]),
    sequence_parallel=st.booleans(),
    rows_per_microbatch=st.sampled_from([0, 1, 7, 256]),
    first=st.sampled_from([None, 0, 1, 500]),
    last=st.sampled_from([None, 2, 500]),
    recompute=st.sampled_from(["none", "selective", "full"]),
    recompute_method=st.sampled_from([None, "uniform", "block"]),
    recompute_layers=st.sampled_from([None, 0, 1, 999]),
    optimizer_offload=st.sampled_from([0.0, 0.5, 1.0]),
    distributed_optimizer=st.booleans(),
)


@pytest.mark.parametrize("name", ["glm-5.2", "gpt-oss-120b", "llama-3.1-8b"])
@settings(max_examples=25, deadline=None)
@given(layouts=st.lists(LAYOUTS, min_size=1, max_size=8))
def test_illegal_rows_stay_finite(name: str, layouts: list[Layout]) -> None:
    """The estimate judges whatever it is given; the rules say what is legal."""
    model, cluster, table = load_model(name), load_cluster("h200", 16), LayoutTable.of(layouts)
    with np.errstate(all="raise", under="ignore"):
        memory = estimate_memory(model, cluster, Workload(), table)
        times = estimate_step_time(model, cluster, Workload(), table)
        assert np.isfinite(memory.device).all()
        assert np.isfinite(memory.p_fits).all()
        assert np.isfinite(times.total).all()
    assert (times.total > 0).all()


def test_an_empty_table_has_an_empty_estimate() -> None:
    table = LayoutTable.of([Layout()]).take(np.zeros(0, dtype=np.int64))
    model, cluster = load_model("glm-4.5"), load_cluster("h200", 16)
    assert estimate_memory(model, cluster, Workload(), table).peak_gib.shape == (0,)
    assert estimate_step_time(model, cluster, Workload(), table).total.shape == (0,)
