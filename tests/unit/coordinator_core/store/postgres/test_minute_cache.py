"""Whoever was stored in this very minute, under the lease that still holds, needs no look; everybody else does."""

import pytest

from coordinator_core.protocol.records import OffsetsCommitted
from coordinator_core.protocol.requests import OffsetToCommit
from coordinator_core.store.postgres import present_minute
from coordinator_core.store.postgres.folding import Folded, fold
from coordinator_core.store.postgres.present_minute import PresentMinute
from coordinator_core.store.rows import GroupWrite

KEY = ("g", "orders", 0)
EPOCHS = {1: 5}


def commit(*at_ms: int, partition: int = 0) -> Folded:
    committed = tuple(OffsetsCommitted(at, "m", None, (OffsetToCommit("orders", partition, 1),)) for at in at_ms)
    return fold([GroupWrite("g", 1, committed=committed)])


@pytest.fixture
def minute() -> PresentMinute:
    """Return a memory of one commit, in the first minute."""
    minute = PresentMinute()
    minute.note(commit(10), EPOCHS)
    return minute


def test_a_partition_that_was_stored_in_this_minute_is_known(minute: PresentMinute) -> None:
    assert KEY in minute.known(commit(59_999), EPOCHS)


def test_nobody_is_known_before_anything_is_stored() -> None:
    assert not PresentMinute().known(commit(10), EPOCHS)


def test_nobody_is_known_in_another_minute(minute: PresentMinute) -> None:
    assert not minute.known(commit(60_000), EPOCHS)
    minute.note(commit(60_000, partition=1), EPOCHS)
    assert KEY not in minute.known(commit(60_001), EPOCHS)


def test_nobody_is_known_in_a_batch_that_spans_two_minutes(minute: PresentMinute) -> None:
    assert not minute.known(commit(59_999, 60_000), EPOCHS)
    minute.note(commit(59_999, 60_000), EPOCHS)
    assert KEY in minute.known(commit(11), EPOCHS)


def test_nobody_is_known_once_a_shard_was_away(minute: PresentMinute) -> None:
    assert not minute.known(commit(11), {1: 6})
    minute.note(commit(11, partition=1), {1: 6})
    assert KEY not in minute.known(commit(12), {1: 6})


def test_another_shard_makes_no_difference(minute: PresentMinute) -> None:
    assert KEY in minute.known(commit(11), {2: 9})


def test_what_is_remembered_is_bounded(minute: PresentMinute, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(present_minute, "REMEMBERED_MAX", 1)
    minute.note(commit(11, partition=1), EPOCHS)
    assert minute.known(commit(12), EPOCHS) == {("g", "orders", 1)}
