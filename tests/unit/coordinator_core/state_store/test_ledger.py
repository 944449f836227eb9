"""The ledger emits one row per rebalance and per time of ownership, when it is over.

Source: tables.md, `rebalances`, `partition_ownership` and `group_transitions`.
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
    RemovalReason,
    Trigger,
)
from coordinator_core.protocol.requests import OffsetToCommit
from coordinator_core.protocol.states import COMPLETING, EMPTY, STABLE
from coordinator_core.state_store.ledger import (
    HistoryRows,
    Ledger,
    OpenOwnership,
    ownership_from_json,
    ownership_to_json,
)
from coordinator_core.state_store.rows import PartitionOwnershipRow, RebalanceRow
from tests.unit.coordinator_core.protocol.groups import assigned, member

Owned = tuple[str, str, tuple[int, ...], int, int]


class LedgerDriver:
    """A ledger with helpers that apply records at increasing times."""

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

    def created(self) -> "LedgerDriver":
        self.observe(GroupCreated(self.tick()))
        return self

    def started(self, trigger: Trigger = Trigger.MEMBER_JOINED, member_id: str | None = None) -> "LedgerDriver":
        self.observe(RebalanceStarted(self.tick(), 0, trigger, member_id, None, None, None))
        return self

    def generation(self, number: int) -> "LedgerDriver":
        self.observe(GenerationStarted(self.tick(), 0, None, number, "range", "a", frozenset(), 0))
        return self

    def accepted(self, **given: bytes) -> "LedgerDriver":
        self.observe(AssignmentAccepted(self.tick(), 1, tuple(given.items())))
        return self

    def removed(self, member_id: str, removal_reason: RemovalReason = RemovalReason.LEFT) -> "LedgerDriver":
        self.observe(MemberRemoved(self.tick(), member_id, removal_reason))
        return self

    def replaced(self, old_id: str, new: Member) -> "LedgerDriver":
        self.observe(MemberReplaced(self.tick(), old_id, new))
        return self

    def emptied(self, generation: int) -> "LedgerDriver":
        self.observe(GroupEmptied(self.tick(), generation))
        return self

    @property
    def owned(self) -> list[Owned]:
        """Return the ownerships that ended, with their times."""
        return [(r.member_id, r.topic, r.partitions, r.valid_from_ms, r.valid_to_ms) for r in self.rows.ownerships]

    @property
    def holds(self) -> dict[str, list[tuple[tuple[int, ...], int]]]:
        """Return the open ownerships with their start."""
        return {
            member_id: [(span.partitions, span.since_ms) for span in spans]
            for member_id, spans in self.ledger.ownership.items()
        }


def first_generation(**given: bytes) -> LedgerDriver:
    """Return a group that became Stable at 40: created 10, rebalancing since 20, joined at 30."""
    return LedgerDriver().created().started(member_id="a").generation(1).accepted(**given)


# -- rebalances -------------------------------------------------------------------------------------------


def test_a_rebalance_is_one_row_when_it_is_over() -> None:
    driver = LedgerDriver().created().started(member_id="a").generation(1)
    assert driver.rows.rebalances == []
    driver.accepted(a=assigned(0, 1), b=assigned(2))
    (row,) = driver.rows.rebalances
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
    driver = (
        LedgerDriver().created().started(Trigger.MEMBER_JOINED).generation(1).started(Trigger.MEMBER_LEFT).generation(2)
    )
    driver.started(Trigger.SYNC_TIMEOUT).generation(3).accepted(a=b"")
    (row,) = driver.rows.rebalances
    assert (row.trigger, row.restarts, row.generation, row.started_at_ms, row.joined_at_ms) == (
        "member_joined",
        2,
        3,
        20,
        70,
    )


def test_rebalance_without_members_is_emptied() -> None:
    driver = first_generation(a=assigned(0)).removed("a").started(Trigger.MEMBER_LEFT, "a").emptied(2)
    row = driver.rows.rebalances[-1]
    assert (row.outcome, row.generation, row.member_count_before, row.member_count_after) == ("emptied", 2, 1, 0)
    assert (row.joined_at_ms, row.completed_at_ms) == (None, 70)


def test_every_rebalance_has_an_id_of_its_own() -> None:
    driver = first_generation(a=b"").started().generation(2).accepted(a=b"").started().emptied(3).started().emptied(4)
    ids = {row.rebalance_id for row in driver.rows.rebalances}
    assert len(ids) == len(driver.rows.rebalances) == 4


def test_reason_of_the_client_is_stored() -> None:
    driver = LedgerDriver().created()
    driver.observe(RebalanceStarted(20, 0, Trigger.MEMBER_LEFT, "a", "deploy", None, None))
    assert driver.rows.transitions[-1].reason == "member_left: deploy"
    assert driver.emptied(1).rows.rebalances[0].client_reason == "deploy"


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
    driver = first_generation(a=assigned(0, 1), b=assigned(2)).started().generation(2).accepted(**given)
    assert driver.rows.rebalances[-1].partitions_moved == moved


def test_partition_of_a_departed_member_has_moved_with_its_next_owner() -> None:
    driver = first_generation(a=assigned(0), b=assigned(1)).removed("b").started().generation(2)
    assert driver.accepted(a=assigned(0, 1)).rows.rebalances[-1].partitions_moved == 1


def test_what_a_static_member_keeps_under_its_new_id_has_not_moved() -> None:
    driver = first_generation(a=assigned(0)).replaced("a", member("a2", "A")).started().generation(2)
    assert driver.accepted(a2=assigned(0)).rows.rebalances[-1].partitions_moved == 0


def given_up() -> LedgerDriver:
    """Return a group in whose second generation a gave up partition 1 (cooperatively), and no member owns it."""
    driver = first_generation(a=assigned(0, 1), b=b"").started().generation(2)
    return driver.accepted(a=assigned(0), b=b"")


@pytest.mark.parametrize(
    ("given", "moved"), [({"a": assigned(0), "b": assigned(1)}, 1), ({"a": assigned(0, 1), "b": b""}, 0)]
)
def test_what_a_member_gave_up_has_moved_with_its_owner_in_the_next_generation(
    given: dict[str, bytes], moved: int
) -> None:
    driver = given_up()
    assert driver.rows.rebalances[-1].partitions_moved == 0
    assert driver.started().generation(3).accepted(**given).rows.rebalances[-1].partitions_moved == moved


def test_what_was_given_up_is_known_after_a_failover() -> None:
    other = taken_over(given_up())
    other.ledger.resume(STABLE, 90)
    other.started().generation(3).accepted(a=assigned(0), b=assigned(1))
    assert other.rows.rebalances[-1].partitions_moved == 1


def test_what_a_static_member_gave_up_and_gets_back_under_its_new_id_has_not_moved() -> None:
    driver = given_up().replaced("a", member("a2", "A")).started().generation(3)
    assert driver.accepted(a2=assigned(0, 1), b=b"").rows.rebalances[-1].partitions_moved == 0


def test_former_owners_are_forgotten_after_a_generation_without_a_new_one() -> None:
    driver = given_up().started().generation(3).accepted(a=assigned(0), b=b"")
    assert driver.ledger.snapshot() is None


# -- spans of ownership -----------------------------------------------------------------------------------


def test_only_what_changed_hands_is_closed() -> None:
    driver = first_generation(a=assigned(0, 1), b=assigned(2)).started().generation(2)
    driver.accepted(a=assigned(0), b=assigned(1, 2))
    assert driver.owned == [("a", "orders", (1,), 40, 70)]
    assert driver.holds == {"a": [((0,), 40)], "b": [((2,), 40), ((1,), 70)]}


def test_a_span_belongs_to_the_rebalance_that_opened_it() -> None:
    driver = first_generation(a=assigned(0)).started().generation(2).accepted(a=assigned(0)).started().generation(3)
    driver.accepted(a=b"")
    first = driver.rows.rebalances[0]
    assert driver.rows.ownerships == [
        PartitionOwnershipRow("g", 3, 10, first.rebalance_id, 1, "a", "orders", (0,), valid_from_ms=40, valid_to_ms=100)
    ]


def test_a_removal_closes_what_the_member_held_at_that_moment() -> None:
    driver = first_generation(a=assigned(0), b=assigned(1)).removed("b")
    assert driver.owned == [("b", "orders", (1,), 40, 50)]
    assert driver.holds == {"a": [((0,), 40)]}


def test_a_static_member_s_replacement_closes_the_old_id_s_spans_and_opens_the_new_one_s() -> None:
    driver = first_generation(a=assigned(0, 1)).replaced("a", member("a2", "A"))
    assert driver.owned == [("a", "orders", (0, 1), 40, 50)]
    assert driver.holds == {"a2": [((0, 1), 50)]}


def test_ownership_lasts_until_the_next_assignment() -> None:
    driver = first_generation(a=assigned(0)).started().generation(2).started().generation(3)
    assert (driver.owned, driver.holds) == ([], {"a": [((0,), 40)]})


def test_an_assignment_that_names_a_topic_twice_is_held_once() -> None:
    twice = (TopicPartitions("orders", (1, 0)), TopicPartitions("orders", (1, 2)), TopicPartitions("orders", (1,)))
    driver = first_generation(a=write_assignment(Assignment(twice)))
    assert driver.holds == {"a": [((0, 1, 2), 40)]}


def test_an_assignment_that_cannot_be_read_is_of_nothing() -> None:
    assert first_generation(a=b"?").holds == {"a": []}


def test_assignments_of_other_protocol_types_are_not_looked_into() -> None:
    driver = LedgerDriver()
    driver.ledger.is_consumer = False
    driver.created().started().generation(1).accepted(a=assigned(0)).removed("a")
    assert driver.owned == []
    assert driver.ledger.member_count == 1


# -- transitions ------------------------------------------------------------------------------------------


def test_every_change_of_state_is_a_row_with_the_generation_that_it_led_to() -> None:
    driver = first_generation(a=b"").removed("a").started().emptied(2)
    driver.observe(GroupDied(driver.tick(), "deleted"))
    assert [(row.from_state, row.to_state, row.generation, row.at_ms) for row in driver.rows.transitions] == [
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
def test_forgotten_phases_and_offsets_emit_no_rows(record: Record) -> None:
    driver = first_generation(a=assigned(0))
    before = len(driver.rows.transitions)
    driver.observe(record)
    assert len(driver.rows.transitions) == before


# -- from node to node --------------------------------------------------------------------------------------


def taken_over(driver: LedgerDriver) -> LedgerDriver:
    """Return the ledger as another node restores it from what is stored."""
    ledger = Ledger("g", 3)
    ledger.created_at_ms, ledger.state = driver.ledger.created_at_ms, driver.ledger.state
    ledger.generation, ledger.member_count = driver.ledger.generation, driver.ledger.member_count
    ledger.ownership = {
        member_id: ownership_from_json(ownership_to_json(spans)) for member_id, spans in driver.ledger.ownership.items()
    }
    ledger.load_rebalance(driver.ledger.snapshot())
    return LedgerDriver(ledger, driver.at_ms)


def test_failover_in_a_join_phase_abandons_the_rebalance() -> None:
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

    parked_request = taken_over(first_generation(a=assigned(0)).started().generation(2))
    parked_request.at_ms = 45
    (row,) = parked_request.accepted(a=assigned(0)).rows.rebalances
    assert (row.joined_at_ms, row.completed_at_ms) == (60, 60)


def test_failover_in_a_sync_phase_continues_the_rebalance() -> None:
    other = taken_over(first_generation(a=assigned(0)).started().generation(2))
    other.ledger.resume(COMPLETING, 90)
    assert other.ledger.take_rows() == HistoryRows()
    (row,) = other.accepted(a=assigned(0)).rows.rebalances
    assert (row.started_at_ms, row.joined_at_ms, row.outcome) == (50, 60, "completed")


def test_failover_keeps_the_joins_of_the_recovered_generation() -> None:
    other = taken_over(first_generation(a=assigned(0)).started().generation(2).started(Trigger.MEMBER_JOINED))
    other.ledger.resume(COMPLETING, 90)
    (row,) = other.accepted(a=assigned(0)).rows.rebalances
    assert (row.generation, row.restarts, row.joined_at_ms, row.outcome) == (2, 1, 60, "completed")


def test_failover_of_a_stable_group_emits_no_rows() -> None:
    for driver, state in ((first_generation(a=b""), STABLE), (LedgerDriver().created(), EMPTY)):
        other = taken_over(driver)
        other.ledger.resume(state, 90)
        assert other.ledger.take_rows() == HistoryRows()


def test_partitions_of_a_member_that_left_are_known_after_a_failover() -> None:
    other = taken_over(first_generation(a=assigned(0), b=assigned(1)).removed("b").started())
    other.ledger.resume(STABLE, 90)
    other.ledger.take_rows()
    other.started().generation(2).accepted(a=assigned(0, 1))
    assert other.rows.rebalances[-1].partitions_moved == 1


def test_stable_group_has_no_open_history() -> None:
    assert first_generation(a=assigned(0)).ledger.snapshot() is None


def test_ownership_is_encoded_as_json_and_back() -> None:
    one, other = str(UUID(int=1)), str(UUID(int=2))
    spans = (OpenOwnership("orders", (0, 2), 40, 1, one), OpenOwnership("sales", (1,), 70, 2, other))
    assert ownership_from_json(ownership_to_json(spans)) == spans
