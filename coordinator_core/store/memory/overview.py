"""The overview of groups as a process answers it: everything is looked at, then sorted, then cut."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from coordinator_core.protocol.log_ends import added_up
from coordinator_core.store.memory.groups import Group, History
from coordinator_core.store.memory.history import lag_records
from coordinator_core.store.memory.log_ends import LogEnds
from coordinator_core.store.overview import (
    LAG_UNKNOWN_KEY,
    RECENT_MS,
    GroupGlance,
    GroupOrder,
    Overview,
    OverviewFilter,
    attention_key,
)
from coordinator_core.store.rows import GroupRow


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What groups are looked at with: history, the hour that is over now, and who serves each shard."""

    history: History
    log_ends: LogEnds
    fresh_since_ms: int
    now_ms: int
    nodes: Mapping[int, str | None]


def overview(groups: Iterable[tuple[str, Group]], which: OverviewFilter, around: Surroundings) -> Overview:
    """Return a page of groups, and the counts of all that the text and the prefixes let through."""
    matching = [
        _glance(group.row, group, which.order, around)
        for group_id, group in groups
        if group.row is not None and _matches(group_id, which)
    ]
    wanted = [one for one in matching if not which.states or one.state in which.states]
    wanted.sort(key=_place)
    if which.after is not None:
        after = (which.after.key, which.after.group_id.encode())
        wanted = [one for one in wanted if _place(one) > after]
    return Overview(Counter(one.state for one in matching), wanted[: which.limit])


def _place(one: GroupGlance) -> tuple[int, bytes]:
    return one.key, one.group_id.encode()


def _matches(group_id: str, which: OverviewFilter) -> bool:
    has_text = which.text.encode().lower() in group_id.encode().lower()
    return has_text and (which.prefixes is None or group_id.startswith(which.prefixes))


def _glance(row: GroupRow, group: Group, order: GroupOrder, around: Surroundings) -> GroupGlance:
    over = [each for each in around.history.rebalances if each.group_id == row.group_id]
    recent = sum(each.completed_at_ms > around.now_ms - RECENT_MS for each in over)
    last = max(over, key=lambda each: each.completed_at_ms, default=None)
    records = [position.record for position in group.offsets.values()]
    lag, log_end_at_ms = lag_records(records, around.log_ends, around.fresh_since_ms)
    lag = None if lag is None else added_up([lag])
    return GroupGlance(
        key=_key(order, row, recent, lag),
        group_id=row.group_id,
        state=row.state,
        state_since_ms=row.state_since_ms,
        generation=row.generation,
        protocol_type=row.protocol_type,
        member_count=row.member_count,
        node_id=around.nodes[row.shard_id],
        rebalance_started_at_ms=row.rebalance_started_at_ms,
        rebalance_trigger=row.rebalance_trigger,
        rebalances=recent,
        lag_records=lag,
        is_lag_at_least=log_end_at_ms is not None and log_end_at_ms < around.fresh_since_ms,
        log_end_at_ms=log_end_at_ms,
        last_trigger=None if last is None else last.trigger,
        last_completed_at_ms=None if last is None else last.completed_at_ms,
    )


def _key(order: GroupOrder, row: GroupRow, recent: int, lag: int | None) -> int:
    match order:
        case GroupOrder.ATTENTION:
            return attention_key(row.state, row.member_count, recent)
        case GroupOrder.GROUP_ID:
            return 0
        case GroupOrder.SINCE:
            return row.state_since_ms
        case GroupOrder.MEMBERS:
            return -row.member_count
        case GroupOrder.LAG:
            return LAG_UNKNOWN_KEY if lag is None else -lag
        case GroupOrder.REBALANCES:
            return -recent
