"""What a group's past says of its timeouts, looked up row by row: slow, and obviously right."""

from collections.abc import Iterable, Iterator, Sequence

from coordinator_core.protocol.advice.evidence import NO_GAPS, Day
from coordinator_core.protocol.advice.policy import Assigned
from coordinator_core.protocol.advice.what_if import Eviction
from coordinator_core.store.memory.groups import Group, History
from coordinator_core.store.memory.returns import return_of
from coordinator_core.store.rows import MemberRow, MemberSessionRow, RebalanceMemberRow, RebalanceRow
from coordinator_core.store.tuning import (
    BY_TIMEOUT,
    LEFT,
    REBALANCE_TIMEOUT,
    EndedStay,
    PastRebalance,
    TuningPast,
    TuningQuestion,
    evicted,
    grace_of,
)


def past_of(group: Group, past: History, question: TuningQuestion) -> TuningPast:
    """Return what was found, from as early on as may be looked at; there are no reports in memory."""
    from_ms = question.from_ms
    gone = _gone(past, question)
    if len(gone) == question.max_evictions:
        from_ms = gone[-1].ended_at_ms
    stays = _newest_stays(past, question, from_ms)[: question.max_rows]
    if len(stays) == question.max_rows:
        from_ms = stays[-1].ended_at_ms
    members = list(group.members.values())
    evictions = [_eviction(row, members, past, question) for row in gone if row.ended_at_ms >= from_ms]
    in_sight = [row for row in past.rebalances if row.group_id == question.group_id]
    over = [row for row in in_sight if from_ms <= row.completed_at_ms < question.to_ms]
    return TuningPast(
        question=question,
        from_ms=from_ms,
        days=tuple(_day(row, question) for row in stays),
        evictions=tuple(each for each in evictions if each is not None),
        rejoins_ms=tuple(_rejoins(past, {row.rebalance_id for row in over})),
        waits_ms=tuple(_waits(past, {row.rebalance_id for row in over})),
        rebalances=tuple(map(_rebalance, sorted(over, key=lambda row: row.completed_at_ms))),
        asked_session_ms=max((row.session_timeout_ms for row in members), default=_last_in_force_ms(stays)),
        asked_rebalance_ms=max((row.rebalance_timeout_ms for row in members), default=None),
        assigned=Assigned(
            None if group.row is None else group.row.protocol_name,
            sum(len(topic["partitions"]) for row in members for topic in row.assignment_json or ()),
        ),
    )


def _last_in_force_ms(stays: Sequence[MemberSessionRow]) -> int | None:
    """Return the session timeout of the stay that ended last; of several, the longest."""
    last = max(stays, key=lambda row: (row.ended_at_ms, row.session_timeout_ms), default=None)
    return None if last is None else last.session_timeout_ms


def _newest_stays(past: History, question: TuningQuestion, from_ms: int) -> list[MemberSessionRow]:
    stays = [
        row
        for row in past.sessions
        if row.group_id == question.group_id and from_ms <= row.ended_at_ms < question.to_ms
    ]
    return sorted(stays, key=lambda row: (row.ended_at_ms, row.member_id), reverse=True)


def _gone(past: History, question: TuningQuestion) -> list[MemberSessionRow]:
    stays = _newest_stays(past, question, question.from_ms)
    ended = [row for row in stays if row.end_reason in BY_TIMEOUT or _left(row)]
    return ended[: question.max_evictions]


def _left(row: MemberSessionRow) -> bool:
    return row.end_reason == LEFT and row.group_instance_id is None


def _day(row: MemberSessionRow, question: TuningQuestion) -> Day:
    gaps = (*row.heartbeat_gap_histogram, *NO_GAPS)[: len(NO_GAPS)]
    return Day(question.day_of(row.ended_at_ms), row.heartbeat_count, gaps, row.heartbeat_gap_ms_max or 0)


def _eviction(
    row: MemberSessionRow, members: Iterable[MemberRow], past: History, question: TuningQuestion
) -> Eviction | None:
    limit_ms = _waited_ms(row, past) if row.end_reason == REBALANCE_TIMEOUT else row.session_timeout_ms
    if limit_ms is None:
        return None
    arrivals: list[MemberSessionRow | MemberRow] = [*members, *past.sessions]
    within = [each for each in arrivals if each.joined_at_ms >= question.from_ms]
    heard_at_ms = row.started_at_ms if row.last_heartbeat_at_ms is None else row.last_heartbeat_at_ms
    silent_ms = row.ended_at_ms - heard_at_ms
    grace_ms = grace_of(row.end_reason, silent_ms, row.session_timeout_ms, question.grace_ms)
    back_at_ms, successor_at_ms = return_of(row, within, grace_ms)
    if back_at_ms is None and row.ended_at_ms >= question.to_ms - grace_ms:
        return None
    stay = EndedStay(
        member_id=row.member_id,
        group_instance_id=row.group_instance_id,
        client_id=row.client_id,
        client_host=row.client_host,
        end_reason=row.end_reason,
        at_ms=row.ended_at_ms,
        silent_ms=silent_ms,
        session_timeout_ms=row.session_timeout_ms,
    )
    return evicted(stay, limit_ms, back_at_ms, has_successor=successor_at_ms is not None)


def _waited_ms(row: MemberSessionRow, past: History) -> int | None:
    """Return how long the group had waited for a member when it was put out; None: the rebalance is not over."""
    parts = [each for each in past.rebalance_members if (each.member_id, each.outcome) == (row.member_id, "evicted")]
    began = {each.rebalance_id: each.started_at_ms for each in past.rebalances if each.group_id == row.group_id}
    return next((each.waited_for_ms for each in parts if _holds(each, row.ended_at_ms, began)), None)


def _holds(part: RebalanceMemberRow, at_ms: int, began: dict[str, int]) -> bool:
    return part.rebalance_id in began and began[part.rebalance_id] <= at_ms <= part.completed_at_ms


def _rejoins(past: History, rebalance_ids: set[str]) -> Iterator[int]:
    for part in _waited_for(past, rebalance_ids):
        if part.outcome == "joined" and part.joined_after_ms is not None:
            yield min(part.joined_after_ms, part.waited_for_ms)


def _waits(past: History, rebalance_ids: set[str]) -> Iterable[int]:
    longest: dict[str, int] = {}
    for part in _waited_for(past, rebalance_ids):
        join_ms = part.joined_after_ms if part.outcome == "joined" else None
        wait_ms = part.waited_for_ms if join_ms is None else min(join_ms, part.waited_for_ms)
        longest[part.rebalance_id] = max(wait_ms, longest.get(part.rebalance_id, 0))
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
