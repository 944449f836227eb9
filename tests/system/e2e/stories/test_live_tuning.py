"""Timeouts are changed while everybody works: members follow with their next heartbeat, and nobody has to rejoin."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import urllib3
from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name

from agent.responses import EffectiveTimeouts
from tests.support.waiting import PATIENCE_S, poll_until
from tests.system.e2e.stories.stage import Actor, Hold, Stage

MANY = 100
BEFORE_MS, AFTER_MS = 20_000, 30_000


class Listener:
    """Hears every session timeout that an agent is told, and when it was changed."""

    def __init__(self, actors: list[Actor]) -> None:
        self.reported: dict[str, list[int]] = {actor.name: [] for actor in actors}
        self.reported_after: dict[str, list[int]] = {}
        for actor in actors:
            self._listen(actor)

    def changed(self) -> None:
        """Take note that the change has been made: what is told from now on is kept apart."""
        self.reported_after = {name: [] for name in self.reported}

    def all_follow(self, timeout_ms: int) -> bool:
        return all(timeout_ms in reported for reported in self.reported_after.values())

    def _listen(self, actor: Actor) -> None:
        shared = actor.agent._shared
        take = shared.apply_timeouts

        def heard(timeouts: EffectiveTimeouts) -> None:
            take(timeouts)
            self.reported[actor.name].append(timeouts.session_timeout_ms)
            if self.reported_after:
                self.reported_after[actor.name].append(timeouts.session_timeout_ms)

        shared.apply_timeouts = heard  # type: ignore[method-assign]  # to listen in


@pytest.fixture
def crowd(story_node: str, ledger: PsycopgConnection) -> Iterator[Stage]:
    """Give a group of a hundred agents that have all been assigned something in one generation."""
    stage = Stage(story_node, ledger, partitions=MANY)
    stage.configure(group_initial_rebalance_delay_ms=2_500, heartbeat_interval_ms=1_000)
    for number in range(MANY):
        stage.enter(f"agent-{number}", own_line=number == 0, session_timeout_ms=BEFORE_MS)
    stage.wait_for(lambda: all(len(actor.owned) == 1 for actor in stage.present()))
    yield stage
    stage.finish()


def test_a_hundred_agents_follow_a_new_session_timeout_with_their_next_heartbeat(crowd: Stage) -> None:
    generation, calls = crowd.described()["generation"], [actor.counts() for actor in crowd.present()]
    listener = Listener(crowd.present())
    poll_until(lambda: all(listener.reported.values()))
    assert {ms for reported in listener.reported.values() for ms in reported} == {BEFORE_MS}

    crowd.configure(session_timeout_ms=AFTER_MS)
    listener.changed()
    poll_until(lambda: listener.all_follow(AFTER_MS))

    # One answer may have been on its way when the change was made; none that was asked for later is of before.
    assert {name for name, reported in listener.reported_after.items() if BEFORE_MS in reported[1:]} == set()
    described = crowd.described()
    assert (described["state"], described["generation"]) == ("Stable", generation)
    assert described["config"]["session_timeout_ms"] == AFTER_MS
    assert len(crowd.rebalances()) == generation
    assert [actor.counts() for actor in crowd.present()] == calls
    assert all(actor.error is None for actor in crowd.present())

    _a_shorter_one_holds_as_well(crowd)


def _a_shorter_one_holds_as_well(crowd: Stage) -> None:
    """Whoever falls silent now is put out by the timeout that was set, and not by the one it had asked for."""
    crowd.configure(session_timeout_ms=5_000)
    listener = Listener(crowd.present())
    listener.changed()
    poll_until(lambda: listener.all_follow(5_000))
    crowd.actors["agent-0"].vanish()
    poll_until(lambda: expired(crowd) != [])
    assert expired(crowd) == [("agent-0", 5_000)]


def expired(stage: Stage) -> list[tuple[str, int]]:
    """Return whose session expired, and the timeout that was in force."""
    return stage._rows(
        "SELECT client_id, session_timeout_ms FROM member_sessions"
        " WHERE group_id = %s AND end_reason = 'session_expired'"
    )


# -- a group that is stuck --------------------------------------------------------------------------------------


def test_shorter_rebalance_timeout_unblocks_a_waiting_group(stage: Stage) -> None:
    """The one that is waited for goes on heartbeating, so its session does not end the wait; agents ask for 300 s."""
    giving_back = Hold()
    stage.enter("one", in_revoked=giving_back.stand)
    stage.wait_for_shares(3, generation=1)
    stage.enter("two")
    giving_back.wait_until_reached()
    stage.wait_for_group(lambda group: len(group["members"]) == 2)
    stuck = stage.described()

    stage.configure(rebalance_timeout_ms=1_000)
    stage.wait_for(lambda: stage.actors["two"].assigned_in_generation == 2)
    freed = stage.described()
    giving_back.release()
    stage.wait_for_shares(2, 1, generation=3)

    assert (stuck["state"], len(stuck["waiting_for"])) == ("PreparingRebalance", 1)
    assert stuck["waiting_for"][0].startswith("one-")
    assert [member["client_id"] for member in freed["members"]] == ["two"]
    assert stage._rows("SELECT client_id, end_reason FROM member_sessions WHERE group_id = %s") == [
        ("one", "rebalance_timeout")
    ]


def test_longer_rebalance_timeout_keeps_late_members(stage: Stage) -> None:
    stage.configure(rebalance_timeout_ms=2_500)
    giving_back = Hold()
    stage.enter("one", in_revoked=giving_back.stand)
    stage.wait_for_shares(3, generation=1)
    stage.enter("two")
    giving_back.wait_until_reached()
    stage.wait_for_group(lambda group: len(group["members"]) == 2)
    limit = stage.described()["waiting_until"]

    stage.configure(rebalance_timeout_ms=60_000)
    longer = stage.described()["waiting_until"]
    giving_back.release()
    stage.wait_for_shares(2, 1, generation=2)

    assert longer > limit
    assert stage._rows("SELECT end_reason FROM member_sessions WHERE group_id = %s") == []


# -- what another timeout would have done -----------------------------------------------------------------------


def test_recent_eviction_is_reported_with_the_timeout_it_needed(stage: Stage) -> None:
    """A consumer's line is cut for longer than its session, and it comes back under the same name."""
    stage.enter("one", own_line=True, session_timeout_ms=1_000)
    stage.wait_for_shares(3, generation=1)
    stage.actors["one"].vanish()
    poll_until(lambda: expired(stage) != [])
    stage.enter("one", session_timeout_ms=1_000)
    stage.wait_for(lambda: stage.actors["one"].count("assigned") == 1)

    path = f"/v1/groups/{stage.group_id}/tuning"
    short, long = (
        stage.call("GET", f"{path}?session_timeout_ms={ms}")["what_if"]["session_timeout_ms"] for ms in (1_000, 61_001)
    )
    (spared,) = long["avoided"]
    assert (spared["client_id"], spared["limit_ms"]) == ("one", 1_000)
    assert 1_000 < spared["needed_ms"] <= 61_000
    assert [each["member_id"] for each in short["remaining"]] == [spared["member_id"]]
    assert (short["avoided"], long["failures"]) == ([], [])


# -- what makes no sense ----------------------------------------------------------------------------------------


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
def test_a_value_that_makes_no_sense_is_refused_with_the_reason_and_changes_nothing(
    stage: Stage, values: dict[str, Any], why: str
) -> None:
    path = f"/v1/groups/{stage.group_id}/config"
    before = stage.call("GET", path)
    with urllib3.PoolManager() as http:
        refusal = http.request(
            "PUT",
            stage.node_url + path,
            json={"values": values, "reason": "a story"},
            headers={"X-Muster-Actor": "tests"},
            timeout=PATIENCE_S,
        )
    assert (refusal.status, refusal.json()["code"], refusal.json()["action"]) == (400, "INVALID_REQUEST", "fix")
    assert why in refusal.json()["detail"]
    assert stage.call("GET", path) == before
