"""Decisions are projected to rows, and loading the rows gives the group again.

Source: protocol.md sections 13 and 18.
"""

from collections.abc import Iterable

import pytest
from msgspec.structs import replace

from coordinator_core.protocol.decide import decide
from coordinator_core.protocol.decision import Decision
from coordinator_core.protocol.group import Group
from coordinator_core.protocol.member import Member
from coordinator_core.protocol.records import OffsetsCommitted, RebalanceStarted
from coordinator_core.protocol.requests import (
    DeadlineKind,
    DeleteGroup,
    ForceRebalance,
    OffsetToCommit,
    Request,
    Resume,
    SupportedProtocol,
)
from coordinator_core.protocol.settings import Context, GroupSettings
from coordinator_core.state_store.ledger import Ledger, OpenOwnership
from coordinator_core.state_store.projection import MemberRows, load_group, project
from coordinator_core.state_store.rows import ExtraRows, GroupRow, GroupWrite, MemberRow, StoredGroup
from coordinator_core.state_store.runs import OutcomeRow
from tests.support.store_rows import change_row
from tests.unit.coordinator_core.protocol.groups import (
    HELD,
    NOW,
    TOKEN,
    assigned,
    commit,
    expire,
    heartbeat,
    join,
    leave,
    member,
    offers,
    stored_offset,
    sync,
)

TAKEN_OVER_MS = NOW.wall_ms + 5_000
FORGOTTEN = {
    "pending_member_ids",
    "parked_joins",
    "parked_syncs",
    "pending_syncs",
    "trigger",
    "phase_started_node_ms",
    "phase_timeout_ms",
    "initial_delay_ms",
    "remaining_delay_ms",
    "has_new_members",
}
"""What a node does not store of a settled group: pending member ids, parked requests, how the last phase was timed."""


class Node:
    """A group on a node whose database is a few rows."""

    def __init__(self, epoch: int = 1) -> None:
        self.epoch = epoch
        self.group = Group("g")
        self.ledger = Ledger("g", 3, epoch)
        self.row: GroupRow | None = None
        self.members: dict[str, MemberRow] = {}
        self.writes: list[GroupWrite | None] = []

    def ask(self, request: Request, settings: GroupSettings | None = None) -> Decision:
        decision = decide(self.group, request, NOW, Context(settings or GroupSettings()))
        self.group = decision.group
        write = project(decision.group, decision.records, self.ledger)
        self.writes.append(write)
        if write is not None:
            self._store(write)
        return decision

    def _store(self, write: GroupWrite) -> None:
        self.row = write.group or self.row
        for member_id, row in write.members.items():
            if row is None:
                self.members.pop(member_id, None)
            else:
                self.members[member_id] = row

    def settle(self, *members: Member, given: dict[str, bytes] | None = None) -> "Node":
        """Let members join, and their leader, the first, assign."""
        for one in members:
            request = replace(join(fresh_id=one.member_id, is_old_client=True), protocols=one.protocols)
            self.ask(replace(request, group_instance_id=one.group_instance_id))
        self.ask(expire(DeadlineKind.JOIN))
        self.ask(expire(DeadlineKind.JOIN))
        generation = self.group.generation
        self.ask(sync(members[0].member_id, *(HELD if given is None else given).items(), generation=generation))
        for one in members[1:]:
            self.ask(sync(one.member_id, generation=generation))
        assert self.group.state == "Stable"
        return self

    def lost(self) -> "Node":
        """Return the node that takes over."""
        assert self.row is not None
        rows = tuple(sorted(self.members.values(), key=lambda row: row.join_order))
        other = Node(self.epoch + 1)
        other.group, other.ledger, forgotten = load_group(StoredGroup(self.row, rows), TAKEN_OVER_MS, other.epoch)
        other.row, other.members = self.row, dict(self.members)
        other.writes.append(forgotten)
        if forgotten is not None:
            other._store(forgotten)
        return other


def unlike(one: Group, other: Group, but_for: Iterable[str] = ()) -> set[str]:
    """Return what differs between two groups."""
    return {name for name in Group.FIELDS if getattr(one, name) != getattr(other, name)} - set(but_for)


BOTH = offers("range", "sticky")
USUAL = (member("a"), member("b"), member("s", "S"))


# -- rows ---------------------------------------------------------------------------------------------------


def test_a_decision_that_only_waits_stores_nothing() -> None:
    node = Node().settle(*USUAL)
    node.ask(join())
    node.ask(heartbeat("a", 1))
    assert node.writes[-2:] == [None, None]


def test_a_commit_stores_the_offset_and_not_the_group() -> None:
    node = Node().settle(*USUAL)
    node.ask(commit("a", 1))
    write = node.writes[-1]
    assert write is not None
    assert write.is_only_logged
    assert (write.committed_count, write.size) == (1, (2, 0))


def test_outcomes_are_stored_even_if_nothing_else_is() -> None:
    outcome = OutcomeRow("run", "g", "orders", 0, "not_due")
    write = project(Group("g"), (), Ledger("g", 3), ExtraRows((outcome,)))
    assert write == GroupWrite("g", 3, outcomes=(outcome,))


@pytest.mark.parametrize(
    "extra_rows",
    [ExtraRows(outcomes=(OutcomeRow("run", "g", "orders", 0, "restored"),)), ExtraRows(changes=(change_row(),))],
    ids=["outcomes", "changes"],
)
def test_commits_with_outcomes_or_changes_are_stored_with_their_rows(extra_rows: ExtraRows) -> None:
    committed = OffsetsCommitted(NOW.wall_ms, "", None, (OffsetToCommit("orders", 0, 7),))
    write = project(Group("g"), (committed,), Ledger("g", 3), extra_rows)
    assert write == GroupWrite("g", 3, committed=(committed,), **extra_rows._asdict())


def test_a_first_join_stores_the_group_but_no_member_before_its_generation_stands() -> None:
    node = Node()
    node.ask(join(instance_id="S", fresh_id="s"))
    assert (node.row and node.row.state, node.members) == ("PreparingRebalance", {})
    node.ask(expire(DeadlineKind.JOIN))
    assert (node.row and node.row.state, list(node.members)) == ("CompletingRebalance", ["s"])


def test_replacement_of_a_new_member_is_not_stored() -> None:
    node = Node().settle(*USUAL)
    node.ask(join(instance_id="N"))
    node.ask(join(instance_id="N", fresh_id="m"))
    assert list(node.group.members) == ["a", "b", "s", "m"]
    assert node.members.keys() == {"a", "b", "s"}


def test_member_row_has_subscription_and_assignment() -> None:
    node = Node().settle(*USUAL)
    row = node.members["b"]
    assert row.subscription_json == {"topics": ["orders"]}
    assert row.assignment_json == [{"topic": "orders", "partitions": [1]}]
    assert row.assigned_since_ms == NOW.wall_ms
    assert [span["partitions"] for span in row.ownership] == [[1]]
    assert row.join_order == 1


def test_member_s_assignment_is_as_old_as_its_newest_partition() -> None:
    old, new = (OpenOwnership("orders", (partition,), since_ms, 1, "r") for partition, since_ms in ((0, 60), (1, 70)))
    node = Node().settle(*USUAL)
    node.ledger.ownership["b"] = (new, old)
    row = MemberRows(node.group, ["b"], node.ledger)["b"]
    assert row is not None
    assert row.assigned_since_ms == 70


def test_rows_of_a_write_are_those_of_its_decision_however_late_they_are_read() -> None:
    node = Node().settle(*USUAL)
    stored = dict(node.members)
    rows = MemberRows(node.group, ["a", "b"], node.ledger)
    node.ask(leave("b"))
    assert "b" not in node.members
    assert rows == {"a": stored["a"], "b": stored["b"]}


def test_the_size_of_a_write_is_known_before_its_rows_are_made() -> None:
    node = Node()
    node.ask(join(instance_id="S", fresh_id="s"))
    started = decide(node.group, expire(DeadlineKind.JOIN), NOW, Context(GroupSettings()))
    write = project(started.group, started.records, node.ledger)
    assert write is not None
    _, size = write.size
    assert "_rows" not in vars(write.members)
    rows = [row for row in write.members.values() if row is not None]
    metadata = sum(len(protocol.metadata) for row in rows for protocol in row.protocols)
    assert size == metadata + sum(len(row.assignment) for row in rows) > 0


def test_unreadable_metadata_has_no_json() -> None:
    node = Node().settle(member("a", protocols=(SupportedProtocol("range", b"?"),)), given={"a": b"?"})
    row = node.members["a"]
    assert (row.subscription_json, row.assignment_json, row.assigned_since_ms) == (None, None, None)
    assert node.row is not None
    assert node.row.subscribed_topics is None


def test_a_deletion_takes_rows_and_offsets_and_leaves_the_history() -> None:
    node = Node()
    node.ask(join())
    node.ask(DeleteGroup(TOKEN, (stored_offset(),), "change"))
    write = node.writes[-1]
    assert write is not None
    assert (write.is_group_deleted, write.group, write.members, len(write.removed)) == (True, None, {}, 1)
    assert [row.to_state for row in write.transitions] == ["Dead"]


def test_a_removal_takes_the_member_s_row_and_closes_what_it_held() -> None:
    node = Node().settle(*USUAL)
    node.ask(leave("b"))
    write = node.writes[-1]
    assert write is not None
    assert write.members == {"b": None}
    assert [(row.member_id, row.partitions) for row in write.ownerships] == [("b", (1,))]
    assert node.row is not None
    assert (node.row.must_rebalance, node.row.rebalance_trigger, node.row.state_before_join_phase) == (
        True,
        "member_left",
        "Stable",
    )


# -- a group again ----------------------------------------------------------------------------------------------


def test_stable_group_is_loaded_unchanged() -> None:
    """With all supported protocols, so that an unchanged follower causes no rebalance: FO-05d."""
    node = Node().settle(member("a", protocols=BOTH), member("b", protocols=BOTH), member("s", "S", BOTH))
    other = node.lost()
    assert unlike(node.group, other.group, FORGOTTEN) == set()
    assert list(other.group.members) == ["a", "b", "s"]
    assert other.writes == [None]


def test_loaded_completing_group_awaits_all_syncs() -> None:
    """FO-03d."""
    node = Node().settle(*USUAL)
    for one in ("a", "b", "s"):
        node.ask(join(one))
    node.ask(sync("b", generation=2))
    other = node.lost()
    assert other.group.state == "CompletingRebalance"
    assert unlike(node.group, other.group, FORGOTTEN) == set()
    assert set(other.group.pending_syncs) == {"a", "b", "s"}
    other.ask(Resume())
    other.ask(sync("a", *HELD.items(), generation=2))
    assert other.group.state == "Stable"


def test_join_phase_and_its_new_members_are_forgotten() -> None:
    """FO-02."""
    node = Node().settle(*USUAL)
    settled = node.group
    node.ask(replace(join(fresh_id="n", is_old_client=True), protocols=BOTH))
    node.ask(join("b", protocols=BOTH))
    other = node.lost()
    assert unlike(settled, other.group, {*FORGOTTEN, "state_since_ms"}) == set()
    assert other.ask(Resume()).records == ()
    forgotten = other.writes[0]
    assert forgotten is not None
    assert [row.outcome for row in forgotten.rebalances] == ["abandoned"]


def test_simultaneous_rebalances_of_two_nodes_are_distinguished() -> None:
    node = Node().settle(*USUAL)
    node.ask(join("a"))
    other = node.lost()
    other.ask(join("a"))
    names = [one.row.rebalance["in_progress"]["rebalance_id"] for one in (node, other) if one.row is not None]
    assert len(set(names)) == 2


def test_a_forgotten_join_phase_is_forgotten_once() -> None:
    node = Node().settle(*USUAL)
    node.ask(join("a"))
    assert node.lost().lost().writes == [None]


def test_unstored_initial_delay_is_forgotten_without_members() -> None:
    """A group that only stores offsets remains one after a failed join."""
    node = Node()
    node.ask(commit("", -1))
    before = node.group
    node.ask(join(instance_id="S"))
    other = node.lost()
    assert unlike(before, other.group, {*FORGOTTEN, "state_since_ms"}) == set()


def test_initial_delay_is_forgotten_without_members() -> None:
    node = Node().settle(member("a"))
    node.ask(leave("a"))
    before = node.group
    node.ask(join(instance_id="S"))
    assert unlike(before, node.lost().group, {*FORGOTTEN, "state_since_ms"}) == set()


def test_removal_and_must_rebalance_survive_a_failover() -> None:
    node = Node().settle(*USUAL)
    node.ask(leave("b"))
    other = node.lost()
    assert list(other.group.members) == ["a", "s"]
    assert [type(record).__name__ for record in other.ask(Resume()).records] == ["RebalanceStarted"]


def test_trigger_of_must_rebalance_survives_several_failovers() -> None:
    node = Node().settle(*USUAL)
    node.ask(leave("b"))
    (started,) = node.lost().lost().ask(Resume()).records
    assert isinstance(started, RebalanceStarted)
    assert started.trigger == "member_left"


def test_forced_rebalance_survives_a_failover() -> None:
    node = Node().settle(*USUAL)
    node.ask(ForceRebalance(TOKEN, "because"))
    other = node.lost()
    other.ask(Resume())
    assert other.group.state == "PreparingRebalance"


def test_replacement_survives_a_failover() -> None:
    node = Node().settle(*USUAL)
    node.ask(join(instance_id="S"))
    other = node.lost()
    assert other.group.static_members == {"S": "n"}
    assert other.group.members["n"].assignment == HELD["s"]
    assert unlike(node.group, other.group, FORGOTTEN) == set()


def test_leader_unaware_of_a_replacement_causes_a_rebalance() -> None:
    """The member has received the old id only, because the node was lost before its next response."""
    node = Node().settle(*USUAL)
    for one in ("a", "b", "s"):
        node.ask(join(one))
    node.ask(join(instance_id="S"))
    other = node.lost()
    other.ask(Resume())
    decision = other.ask(sync("a", *HELD.items(), generation=2))
    assert decision.records == ()
    assert other.group.state == "PreparingRebalance"


def test_what_a_phase_agreed_on_is_stored_with_a_replacement_that_lacks_the_old_protocol() -> None:
    """Otherwise the stored members would have no protocol in common, and no member could join again."""
    node = Node().settle(member("a", protocols=offers("range")), member("s", "S", offers("range")))
    node.ask(join(fresh_id="h"))
    node.ask(join("a", protocols=BOTH))
    node.ask(join("s", "S", BOTH))
    node.ask(join("a", protocols=offers("sticky")))
    node.ask(join(instance_id="S", protocols=offers("sticky")))
    other = node.lost()
    other.ask(Resume())
    assert other.group.state == "PreparingRebalance"
    assert other.group.candidate_protocols() == frozenset({"sticky"})


def test_assignments_of_other_protocol_types_are_no_ownership() -> None:
    node = Node()
    request = replace(join(instance_id="S", fresh_id="s"), protocol_type="connect")
    node.ask(request)
    node.ask(expire(DeadlineKind.JOIN))
    node.ask(sync("s", ("s", assigned(0)), generation=1))
    assert node.members["s"].ownership == []
    assert node.members["s"].assignment_json is None
