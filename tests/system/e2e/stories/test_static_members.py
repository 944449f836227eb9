"""Static membership: two published demonstrations, at a fortieth of their times, and replacement of members.

Three consumers share three partitions; two of them stop without a word. As static members they keep their places until
their sessions are over, or, since Kafka 3.0, until a rebalance has waited for them in vain; as dynamic members they are
gone with the first rebalance that they miss.
"""

from __future__ import annotations

from typing import Any

import pytest

from agent import FencedInstanceId
from tests.system.e2e.stories.story_group import Consumer, Rebalance, StoryGroup

pytestmark = pytest.mark.slow

MINUTE_MS = 1_500


def start_three_consumers(group: StoryGroup, *, is_static: bool) -> tuple[Consumer, Consumer, Consumer]:
    """Start the demonstration's three consumers; the remaining one has a longer session here."""
    group.configure(group_initial_rebalance_delay_ms=1_500)

    def options(name: str) -> dict[str, Any]:
        return {"has_proxy": True, "assignors": ["sticky"]} | ({"group_instance_id": name} if is_static else {})

    first = group.start("c1", session_timeout_ms=6 * MINUTE_MS, max_poll_interval_ms=2 * MINUTE_MS, **options("c1"))
    second = group.start("c2", assignors=["sticky"], max_poll_interval_ms=MINUTE_MS)
    third = group.start("c3", session_timeout_ms=3 * MINUTE_MS, max_poll_interval_ms=3 * MINUTE_MS, **options("c3"))
    group.wait_for_shares(1, 1, 1, generation=1)
    return first, second, third


@pytest.mark.parametrize(
    ("scope", "first_end_reason"), [("all", "sync_timeout"), ("dynamic", "session_expired")], ids=["all", "dynamic"]
)
def test_stopped_static_members_keep_their_assignments_until_session_timeout(
    group: StoryGroup, scope: str, first_end_reason: str
) -> None:
    group.configure(group_sync_timeout_scope=scope)
    first, second, third = start_three_consumers(group, is_static=True)
    own = second.lines[0][1]
    first.crash()
    third.crash()
    group.wait_for_shares(3, generation=3)
    shares = [partitions for what, partitions in second.lines if what == "assigned"]

    assert second.counts() == (3, 2, 0)
    assert [len(share) for share in shares] == [1, 2, 3]
    assert set(own) < set(shares[1]), "the sticky assignor lets the one that stays keep what it has"
    assert group.rebalances()[1:] == [
        Rebalance(2, "session_expired", "c3", restarts=0, members_after=2),
        Rebalance(3, first_end_reason, "c1", restarts=0, members_after=1),
    ]


def test_claims_of_a_stopped_static_member_leave_one_partition_to_the_live_member(group: StoryGroup) -> None:
    # The leader sees the first one's last join, which claims what it had before: two partitions.
    group.configure(group_initial_rebalance_delay_ms=0)
    options: dict[str, Any] = {"assignors": ["sticky"], "has_proxy": True}
    times = {"session_timeout_ms": 6 * MINUTE_MS, "max_poll_interval_ms": 2 * MINUTE_MS}
    first = group.start("c1", group_instance_id="c1", **times, **options)
    group.wait_for_shares(3, generation=1)
    second = group.start("c2", max_poll_interval_ms=MINUTE_MS, **options)
    group.wait_for_shares(2, 1, generation=2)
    times = {"session_timeout_ms": 3 * MINUTE_MS, "max_poll_interval_ms": 3 * MINUTE_MS}
    third = group.start("c3", group_instance_id="c3", **times, **options)
    group.wait_for_shares(1, 1, 1, generation=3)
    first.crash()
    third.crash()
    group.wait_for_shares(3, generation=5)
    shares = [partitions for what, partitions in second.lines if what == "assigned"]

    assert [len(share) for share in shares] == [1, 1, 1, 3]
    assert shares[2] == shares[1]
    assert [each.members_after for each in group.rebalances()[3:]] == [2, 1]


def test_stopped_dynamic_members_are_evicted_at_the_first_rebalance(group: StoryGroup) -> None:
    first, second, third = start_three_consumers(group, is_static=False)
    first.crash()
    third.crash()
    group.wait_for_shares(3, generation=2)

    assert [(what, len(partitions)) for what, partitions in second.lines] == [
        ("assigned", 1),
        ("revoked", 1),
        ("assigned", 3),
    ]
    assert group.rebalances()[1:] == [Rebalance(2, "session_expired", "c3", restarts=0, members_after=1)]


@pytest.mark.parametrize("goes_by", ["closing", "vanishing"])
def test_static_member_back_within_its_session_causes_no_rebalance(group: StoryGroup, goes_by: str) -> None:
    group.configure(group_initial_rebalance_delay_ms=1_500)
    other = group.start("other")
    pod = group.start("pod", group_instance_id="pod", has_proxy=True)
    group.wait_for_shares(1, 2, generation=1)
    had, member_id = set(pod.lines[0][1]), pod.agent.member_id
    if goes_by == "closing":
        pod.close()
    else:
        pod.crash()
    again = group.start("again", group_instance_id="pod")
    group.wait_for(lambda: bool(again.owned))

    assert again.owned == had
    assert again.agent.generation == other.agent.generation == 1
    assert again.agent.member_id != member_id
    assert (other.counts(), again.counts()) == ((1, 0, 0), (1, 0, 0))
    assert pod.counts() == ((1, 1, 0) if goes_by == "closing" else (1, 0, 0))
    assert len(group.rebalances()) == 1


def test_static_member_that_rejoins_after_its_session_causes_a_rebalance(group: StoryGroup) -> None:
    group.configure(group_initial_rebalance_delay_ms=1_500)
    other = group.start("other")
    pod = group.start("pod", group_instance_id="pod", session_timeout_ms=1_500)
    group.wait_for_shares(1, 2, generation=1)
    pod.close()
    group.wait_for_shares(3, generation=2)
    again = group.start("again", group_instance_id="pod")
    group.wait_for(lambda: (other.assigned_in_generation, again.assigned_in_generation) == (3, 3))

    assert (other.counts(), again.counts()) == ((3, 2, 0), (1, 0, 0))
    assert [each.trigger for each in group.rebalances()][1:] == ["session_expired", "member_joined"]


def test_older_of_two_members_with_one_instance_id_is_fenced(group: StoryGroup) -> None:
    older = group.start("older", group_instance_id="pod")
    group.wait_for_shares(3, generation=1)
    younger = group.start("younger", group_instance_id="pod")
    group.wait_for(lambda: older.error is not None and bool(younger.lines))

    assert isinstance(older.error, FencedInstanceId)
    assert older.lines == [("assigned", [0, 1, 2]), ("lost", [0, 1, 2])]
    assert younger.lines == [("assigned", [0, 1, 2])]
    assert younger.agent.generation == 1
    assert len(group.rebalances()) == 1


def test_a_static_member_that_prefers_another_assignor_makes_the_group_rebalance(group: StoryGroup) -> None:
    pod = group.start("pod", group_instance_id="pod", assignors=["range"])
    group.wait_for_shares(3, generation=1)
    pod.close()
    again = group.start("again", group_instance_id="pod", assignors=["roundrobin", "range"])
    group.wait_for_shares(3, generation=2)

    assert group.rebalances()[-1].trigger == "static_member_replaced"
    assert group.described()["protocol_name"] == "roundrobin"
    assert again.counts() == (1, 0, 0)


def test_static_member_without_a_common_assignor_is_rejected(group: StoryGroup) -> None:
    pod = group.start("pod", group_instance_id="pod", assignors=["range"])
    group.wait_for_shares(3, generation=1)
    pod.close()
    conflicting = group.start("other", group_instance_id="pod", assignors=["roundrobin"])
    group.wait_for(lambda: conflicting.error is not None)

    assert conflicting.error is not None
    assert conflicting.error.code == "INCONSISTENT_GROUP_PROTOCOL"
    assert group.described()["generation"] == 1
