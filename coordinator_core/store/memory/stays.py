"""Stays of one group, looked up row by row: slow, and obviously right."""

from collections.abc import Iterable

from coordinator_core.store.memory.groups import Group, History
from coordinator_core.store.memory.returns import return_of
from coordinator_core.store.rows import MemberRow, MemberSessionRow
from coordinator_core.store.stay_lists import BACK_WITHIN_MS, GOES_ON, ListedStay, StayFilter, StayPlace


def stays(group: Group, past: History, which: StayFilter, after: StayPlace | None) -> list[ListedStay]:
    """Return every stay after a place, the newest first."""
    of_group = [row for row in past.sessions if row.group_id == which.group_id]
    comers: list[MemberRow | MemberSessionRow] = [*group.members.values(), *of_group]
    listed = [
        _listed(row, comers)
        for row in of_group
        if which.from_ms <= row.ended_at_ms < which.to_ms
        and (not which.end_reasons or row.end_reason in which.end_reasons)
    ]
    newest_first = sorted(listed, key=lambda each: each.place, reverse=True)
    return [each for each in newest_first if after is None or each.place < after]


def _listed(row: MemberSessionRow, comers: Iterable[MemberRow | MemberSessionRow]) -> ListedStay:
    return (
        ListedStay(row, None) if row.end_reason == GOES_ON else ListedStay(row, *return_of(row, comers, BACK_WITHIN_MS))
    )
