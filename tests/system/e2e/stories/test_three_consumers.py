"""Three consumers and three partitions: number of rebalances, and callbacks of each consumer.

Clients since Kafka 2.4 revoke nothing on a first join, so there is one revocation less than in older accounts.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

import pytest

from agent import Assignor, Member, TopicPartition
from agent.assignors import BUILT_IN
from tests.support.waiting import PATIENCE_S
from tests.system.e2e.stories.story_group import Rebalance, StoryGroup

ROUND = ["PreparingRebalance", "CompletingRebalance", "Stable"]


def states_after_empty(group: StoryGroup) -> list[str]:
    """Return the states since the group had its first member."""
    return group.states()[1:]


def test_three_members_within_the_initial_delay_form_one_generation(group: StoryGroup) -> None:
    group.configure(group_initial_rebalance_delay_ms=1_500)
    for name in ("one", "two", "three"):
        group.start(name)
    group.wait_for_shares(1, 1, 1, generation=1)

    assert [consumer.counts() for consumer in group.running()] == [(1, 0, 0)] * 3
    assert states_after_empty(group) == ROUND
    assert [(each.generation, each.restarts, each.members_after) for each in group.rebalances()] == [(1, 0, 3)]


def test_joins_during_the_sync_phase_restart_the_rebalance(group: StoryGroup) -> None:
    may_assign, is_assigning = threading.Event(), threading.Event()

    def slow_at_first(counts: Mapping[str, int], members: Sequence[Member]) -> dict[str, list[TopicPartition]]:
        is_assigning.set()
        assert may_assign.wait(PATIENCE_S)
        return BUILT_IN["range"].assign(counts, members)

    first = group.start("one", assignors=[Assignor("range", slow_at_first)])
    assert is_assigning.wait(PATIENCE_S)
    group.start("two")
    group.start("three")
    group.wait_for_group(lambda description: len(description["members"]) == 3)
    may_assign.set()
    group.wait_for_shares(1, 1, 1, generation=2)

    assert first.counts() == (1, 0, 0)
    assert [consumer.counts() for consumer in group.running()] == [(1, 0, 0)] * 3
    assert states_after_empty(group) == [*ROUND[:2], *ROUND]
    assert group.rebalances() == [Rebalance(2, "member_joined", "one", restarts=1, members_after=3)]


def test_joins_after_the_first_generation_cause_a_second_rebalance(group: StoryGroup) -> None:
    first = group.start("one")
    group.wait_for_shares(3, generation=1)
    pause = first.pause()
    group.start("two")
    group.start("three")
    group.wait_for_group(lambda description: len(description["members"]) == 3)
    pause.release()
    group.wait_for_shares(1, 1, 1, generation=2)

    assert first.lines[:2] == [("assigned", [0, 1, 2]), ("revoked", [0, 1, 2])]
    assert [consumer.counts() for consumer in group.running()] == [(2, 1, 0), (1, 0, 0), (1, 0, 0)]
    assert states_after_empty(group) == ROUND * 2
    assert [(each.generation, each.members_after) for each in group.rebalances()] == [(1, 1), (2, 3)]


@pytest.mark.parametrize("assignor", ["range", "roundrobin", "sticky"])
def test_successive_joins_cause_three_rebalances_that_stop_all_members(group: StoryGroup, assignor: str) -> None:
    group.start("one", assignors=[assignor])
    group.wait_for_shares(3, generation=1)
    group.start("two", assignors=[assignor])
    group.wait_for_shares(2, 1, generation=2)
    group.start("three", assignors=[assignor])
    group.wait_for_shares(1, 1, 1, generation=3)
    counts = [consumer.counts() for consumer in group.running()]
    given_back = [partitions for what, partitions in group.consumers["one"].lines if what == "revoked"]

    assert counts == [(3, 2, 0), (2, 1, 0), (1, 0, 0)]
    assert [len(partitions) for partitions in given_back] == [3, 2]
    assert states_after_empty(group) == ROUND * 3
    assert group.rebalances() == [
        Rebalance(1, "member_joined", "one", restarts=0, members_after=1),
        Rebalance(2, "member_joined", "two", restarts=0, members_after=2),
        Rebalance(3, "member_joined", "three", restarts=0, members_after=3),
    ]


def test_cooperative_rolling_restart_revokes_only_moved_partitions(group: StoryGroup) -> None:
    cooperating = {"assignors": ["cooperative-sticky"]}
    first = group.start("one", **cooperating)
    group.wait_for_shares(3, generation=1)
    second = group.start("two", **cooperating)
    group.wait_for_shares(2, 1, generation=3)
    third = group.start("three", **cooperating)
    group.wait_for_shares(1, 1, 1, generation=5)

    assert [consumer.counts() for consumer in (first, second, third)] == [(5, 2, 0), (4, 0, 0), (2, 0, 0)]
    assert [len(partitions) for what, partitions in first.lines if what == "revoked"] == [1, 1]
    assert [line for line in second.lines if line[1]] == [("assigned", sorted(second.owned))]
    assert [line for line in third.lines if line[1]] == [("assigned", sorted(third.owned))]


def test_closing_consumers_revoke_their_partitions_and_leave_an_empty_group(group: StoryGroup) -> None:
    group.configure(group_initial_rebalance_delay_ms=1_500)
    first, second, third = (group.start(name) for name in ("one", "two", "three"))
    group.wait_for_shares(1, 1, 1, generation=1)
    third.close()
    group.wait_for_shares(2, 1, generation=2)
    second.close()
    group.wait_for_shares(3, generation=3)
    first.close()

    assert [consumer.counts() for consumer in (first, second, third)] == [(3, 3, 0), (2, 2, 0), (1, 1, 0)]
    assert first.lines[-2:] == [("assigned", [0, 1, 2]), ("revoked", [0, 1, 2])]
    assert states_after_empty(group) == ROUND * 3 + ["PreparingRebalance", "Empty"]
    assert [(each.trigger, each.by) for each in group.rebalances()][1:] == [
        ("member_left", "three"),
        ("member_left", "two"),
        ("member_left", "one"),
    ]


@pytest.mark.parametrize("loser", ["the leader", "a follower"])
def test_join_repeated_after_a_lost_response_starts_no_second_rebalance(group: StoryGroup, loser: str) -> None:
    first = group.start("one", has_proxy=True)
    group.wait_for_shares(3, generation=1)
    second = group.start("two", has_proxy=True)
    group.wait_for_shares(2, 1, generation=2)
    line = (first if loser == "the leader" else second).proxy
    assert line is not None
    line.lose_next_answer_to("/join")
    group.start("three")
    group.wait_for_shares(1, 1, 1, generation=3)

    assert not line.is_to_lose_more
    assert [consumer.counts() for consumer in group.running()] == [(3, 2, 0), (2, 1, 0), (1, 0, 0)]
    assert [each.generation for each in group.rebalances()] == [1, 2, 3]
    assert sum(each.restarts for each in group.rebalances()) == 0
