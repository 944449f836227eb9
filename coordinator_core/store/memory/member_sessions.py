"""Lists of a group's member sessions in memory, by plain loops."""

from collections.abc import Iterable

from coordinator_core.store.member_session_lists import (
    ONGOING,
    RECONNECT_WINDOW_MS,
    ListedMemberSession,
    MemberSessionCursor,
    MemberSessionFilter,
)
from coordinator_core.store.memory.groups import Group, History
from coordinator_core.store.memory.reconnects import reconnect_of
from coordinator_core.store.rows import MemberRow, MemberSessionRow


def member_sessions(
    group: Group, past: History, which: MemberSessionFilter, after: MemberSessionCursor | None
) -> list[ListedMemberSession]:
    """Return every member session after a cursor, the newest first."""
    of_group = [row for row in past.sessions if row.group_id == which.group_id]
    joiners: list[MemberRow | MemberSessionRow] = [*group.members.values(), *of_group]
    listed = [
        _listed(row, joiners)
        for row in of_group
        if which.from_ms <= row.ended_at_ms < which.to_ms
        and (not which.end_reasons or row.end_reason in which.end_reasons)
    ]
    newest_first = sorted(listed, key=lambda each: each.cursor, reverse=True)
    return [each for each in newest_first if after is None or each.cursor < after]


def _listed(row: MemberSessionRow, joiners: Iterable[MemberRow | MemberSessionRow]) -> ListedMemberSession:
    return (
        ListedMemberSession(row, None)
        if row.end_reason == ONGOING
        else ListedMemberSession(row, *reconnect_of(row, joiners, RECONNECT_WINDOW_MS))
    )
