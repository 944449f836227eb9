"""Contract tests: the history that timeout advice is computed from."""

from dataclasses import replace
from typing import Any

import pytest

from coordinator_core.analytics.advice.evidence import Evidence, Rebalances, Rejoins, Startups, merged
from coordinator_core.analytics.advice.policy import CurrentAssignment
from coordinator_core.analytics.advice.steps import BEYOND, counted, place_of
from coordinator_core.queries.tuning_history import DAY_MS, TuningQuery, read_tuning_history
from coordinator_core.state_store.rows import MemberSessionRow, RebalanceRow
from tests.support.store_rows import (
    NOW_MS,
    group_row,
    member_row,
    part_row,
    rebalance_row,
    session_row,
    write,
)
from tests.support.store_worlds import Owner, Query

HOUR_MS = 3_600_000
QUESTION = TuningQuery("orders", NOW_MS - 7 * DAY_MS, NOW_MS + DAY_MS, 60_000, max_rows=1_000, max_evictions=100)
HISTOGRAM = (0, 0, 4, *(0,) * 20)


def gone(member_id: str, at_ms: int, **given: Any) -> MemberSessionRow:  # noqa: ANN401 - the columns of a row
    """Build the row of a session that expired after the default timeout of the builders."""
    return session_row(member_id, ended_at_ms=at_ms, end_reason="session_expired", **given)


def back(member_id: str, at_ms: int, **given: Any) -> MemberSessionRow:  # noqa: ANN401 - likewise
    """Build a row of one hour of a session."""
    hour: dict[str, Any] = {
        "joined_at_ms": at_ms,
        "started_at_ms": at_ms,
        "ended_at_ms": at_ms + HOUR_MS,
        "end_reason": "hour",
    }
    return session_row(member_id, **(hour | given))


def evictions_in(query: Query, question: TuningQuery = QUESTION) -> list[tuple[str, int | None]]:
    return [(each.member_id, each.needed_ms) for each in query(read_tuning_history, question).evictions]


def test_unknown_group_has_no_report(query: Query) -> None:
    past = query(read_tuning_history, QUESTION)
    assert (past.evidence(), past.requested_session_ms, past.stored) == (Evidence(), None, None)
    assert past.from_ms == QUESTION.from_ms


def test_gaps_add_up_by_the_24_hours_that_end_with_the_window(owner: Owner, query: Query) -> None:
    end_ms = QUESTION.to_ms
    mine = [
        session_row("m-1", ended_at_ms=end_ms - 2 * DAY_MS, heartbeat_gap_histogram=HISTOGRAM),
        session_row("m-2", ended_at_ms=end_ms - DAY_MS - 1, heartbeat_gap_ms_max=None),
    ]
    later = session_row("m-1", ended_at_ms=end_ms - DAY_MS, heartbeat_gap_ms_max=9_000)
    other = session_row("m-1", "other", heartbeat_gap_ms_max=99_000)
    owner.write(write(sessions=(*mine, later)), write("other", sessions=(other,)))
    first, second = merged(query(read_tuning_history, QUESTION).days)
    assert (first.day, first.heartbeats, first.longest_gap_ms, first.gaps[:4]) == (
        -2,
        6,
        3_001,
        (0, 2, 5, 0),
    )
    assert (second.day, second.heartbeats, second.longest_gap_ms) == (-1, 3, 9_000)


def test_an_eviction_counts_in_the_24_hours_of_its_own(owner: Owner, query: Query) -> None:
    end_ms = QUESTION.to_ms
    rows = (gone("m-1", end_ms - DAY_MS - 1, client_id="one"), gone("m-2", end_ms - DAY_MS, client_id="two"))
    owner.write(write(sessions=rows))
    days = query(read_tuning_history, QUESTION).evidence().days
    assert [(day.day, day.failures) for day in days] == [(-2, 1), (-1, 1)]


def test_reconnected_member_needed_the_time_until_then(owner: Owner, query: Query) -> None:
    rows = [
        gone("late-1", NOW_MS, client_id="late"),
        back("late-2", NOW_MS + 7_000, client_id="late"),
        gone("dead-1", NOW_MS + 1, client_id="dead"),
        back("dead-2", NOW_MS + 60_002, client_id="dead"),
        gone("static-1", NOW_MS + 2, group_instance_id="a", client_id="x"),
        back("static-2", NOW_MS + 60_002, group_instance_id="a", client_id="y", client_host="10.0.0.9"),
        gone("moved-1", NOW_MS + 3, client_id="moved"),
        back("moved-2", NOW_MS + 5, client_id="moved", client_host="10.0.0.9"),
        gone("dynamic-1", NOW_MS + 4, client_id="twin"),
        back("dynamic-2", NOW_MS + 5, group_instance_id="b", client_id="twin"),
    ]
    owner.write(write(sessions=tuple(rows)))
    assert evictions_in(query) == [
        ("dynamic-1", None),
        ("moved-1", None),
        ("static-1", 105_000),
        ("dead-1", None),
        ("late-1", 52_000),
    ]


def test_current_member_counts_as_reconnected(owner: Owner, query: Query) -> None:
    member = member_row("m-2", joined_at_ms=NOW_MS + 500)
    owner.write(write(group=group_row(), members={"m-2": member}, sessions=(gone("m-1", NOW_MS),)))
    past = query(read_tuning_history, QUESTION)
    assert [(each.reconnected_at_ms, each.needed_ms) for each in past.evictions] == [(NOW_MS + 500, 45_500)]
    assert (past.requested_session_ms, past.requested_rebalance_ms) == (45_000, 300_000)


def test_of_several_returns_the_first_counts(owner: Owner, query: Query) -> None:
    owner.write(write(sessions=(gone("m-1", NOW_MS), back("m-3", NOW_MS + 900), back("m-2", NOW_MS + 200))))
    assert evictions_in(query) == [("m-1", 45_200)]


def test_member_whose_successor_joined_before_its_eviction_was_dead(owner: Owner, query: Query) -> None:
    silent: dict[str, Any] = {"started_at_ms": NOW_MS - HOUR_MS, "last_heartbeat_at_ms": NOW_MS - 45_000}
    rows = [
        gone("dead", NOW_MS, client_id="crashes", **silent),
        back("successor", NOW_MS - 44_999, client_id="crashes"),
        back("next", NOW_MS + 5_000, client_id="crashes"),
        gone("alive", NOW_MS, client_id="pauses", **silent),
        back("its twin", NOW_MS - 45_000, client_id="pauses"),
        back("alive again", NOW_MS + 5_000, client_id="pauses"),
        gone("never heard", NOW_MS, client_id="mute", **(silent | {"last_heartbeat_at_ms": None})),
        back("its successor", NOW_MS - HOUR_MS + 1, client_id="mute"),
        back("and the next", NOW_MS + 1, client_id="mute"),
    ]
    owner.write(write(sessions=tuple(rows)))
    assert sorted(evictions_in(query)) == [("alive", 50_000), ("dead", None), ("never heard", None)]


def test_history_of_a_former_group_of_that_name_counts(owner: Owner, query: Query) -> None:
    """Settings are those of a name, too."""
    owner.write(write(group=group_row(), sessions=(gone("m-1", NOW_MS, group_created_at_ms=NOW_MS - 1),)))
    assert evictions_in(query) == [("m-1", None)]


def test_possible_rejoin_is_not_evaluated(owner: Owner, query: Query) -> None:
    end_ms = QUESTION.to_ms
    owner.write(
        write(sessions=(gone("m-1", end_ms - 60_001, client_id="a"), gone("m-2", end_ms - 60_000, client_id="b")))
    )
    assert evictions_in(query) == [("m-1", None)]


def test_rejoined_member_is_evaluated_at_once(owner: Owner, query: Query) -> None:
    late_ms = QUESTION.to_ms - 1_000
    owner.write(write(sessions=(gone("m-1", late_ms), back("m-2", late_ms + 400))))
    assert evictions_in(query) == [("m-1", 45_400)]


def test_rejoin_limit_is_reported_by_the_waiting_time(owner: Owner, query: Query) -> None:
    evicted = part_row(
        "m-1", joined_after_ms=None, waited_for_ms=20_000, outcome="evicted", completed_at_ms=NOW_MS + 21_000
    )
    owner.write(
        write(
            rebalances=(rebalance_row(completed_at_ms=NOW_MS + 21_000, member_count_before=2),),
            rebalance_members=(evicted,),
            sessions=(
                session_row("m-1", ended_at_ms=NOW_MS + 20_000, end_reason="rebalance_timeout"),
                back("m-2", NOW_MS + 25_000),
            ),
        )
    )
    assert evictions_in(query) == [("m-1", 25_000)]
    rejoins = Rejoins(counted([25_000]), counted([25_000]), waits=counted([20_000]), needed=counted([25_000]))
    assert query(read_tuning_history, QUESTION).evidence().rejoins == rejoins


def test_a_live_member_that_was_evicted_at_a_rebalance_timeout_is_expected_back_for_longer(
    owner: Owner, query: Query
) -> None:
    """A live member is silent for a third of its session at most; one that is not back counts beyond the steps."""
    end_ms = NOW_MS + 21_000
    rows = [
        late("slow", NOW_MS, silent_ms=15_000),
        back("slow-2", NOW_MS + 600_000, client_id="slow"),
        late("dead", NOW_MS + 1, silent_ms=15_001),
        back("dead-2", NOW_MS + 600_001, client_id="dead"),
        late("lost", NOW_MS + 2, silent_ms=0),
        back("lost-2", NOW_MS + 600_003, client_id="lost"),
    ]
    waited = [
        part_row(name, joined_after_ms=None, waited_for_ms=20_000, outcome="evicted", completed_at_ms=end_ms)
        for name in ("slow", "dead", "lost")
    ]
    rebalance = rebalance_row(completed_at_ms=end_ms, started_at_ms=NOW_MS - 20_000, member_count_before=2)
    owner.write(write(rebalances=(rebalance,), rebalance_members=tuple(waited), sessions=tuple(rows)))
    past = query(read_tuning_history, QUESTION)
    assert [(each.member_id, each.is_live, each.needed_ms) for each in past.evictions] == [
        ("lost", True, None),
        ("dead", False, None),
        ("slow", True, 620_000),
    ]
    rejoins = past.evidence().rejoins
    assert (rejoins.late[place_of(620_000)], rejoins.late[BEYOND], rejoins.no_shows) == (1, 1, 1)
    assert (rejoins.waits[place_of(20_000)], rejoins.needed[BEYOND], rejoins.needed[place_of(620_000)]) == (1, 2, 1)


def late(client_id: str, at_ms: int, silent_ms: int) -> MemberSessionRow:
    """Build the row of a session that the rebalance timeout ended, after a silence."""
    heard: dict[str, Any] = {"last_heartbeat_at_ms": at_ms - silent_ms, "started_at_ms": at_ms - HOUR_MS}
    ended: dict[str, Any] = {"ended_at_ms": at_ms, "end_reason": "rebalance_timeout", "client_id": client_id}
    return session_row(client_id, **heard, **ended)


def test_members_that_were_back_within_their_session_were_restarted(owner: Owner, query: Query) -> None:
    silent: dict[str, Any] = {"started_at_ms": NOW_MS - HOUR_MS, "last_heartbeat_at_ms": NOW_MS - 45_000}
    rows = [
        session_row("left-1", ended_at_ms=NOW_MS, end_reason="left", client_id="left"),
        back("left-2", NOW_MS + 45_000, client_id="left"),
        session_row("away-1", ended_at_ms=NOW_MS, end_reason="left", client_id="away"),
        back("away-2", NOW_MS + 45_001, client_id="away"),
        session_row("static-1", ended_at_ms=NOW_MS, end_reason="left", group_instance_id="pod"),
        back("static-2", NOW_MS + 5, group_instance_id="pod"),
        gone("crashed-1", NOW_MS, client_id="crashed", **silent),
        back("crashed-2", NOW_MS - 1_000, client_id="crashed"),
        gone("paused-1", NOW_MS, client_id="paused", **silent),
        back("paused-2", NOW_MS + 1_000, client_id="paused"),
    ]
    owner.write(write(sessions=tuple(rows)))
    past = query(read_tuning_history, QUESTION)
    assert sorted(each.member_id for each in past.evictions if each.is_restart) == ["crashed-1", "left-1"]
    assert past.evidence().rebalances == Rebalances(restarts=2)


def test_rebalances_are_added_up_and_wait_for_their_slowest_member(owner: Owner, query: Query) -> None:
    parts = (
        part_row("quick", joined_after_ms=1_000, waited_for_ms=1_500),
        part_row("gone", joined_after_ms=None, waited_for_ms=9_000, outcome="left"),
        part_row("silent", joined_after_ms=None, waited_for_ms=8_000),
        part_row("slow", "second", joined_after_ms=4_000, waited_for_ms=4_500, completed_at_ms=NOW_MS + 7_000),
    )
    rows = (
        rebalance_row(partitions_moved=2),
        rebalance_row("second", completed_at_ms=NOW_MS + 7_000, trigger="admin", outcome="emptied", partitions_moved=1),
    )
    owner.write(write(rebalances=rows, rebalance_members=parts))
    past = query(read_tuning_history, QUESTION)
    assert (sorted(past.waits_ms), sorted(past.rejoins_ms)) == ([4_000, 9_000], [1_000, 4_000])
    took_ms = sum(row.completed_at_ms - row.started_at_ms for row in rows)
    summed = Rebalances(count=2, took_ms=took_ms, completed=1, partitions_moved=3, by_members=1)
    assert past.evidence().rebalances == summed


def test_how_a_group_s_partitions_are_assigned_now_is_known(owner: Owner, query: Query) -> None:
    members = {
        "m-1": member_row("m-1"),
        "m-2": member_row("m-2", assignment_json=None),
        "m-3": member_row("m-3", assignment_json=[{"topic": "a", "partitions": [3]}, {"topic": "b", "partitions": []}]),
    }
    owner.write(write(group=group_row(protocol_name="range"), members=members))
    assert query(read_tuning_history, QUESTION).assigned == CurrentAssignment("range", 3)


def test_eviction_is_not_reported_until_its_rebalance_ends(owner: Owner, query: Query) -> None:
    owner.write(write(sessions=(session_row("m-1", ended_at_ms=NOW_MS, end_reason="rebalance_timeout"),)))
    assert evictions_in(query) == []


def test_rejoins_count_only_members_that_were_waited_for(owner: Owner, query: Query) -> None:
    parts = (
        part_row("follower", joined_after_ms=2_000, waited_for_ms=2_000),
        part_row("leader", joined_after_ms=1_000, waited_for_ms=1_900),
        part_row("newcomer", joined_after_ms=0, waited_for_ms=0),
        part_row("gone", joined_after_ms=None, waited_for_ms=9_000, outcome="left"),
    )
    owner.write(write(rebalances=(rebalance_row(member_count_before=2),), rebalance_members=parts))
    assert sorted(query(read_tuning_history, QUESTION).rejoins_ms) == [1_000, 2_000]


def test_new_members_after_a_start_belong_to_it(owner: Owner, query: Query) -> None:
    def begun(name: str, after_ms: int, before: int, trigger: str = "member_joined", **given: Any) -> RebalanceRow:  # noqa: ANN401
        at_ms = NOW_MS + after_ms
        times: dict[str, Any] = {"started_at_ms": at_ms, "completed_at_ms": at_ms + 100, "member_count_before": before}
        return rebalance_row(name, trigger=trigger, **(times | given))

    rows = (
        begun("start", 0, 0),
        begun("second", 4_000, 1),
        begun("third", 9_000, 2),
        begun("a loss", 12_000, 3, "session_expired"),
        begun("much later", 400_000, 2),
        begun("again", 500_000, 0),
        begun("restarted", 900_000, 0, restarts=1, joined_at_ms=NOW_MS + 906_000),
    )
    owner.write(write(rebalances=rows))
    assert query(read_tuning_history, QUESTION).evidence().startups == Startups(
        starts=3, alone=1, last_comers=counted([9_000, 6_000]), followers=counted([4_000, 9_000, 6_000])
    )


def test_rows_outside_of_the_window_are_ignored(owner: Owner, query: Query) -> None:
    early, late = QUESTION.from_ms - 1, QUESTION.to_ms
    owner.write(write(sessions=(gone("m-1", early), gone("m-2", late))))
    assert query(read_tuning_history, QUESTION).evidence() == Evidence()


@pytest.mark.parametrize("question", [replace(QUESTION, max_rows=2), replace(QUESTION, max_evictions=2)])
def test_a_limit_makes_the_window_shorter(owner: Owner, question: TuningQuery, query: Query) -> None:
    sessions = [gone(f"m-{number}", NOW_MS + number, client_id=str(number)) for number in range(5)]
    owner.write(write(sessions=tuple(sessions)))
    past = query(read_tuning_history, question)
    assert past.from_ms == NOW_MS + 3
    assert [each.member_id for each in past.evictions] == ["m-4", "m-3"]
    assert [day.heartbeats for day in merged(past.days)] == [6]


@pytest.mark.parametrize("question", [replace(QUESTION, max_rows=1), replace(QUESTION, max_evictions=1)])
def test_a_limit_leaves_none_of_the_same_time_out(owner: Owner, question: TuningQuery, query: Query) -> None:
    """A rebalance timeout evicts many members at once, and which of them are read is no accident."""
    sessions = [gone(f"m-{number}", NOW_MS + number // 3, client_id=str(number)) for number in range(6)]
    owner.write(write(sessions=tuple(sessions)))
    past = query(read_tuning_history, question)
    assert past.from_ms == NOW_MS + 1
    assert [each.member_id for each in past.evictions] == ["m-3", "m-4", "m-5"]
    assert [day.heartbeats for day in merged(past.days)] == [9]


def test_a_limit_counts_evicted_members_that_may_still_reconnect(owner: Owner, query: Query) -> None:
    sessions = [gone(f"m-{number}", NOW_MS + number, client_id=str(number)) for number in range(5)]
    owner.write(write(sessions=tuple(sessions)))
    past = query(read_tuning_history, replace(QUESTION, to_ms=NOW_MS + 60_004, max_evictions=2))
    assert [each.member_id for each in past.evictions] == ["m-3"]
    assert past.from_ms == NOW_MS + 3


def test_group_without_members_uses_its_last_timeouts(owner: Owner, query: Query) -> None:
    sessions = (session_row("m-1", session_timeout_ms=9_000), session_row("m-2", ended_at_ms=NOW_MS + 9_001))
    owner.write(write(sessions=sessions))
    assert query(read_tuning_history, QUESTION).requested_session_ms == 45_000
