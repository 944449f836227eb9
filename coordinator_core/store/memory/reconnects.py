"""Reconnects: when the client of a member session that ended joined again under another member id."""

from collections.abc import Iterable
from typing import NamedTuple

from coordinator_core.analytics.frequency import EVICTION_REASONS, is_successor
from coordinator_core.store.rows import MemberRow, MemberSessionRow


class Reconnect(NamedTuple):
    """When the same client joined again; at most one of the two is set."""

    reconnected_at_ms: int | None
    """After the end of the session."""
    successor_at_ms: int | None
    """Before the eviction, while the member was silent: the member was dead, and this is no reconnect."""


def reconnect_of(row: MemberSessionRow, joiners: Iterable[MemberRow | MemberSessionRow], within_ms: int) -> Reconnect:
    """Return when the client of a session joined again, at most `within_ms` after its end."""
    silent_since_ms = row.started_at_ms if row.last_heartbeat_at_ms is None else row.last_heartbeat_at_ms
    arrivals = [
        each.joined_at_ms
        for each in joiners
        if each.group_id == row.group_id and each.member_id != row.member_id and _client(each) == _client(row)
    ]
    successors = [at_ms for at_ms in arrivals if is_successor(silent_since_ms, at_ms, row.ended_at_ms)]
    if successors and row.end_reason in EVICTION_REASONS:
        return Reconnect(None, min(successors))
    reconnects = [at_ms for at_ms in arrivals if row.ended_at_ms <= at_ms <= row.ended_at_ms + within_ms]
    return Reconnect(min(reconnects, default=None), None)


def _client(row: MemberRow | MemberSessionRow) -> tuple[str, ...]:
    return (row.client_id, row.client_host) if row.group_instance_id is None else (row.group_instance_id,)
