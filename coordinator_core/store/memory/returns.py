"""Whether the client of a stay that is over was back, or had been followed already, looked up row by row."""

from collections.abc import Iterable
from typing import NamedTuple

from coordinator_core.protocol.reports.frequency import SILENCES, is_successor
from coordinator_core.store.rows import MemberRow, MemberSessionRow


class Return(NamedTuple):
    """When the same client joined again; at most one of the two is known."""

    back_at_ms: int | None
    """When the stay was over."""
    successor_at_ms: int | None
    """While the member was silent, before it was put out: so it was dead, and nobody was back."""


def return_of(row: MemberSessionRow, comers: Iterable[MemberRow | MemberSessionRow], within_ms: int) -> Return:
    """Return when the client of a stay joined again, until `within_ms` after it."""
    silent_since_ms = row.started_at_ms if row.last_heartbeat_at_ms is None else row.last_heartbeat_at_ms
    arrivals = [
        each.joined_at_ms
        for each in comers
        if each.group_id == row.group_id and each.member_id != row.member_id and _client(each) == _client(row)
    ]
    followed = [at_ms for at_ms in arrivals if is_successor(silent_since_ms, at_ms, row.ended_at_ms)]
    if followed and row.end_reason in SILENCES:
        return Return(None, min(followed))
    back = [at_ms for at_ms in arrivals if row.ended_at_ms <= at_ms <= row.ended_at_ms + within_ms]
    return Return(min(back, default=None), None)


def _client(row: MemberRow | MemberSessionRow) -> tuple[str, ...]:
    return (row.client_id, row.client_host) if row.group_instance_id is None else (row.group_instance_id,)
