"""Rebalance members: every member of a rebalance has a row with its join, its sync and the wait for it.

Source: tables.md, `rebalance_members`.
"""

import json

from msgspec.structs import replace

from coordinator_core.protocol.member import Member
from coordinator_core.protocol.records import (
    AssignmentAccepted,
    GenerationStarted,
    GroupCreated,
    GroupEmptied,
    JoinParked,
    MemberJoined,
    MemberRemoved,
    MemberReplaced,
    RebalanceStarted,
    Record,
    RemovalReason,
    SyncParked,
    SyncReceived,
    Trigger,
)
from coordinator_core.protocol.states import COMPLETING, STABLE
from coordinator_core.state_store.ledger import HistoryRows, Ledger, session_of
from coordinator_core.state_store.rebalance_members import DEPARTED_MAX
from coordinator_core.state_store.rows import RebalanceMemberRow
from tests.unit.coordinator_core.protocol.groups import member

IntervalKey = tuple[str, int | None, int | None, int | None, str]


def new(name: str, instance: str | None = None) -> Member:
    return replace(member(name, instance), client_id=f"client {name}", joined_at_ms=0)


def ledger_of(*names: str, instance: str | None = None) -> Ledger:
    """Return the ledger of a group that is Stable, with these members; the first leads."""
    ledger = Ledger("g", 3)
    observe(ledger, GroupCreated(0))
    for name in names:
        observe(ledger, MemberJoined(new(name, instance), "consumer"), JoinParked(0, name, 1))
    observe(ledger, started(0), generation(0, 1, names[0]), AssignmentAccepted(0, 1, tuple((n, b"") for n in names)))
    ledger.take_rows()
    return ledger


def observe(ledger: Ledger, *records: Record) -> None:
    for record in records:
        ledger.observe(record)


def started(at_ms: int, trigger: Trigger = Trigger.ADMIN, member_id: str | None = None) -> RebalanceStarted:
    return RebalanceStarted(at_ms, 0, trigger, member_id, None, None, None)


def generation(at_ms: int, number: int, leader_id: str = "a") -> GenerationStarted:
    return GenerationStarted(at_ms, 0, None, number, "range", leader_id, frozenset(), 0)


def joins(ledger: Ledger, **at_ms: int) -> None:
    for name, parse_instant_ms in at_ms.items():
        observe(ledger, JoinParked(parse_instant_ms, name, 1))


def accepted(at_ms: int, *names: str) -> AssignmentAccepted:
    return AssignmentAccepted(at_ms, 1, tuple((name, b"") for name in names))


def parts(rows: HistoryRows) -> list[IntervalKey]:
    return [
        (row.member_id, row.joined_after_ms, row.synced_after_ms, row.waited_for_ms, row.outcome)
        for row in rows.rebalance_members
    ]


def test_rebalance_member_is_a_row_of_its_rebalance() -> None:
    ledger = ledger_of("a", instance="A")
    observe(ledger, started(100))
    joins(ledger, a=130)
    observe(ledger, generation(130, 2))
    assert not ledger.take_rows().rebalance_members
    observe(ledger, accepted(150, "a"), SyncReceived(150, "a"))
    rows = ledger.take_rows()
    (rebalance,) = rows.rebalances
    assert list(rows.rebalance_members) == [
        RebalanceMemberRow(
            rebalance_id=rebalance.rebalance_id,
            group_id="g",
            shard_id=3,
            group_created_at_ms=0,
            completed_at_ms=150,
            member_id="a",
            group_instance_id="A",
            client_id="client a",
            client_host="/127.0.0.1",
            joined_after_ms=30,
            synced_after_ms=50,
            waited_for_ms=50,
            outcome="joined",
        )
    ]


def test_rows_are_counted_at_once_and_show_the_rebalance_that_is_over_whenever_they_are_read() -> None:
    ledger, other = ledger_of("a", "b"), ledger_of("a", "b")
    for each in (ledger, other):
        observe(each, started(100))
        joins(each, a=101, b=140)
        observe(each, generation(140, 2), accepted(150, "a", "b"))
    rows, read_at_once = ledger.take_rows(), parts(other.take_rows())
    observe(ledger, started(200), MemberRemoved(220, "b", RemovalReason.SESSION_EXPIRED))
    joins(ledger, a=230)
    observe(ledger, generation(230, 3), accepted(240, "a"))

    assert len(rows.rebalance_members) == 2
    assert parts(rows) == read_at_once
    assert parts(ledger.take_rows()) == [("b", None, None, 20, "evicted"), ("a", 30, 40, 40, "joined")]


def test_last_joining_member_was_awaited_longest() -> None:
    ledger = ledger_of("a", "b", "c")
    observe(ledger, started(100))
    joins(ledger, b=101, a=102, c=9_100)
    observe(ledger, generation(9_100, 2), SyncParked(9_101, "b", 1), accepted(9_103, "a", "b", "c"))
    assert parts(ledger.take_rows()) == [
        ("a", 2, 9_003, 2 + 3, "joined"),
        ("b", 1, 9_001, 1, "joined"),
        ("c", 9_000, None, 9_000, "joined"),
    ]


def test_a_leader_that_does_not_assign_is_waited_for_and_followers_are_not() -> None:
    ledger = ledger_of("a", "b")
    observe(ledger, started(100))
    joins(ledger, a=100, b=100)
    observe(ledger, generation(100, 2), SyncParked(140, "b", 1), accepted(5_100, "a", "b"))
    assert parts(ledger.take_rows()) == [("a", 0, 5_000, 5_000, "joined"), ("b", 0, 40, 0, "joined")]


def test_trigger_and_late_joiner_are_not_awaited() -> None:
    ledger = ledger_of("a")
    observe(ledger, MemberJoined(new("b"), "consumer"), JoinParked(100, "b", 1))
    observe(ledger, started(100, Trigger.MEMBER_JOINED, "b"), MemberJoined(new("c"), "consumer"))
    joins(ledger, c=400, a=500)
    observe(ledger, generation(500, 2), accepted(500, "a", "b", "c"))
    assert parts(ledger.take_rows()) == [
        ("a", 400, 400, 400, "joined"),
        ("b", 0, None, 0, "joined"),
        ("c", 300, None, 0, "joined"),
    ]


def test_departed_member_was_awaited_until_it_left() -> None:
    ledger = ledger_of("a", "b", "c")
    observe(ledger, started(100), MemberRemoved(150, "b", RemovalReason.LEFT))
    joins(ledger, a=160)
    observe(ledger, MemberRemoved(400, "c", RemovalReason.REBALANCE_TIMEOUT), generation(400, 2), accepted(400, "a"))
    assert parts(ledger.take_rows()) == [
        ("b", None, None, 50, "left"),
        ("c", None, None, 300, "evicted"),
        ("a", 60, 300, 60, "joined"),
    ]


def test_member_that_left_before_has_no_row_in_the_rebalance_it_triggered() -> None:
    ledger = ledger_of("a", "b")
    observe(ledger, MemberRemoved(100, "b", RemovalReason.LEFT), started(100, Trigger.MEMBER_LEFT, "b"))
    joins(ledger, a=110)
    observe(ledger, generation(110, 2), accepted(110, "a"))
    assert parts(ledger.take_rows()) == [("a", 10, 10, 10, "joined")]


def test_emptied_rebalance_lists_removed_members() -> None:
    ledger = ledger_of("a", "b")
    observe(
        ledger, MemberRemoved(100, "b", RemovalReason.LEFT), started(100), MemberRemoved(300, "a", RemovalReason.ADMIN)
    )
    observe(ledger, GroupEmptied(300, 2))
    assert parts(ledger.take_rows()) == [("a", None, None, 200, "evicted")]


def test_silent_static_member_is_awaited_and_kept() -> None:
    ledger = ledger_of("a", "b")
    observe(ledger, started(100))
    joins(ledger, a=100)
    observe(ledger, generation(900, 2), accepted(900, "a", "b"))
    assert parts(ledger.take_rows()) == [("a", 0, 800, 0, "joined"), ("b", None, None, 800, "joined")]


def test_waits_of_a_phase_that_falls_back_add_up_and_the_last_join_counts() -> None:
    ledger = ledger_of("a", "b")
    observe(ledger, started(100))
    joins(ledger, a=100, b=400)
    observe(ledger, generation(400, 2), SyncParked(400, "b", 1), started(1_000, Trigger.MEMBER_JOINED))
    joins(ledger, b=1_010, a=1_020)
    observe(ledger, generation(1_020, 3), accepted(1_050, "a", "b"))
    rows = ledger.take_rows()
    assert [row.restarts for row in rows.rebalances] == [1]
    assert parts(rows) == [
        ("a", 920, 950, 600 + 20 + 30, "joined"),
        ("b", 910, None, 300 + 10, "joined"),
    ]


def test_wait_is_attributed_to_the_static_member_instance() -> None:
    ledger = ledger_of("a", "b")
    observe(ledger, started(100))
    joins(ledger, a=100)
    observe(ledger, MemberReplaced(700, "b", new("b2", "B")), JoinParked(700, "b2", 1))
    observe(ledger, generation(700, 2), accepted(700, "a", "b2"))
    rows = ledger.take_rows()
    assert parts(rows) == [("a", 0, 600, 0, "joined"), ("b2", 600, None, 600, "joined")]
    assert list(rows.rebalance_members)[1].client_id == "client b2"


def test_rebalance_members_are_separate_for_each_rebalance() -> None:
    ledger = ledger_of("a", "b")
    for at_ms in (1_000, 2_000):
        observe(ledger, started(at_ms))
        joins(ledger, a=at_ms, b=at_ms + 5)
        observe(ledger, generation(at_ms + 5, 2), accepted(at_ms + 5, "a", "b"))
        assert parts(ledger.take_rows()) == [("a", 0, 5, 0, "joined"), ("b", 5, None, 5, "joined")]


def test_clock_step_back_evicts_no_member() -> None:
    ledger = ledger_of("a")
    observe(ledger, started(100))
    joins(ledger, a=40)
    observe(ledger, generation(40, 2), accepted(40, "a"))
    assert parts(ledger.take_rows()) == [("a", 0, 0, 0, "joined")]


def test_churning_group_keeps_the_last_departed_members() -> None:
    ledger = ledger_of("a")
    observe(ledger, started(100))
    for number in range(DEPARTED_MAX + 5):
        observe(
            ledger, MemberJoined(new(f"m{number}"), "consumer"), MemberRemoved(200, f"m{number}", RemovalReason.LEFT)
        )
    observe(ledger, MemberRemoved(300, "a", RemovalReason.LEFT), GroupEmptied(300, 2))
    names = [row.member_id for row in ledger.take_rows().rebalance_members]
    assert names == [*(f"m{number}" for number in range(6, DEPARTED_MAX + 5)), "a"]


# -- from node to node ----------------------------------------------------------------------------------------


def taken_over(old: Ledger, at_ms: int, *names: str) -> Ledger:
    """Return the ledger of a node that takes over, and finds these members."""
    ledger = Ledger("g", 3)
    ledger.created_at_ms, ledger.state, ledger.leader_id = 0, old.state, old.leader_id
    ledger.sessions = {name: session_of(new(name), at_ms) for name in names}
    ledger.load_rebalance(json.loads(json.dumps(old.snapshot())))
    return ledger


def test_failover_before_the_assignment_keeps_the_rebalance_members() -> None:
    ledger = ledger_of("a", "b", "c")
    observe(ledger, started(100), MemberRemoved(150, "c", RemovalReason.LEFT))
    joins(ledger, b=101, a=400)
    observe(ledger, generation(400, 2))
    other = taken_over(ledger, 5_000, "a", "b")
    other.resume(COMPLETING, 5_000)
    observe(other, accepted(5_070, "a", "b"))
    assert parts(other.take_rows()) == [
        ("c", None, None, 50, "left"),
        ("a", 300, 4_970, 300 + 70, "joined"),
        ("b", 1, None, 1, "joined"),
    ]


def test_failover_keeps_the_hosts_of_departed_members() -> None:
    ledger = ledger_of("a", "b")
    observe(ledger, started(100), MemberRemoved(150, "b", RemovalReason.LEFT))
    joins(ledger, a=400)
    observe(ledger, generation(400, 2))
    other = taken_over(ledger, 5_000, "a")
    other.load_rebalance(ledger.snapshot())
    other.resume(COMPLETING, 5_000)
    observe(other, accepted(5_070, "a"))
    hosts = {row.member_id: row.client_host for row in other.take_rows().rebalance_members}
    assert hosts == {"b": "/127.0.0.1", "a": "/127.0.0.1"}


def test_failover_in_a_join_phase_keeps_departed_members_only() -> None:
    ledger = ledger_of("a", "b", "c")
    observe(ledger, started(100), MemberRemoved(150, "c", RemovalReason.SESSION_EXPIRED))
    joins(ledger, b=160)
    other = taken_over(ledger, 5_000, "a", "b")
    other.resume(STABLE, 5_000)
    rows = other.take_rows()
    assert [row.outcome for row in rows.rebalances] == ["abandoned"]
    assert parts(rows) == [("c", None, None, 50, "evicted")]


def test_new_members_forgotten_by_a_failover_have_no_rebalance_row() -> None:
    ledger = ledger_of("a")
    observe(ledger, started(100))
    joins(ledger, a=110)
    observe(ledger, generation(110, 2), MemberJoined(new("n"), "consumer"), JoinParked(120, "n", 1), started(120))
    other = taken_over(ledger, 5_000, "a")
    other.resume(COMPLETING, 5_000)
    observe(other, accepted(5_000, "a"))
    assert parts(other.take_rows()) == [("a", 10, 4_900, 20, "joined")]


def test_snapshot_of_an_older_release_without_members_is_loaded() -> None:
    ledger = ledger_of("a")
    observe(ledger, started(100))
    joins(ledger, a=110)
    observe(ledger, generation(110, 2))
    kept = ledger.snapshot()
    other = Ledger("g", 3)
    other.state, other.leader_id, other.sessions = COMPLETING, "a", {"a": session_of(new("a"), 500)}
    other.load_rebalance({"in_progress": kept["in_progress"], "last_owners": kept["last_owners"]})
    other.resume(COMPLETING, 500)
    observe(other, accepted(530, "a"))
    assert parts(other.take_rows()) == [("a", None, 430, 30, "joined")]


# -- member sessions ----------------------------------------------------------------------------------------


def ends(ledger: Ledger) -> list[tuple[str, str, int, int]]:
    return [(row.member_id, row.end_reason, row.started_at_ms, row.ended_at_ms) for row in ledger.take_rows().sessions]


def test_session_ends_with_its_record() -> None:
    ledger = ledger_of(*(str(removal_reason) for removal_reason in RemovalReason))
    for removal_reason in RemovalReason:
        observe(ledger, MemberRemoved(900, str(removal_reason), removal_reason))
    assert ends(ledger) == [(str(removal_reason), str(removal_reason), 0, 900) for removal_reason in RemovalReason]


def test_session_of_a_replaced_static_member_ends_and_a_new_one_starts() -> None:
    ledger = ledger_of("a")
    observe(ledger, MemberReplaced(300, "a", new("a2", "A")))
    assert ends(ledger) == [("a", "replaced", 0, 300)]
    observe(ledger, MemberRemoved(400, "a2", RemovalReason.LEFT))
    assert ends(ledger) == [("a2", "left", 300, 400)]


def test_session_is_measured_from_the_failover_on() -> None:
    other = taken_over(ledger_of("a"), 700, "a")
    observe(other, MemberRemoved(900, "a", RemovalReason.LEFT))
    (row,) = other.take_rows().sessions
    assert (row.joined_at_ms, row.started_at_ms, row.ended_at_ms) == (0, 700, 900)


def test_open_session_is_written_in_hourly_intervals() -> None:
    ledger = ledger_of("a", "b")
    hour_ms = 3_600_000
    assert ledger.due_session_intervals(hour_ms - 1, limit=10) == ()
    intervals = [*ledger.due_session_intervals(hour_ms, limit=1), *ledger.due_session_intervals(hour_ms + 5, limit=10)]
    assert [(row.member_id, row.end_reason, row.ended_at_ms) for row in intervals] == [
        ("a", "hour", hour_ms),
        ("b", "hour", hour_ms + 5),
    ]
    assert ledger.due_session_intervals(2 * hour_ms - 1, limit=10) == ()
    observe(ledger, MemberRemoved(2 * hour_ms, "a", RemovalReason.LEFT))
    assert ends(ledger) == [("a", "left", hour_ms, 2 * hour_ms)]
