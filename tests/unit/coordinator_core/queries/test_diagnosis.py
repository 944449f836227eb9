"""A diagnosis names clients, not member ids, says whether an evicted member was alive, and forgets none for an hour."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import pytest

from coordinator_core.queries.diagnosis import DiagnosisEvidence, Finding, findings
from coordinator_core.queries.member_sessions import ListedMemberSession
from coordinator_core.queries.rebalances import RebalanceWait
from coordinator_core.queries.settings import SettingOrigin
from coordinator_core.runtime.views import EffectiveSetting
from coordinator_core.state_store.rows import Rebalance
from tests.support.store_rows import NOW_MS, rebalance_row, session_row, uuid_of

UNSET = {
    "session_timeout_ms": EffectiveSetting(None, "default"),
    "rebalance_timeout_ms": EffectiveSetting(None, "default"),
    "group_max_session_timeout_ms": EffectiveSetting(1_800_000, "default"),
}


def evicted(
    number: int, reason: str, *, silent_ms: int = 1_000, back_ms: int | None = None, **given: object
) -> ListedMemberSession:
    """Return the session of a member that was evicted so many minutes ago."""
    ended_ms = NOW_MS - number * 60_000
    columns: dict[str, Any] = {
        "client_id": "batch",
        "end_reason": reason,
        "started_at_ms": ended_ms - 50_000,
        "last_heartbeat_at_ms": ended_ms - silent_ms,
        "ended_at_ms": ended_ms,
        **given,
    }
    row = session_row(f"batch-{number}", **columns)
    return ListedMemberSession(row, None if back_ms is None else ended_ms + back_ms)


def wait(number: int, waited_for_ms: int = 10_000, client_id: str = "batch", outcome: str = "evicted") -> RebalanceWait:
    """Return a wait for a member of a client in one of the group's rebalances."""
    member = (f"{client_id}-{number}", None, client_id, "127.0.0.1")
    return RebalanceWait(f"rebalance-{number}", *member, waited_for_ms, outcome)


def found(
    sessions: Sequence[ListedMemberSession] = (),
    waits: Sequence[RebalanceWait] = (),
    rebalances: Sequence[Rebalance] = (),
    settings: dict[str, EffectiveSetting] | None = None,
    origins: dict[str, SettingOrigin] | None = None,
) -> list[Finding]:
    evidence = DiagnosisEvidence(sessions, rebalances, waits, UNSET | (settings or {}), origins or {}, NOW_MS)
    return list(findings(evidence))


# -- evictions --------------------------------------------------------------------------------------------


def test_member_with_heartbeats_until_eviction_is_alive_and_late() -> None:
    sessions = [evicted(1, "rebalance_timeout", back_ms=4_000), evicted(2, "rebalance_timeout", back_ms=2_000)]
    settings = {"rebalance_timeout_ms": EffectiveSetting(10_000, "group")}
    origins = {"rebalance_timeout_ms": SettingOrigin("ada", NOW_MS - 3_600_000)}
    (late,) = found(sessions, [wait(1), wait(2)], settings=settings, origins=origins)
    assert late.kind == "late_join"
    assert "batch at 127.0.0.1 was evicted 2 times although it was alive" in late.text
    assert "heartbeats went on (the last one at most 1 s before)" in late.text
    assert "did not join within the rebalance timeout of 10 s; it joined 4 s too late" in late.text
    assert "rebalance_timeout_ms is 10 s, set for this group by ada at 20" in late.text
    assert "dead" not in late.text
    assert (late.setting, late.value_ms) == ("rebalance_timeout_ms", 20_000)


def test_a_late_sync_of_unknown_length_gets_no_value() -> None:
    (late,) = found([evicted(1, "sync_timeout")])
    assert (late.kind, late.setting, late.value_ms) == ("late_sync", "rebalance_timeout_ms", None)
    assert "did not sync within the rebalance timeout. " in late.text
    assert "max.poll.interval.ms" in late.text


def test_timeout_set_since_the_eviction_is_named() -> None:
    settings = {"rebalance_timeout_ms": EffectiveSetting(60_000, "cluster")}
    origins = {"rebalance_timeout_ms": SettingOrigin("ada", NOW_MS)}
    (late,) = found([evicted(1, "rebalance_timeout")], settings=settings, origins=origins)
    assert "rebalance_timeout_ms is 1 min, set since for this cluster by ada" in late.text


def test_a_long_rebalance_timeout_is_never_suggested_to_be_shorter() -> None:
    (late,) = found([evicted(1, "rebalance_timeout", back_ms=10_000)], [wait(1, 3_600_000)])
    assert (late.setting, late.value_ms) == ("rebalance_timeout_ms", 5_400_000)
    settings = {"rebalance_timeout_ms": EffectiveSetting(60_000, "group")}
    (cured,) = found([evicted(1, "rebalance_timeout", back_ms=4_000)], [wait(1)], settings=settings)
    assert (cured.setting, cured.value_ms) == ("rebalance_timeout_ms", None)


def test_member_silent_in_a_join_phase_is_dead_or_hangs() -> None:
    (gone,) = found([evicted(1, "rebalance_timeout", silent_ms=20_000)], [wait(1)])
    assert (gone.kind, gone.setting) == ("silent", None)
    assert "evicted once after 20 s without a heartbeat" in gone.text
    assert "dead, hangs or is cut off. Rebalances waited 10 s for it." in gone.text


@pytest.mark.parametrize(
    ("minutes_ago", "absent"), [(2, "was not back within a minute"), (0, "is not back yet")], ids=["long ago", "now"]
)
def test_absence_of_a_silent_member_is_not_longer_than_the_time_since(minutes_ago: int, absent: str) -> None:
    (gone,) = found([evicted(minutes_ago, "session_expired", silent_ms=20_000)])
    assert f"UTC, and {absent}: " in gone.text


def test_one_eviction_for_silence_is_named_and_gets_a_timeout_to_try() -> None:
    (paused,) = found([evicted(1, "session_expired", silent_ms=6_000, back_ms=3_000, session_timeout_ms=6_000)])
    assert (paused.kind, paused.setting, paused.value_ms) == ("paused", "session_timeout_ms", 15_000)


@pytest.mark.parametrize(
    ("most_ms", "value_ms"), [(12_000, 12_000), (9_000, None)], ids=["less headroom", "too little"]
)
def test_no_session_timeout_beyond_the_maximum_is_suggested(most_ms: int, value_ms: int | None) -> None:
    settings = {"group_max_session_timeout_ms": EffectiveSetting(most_ms, "group")}
    session = evicted(1, "session_expired", silent_ms=6_000, back_ms=3_000, session_timeout_ms=6_000)
    (paused,) = found([session], settings=settings)
    assert (paused.kind, paused.value_ms) == ("paused", value_ms)
    assert (paused.setting is None) == ("group_max_session_timeout_ms is 9 s" in paused.text) == (value_ms is None)


def test_eviction_that_the_effective_timeout_prevents_has_no_advice() -> None:
    settings = {"session_timeout_ms": EffectiveSetting(15_000, "group")}
    session = evicted(1, "session_expired", silent_ms=6_000, back_ms=3_000, session_timeout_ms=6_000)
    assert found([session], settings=settings) == []


@pytest.mark.parametrize(
    ("client_id", "said", "kind"),
    [
        ("batch", "heartbeat: UNKNOWN_MEMBER_ID", "paused"),
        ("batch", "joining", "crashed"),
        ("batch", None, "paused"),
        ("batch-2", "joining", "paused"),
    ],
)
def test_join_reason_distinguishes_pause_from_crash(client_id: str, said: str | None, kind: str) -> None:
    session = evicted(1, "session_expired", silent_ms=6_000, back_ms=3_000)
    joined = Rebalance(**asdict(rebalance_row(trigger_member_id=f"{client_id}-{uuid_of('m')}", client_reason=said)))
    (finding,) = found([session], rebalances=[joined])
    assert finding.kind == kind


def test_process_replaced_during_silence_is_reported_as_crashed() -> None:
    session = evicted(1, "session_expired", silent_ms=45_000)
    count_startups = ListedMemberSession(session.row, None, session.row.ended_at_ms - 5_000)
    (crashed,) = found([count_startups], [wait(1)])
    assert (crashed.kind, crashed.setting) == ("crashed", None)


# -- clients ----------------------------------------------------------------------------------------------


def test_a_crash_loop_is_one_client_by_host_and_a_static_member_one_by_its_instance() -> None:
    loop = [evicted(number, "session_expired", silent_ms=45_000) for number in range(3)]
    elsewhere = evicted(7, "session_expired", silent_ms=45_000, client_host="10.0.0.9")
    static = [
        evicted(
            8 + number, "session_expired", silent_ms=45_000, group_instance_id="i-1", client_host=f"10.0.0.{number}"
        )
        for number in range(2)
    ]
    names = [
        (str(each.client), "3 times" in each.text, "2 times" in each.text)
        for each in found([*loop, elsewhere, *static])
    ]
    assert names == [
        ("batch at 127.0.0.1", True, False),
        ("i-1", False, True),
        ("batch at 10.0.0.9", False, False),
    ]


def test_a_member_that_an_operator_removed_is_still_named() -> None:
    (removed,) = found([evicted(1, "admin")], [wait(1, 61_000)])
    assert removed.kind == "removed"
    assert "batch at 127.0.0.1 was removed once by an operator" in removed.text
    assert "Rebalances waited 1 min 1 s for it." in removed.text


def test_client_is_slow_over_all_its_member_ids() -> None:
    waits = [wait(1, 30_000, outcome="joined"), wait(2, outcome="joined"), wait(3, 7_000, "other", outcome="joined")]
    (slow,) = found(waits=waits)
    assert (slow.kind, slow.setting, slow.value_ms) == ("slow", None, None)
    assert "batch at 127.0.0.1 is slow: 2 of 3 slow rebalances waited for it, up to 30 s and 40 s together" in slow.text


def test_rebalances_that_waited_for_evicted_clients_are_slow_as_well() -> None:
    dead = [evicted(number, "rebalance_timeout", silent_ms=20_000) for number in (1, 2)]
    slow = [wait(number, client_id="other", outcome="joined") for number in (3, 4, 5)]
    assert "3 of 5 slow rebalances waited for it" in found(dead, [wait(1), wait(2), *slow])[-1].text
    assert [each.kind for each in found(dead, [wait(1), wait(2), wait(6), *slow[:2]])] == ["silent"]


def test_client_that_restarts_three_times_is_reported() -> None:
    left = [evicted(number, "left", back_ms=1_000) for number in range(3)]
    assert found(left[:2]) == []
    (restarted,) = found(left)
    assert restarted.kind == "restarted"


@pytest.mark.parametrize(
    "reason",
    ["consumer poll timeout has expired.", "max_poll_interval_ms (300000) passed without a poll()"],
)
def test_client_that_leaves_after_its_poll_timeout_is_not_called_restarted(reason: str) -> None:
    left = [evicted(number, "left", back_ms=1_000) for number in range(3)]
    leaves = [
        rebalance_row(str(number), trigger="member_left", trigger_member_id=f"batch-{number}", client_reason=reason)
        for number in range(2)
    ]
    (finding,) = found(left, rebalances=leaves)
    assert (finding.kind, finding.setting) == ("poll_timeout", None)
    assert "left 3 times and was back within a minute; 2 times it said that its poll timeout" in finding.text
    assert "max.poll.interval.ms" in finding.text
    assert "static member" not in finding.text
