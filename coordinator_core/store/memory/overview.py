"""The overview of groups in memory: reads all groups, sorts them, and returns a page."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from coordinator_core.protocol.log_ends import sum_lags
from coordinator_core.store.memory.groups import Group, History
from coordinator_core.store.memory.history import lag_records
from coordinator_core.store.memory.log_ends import LogEnds
from coordinator_core.store.overview import (
    LAG_UNKNOWN_KEY,
    RECENT_MS,
    GroupOrder,
    GroupSummary,
    Overview,
    OverviewFilter,
    attention_key,
)
from coordinator_core.store.rows import GroupRow


@dataclass(frozen=True, slots=True)
class OverviewContext:
    """The data that the overview needs in addition to the groups."""

    history: History
    log_ends: LogEnds
    fresh_since_ms: int
    now_ms: int
    nodes: Mapping[int, str | None]


def overview(groups: Iterable[tuple[str, Group]], which: OverviewFilter, context: OverviewContext) -> Overview:
    """Return a page of groups, and the number of groups by state that match text and prefixes."""
    matching = [
        _summary(group.row, group, which.order, context)
        for group_id, group in groups
        if group.row is not None and _matches(group_id, which)
    ]
    wanted = [one for one in matching if not which.states or one.state in which.states]
    wanted.sort(key=_place)
    if which.after is not None:
        after = (which.after.key, which.after.group_id.encode())
        wanted = [one for one in wanted if _place(one) > after]
    return Overview(Counter(one.state for one in matching), wanted[: which.limit])


def _place(one: GroupSummary) -> tuple[int, bytes]:
    return one.key, one.group_id.encode()


def _matches(group_id: str, which: OverviewFilter) -> bool:
    has_text = which.text.encode().lower() in group_id.encode().lower()
    return has_text and (which.prefixes is None or group_id.startswith(which.prefixes))


def _summary(row: GroupRow, group: Group, order: GroupOrder, context: OverviewContext) -> GroupSummary:
    over = [each for each in context.history.rebalances if each.group_id == row.group_id]
    recent = sum(each.completed_at_ms > context.now_ms - RECENT_MS for each in over)
    last = max(over, key=lambda each: each.completed_at_ms, default=None)
    records = [stored_offset.record for stored_offset in group.offsets.values()]
    lag, log_end_at_ms = lag_records(records, context.log_ends, context.fresh_since_ms)
    lag = None if lag is None else sum_lags([lag])
    return GroupSummary(
        key=_key(order, row, recent, lag),
        group_id=row.group_id,
        state=row.state,
        state_since_ms=row.state_since_ms,
        generation=row.generation,
        protocol_type=row.protocol_type,
        member_count=row.member_count,
        node_id=context.nodes[row.shard_id],
        rebalance_started_at_ms=row.rebalance_started_at_ms,
        rebalance_trigger=row.rebalance_trigger,
        rebalances=recent,
        lag_records=lag,
        is_lag_lower_bound=log_end_at_ms is not None and log_end_at_ms < context.fresh_since_ms,
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
