"""Timeouts are changed in a running group: members adopt them at their next heartbeat, without a rebalance."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import urllib3
from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name

from agent import ConsumerAgent
from agent.core.responses import EffectiveTimeouts
from tests.support.waiting import PATIENCE_S, poll_until
from tests.system.e2e.stories.story_group import Consumer, Pause, StoryGroup

MANY = 100
BEFORE_MS, AFTER_MS = 20_000, 30_000


class TimeoutRecorder:
    """Records every session timeout that agents receive, before and after a change."""

    def __init__(self, consumers: list[Consumer]) -> None:
        self.reported: dict[str, list[int]] = {consumer.name: [] for consumer in consumers}
        self.reported_after: dict[str, list[int]] = {}
        for consumer in consumers:
            self._record_timeouts(consumer)

    def changed(self) -> None:
        """Record the timeouts received from now on separately."""
        self.reported_after = {name: [] for name in self.reported}

    def all_received(self, timeout_ms: int) -> bool:
        return all(timeout_ms in reported for reported in self.reported_after.values())

    def _record_timeouts(self, consumer: Consumer) -> None:
        assert isinstance(consumer.agent, ConsumerAgent)
        shared = consumer.agent._consumer._shared
        take = shared.apply_timeouts

        def record(timeouts: EffectiveTimeouts) -> None:
            take(timeouts)
            self.reported[consumer.name].append(timeouts.session_timeout_ms)
            if self.reported_after:
                self.reported_after[consumer.name].append(timeouts.session_timeout_ms)

        shared.apply_timeouts = record  # type: ignore[method-assign]  # to listen in


@pytest.fixture
def large_group(story_node: str, ledger: PsycopgConnection) -> Iterator[StoryGroup]:
    """Return a group of a hundred agents that all own a partition in one generation."""
    group = StoryGroup(story_node, ledger, partitions=MANY)
    group.configure(group_initial_rebalance_delay_ms=2_500, heartbeat_interval_ms=1_000)
    for number in range(MANY):
        group.start(f"agent-{number}", has_proxy=number == 0, session_timeout_ms=BEFORE_MS)
    group.wait_for(lambda: all(len(consumer.owned) == 1 for consumer in group.running()))
    yield group
    group.close()


@pytest.mark.slow
def test_hundred_agents_adopt_a_new_session_timeout_at_their_next_heartbeat(large_group: StoryGroup) -> None:
    generation, calls = large_group.described()["generation"], [consumer.counts() for consumer in large_group.running()]
    recorder = TimeoutRecorder(large_group.running())
    poll_until(lambda: all(recorder.reported.values()))
    assert {ms for reported in recorder.reported.values() for ms in reported} == {BEFORE_MS}

    large_group.configure(session_timeout_ms=AFTER_MS)
    recorder.changed()
    poll_until(lambda: recorder.all_received(AFTER_MS))

    # One response may have been in transit at the change; later ones have the new timeout.
    assert {name for name, reported in recorder.reported_after.items() if BEFORE_MS in reported[1:]} == set()
    described = large_group.described()
    assert (described["state"], described["generation"]) == ("Stable", generation)
    assert described["config"]["session_timeout_ms"] == AFTER_MS
    assert len(large_group.rebalances()) == generation
    assert [consumer.counts() for consumer in large_group.running()] == calls
    assert all(consumer.error is None for consumer in large_group.running())

    _assert_shorter_timeout_is_effective(large_group)


def _assert_shorter_timeout_is_effective(large_group: StoryGroup) -> None:
    """A crashed member is evicted after the configured timeout, not after the requested one."""
    large_group.configure(session_timeout_ms=5_000)
    recorder = TimeoutRecorder(large_group.running())
    recorder.changed()
    poll_until(lambda: recorder.all_received(5_000))
    large_group.consumers["agent-0"].crash()
    poll_until(lambda: expired(large_group) != [])
    assert expired(large_group) == [("agent-0", 5_000)]


def expired(group: StoryGroup) -> list[tuple[str, int]]:
    """Return client id and effective timeout of each expired session."""
    return group._rows(
        "SELECT client_id, session_timeout_ms FROM member_sessions"
        " WHERE group_id = %s AND end_reason = 'session_expired'"
    )


# -- a group that is stuck --------------------------------------------------------------------------------------


def test_shorter_rebalance_timeout_unblocks_a_waiting_group(group: StoryGroup) -> None:
    """The awaited member keeps heartbeating, so its session does not expire; agents request 300 s."""
    revocation = Pause()
    group.start("one", in_revoked=revocation.block)
    group.wait_for_shares(3, generation=1)
    group.start("two")
    revocation.wait_until_reached()
    group.wait_for_group(lambda description: len(description["members"]) == 2)
    stuck = group.described()

    group.configure(rebalance_timeout_ms=1_000)
    group.wait_for(lambda: group.consumers["two"].assigned_in_generation == 2)
    freed = group.described()
    revocation.release()
    group.wait_for_shares(2, 1, generation=3)

    assert (stuck["state"], len(stuck["waiting_for"])) == ("PreparingRebalance", 1)
    assert stuck["waiting_for"][0].startswith("one-")
    assert [member["client_id"] for member in freed["members"]] == ["two"]
    assert group._rows("SELECT client_id, end_reason FROM member_sessions WHERE group_id = %s") == [
        ("one", "rebalance_timeout")
    ]


def test_longer_rebalance_timeout_keeps_late_members(group: StoryGroup) -> None:
    group.configure(rebalance_timeout_ms=2_500)
    revocation = Pause()
    group.start("one", in_revoked=revocation.block)
    group.wait_for_shares(3, generation=1)
    group.start("two")
    revocation.wait_until_reached()
    group.wait_for_group(lambda description: len(description["members"]) == 2)
    limit = group.described()["waiting_until"]

    group.configure(rebalance_timeout_ms=60_000)
    longer = group.described()["waiting_until"]
    revocation.release()
    group.wait_for_shares(2, 1, generation=2)

    assert longer > limit
    assert group._rows("SELECT end_reason FROM member_sessions WHERE group_id = %s") == []


# -- what another timeout would have done -----------------------------------------------------------------------


def test_recent_eviction_is_reported_with_the_timeout_it_needed(group: StoryGroup) -> None:
    """A consumer is disconnected for longer than its session, and rejoins with the same client id."""
    group.start("one", has_proxy=True, session_timeout_ms=1_000)
    group.wait_for_shares(3, generation=1)
    group.consumers["one"].crash()
    poll_until(lambda: expired(group) != [])
    group.start("one", session_timeout_ms=1_000)
    group.wait_for(lambda: group.consumers["one"].count("assigned") == 1)

    path = f"/v1/groups/{group.group_id}/tuning"
    short, long = (
        group.call("GET", f"{path}?session_timeout_ms={ms}")["what_if"]["session_timeout_ms"] for ms in (1_000, 61_001)
    )
    (spared,) = long["avoided"]
    assert (spared["client_id"], spared["limit_ms"]) == ("one", 1_000)
    assert 1_000 < spared["needed_ms"] <= 61_000
    assert [each["member_id"] for each in short["remaining"]] == [spared["member_id"]]
    assert (short["avoided"], long["failures"]) == ([], [])


# -- invalid values ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"session_timeout_ms": 50}, "session_timeout_ms (50) must be from 100 to 1800000"),
        ({"session_timeout_ms": 1_800_001}, "session_timeout_ms (1800001) must be from 100 to 1800000"),
        (
            {"session_timeout_ms": 10_000, "heartbeat_interval_ms": 10_000},
            "heartbeat_interval_ms (10000) must be below the session timeout (10000)",
        ),
        (
            {"group_min_session_timeout_ms": 9_000, "group_max_session_timeout_ms": 8_000},
            "group_min_session_timeout_ms (9000) is above group_max_session_timeout_ms (8000)",
        ),
        ({"session_timeout_ms": "long"}, "session_timeout_ms must be a whole number"),
        ({"rebalance_timeout_ms": 999}, "rebalance_timeout_ms must be from 1000 to 2147483647"),
        ({"sesion_timeout_ms": 9_000}, "sesion_timeout_ms is no setting"),
    ],
)
def test_invalid_value_is_rejected_with_the_reason_and_changes_nothing(
    group: StoryGroup, values: dict[str, Any], why: str
) -> None:
    path = f"/v1/groups/{group.group_id}/config"
    before = group.call("GET", path)
    with urllib3.PoolManager() as http:
        refusal = http.request(
            "PUT",
            group.node_url + path,
            json={"values": values, "reason": "a story"},
            headers={"X-Muster-Actor": "tests"},
            timeout=PATIENCE_S,
        )
    assert (refusal.status, refusal.json()["code"], refusal.json()["action"]) == (400, "INVALID_REQUEST", "fix")
    assert why in refusal.json()["detail"]
    assert group.call("GET", path) == before
