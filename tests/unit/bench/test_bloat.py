"""The time of the benchmark of growing tables."""

import pytest

from bench.bloat import Size
from bench.figures import Skipped


@pytest.mark.parametrize(("steps", "snapshot_steps"), [(15, 10), (2, 1), (60, 0)])
def test_a_time_without_steps_before_within_and_after_the_snapshot_is_refused(steps: int, snapshot_steps: int) -> None:
    with pytest.raises(Skipped, match="MUSTER_BENCH_MINUTES"):
        Size(steps=steps, snapshot_steps=snapshot_steps)


def test_a_step_after_the_snapshot_is_enough() -> None:
    assert Size(steps=16, snapshot_steps=10).steps == 16
