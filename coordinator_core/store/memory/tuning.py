"""The history that timeout advice is computed from, in memory, by plain loops."""

from collections.abc import Iterable, Iterator, Sequence

from coordinator_core.analytics.advice.evidence import NO_GAPS, Day
from coordinator_core.analytics.advice.policy import CurrentAssignment
from coordinator_core.analytics.advice.what_if import Eviction
from coordinator_core.store.memory.groups import Group, History
from coordinator_core.store.memory.reconnects import reconnect_of
from coordinator_core.store.rows import MemberRow, MemberSessionRow, RebalanceMemberRow, RebalanceRow
from coordinator_core.store.tuning import (
    BY_TIMEOUT,
    LEFT,
    REBALANCE_TIMEOUT,
    EndedSession,
    PastRebalance,
    TuningHistory,
    TuningQuery,
    evicted,
    grace_of,
)


def past_of(group: Group, past: History, query: TuningQuery) -> TuningHistory:
    """Return the history of a group, as early as the query's limits allow, without stored advice."""
    from_ms = query.from_ms
    ended = _ended(past, query)
    if len(ended) == query.max_evictions:
        from_ms = ended[-1].ended_at_ms
    sessions = _newest_sessions(past, query, from_ms)[: query.max_rows]
    if len(sessions) == query.max_rows:
        from_ms = sessions[-1].ended_at_ms
    members = list(group.members.values())
    evictions = [_eviction(row, members, past, query) for row in ended if row.ended_at_ms >= from_ms]
    in_sight = [row for row in past.rebalances if row.group_id == query.group_id]
    over = [row for row in in_sight if from_ms <= row.completed_at_ms < query.to_ms]
    return TuningHistory(
        query=query,
        from_ms=from_ms,
        days=tuple(_day(row, query) for row in sessions),
        evictions=tuple(each for each in evictions if each is not None),
        rejoins_ms=tuple(_rejoins(past, {row.rebalance_id for row in over})),
        waits_ms=tuple(_waits(past, {row.rebalance_id for row in over})),
        rebalances=tuple(map(_rebalance, sorted(over, key=lambda row: row.completed_at_ms))),
        requested_session_ms=max((row.session_timeout_ms for row in members), default=_last_effective_ms(sessions)),
        requested_rebalance_ms=max((row.rebalance_timeout_ms for row in members), default=None),
        assigned=CurrentAssignment(
            None if group.row is None else group.row.protocol_name,
            sum(len(topic["partitions"]) for row in members for topic in row.assignment_json or ()),
        ),
    )


def _last_effective_ms(sessions: Sequence[MemberSessionRow]) -> int | None:
    """Return the session timeout of the session that ended last; of several, the longest."""
    last = max(sessions, key=lambda row: (row.ended_at_ms, row.session_timeout_ms), default=None)
    return None if last is None else last.session_timeout_ms


def _newest_sessions(past: History, query: TuningQuery, from_ms: int) -> list[MemberSessionRow]:
    sessions = [
        row for row in past.sessions if row.group_id == query.group_id and from_ms <= row.ended_at_ms < query.to_ms
    ]
    return sorted(sessions, key=lambda row: (row.ended_at_ms, row.member_id), reverse=True)


def _ended(past: History, query: TuningQuery) -> list[MemberSessionRow]:
    sessions = _newest_sessions(past, query, query.from_ms)
    ended = [row for row in sessions if row.end_reason in BY_TIMEOUT or _left(row)]
    return ended[: query.max_evictions]


def _left(row: MemberSessionRow) -> bool:
    return row.end_reason == LEFT and row.group_instance_id is None


def _day(row: MemberSessionRow, query: TuningQuery) -> Day:
    gaps = (*row.heartbeat_gap_histogram, *NO_GAPS)[: len(NO_GAPS)]
    return Day(query.day_of(row.ended_at_ms), row.heartbeat_count, gaps, row.heartbeat_gap_ms_max or 0)


def _eviction(
    row: MemberSessionRow, members: Iterable[MemberRow], past: History, query: TuningQuery
) -> Eviction | None:
    limit_ms = _waited_ms(row, past) if row.end_reason == REBALANCE_TIMEOUT else row.session_timeout_ms
    if limit_ms is None:
        return None
    arrivals: list[MemberSessionRow | MemberRow] = [*members, *past.sessions]
    within = [each for each in arrivals if each.joined_at_ms >= query.from_ms]
    heard_at_ms = row.started_at_ms if row.last_heartbeat_at_ms is None else row.last_heartbeat_at_ms
    silent_ms = row.ended_at_ms - heard_at_ms
    grace_ms = grace_of(row.end_reason, silent_ms, row.session_timeout_ms, query.grace_ms)
    reconnected_at_ms, successor_at_ms = reconnect_of(row, within, grace_ms)
    if reconnected_at_ms is None and row.ended_at_ms >= query.to_ms - grace_ms:
        return None
    session = EndedSession(
        member_id=row.member_id,
        group_instance_id=row.group_instance_id,
        client_id=row.client_id,
        client_host=row.client_host,
        end_reason=row.end_reason,
        at_ms=row.ended_at_ms,
        silent_ms=silent_ms,
        session_timeout_ms=row.session_timeout_ms,
    )
    return evicted(session, limit_ms, reconnected_at_ms, has_successor=successor_at_ms is not None)


def _waited_ms(row: MemberSessionRow, past: History) -> int | None:
    """Return how long the group had waited for a member when it was evicted; None: the rebalance is not over."""
    members = [each for each in past.rebalance_members if (each.member_id, each.outcome) == (row.member_id, "evicted")]
    began = {each.rebalance_id: each.started_at_ms for each in past.rebalances if each.group_id == row.group_id}
    return next((each.waited_for_ms for each in members if _holds(each, row.ended_at_ms, began)), None)


def _holds(member: RebalanceMemberRow, at_ms: int, began: dict[str, int]) -> bool:
    return member.rebalance_id in began and began[member.rebalance_id] <= at_ms <= member.completed_at_ms


def _rejoins(past: History, rebalance_ids: set[str]) -> Iterator[int]:
    for member in _waited_for(past, rebalance_ids):
        if member.outcome == "joined" and member.joined_after_ms is not None:
            yield min(member.joined_after_ms, member.waited_for_ms)


def _waits(past: History, rebalance_ids: set[str]) -> Iterable[int]:
    longest: dict[str, int] = {}
    for member in _waited_for(past, rebalance_ids):
        join_ms = member.joined_after_ms if member.outcome == "joined" else None
        wait_ms = member.waited_for_ms if join_ms is None else min(join_ms, member.waited_for_ms)
        longest[member.rebalance_id] = max(wait_ms, longest.get(member.rebalance_id, 0))
    return longest.values()


def _waited_for(past: History, rebalance_ids: set[str]) -> Iterator[RebalanceMemberRow]:
    return (each for each in past.rebalance_members if each.rebalance_id in rebalance_ids and each.waited_for_ms > 0)


def _rebalance(row: RebalanceRow) -> PastRebalance:
    return PastRebalance(
        started_at_ms=row.started_at_ms,
        joined_at_ms=row.joined_at_ms,
        completed_at_ms=row.completed_at_ms,
        trigger=row.trigger,
        outcome=row.outcome,
        restarts=row.restarts,
        member_count_before=row.member_count_before,
        partitions_moved=row.partitions_moved,
    )
