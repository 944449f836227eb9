"""The minute cache knows partitions that were stored in the current minute under a lease that is still valid."""

import pytest

from coordinator_core.protocol.records import OffsetsCommitted
from coordinator_core.protocol.requests import OffsetToCommit
from coordinator_core.store.postgres import minute_cache
from coordinator_core.store.postgres.folding import Folded, fold
from coordinator_core.store.postgres.minute_cache import MinuteCache
from coordinator_core.store.rows import GroupWrite

KEY = ("g", "orders", 0)
EPOCHS = {1: 5}


def commit(*at_ms: int, partition: int = 0) -> Folded:
    committed = tuple(OffsetsCommitted(at, "m", None, (OffsetToCommit("orders", partition, 1),)) for at in at_ms)
    return fold([GroupWrite("g", 1, committed=committed)])


@pytest.fixture
def minute() -> MinuteCache:
    """Return a memory of one commit, in the first minute."""
    minute = MinuteCache()
    minute.add(commit(10), EPOCHS)
    return minute


def test_a_partition_that_was_stored_in_this_minute_is_known(minute: MinuteCache) -> None:
    assert KEY in minute.known(commit(59_999), EPOCHS)


def test_minute_cache_is_empty_before_a_write() -> None:
    assert not MinuteCache().known(commit(10), EPOCHS)


def test_minute_cache_is_empty_in_another_minute(minute: MinuteCache) -> None:
    assert not minute.known(commit(60_000), EPOCHS)
    minute.add(commit(60_000, partition=1), EPOCHS)
    assert KEY not in minute.known(commit(60_001), EPOCHS)


def test_minute_cache_is_empty_for_a_batch_over_two_minutes(minute: MinuteCache) -> None:
    assert not minute.known(commit(59_999, 60_000), EPOCHS)
    minute.add(commit(59_999, 60_000), EPOCHS)
    assert KEY in minute.known(commit(11), EPOCHS)


def test_minute_cache_is_empty_after_a_shard_was_lost(minute: MinuteCache) -> None:
    assert not minute.known(commit(11), {1: 6})
    minute.add(commit(11, partition=1), {1: 6})
    assert KEY not in minute.known(commit(12), {1: 6})


def test_loss_of_another_shard_keeps_the_cache(minute: MinuteCache) -> None:
    assert KEY in minute.known(commit(11), {2: 9})


def test_minute_cache_is_bounded(minute: MinuteCache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(minute_cache, "REMEMBERED_MAX", 1)
    minute.add(commit(11, partition=1), EPOCHS)
    assert minute.known(commit(12), EPOCHS) == {("g", "orders", 1)}
