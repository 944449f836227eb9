"""Rebalance members: when each member of a rebalance joined and synced, and how long the rebalance waited for it.

* A join phase waits for each member from the start of the phase until the member joins or leaves, or the phase ends.
  It does not wait for members that join for the first time. The sync phase waits for the leader's assignment.
* A return to the join phase continues the same rebalance: waits are summed, and the last join and sync count.
* A static member that rejoins under a new member id continues the row of the old one, with its wait.

Source: tables.md, `rebalance_members`.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from operator import attrgetter
from typing import Any, Final, Literal

from msgspec import Struct

from coordinator_core.state_store.column_types import InstantMs
from coordinator_core.state_store.member_sessions import MemberSession
from coordinator_core.state_store.row_checks import read_json
from coordinator_core.state_store.rows import Json, RebalanceMemberRow, RebalanceRow

DEPARTED_MAX: Final = 1_000
"""The maximum number of departed members of one rebalance, the last ones; a group may rebalance for days."""

Outcome = Literal["joined", "evicted", "left", "left_or_expired"]


@dataclass(slots=True)
class RebalanceMember:
    """One member's part in the rebalance in progress."""

    client_id: str
    client_host: str
    group_instance_id: str | None
    joined_at_ms: int | None = None
    synced_at_ms: int | None = None
    awaited_since_ms: int | None = None
    """None: the rebalance does not wait for it."""
    waited_ms: int = 0
    outcome: Outcome = "joined"

    def end_wait(self, at_ms: int) -> None:
        """End the wait for the member, if any."""
        if self.awaited_since_ms is not None:
            self.waited_ms += max(0, at_ms - self.awaited_since_ms)
            self.awaited_since_ms = None


class RebalanceMembersJson(Struct):
    """The rebalance members in the column `groups.rebalance`."""

    departed: list[list[Any]] = []
    joined: list[tuple[str, InstantMs | None, int]] = []


class RebalanceMembers:
    """The rebalance members of one group; empty outside of a rebalance."""

    __slots__ = ("_departed", "_is_under_way", "_parked", "_present")

    def __init__(self) -> None:
        self._is_under_way = False
        self._present: dict[str, RebalanceMember] = {}
        self._departed: dict[str, RebalanceMember] = {}
        self._parked: set[str] = set()
        """Members with a parked join. The join that starts a phase is parked just before the phase starts."""

    # -- events ----------------------------------------------------------------------------------------

    def phase_started(self, at_ms: int, sessions: Mapping[str, MemberSession]) -> None:
        """Start to wait for every member that has not joined."""
        self._is_under_way = True
        for member_id, session in sessions.items():
            member = self._present.get(member_id)
            if member is None:
                member = self._present[member_id] = _member_of_session(session)
            member.end_wait(at_ms)
            member.synced_at_ms = None
            if member_id in self._parked:
                member.joined_at_ms = at_ms
            else:
                member.awaited_since_ms = at_ms

    def member_added(self, member_id: str, session: MemberSession) -> None:
        """Add a new member."""
        if self._is_under_way:
            self._present[member_id] = _member_of_session(session)

    def member_joined(self, member_id: str, at_ms: int) -> None:
        """Record a parked join."""
        self._parked.add(member_id)
        member = self._present.get(member_id)
        if member is not None:
            member.joined_at_ms = at_ms
            member.end_wait(at_ms)

    def phase_ended(self, at_ms: int, leader_id: str | None) -> None:
        """Stop waiting for joins, and start to wait for the leader's assignment."""
        self._parked.clear()
        for member in self._present.values():
            member.end_wait(at_ms)
        if leader_id is not None:
            self.await_leader(leader_id, at_ms)

    def await_leader(self, leader_id: str, at_ms: int) -> None:
        """Start to wait for the leader's assignment."""
        leader = self._present.get(leader_id)
        if leader is not None:
            leader.awaited_since_ms = at_ms

    def member_synced(self, member_id: str, at_ms: int) -> None:
        """Record a sync; the leader's ends the wait."""
        member = self._present.get(member_id)
        if member is not None:
            member.synced_at_ms = at_ms
            member.end_wait(at_ms)

    def member_removed(self, member_id: str, at_ms: int, outcome: Outcome) -> None:
        """Record that a member left, or was evicted."""
        self._parked.discard(member_id)
        member = self._present.pop(member_id, None)
        if member is None:
            return
        member.end_wait(at_ms)
        member.outcome = outcome
        self._departed[member_id] = member
        if len(self._departed) > DEPARTED_MAX:
            del self._departed[next(iter(self._departed))]

    def member_replaced(self, old_id: str, new_id: str, session: MemberSession) -> None:
        """Continue the part of a static member under its new member id."""
        self._parked.discard(old_id)
        member = self._present.pop(old_id, None)
        if member is not None:
            member.client_id, member.client_host = session.client_id, session.client_host
            self._present[new_id] = member

    # -- rows --------------------------------------------------------------------------------------------

    def close(self, rebalance: RebalanceRow, *, is_mirrored: bool) -> "RebalanceMemberRows":
        """Return one row per member of a rebalance that is over, departed members first, and clear them."""
        members = self._departed | self._present
        for member in members.values():
            member.end_wait(rebalance.completed_at_ms)
        self._departed, self._present, self._is_under_way = {}, {}, False
        self._parked.clear()
        return RebalanceMemberRows(rebalance, members, is_mirrored=is_mirrored)

    # -- snapshots ---------------------------------------------------------------------------------------

    def snapshot(self, *, has_generation: bool) -> dict[str, Json]:
        """Return the JSON for `load`.

        Args:
            has_generation: whether the rebalance has led to a generation yet. If not, a failover loses the join phase
                and its joins, so they are left out.
        """
        present = self._present.items() if has_generation else ()
        return {
            "departed": [[member_id, *_VALUES(member)] for member_id, member in self._departed.items()],
            "joined": [[member_id, member.joined_at_ms, member.waited_ms] for member_id, member in present],
        }

    def load(self, snapshot: Mapping[str, Json], sessions: Mapping[str, MemberSession]) -> None:
        """Load departed and remaining members from the snapshot of another node.

        Raises:
            UnreadableRow: the snapshot does not have the shape that `snapshot` returns.
        """
        self._is_under_way = True
        found = read_json(COLUMN, snapshot, RebalanceMembersJson)
        self._departed = {member_id: _member_from(values) for member_id, *values in found.departed}
        known = {member_id: (joined_at_ms, waited_ms) for member_id, joined_at_ms, waited_ms in found.joined}
        for member_id, session in sessions.items():
            member = self._present[member_id] = _member_of_session(session)
            member.joined_at_ms, member.waited_ms = known.get(member_id, (None, 0))


class RebalanceMemberRows(Collection[RebalanceMemberRow]):
    """The rows of the members of a rebalance that is over.

    They are made when they are first read, by the thread that writes: thousands would hold up the event loop.
    """

    def __init__(self, rebalance: RebalanceRow, members: Mapping[str, RebalanceMember], *, is_mirrored: bool) -> None:
        """Keep what the rows show.

        Args:
            rebalance: the rebalance.
            members: its members, which do not change any more.
            is_mirrored: whether the joins and syncs of the members were not seen.
        """
        self._rebalance = rebalance
        self._members = members
        self._is_mirrored = is_mirrored

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[RebalanceMemberRow]:
        return iter(self._rows)

    def __contains__(self, row: object) -> bool:
        return row in self._rows

    @cached_property
    def _rows(self) -> list[RebalanceMemberRow]:
        return [self._row(member_id, member) for member_id, member in self._members.items()]

    def _row(self, member_id: str, member: RebalanceMember) -> RebalanceMemberRow:
        rebalance, is_seen = self._rebalance, not self._is_mirrored
        return RebalanceMemberRow(
            rebalance_id=rebalance.rebalance_id,
            group_id=rebalance.group_id,
            shard_id=rebalance.shard_id,
            group_created_at_ms=rebalance.group_created_at_ms,
            completed_at_ms=rebalance.completed_at_ms,
            member_id=member_id,
            group_instance_id=member.group_instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            joined_after_ms=_after(rebalance, member.joined_at_ms) if is_seen else None,
            synced_after_ms=_after(rebalance, member.synced_at_ms) if is_seen else None,
            waited_for_ms=member.waited_ms if is_seen else None,
            outcome=member.outcome,
        )


_NAMES = tuple(each.name for each in fields(RebalanceMember))
"""Fields in the order of the stored JSON arrays."""
_VALUES = attrgetter(*_NAMES)
COLUMN: Final = "groups.rebalance"


def _member_from(values: list[Json]) -> RebalanceMember:
    return read_json(COLUMN, dict(zip(_NAMES, values, strict=True)), RebalanceMember)


def _member_of_session(session: MemberSession) -> RebalanceMember:
    return RebalanceMember(session.client_id, session.client_host, session.group_instance_id)


def _after(rebalance: RebalanceRow, at_ms: int | None) -> int | None:
    return None if at_ms is None else max(0, at_ms - rebalance.started_at_ms)
