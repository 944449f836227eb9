"""What history keeps: one row a rebalance, and one a span of ownership, each written when it is over.

Source: tables.md, `rebalances`, `assignments` and `group_transitions`.
"""

from uuid import UUID

import pytest

from coordinator_core.protocol.consumer_protocol import Assignment, TopicPartitions, write_assignment
from coordinator_core.protocol.member import Member
from coordinator_core.protocol.records import (
    AssignmentAccepted,
    GenerationStarted,
    GroupCreated,
    GroupDied,
    GroupEmptied,
    JoinParked,
    MemberRemoved,
    MemberReplaced,
    OffsetsCommitted,
    RebalanceStarted,
    Record,
    Removal,
    Trigger,
)
from coordinator_core.protocol.requests import OffsetToCommit
from coordinator_core.protocol.states import COMPLETING, EMPTY, STABLE
from coordinator_core.store.ledger import HistoryRows, Ledger, Span, spans_from_json, spans_to_json
from coordinator_core.store.rows import OwnershipRow, RebalanceRow
from tests.unit.coordinator_core.protocol.groups import assigned, member

Owned = tuple[str, str, tuple[int, ...], int, int]


class Told:
    """A ledger that is told of one thing after the other, at ever later times."""

    def __init__(self, ledger: Ledger | None = None, at_ms: int = 0) -> None:
        self.ledger = ledger or Ledger("g", 3)
        self.ledger.is_consumer = True
        self.at_ms = at_ms
        self.rows = HistoryRows()

    def observe(self, record: Record) -> None:
        self.ledger.observe(record)
        rows = self.ledger.take_rows()
        self.rows.transitions += rows.transitions
        self.rows.rebalances += rows.rebalances
        self.rows.ownerships += rows.ownerships

    def tick(self) -> int:
        self.at_ms += 10
        return self.at_ms

    def created(self) -> "Told":
        self.observe(GroupCreated(self.tick()))
        return self

    def started(self, trigger: Trigger = Trigger.MEMBER_JOINED, member_id: str | None = None) -> "Told":
        self.observe(RebalanceStarted(self.tick(), 0, trigger, member_id, None, None, None))
        return self

    def generation(self, number: int) -> "Told":
        self.observe(GenerationStarted(self.tick(), 0, None, number, "range", "a", frozenset(), 0))
        return self

    def accepted(self, **given: bytes) -> "Told":
        self.observe(AssignmentAccepted(self.tick(), 1, tuple(given.items())))
        return self

    def removed(self, member_id: str, removal: Removal = Removal.LEFT) -> "Told":
        self.observe(MemberRemoved(self.tick(), member_id, removal))
        return self

    def replaced(self, old_id: str, new: Member) -> "Told":
        self.observe(MemberReplaced(self.tick(), old_id, new))
        return self

    def emptied(self, generation: int) -> "Told":
        self.observe(GroupEmptied(self.tick(), generation))
        return self

    @property
    def owned(self) -> list[Owned]:
        """Return who held what from when to when, as far as it is over."""
        return [(r.member_id, r.topic, r.partitions, r.valid_from_ms, r.valid_to_ms) for r in self.rows.ownerships]

    @property
    def holds(self) -> dict[str, list[tuple[tuple[int, ...], int]]]:
        """Return who holds which partitions since when."""
        return {
            member_id: [(span.partitions, span.since_ms) for span in spans]
            for member_id, spans in self.ledger.held.items()
        }


def first_generation(**given: bytes) -> Told:
    """Return a group that became Stable at 40: created 10, rebalancing since 20, joined at 30."""
    return Told().created().started(member_id="a").generation(1).accepted(**given)


# -- rebalances -------------------------------------------------------------------------------------------


def test_a_rebalance_is_one_row_when_it_is_over() -> None:
    told = Told().created().started(member_id="a").generation(1)
    assert told.rows.rebalances == []
    told.accepted(a=assigned(0, 1), b=assigned(2))
    (row,) = told.rows.rebalances
    assert row == RebalanceRow(
        rebalance_id=row.rebalance_id,
        group_id="g",
        shard_id=3,
        group_created_at_ms=10,
        generation=1,
        trigger="member_joined",
        trigger_member_id="a",
        client_reason=None,
        started_at_ms=20,
        joined_at_ms=30,
        completed_at_ms=40,
        outcome="completed",
        restarts=0,
        member_count_before=0,
        member_count_after=2,
        partitions_moved=0,
    )


def test_a_phase_that_falls_back_before_it_is_stable_is_the_same_rebalance() -> None:
    told = Told().created().started(Trigger.MEMBER_JOINED).generation(1).started(Trigger.MEMBER_LEFT).generation(2)
    told.started(Trigger.SYNC_TIMEOUT).generation(3).accepted(a=b"")
    (row,) = told.rows.rebalances
    assert (row.trigger, row.restarts, row.generation, row.started_at_ms, row.joined_at_ms) == (
        "member_joined",
        2,
        3,
        20,
        70,
    )


def test_a_rebalance_that_nobody_is_left_in_is_emptied() -> None:
    told = first_generation(a=assigned(0)).removed("a").started(Trigger.MEMBER_LEFT, "a").emptied(2)
    row = told.rows.rebalances[-1]
    assert (row.outcome, row.generation, row.member_count_before, row.member_count_after) == ("emptied", 2, 1, 0)
    assert (row.joined_at_ms, row.completed_at_ms) == (None, 70)


def test_every_rebalance_has_an_id_of_its_own() -> None:
    told = first_generation(a=b"").started().generation(2).accepted(a=b"").started().emptied(3).started().emptied(4)
    ids = {row.rebalance_id for row in told.rows.rebalances}
    assert len(ids) == len(told.rows.rebalances) == 4


def test_what_was_the_client_s_reason_is_kept() -> None:
    told = Told().created()
    told.observe(RebalanceStarted(20, 0, Trigger.MEMBER_LEFT, "a", "deploy", None, None))
    assert told.rows.transitions[-1].reason == "member_left: deploy"
    assert told.emptied(1).rows.rebalances[0].client_reason == "deploy"


# -- partitions moved -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "moved"),
    [
        ({"a": assigned(0, 1), "b": assigned(2)}, 0),
        ({"a": assigned(0), "b": assigned(1, 2)}, 1),
        ({"a": assigned(2), "b": assigned(0, 1)}, 3),
        ({"a": assigned(0, 1, 3), "b": assigned(2, 4)}, 0),
        ({"a": assigned(0), "b": b""}, 0),
    ],
    ids=["nothing", "one", "all", "new ones have no holder to leave", "given up is not moved"],
)
def test_a_partition_has_moved_if_it_had_a_holder_and_has_another(given: dict[str, bytes], moved: int) -> None:
    told = first_generation(a=assigned(0, 1), b=assigned(2)).started().generation(2).accepted(**given)
    assert told.rows.rebalances[-1].partitions_moved == moved


def test_what_a_leaver_held_has_moved_when_somebody_else_gets_it() -> None:
    told = first_generation(a=assigned(0), b=assigned(1)).removed("b").started().generation(2)
    assert told.accepted(a=assigned(0, 1)).rows.rebalances[-1].partitions_moved == 1


def test_what_a_static_member_keeps_under_its_new_id_has_not_moved() -> None:
    told = first_generation(a=assigned(0)).replaced("a", member("a2", "A")).started().generation(2)
    assert told.accepted(a2=assigned(0)).rows.rebalances[-1].partitions_moved == 0


# -- spans of ownership -----------------------------------------------------------------------------------


def test_only_what_changed_hands_is_closed() -> None:
    told = first_generation(a=assigned(0, 1), b=assigned(2)).started().generation(2)
    told.accepted(a=assigned(0), b=assigned(1, 2))
    assert told.owned == [("a", "orders", (1,), 40, 70)]
    assert told.holds == {"a": [((0,), 40)], "b": [((2,), 40), ((1,), 70)]}


def test_a_span_belongs_to_the_rebalance_that_opened_it() -> None:
    told = first_generation(a=assigned(0)).started().generation(2).accepted(a=assigned(0)).started().generation(3)
    told.accepted(a=b"")
    first = told.rows.rebalances[0]
    assert told.rows.ownerships == [
        OwnershipRow("g", 3, 10, first.rebalance_id, 1, "a", "orders", (0,), valid_from_ms=40, valid_to_ms=100)
    ]


def test_a_removal_closes_what_the_member_held_at_that_moment() -> None:
    told = first_generation(a=assigned(0), b=assigned(1)).removed("b")
    assert told.owned == [("b", "orders", (1,), 40, 50)]
    assert told.holds == {"a": [((0,), 40)]}


def test_a_static_member_s_replacement_closes_the_old_id_s_spans_and_opens_the_new_one_s() -> None:
    told = first_generation(a=assigned(0, 1)).replaced("a", member("a2", "A"))
    assert told.owned == [("a", "orders", (0, 1), 40, 50)]
    assert told.holds == {"a2": [((0, 1), 50)]}


def test_partitions_are_held_until_the_next_assignment_whatever_happens_between() -> None:
    told = first_generation(a=assigned(0)).started().generation(2).started().generation(3)
    assert (told.owned, told.holds) == ([], {"a": [((0,), 40)]})


def test_an_assignment_that_names_a_topic_twice_is_held_once() -> None:
    twice = (TopicPartitions("orders", (1, 0)), TopicPartitions("orders", (1, 2)), TopicPartitions("orders", (1,)))
    told = first_generation(a=write_assignment(Assignment(twice)))
    assert told.holds == {"a": [((0, 1, 2), 40)]}


def test_an_assignment_that_cannot_be_read_is_of_nothing() -> None:
    assert first_generation(a=b"?").holds == {"a": []}


def test_assignments_of_other_protocol_types_are_not_looked_into() -> None:
    told = Told()
    told.ledger.is_consumer = False
    told.created().started().generation(1).accepted(a=assigned(0)).removed("a")
    assert told.owned == []
    assert told.ledger.member_count == 1


def test_a_member_s_assignment_is_as_old_as_its_youngest_span() -> None:
    told = first_generation(a=assigned(0), b=b"").started().generation(2).accepted(a=assigned(0, 1), b=b"")
    assert told.ledger.assigned_since_ms("a") == 70
    assert told.ledger.assigned_since_ms("b") is None


# -- transitions ------------------------------------------------------------------------------------------


def test_every_change_of_state_is_a_row_with_the_generation_that_it_led_to() -> None:
    told = first_generation(a=b"").removed("a").started().emptied(2)
    told.observe(GroupDied(told.tick(), "deleted"))
    assert [(row.from_state, row.to_state, row.generation, row.at_ms) for row in told.rows.transitions] == [
        (None, "Empty", 0, 10),
        ("Empty", "PreparingRebalance", 0, 20),
        ("PreparingRebalance", "CompletingRebalance", 1, 30),
        ("CompletingRebalance", "Stable", 1, 40),
        ("Stable", "PreparingRebalance", 1, 60),
        ("PreparingRebalance", "Empty", 2, 70),
        ("Empty", "Dead", 2, 80),
    ]


@pytest.mark.parametrize(
    "record",
    [JoinParked(1, "a", 1), OffsetsCommitted(1, "a", None, (OffsetToCommit("orders", 0, 5),))],
    ids=lambda record: type(record).__name__,
)
def test_what_is_forgotten_and_offsets_leave_no_trace(record: Record) -> None:
    told = first_generation(a=assigned(0))
    before = len(told.rows.transitions)
    told.observe(record)
    assert len(told.rows.transitions) == before


# -- from node to node --------------------------------------------------------------------------------------


def taken_over(told: Told) -> Told:
    """Return the ledger as another node restores it from what is stored."""
    ledger = Ledger("g", 3)
    ledger.created_at_ms, ledger.state = told.ledger.created_at_ms, told.ledger.state
    ledger.generation, ledger.member_count = told.ledger.generation, told.ledger.member_count
    ledger.held = {member_id: spans_from_json(spans_to_json(spans)) for member_id, spans in told.ledger.held.items()}
    ledger.load_rebalance(told.ledger.snapshot())
    return Told(ledger, told.at_ms)


def test_a_take_over_abandons_the_rebalance_whose_join_phase_is_forgotten() -> None:
    other = taken_over(first_generation(a=assigned(0)).started(Trigger.LEADER_REJOINED, "a"))
    other.ledger.resume(STABLE, 90)
    rows = other.ledger.take_rows()
    (row,) = rows.rebalances
    assert (row.outcome, row.trigger, row.started_at_ms, row.completed_at_ms, row.member_count_after) == (
        "abandoned",
        "leader_rejoined",
        50,
        90,
        1,
    )
    assert [(one.from_state, one.to_state) for one in rows.transitions] == [("PreparingRebalance", "Stable")]
    assert rows.ownerships == []


def test_nothing_ends_before_it_began_when_the_next_node_s_clock_is_behind() -> None:
    before = taken_over(first_generation(a=assigned(0), b=assigned(1)).started(Trigger.LEADER_REJOINED, "a"))
    before.ledger.resume(STABLE, 45)
    (row,) = before.ledger.take_rows().rebalances
    assert (row.started_at_ms, row.completed_at_ms, row.outcome) == (50, 50, "abandoned")

    joining = taken_over(first_generation(a=assigned(0), b=assigned(1)).started())
    joining.at_ms = 15
    joining.removed("b").generation(2).accepted(a=assigned(0, 1))
    (row,) = joining.rows.rebalances
    assert (row.started_at_ms, row.joined_at_ms, row.completed_at_ms) == (50, 50, 50)
    assert joining.owned == [("b", "orders", (1,), 40, 40)]

    awaiting = taken_over(first_generation(a=assigned(0)).started().generation(2))
    awaiting.at_ms = 45
    (row,) = awaiting.accepted(a=assigned(0)).rows.rebalances
    assert (row.joined_at_ms, row.completed_at_ms) == (60, 60)


def test_a_take_over_of_a_group_that_awaits_its_assignment_goes_on_with_the_rebalance() -> None:
    other = taken_over(first_generation(a=assigned(0)).started().generation(2))
    other.ledger.resume(COMPLETING, 90)
    assert other.ledger.take_rows() == HistoryRows()
    (row,) = other.accepted(a=assigned(0)).rows.rebalances
    assert (row.started_at_ms, row.joined_at_ms, row.outcome) == (50, 60, "completed")


def test_a_generation_that_a_take_over_falls_back_to_is_still_known_to_have_joined() -> None:
    other = taken_over(first_generation(a=assigned(0)).started().generation(2).started(Trigger.MEMBER_JOINED))
    other.ledger.resume(COMPLETING, 90)
    (row,) = other.accepted(a=assigned(0)).rows.rebalances
    assert (row.generation, row.restarts, row.joined_at_ms, row.outcome) == (2, 1, 60, "completed")


def test_a_take_over_of_a_settled_group_leaves_no_trace() -> None:
    for told, state in ((first_generation(a=b""), STABLE), (Told().created(), EMPTY)):
        other = taken_over(told)
        other.ledger.resume(state, 90)
        assert other.ledger.take_rows() == HistoryRows()


def test_what_a_leaver_held_is_known_after_a_take_over() -> None:
    other = taken_over(first_generation(a=assigned(0), b=assigned(1)).removed("b").started())
    other.ledger.resume(STABLE, 90)
    other.ledger.take_rows()
    other.started().generation(2).accepted(a=assigned(0, 1))
    assert other.rows.rebalances[-1].partitions_moved == 1


def test_a_settled_group_has_nothing_to_remember() -> None:
    assert first_generation(a=assigned(0)).ledger.snapshot() is None


def test_spans_survive_the_way_through_json() -> None:
    one, other = str(UUID(int=1)), str(UUID(int=2))
    spans = (Span("orders", (0, 2), 40, 1, one), Span("sales", (1,), 70, 2, other))
    assert spans_from_json(spans_to_json(spans)) == spans
