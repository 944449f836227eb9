"""A scan of the shards does a limited amount of work, and none while the writer is behind."""

import pytest

from coordinator_core.runtime.shard_scan import ShardScan

pytestmark = pytest.mark.anyio

LIMIT = 100


class FakeShard:
    """A shard with rows to write."""

    def __init__(self, due: int) -> None:
        self.due = due
        self.limits: list[int] = []

    def store(self, limit: int) -> int:
        self.limits.append(limit)
        written = min(limit, self.due)
        self.due -= written
        return written


def scan_of(shards: list[FakeShard], *, is_behind: bool = False) -> ShardScan[FakeShard]:
    return ShardScan(lambda: shards, lambda: is_behind, FakeShard.store, 1.0, LIMIT)


async def test_scan_queues_limited_rows() -> None:
    shards = [FakeShard(LIMIT - 10), FakeShard(30), FakeShard(5)]
    scan = scan_of(shards)
    await scan.scan()
    assert [shard.due for shard in shards] == [0, 20, 5]
    assert [shard.limits for shard in shards] == [[LIMIT], [10], []]
    await scan.scan()
    assert [shard.due for shard in shards] == [0, 0, 0]


async def test_busy_writer_gets_no_background_work() -> None:
    shards = [FakeShard(30)]
    await scan_of(shards, is_behind=True).scan()
    assert shards[0].due == 30
