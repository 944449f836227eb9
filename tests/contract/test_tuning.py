"""What a group's past tells of its timeouts: the same questions to both stores."""

from dataclasses import replace
from typing import Any

import pytest

from coordinator_core.protocol.advice.evidence import Evidence, Rejoins, Startups, merged
from coordinator_core.protocol.advice.steps import counted
from coordinator_core.store.interface import Store
from coordinator_core.store.rows import MemberSessionRow, RebalanceRow
from coordinator_core.store.tuning import DAY_MS, TuningQuestion
from tests.contract.builders import (
    NOW_MS,
    group_row,
    member_row,
    part_row,
    rebalance_row,
    session_row,
    write,
)
from tests.contract.conftest import Owner

HOUR_MS = 3_600_000
QUESTION = TuningQuestion("orders", NOW_MS - 7 * DAY_MS, NOW_MS + DAY_MS, 60_000, max_rows=1_000, max_evictions=100)
HISTOGRAM = (0, 0, 4, *(0,) * 20)


def gone(member_id: str, at_ms: int, **given: Any) -> MemberSessionRow:  # noqa: ANN401 - the columns of a row
    """Build the end of a stay whose session expired, after the default timeout of the builders."""
    return session_row(member_id, ended_at_ms=at_ms, end_reason="session_expired", **given)


def back(member_id: str, at_ms: int, **given: Any) -> MemberSessionRow:  # noqa: ANN401 - likewise
    """Build an hour of a stay that began then."""
    hour: dict[str, Any] = {
        "joined_at_ms": at_ms,
        "started_at_ms": at_ms,
        "ended_at_ms": at_ms + HOUR_MS,
        "end_reason": "hour",
    }
    return session_row(member_id, **(hour | given))


def told(store: Store, question: TuningQuestion = QUESTION) -> list[tuple[str, int | None]]:
    return [(each.member_id, each.needed_ms) for each in store.tuning(question).evictions]


def test_of_a_group_that_nobody_knows_nothing_is_told(store: Store) -> None:
    past = store.tuning(QUESTION)
    assert (past.evidence(), past.asked_session_ms, past.stored) == (Evidence(), None, None)
    assert past.from_ms == QUESTION.from_ms


def test_gaps_add_up_by_the_24_hours_that_end_with_the_window(owner: Owner, store: Store) -> None:
    end_ms = QUESTION.to_ms
    mine = [
        session_row("m-1", ended_at_ms=end_ms - 2 * DAY_MS, heartbeat_gap_histogram=HISTOGRAM),
        session_row("m-2", ended_at_ms=end_ms - DAY_MS - 1, heartbeat_gap_ms_max=None),
    ]
    later = session_row("m-1", ended_at_ms=end_ms - DAY_MS, heartbeat_gap_ms_max=9_000)
    other = session_row("m-1", "other", heartbeat_gap_ms_max=99_000)
    owner.write(write(sessions=(*mine, later)), write("other", sessions=(other,)))
    first, second = merged(store.tuning(QUESTION).days)
    assert (first.day, first.heartbeats, first.longest_gap_ms, first.gaps[:4]) == (
        -2,
        6,
        3_001,
        (0, 2, 5, 0),
    )
    assert (second.day, second.heartbeats, second.longest_gap_ms) == (-1, 3, 9_000)


def test_an_eviction_counts_in_the_24_hours_of_its_own(owner: Owner, store: Store) -> None:
    end_ms = QUESTION.to_ms
    rows = (gone("m-1", end_ms - DAY_MS - 1, client_id="one"), gone("m-2", end_ms - DAY_MS, client_id="two"))
    owner.write(write(sessions=rows))
    days = store.tuning(QUESTION).evidence().days
    assert [(day.day, day.failures) for day in days] == [(-2, 1), (-1, 1)]


def test_who_came_back_needed_the_time_until_then(owner: Owner, store: Store) -> None:
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
    assert told(store) == [
        ("dynamic-1", None),
        ("moved-1", None),
        ("static-1", 105_000),
        ("dead-1", None),
        ("late-1", 52_000),
    ]


def test_a_member_that_is_there_now_counts_as_back(owner: Owner, store: Store) -> None:
    member = member_row("m-2", joined_at_ms=NOW_MS + 500)
    owner.write(write(group=group_row(), members={"m-2": member}, sessions=(gone("m-1", NOW_MS),)))
    past = store.tuning(QUESTION)
    assert [(each.back_at_ms, each.needed_ms) for each in past.evictions] == [(NOW_MS + 500, 45_500)]
    assert (past.asked_session_ms, past.asked_rebalance_ms) == (45_000, 300_000)


def test_of_several_returns_the_first_counts(owner: Owner, store: Store) -> None:
    owner.write(write(sessions=(gone("m-1", NOW_MS), back("m-3", NOW_MS + 900), back("m-2", NOW_MS + 200))))
    assert told(store) == [("m-1", 45_200)]


def test_whose_successor_joined_before_its_eviction_was_dead(owner: Owner, store: Store) -> None:
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
    assert sorted(told(store)) == [("alive", 50_000), ("dead", None), ("never heard", None)]


def test_whoever_may_still_come_back_is_not_judged(owner: Owner, store: Store) -> None:
    end_ms = QUESTION.to_ms
    owner.write(
        write(sessions=(gone("m-1", end_ms - 60_001, client_id="a"), gone("m-2", end_ms - 60_000, client_id="b")))
    )
    assert told(store) == [("m-1", None)]


def test_whoever_has_come_back_is_judged_at_once(owner: Owner, store: Store) -> None:
    late_ms = QUESTION.to_ms - 1_000
    owner.write(write(sessions=(gone("m-1", late_ms), back("m-2", late_ms + 400))))
    assert told(store) == [("m-1", 45_400)]


def test_a_limit_on_rejoining_is_told_by_how_long_was_waited(owner: Owner, store: Store) -> None:
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
    assert told(store) == [("m-1", 25_000)]
    assert store.tuning(QUESTION).evidence().rejoins == Rejoins(counted([25_000]), counted([25_000]))


def test_until_its_rebalance_is_over_such_an_eviction_is_not_told(owner: Owner, store: Store) -> None:
    owner.write(write(sessions=(session_row("m-1", ended_at_ms=NOW_MS, end_reason="rebalance_timeout"),)))
    assert told(store) == []


def test_only_who_was_waited_for_has_rejoined(owner: Owner, store: Store) -> None:
    parts = (
        part_row("follower", joined_after_ms=2_000, waited_for_ms=2_000),
        part_row("leader", joined_after_ms=1_000, waited_for_ms=1_900),
        part_row("newcomer", joined_after_ms=0, waited_for_ms=0),
        part_row("gone", joined_after_ms=None, waited_for_ms=9_000, outcome="left"),
    )
    owner.write(write(rebalances=(rebalance_row(member_count_before=2),), rebalance_members=parts))
    assert sorted(store.tuning(QUESTION).rejoins_ms) == [1_000, 2_000]


def test_newcomers_after_a_start_belong_to_it(owner: Owner, store: Store) -> None:
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
    assert store.tuning(QUESTION).evidence().startups == Startups(
        starts=3, alone=1, last_comers=counted([9_000, 6_000]), followers=counted([4_000, 9_000, 6_000])
    )


def test_what_lies_outside_of_the_window_is_not_looked_at(owner: Owner, store: Store) -> None:
    early, late = QUESTION.from_ms - 1, QUESTION.to_ms
    owner.write(write(sessions=(gone("m-1", early), gone("m-2", late))))
    assert store.tuning(QUESTION).evidence() == Evidence()


@pytest.mark.parametrize("question", [replace(QUESTION, max_rows=2), replace(QUESTION, max_evictions=2)])
def test_a_limit_makes_the_window_shorter(owner: Owner, store: Store, question: TuningQuestion) -> None:
    stays = [gone(f"m-{number}", NOW_MS + number, client_id=str(number)) for number in range(5)]
    owner.write(write(sessions=tuple(stays)))
    past = store.tuning(question)
    assert past.from_ms == NOW_MS + 3
    assert [each.member_id for each in past.evictions] == ["m-4", "m-3"]
    assert [day.heartbeats for day in merged(past.days)] == [6]


def test_a_group_without_members_asks_for_what_was_in_force_last(owner: Owner, store: Store) -> None:
    stays = (session_row("m-1", session_timeout_ms=9_000), session_row("m-2", ended_at_ms=NOW_MS + 9_001))
    owner.write(write(sessions=stays))
    assert store.tuning(QUESTION).asked_session_ms == 45_000
