"""Everybody's part in the rebalance under way: when a member joined and synced, and how long all waited for it.

* A join phase waits for each member from the phase's start, until it joins, goes, or the phase ends without it. Who
  comes in the middle is waited for by nobody. In what follows the group waits for its leader's assignment.
* A phase that falls back adds to the same rebalance: waits add up, and the last join and sync count.
* A static member that comes back under a new id takes over the old id's part: what was waited for is its place.

Source: tables.md, `rebalance_members`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any, Final, Literal

from msgspec import Struct

from coordinator_core.store.row_checks import InstantMs, read_json
from coordinator_core.store.rows import Json, RebalanceMemberRow, RebalanceRow
from coordinator_core.store.stays import Stay

GONE_KEPT: Final = 1_000
"""Parts of members that went which one rebalance keeps, the last ones: a group may churn for days without settling."""

Outcome = Literal["joined", "evicted", "left"]


@dataclass(slots=True)
class Part:
    """One member's part, so far."""

    client_id: str
    group_instance_id: str | None
    joined_at_ms: int | None = None
    synced_at_ms: int | None = None
    awaited_since_ms: int | None = None
    """None: nobody waits for it at this moment."""
    waited_ms: int = 0
    outcome: Outcome = "joined"
    client_host: str | None = None
    """None: a node that did not store hosts yet handed the part over."""

    def arrived(self, at_ms: int) -> None:
        """End the wait for it, if there is one."""
        if self.awaited_since_ms is not None:
            self.waited_ms += max(0, at_ms - self.awaited_since_ms)
            self.awaited_since_ms = None


class PartsShape(Struct):
    """What the column `groups.rebalance` says of the parts of members."""

    gone: list[list[Any]] = []
    gone_hosts: dict[str, str | None] = {}
    joined: list[tuple[str, InstantMs | None, int]] = []


class Parts:
    """The parts of one group's members; there are some only while a rebalance is under way."""

    __slots__ = ("_gone", "_is_under_way", "_parked", "_present")

    def __init__(self) -> None:
        self._is_under_way = False
        self._present: dict[str, Part] = {}
        self._gone: dict[str, Part] = {}
        self._parked: set[str] = set()
        """Whose join is parked. The join that starts a phase is parked just before the phase starts."""

    # -- what happens ----------------------------------------------------------------------------------

    def phase_started(self, at_ms: int, stays: Mapping[str, Stay]) -> None:
        """Begin to wait for every member that has not joined."""
        self._is_under_way = True
        for member_id, stay in stays.items():
            part = self._present.get(member_id)
            if part is None:
                part = self._present[member_id] = _part_of(stay)
            part.arrived(at_ms)
            part.synced_at_ms = None
            if member_id in self._parked:
                part.joined_at_ms = at_ms
            else:
                part.awaited_since_ms = at_ms

    def came(self, member_id: str, stay: Stay) -> None:
        """Take a newcomer in."""
        if self._is_under_way:
            self._present[member_id] = _part_of(stay)

    def joined(self, member_id: str, at_ms: int) -> None:
        """Take note that a join is parked."""
        self._parked.add(member_id)
        part = self._present.get(member_id)
        if part is not None:
            part.joined_at_ms = at_ms
            part.arrived(at_ms)

    def phase_ended(self, at_ms: int, leader_id: str) -> None:
        """Wait for nobody's join any more, and for the leader's assignment from now on."""
        self._parked.clear()
        for part in self._present.values():
            part.arrived(at_ms)
        self.leader_awaited(leader_id, at_ms)

    def leader_awaited(self, leader_id: str, at_ms: int) -> None:
        """Wait for the leader's assignment, from now on."""
        leader = self._present.get(leader_id)
        if leader is not None:
            leader.awaited_since_ms = at_ms

    def synced(self, member_id: str, at_ms: int) -> None:
        """Take note of a sync; the leader's is what was waited for."""
        part = self._present.get(member_id)
        if part is not None:
            part.synced_at_ms = at_ms
            part.arrived(at_ms)

    def went(self, member_id: str, at_ms: int, outcome: Outcome) -> None:
        """Take note that a member left, or was put out."""
        self._parked.discard(member_id)
        part = self._present.pop(member_id, None)
        if part is None:
            return
        part.arrived(at_ms)
        part.outcome = outcome
        self._gone[member_id] = part
        if len(self._gone) > GONE_KEPT:
            del self._gone[next(iter(self._gone))]

    def replaced(self, old_id: str, new_id: str, stay: Stay) -> None:
        """Hand a part over to the id that took the place."""
        self._parked.discard(old_id)
        part = self._present.pop(old_id, None)
        if part is not None:
            part.client_id, part.client_host = stay.client_id, stay.client_host
            self._present[new_id] = part

    # -- what comes of it --------------------------------------------------------------------------------

    def close(self, rebalance: RebalanceRow) -> Iterable[RebalanceMemberRow]:
        """Return a row a member of a rebalance that is over, those that went first, and forget them."""
        everybody = self._gone | self._present
        for part in everybody.values():
            part.arrived(rebalance.completed_at_ms)
        self._gone, self._present, self._is_under_way = {}, {}, False
        self._parked.clear()
        return (_row(rebalance, member_id, part) for member_id, part in everybody.items())

    # -- kept between nodes ------------------------------------------------------------------------------

    def snapshot(self, *, has_generation: bool) -> dict[str, Json]:
        """Return what `load` needs, as JSON.

        Args:
            has_generation: whether the rebalance has led to a generation yet. If not, a node that takes over forgets
                the join phase, and with it who had joined: that need not be kept.
        """
        present = self._present.items() if has_generation else ()
        return {
            "gone": [[member_id, *_VALUES(part)] for member_id, part in self._gone.items()],
            "gone_hosts": {member_id: part.client_host for member_id, part in self._gone.items()},
            "joined": [[member_id, part.joined_at_ms, part.waited_ms] for member_id, part in present],
        }

    def load(self, snapshot: Mapping[str, Json], stays: Mapping[str, Stay]) -> None:
        """Take up what another node knew of members that went, and of those that stay.

        Raises:
            UnreadableRow: the snapshot has another shape than `snapshot` returns.
        """
        self._is_under_way = True
        found = read_json(COLUMN, snapshot, PartsShape)
        self._gone = {
            member_id: _part_from(values, found.gone_hosts.get(member_id)) for member_id, *values in found.gone
        }
        known = {member_id: (joined_at_ms, waited_ms) for member_id, joined_at_ms, waited_ms in found.joined}
        for member_id, stay in stays.items():
            part = self._present[member_id] = _part_of(stay)
            part.joined_at_ms, part.waited_ms = known.get(member_id, (None, 0))


_NAMES = tuple(each.name for each in fields(Part) if each.name != "client_host")
"""What nodes of the release before read by its place; hosts lie beside it."""
_VALUES = attrgetter(*_NAMES)
COLUMN: Final = "groups.rebalance"


def _part_from(values: list[Json], client_host: str | None) -> Part:
    return read_json(COLUMN, {**dict(zip(_NAMES, values, strict=True)), "client_host": client_host}, Part)


def _part_of(stay: Stay) -> Part:
    return Part(stay.client_id, stay.group_instance_id, client_host=stay.client_host)


def _row(rebalance: RebalanceRow, member_id: str, part: Part) -> RebalanceMemberRow:
    return RebalanceMemberRow(
        rebalance_id=rebalance.rebalance_id,
        group_id=rebalance.group_id,
        shard_id=rebalance.shard_id,
        group_created_at_ms=rebalance.group_created_at_ms,
        completed_at_ms=rebalance.completed_at_ms,
        member_id=member_id,
        group_instance_id=part.group_instance_id,
        client_id=part.client_id,
        client_host=part.client_host,
        joined_after_ms=_after(rebalance, part.joined_at_ms),
        synced_after_ms=_after(rebalance, part.synced_at_ms),
        waited_for_ms=part.waited_ms,
        outcome=part.outcome,
    )


def _after(rebalance: RebalanceRow, at_ms: int | None) -> int | None:
    return None if at_ms is None else max(0, at_ms - rebalance.started_at_ms)
