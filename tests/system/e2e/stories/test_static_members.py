"""Both demonstrations of static membership, at a fortieth of their times, and what else a static place is good for.

Three consumers share three partitions; two of them stop without a word. As static members they keep their places until
their sessions are over, or, since Kafka 3.0, until a rebalance has waited for them in vain; as dynamic members they are
gone with the first rebalance that they miss.
"""

from __future__ import annotations

from typing import Any

import pytest

from agent import FencedInstanceId
from tests.system.e2e.stories.stage import Actor, Rebalance, Stage

pytestmark = pytest.mark.slow

MINUTE_MS = 1_500


def three_enter(stage: Stage, *, is_static: bool) -> tuple[Actor, Actor, Actor]:
    """Have the three of the demonstration enter; the one that stays has a longer session here."""
    stage.configure(group_initial_rebalance_delay_ms=1_500)

    def options(name: str) -> dict[str, Any]:
        return {"own_line": True, "assignors": ["sticky"]} | ({"group_instance_id": name} if is_static else {})

    first = stage.enter("c1", session_timeout_ms=6 * MINUTE_MS, max_poll_interval_ms=2 * MINUTE_MS, **options("c1"))
    second = stage.enter("c2", assignors=["sticky"], max_poll_interval_ms=MINUTE_MS)
    third = stage.enter("c3", session_timeout_ms=3 * MINUTE_MS, max_poll_interval_ms=3 * MINUTE_MS, **options("c3"))
    stage.wait_for_shares(1, 1, 1, generation=1)
    return first, second, third


@pytest.mark.parametrize(
    ("scope", "why_the_first_went"), [("all", "sync_timeout"), ("dynamic", "session_expired")], ids=["all", "dynamic"]
)
def test_stopped_static_members_keep_their_places_for_a_while(
    stage: Stage, scope: str, why_the_first_went: str
) -> None:
    stage.configure(group_sync_timeout_scope=scope)
    first, second, third = three_enter(stage, is_static=True)
    own = second.lines[0][1]
    first.vanish()
    third.vanish()
    stage.wait_for_shares(3, generation=3)
    shares = [partitions for what, partitions in second.lines if what == "assigned"]

    assert second.counts() == (3, 2, 0)
    assert [len(share) for share in shares] == [1, 2, 3]
    assert set(own) < set(shares[1]), "the sticky assignor lets the one that stays keep what it has"
    assert stage.rebalances()[1:] == [
        Rebalance(2, "session_expired", "c3", restarts=0, members_after=2),
        Rebalance(3, why_the_first_went, "c1", restarts=0, members_after=1),
    ]


def test_what_a_stopped_static_member_claims_leaves_the_live_one_with_a_single_partition(stage: Stage) -> None:
    # The leader sees the first one's last join, which claims what it had before: two partitions.
    stage.configure(group_initial_rebalance_delay_ms=0)
    options: dict[str, Any] = {"assignors": ["sticky"], "own_line": True}
    times = {"session_timeout_ms": 6 * MINUTE_MS, "max_poll_interval_ms": 2 * MINUTE_MS}
    first = stage.enter("c1", group_instance_id="c1", **times, **options)
    stage.wait_for_shares(3, generation=1)
    second = stage.enter("c2", max_poll_interval_ms=MINUTE_MS, **options)
    stage.wait_for_shares(2, 1, generation=2)
    times = {"session_timeout_ms": 3 * MINUTE_MS, "max_poll_interval_ms": 3 * MINUTE_MS}
    third = stage.enter("c3", group_instance_id="c3", **times, **options)
    stage.wait_for_shares(1, 1, 1, generation=3)
    first.vanish()
    third.vanish()
    stage.wait_for_shares(3, generation=5)
    shares = [partitions for what, partitions in second.lines if what == "assigned"]

    assert [len(share) for share in shares] == [1, 1, 1, 3]
    assert shares[2] == shares[1]
    assert [each.members_after for each in stage.rebalances()[3:]] == [2, 1]


def test_stopped_dynamic_members_are_gone_with_the_first_rebalance(stage: Stage) -> None:
    first, second, third = three_enter(stage, is_static=False)
    first.vanish()
    third.vanish()
    stage.wait_for_shares(3, generation=2)

    assert [(what, len(partitions)) for what, partitions in second.lines] == [
        ("assigned", 1),
        ("revoked", 1),
        ("assigned", 3),
    ]
    assert stage.rebalances()[1:] == [Rebalance(2, "session_expired", "c3", restarts=0, members_after=1)]


@pytest.mark.parametrize("goes_by", ["closing", "vanishing"])
def test_static_member_back_within_its_session_causes_no_rebalance(stage: Stage, goes_by: str) -> None:
    stage.configure(group_initial_rebalance_delay_ms=1_500)
    other = stage.enter("other")
    pod = stage.enter("pod", group_instance_id="pod", own_line=True)
    stage.wait_for_shares(1, 2, generation=1)
    had, member_id = set(pod.lines[0][1]), pod.agent.member_id
    if goes_by == "closing":
        pod.exit()
    else:
        pod.vanish()
    again = stage.enter("again", group_instance_id="pod")
    stage.wait_for(lambda: bool(again.owned))

    assert again.owned == had
    assert again.agent.generation == other.agent.generation == 1
    assert again.agent.member_id != member_id
    assert (other.counts(), again.counts()) == ((1, 0, 0), (1, 0, 0))
    assert pod.counts() == ((1, 1, 0) if goes_by == "closing" else (1, 0, 0))
    assert len(stage.rebalances()) == 1


def test_a_static_member_that_is_back_too_late_finds_the_group_rebalanced(stage: Stage) -> None:
    stage.configure(group_initial_rebalance_delay_ms=1_500)
    other = stage.enter("other")
    pod = stage.enter("pod", group_instance_id="pod", session_timeout_ms=1_500)
    stage.wait_for_shares(1, 2, generation=1)
    pod.exit()
    stage.wait_for_shares(3, generation=2)
    again = stage.enter("again", group_instance_id="pod")
    stage.wait_for(lambda: (other.assigned_in_generation, again.assigned_in_generation) == (3, 3))

    assert (other.counts(), again.counts()) == ((3, 2, 0), (1, 0, 0))
    assert [each.trigger for each in stage.rebalances()][1:] == ["session_expired", "member_joined"]


def test_of_two_with_one_instance_id_the_older_is_fenced_and_the_younger_goes_on(stage: Stage) -> None:
    older = stage.enter("older", group_instance_id="pod")
    stage.wait_for_shares(3, generation=1)
    younger = stage.enter("younger", group_instance_id="pod")
    stage.wait_for(lambda: older.error is not None)

    assert isinstance(older.error, FencedInstanceId)
    assert older.lines == [("assigned", [0, 1, 2]), ("lost", [0, 1, 2])]
    assert younger.lines == [("assigned", [0, 1, 2])]
    assert younger.agent.generation == 1
    assert len(stage.rebalances()) == 1


def test_a_static_member_that_prefers_another_assignor_makes_the_group_rebalance(stage: Stage) -> None:
    pod = stage.enter("pod", group_instance_id="pod", assignors=["range"])
    stage.wait_for_shares(3, generation=1)
    pod.exit()
    again = stage.enter("again", group_instance_id="pod", assignors=["roundrobin", "range"])
    stage.wait_for_shares(3, generation=2)

    assert stage.rebalances()[-1].trigger == "static_member_replaced"
    assert stage.described()["protocol_name"] == "roundrobin"
    assert again.counts() == (1, 0, 0)


def test_a_static_member_that_shares_no_assignor_with_its_own_place_is_refused(stage: Stage) -> None:
    pod = stage.enter("pod", group_instance_id="pod", assignors=["range"])
    stage.wait_for_shares(3, generation=1)
    pod.exit()
    conflicting = stage.enter("stranger", group_instance_id="pod", assignors=["roundrobin"])
    stage.wait_for(lambda: conflicting.error is not None)

    assert conflicting.error is not None
    assert conflicting.error.code == "INCONSISTENT_GROUP_PROTOCOL"
    assert stage.described()["generation"] == 1
