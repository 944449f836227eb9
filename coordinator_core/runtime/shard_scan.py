"""Work on every group of a node, in lots between which the event loop answers requests.

Background scans are loops that do a limited part of their work on each shard, and none while the writer is behind.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Final, Generic, TypeVar

from coordinator_core.protocol.requests import Reevaluate
from coordinator_core.runtime.clock import Clock
from coordinator_core.runtime.shard import Shard
from coordinator_core.state_store.awaited import awaited_members
from coordinator_core.state_store.member_sessions import MAX_ROWS_PER_WRITE
from coordinator_core.state_store.projection import group_row
from coordinator_core.state_store.rows import GroupWrite

SESSIONS_SCAN_INTERVAL_S: Final = 10
"""How often sessions are looked for whose interval has ended."""
MAX_SESSION_ROWS: Final = 2_000
"""Rows that one scan may queue: with a scan every ten seconds, enough for 700,000 members."""
AWAITED_SCAN_INTERVAL_S: Final = 1.0
"""How often the awaited members of long rebalances are compared with what is stored, so that SQL can name them."""
MAX_AWAITED_GROUPS: Final = 500
"""Groups that one scan may write; the others follow with the next scan."""
REEVALUATED_PER_TURN: Final = 25
"""Groups that are re-evaluated before the event loop goes on: ten milliseconds if all of them begin a rebalance."""

ShardT = TypeVar("ShardT")


@dataclass(frozen=True, slots=True)
class ShardScan(Generic[ShardT]):
    """A loop over the shards of a node."""

    shards: Callable[[], Iterable[ShardT]]
    """Returns the shards that the node owns."""
    is_behind: Callable[[], bool]
    """Returns whether the writer has a backlog, so that background work waits."""
    store: Callable[[ShardT, int], int]
    """Queues what is due in a shard, up to a limit, and returns how much it queued."""
    interval_s: float
    limit: int
    """How much one scan may queue."""

    async def run(self) -> None:
        """Scan at every interval, without end."""
        while True:
            await asyncio.sleep(self.interval_s)
            await self.scan()

    async def scan(self) -> None:
        """Queue what is due, up to the limit; yields to the event loop after every shard."""
        remaining = self.limit
        for shard in list(self.shards()):
            if remaining <= 0 or self.is_behind():
                return
            remaining -= self.store(shard, remaining)
            await asyncio.sleep(0)


def scan_sessions(
    shards: Callable[[], Iterable[Shard]], is_behind: Callable[[], bool], clock: Clock
) -> ShardScan[Shard]:
    """Return the loop that writes a row for each member session whose hour has ended."""
    store = partial(store_session_intervals, clock=clock)
    return ShardScan(shards, is_behind, store, SESSIONS_SCAN_INTERVAL_S, MAX_SESSION_ROWS)


def store_session_intervals(shard: Shard, limit: int, clock: Clock) -> int:
    """Queue a row for each session of a shard whose interval has ended, at most `limit`; return how many."""
    now = clock.now()
    if shard.valid_until_ms <= now.node_ms:
        return 0
    written = 0
    for group_id, group_context in list(shard.groups.items()):
        rows = group_context.ledger.due_session_intervals(now.wall_ms, min(MAX_ROWS_PER_WRITE, limit - written))
        if rows:
            shard.enqueue(group_context, GroupWrite(group_id, shard.shard_id, sessions=rows))
            written += len(rows)
    return written


def scan_awaited_members(
    shards: Callable[[], Iterable[Shard]], is_behind: Callable[[], bool], clock: Clock, after_ms: int
) -> ShardScan[Shard]:
    """Return the loop that stores the awaited members of long rebalances, where they changed since the last write.

    A rebalance must have lasted for `after_ms`: most end sooner, and cost no write.
    """
    store = partial(store_awaited_members, clock=clock, after_ms=after_ms)
    return ShardScan(shards, is_behind, store, AWAITED_SCAN_INTERVAL_S, MAX_AWAITED_GROUPS)


def store_awaited_members(shard: Shard, limit: int, clock: Clock, after_ms: int) -> int:
    """Queue a write of each group of a shard whose awaited members changed; return how many (0 in a mirror).

    Args:
        shard: the shard.
        limit: how many groups are written at most.
        clock: the time.
        after_ms: how long a rebalance must have lasted.
    """
    now = clock.now()
    if shard.is_mirror or shard.valid_until_ms <= now.node_ms:
        return 0
    rebalancing = (shard.groups[group_id] for group_id in sorted(shard.rebalancing))
    due = (
        group_context
        for group_context in rebalancing
        if group_context.ledger.in_progress is not None
        and now.wall_ms - group_context.ledger.in_progress.started_at_ms >= after_ms
        and awaited_members(group_context.group) != group_context.ledger.awaited
    )
    changed = list(islice(due, limit))
    for group_context in changed:
        group_context.ledger.awaited = awaited_members(group_context.group)
        row = group_row(group_context.group, group_context.ledger)
        shard.enqueue(group_context, GroupWrite(row.group_id, shard.shard_id, group=row))
    return len(changed)


async def reevaluate_groups(shards: Iterable[Shard], *, is_rebalance_timeout_changed: bool) -> None:
    """Re-evaluate every group with the settings and topic metadata of its turn.

    A group that is created or loaded meanwhile begins with them.
    """
    for shard in shards:
        for number, group_id in enumerate(list(shard.groups)):
            if number % REEVALUATED_PER_TURN == 0:
                await asyncio.sleep(0)
            if shard.is_unloaded:
                break
            shard.perform(group_id, Reevaluate(is_rebalance_timeout_changed))
