"""Three consumers and three partitions: how many rebalances there are, and what each consumer is told of them.

Clients since Kafka 2.4 revoke nothing on a first join, so there is one revocation less than in older accounts.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

import pytest

from agent import Assignor, Member, TopicPartition
from agent.assignors import BUILT_IN
from tests.support.waiting import PATIENCE_S
from tests.system.e2e.stories.stage import Rebalance, Stage

ROUND = ["PreparingRebalance", "CompletingRebalance", "Stable"]


def states_after_empty(stage: Stage) -> list[str]:
    """Return the states since the group had its first member."""
    return stage.states()[1:]


def test_three_that_start_together_within_the_window_share_in_one_generation(stage: Stage) -> None:
    stage.configure(group_initial_rebalance_delay_ms=1_500)
    for name in ("one", "two", "three"):
        stage.enter(name)
    stage.wait_for_shares(1, 1, 1, generation=1)

    assert [actor.counts() for actor in stage.present()] == [(1, 0, 0)] * 3
    assert states_after_empty(stage) == ROUND
    assert [(each.generation, each.restarts, each.members_after) for each in stage.rebalances()] == [(1, 0, 3)]


def test_two_that_come_while_the_first_one_assigns_make_its_assignment_void(stage: Stage) -> None:
    may_assign, is_assigning = threading.Event(), threading.Event()

    def slow_at_first(counts: Mapping[str, int], members: Sequence[Member]) -> dict[str, list[TopicPartition]]:
        is_assigning.set()
        assert may_assign.wait(PATIENCE_S)
        return BUILT_IN["range"].assign(counts, members)

    first = stage.enter("one", assignors=[Assignor("range", slow_at_first)])
    assert is_assigning.wait(PATIENCE_S)
    stage.enter("two")
    stage.enter("three")
    stage.wait_for_group(lambda group: len(group["members"]) == 3)
    may_assign.set()
    stage.wait_for_shares(1, 1, 1, generation=2)

    assert first.counts() == (1, 0, 0)
    assert [actor.counts() for actor in stage.present()] == [(1, 0, 0)] * 3
    assert states_after_empty(stage) == [*ROUND[:2], *ROUND]
    assert stage.rebalances() == [Rebalance(2, "member_joined", "one", restarts=1, members_after=3)]


def test_two_that_come_after_the_first_one_is_settled_make_a_second_rebalance(stage: Stage) -> None:
    first = stage.enter("one")
    stage.wait_for_shares(3, generation=1)
    standing = first.stand_still()
    stage.enter("two")
    stage.enter("three")
    stage.wait_for_group(lambda group: len(group["members"]) == 3)
    standing.release()
    stage.wait_for_shares(1, 1, 1, generation=2)

    assert first.lines[:2] == [("assigned", [0, 1, 2]), ("revoked", [0, 1, 2])]
    assert [actor.counts() for actor in stage.present()] == [(2, 1, 0), (1, 0, 0), (1, 0, 0)]
    assert states_after_empty(stage) == ROUND * 2
    assert [(each.generation, each.members_after) for each in stage.rebalances()] == [(1, 1), (2, 3)]


@pytest.mark.parametrize("assignor", ["range", "roundrobin", "sticky"])
def test_one_after_another_makes_three_rebalances_and_stops_everybody_each_time(stage: Stage, assignor: str) -> None:
    stage.enter("one", assignors=[assignor])
    stage.wait_for_shares(3, generation=1)
    stage.enter("two", assignors=[assignor])
    stage.wait_for_shares(2, 1, generation=2)
    stage.enter("three", assignors=[assignor])
    stage.wait_for_shares(1, 1, 1, generation=3)
    counts = [actor.counts() for actor in stage.present()]
    given_back = [partitions for what, partitions in stage.actors["one"].lines if what == "revoked"]

    assert counts == [(3, 2, 0), (2, 1, 0), (1, 0, 0)]
    assert [len(partitions) for partitions in given_back] == [3, 2]
    assert states_after_empty(stage) == ROUND * 3
    assert stage.rebalances() == [
        Rebalance(1, "member_joined", "one", restarts=0, members_after=1),
        Rebalance(2, "member_joined", "two", restarts=0, members_after=2),
        Rebalance(3, "member_joined", "three", restarts=0, members_after=3),
    ]


def test_cooperative_rolling_restart_revokes_only_moved_partitions(stage: Stage) -> None:
    cooperating = {"assignors": ["cooperative-sticky"]}
    first = stage.enter("one", **cooperating)
    stage.wait_for_shares(3, generation=1)
    second = stage.enter("two", **cooperating)
    stage.wait_for_shares(2, 1, generation=3)
    third = stage.enter("three", **cooperating)
    stage.wait_for_shares(1, 1, 1, generation=5)

    assert [actor.counts() for actor in (first, second, third)] == [(5, 2, 0), (4, 0, 0), (2, 0, 0)]
    assert [len(partitions) for what, partitions in first.lines if what == "revoked"] == [1, 1]
    assert [line for line in second.lines if line[1]] == [("assigned", sorted(second.owned))]
    assert [line for line in third.lines if line[1]] == [("assigned", sorted(third.owned))]


def test_consumers_that_close_give_back_what_they_have_and_the_last_leaves_an_empty_group(stage: Stage) -> None:
    stage.configure(group_initial_rebalance_delay_ms=1_500)
    first, second, third = (stage.enter(name) for name in ("one", "two", "three"))
    stage.wait_for_shares(1, 1, 1, generation=1)
    third.exit()
    stage.wait_for_shares(2, 1, generation=2)
    second.exit()
    stage.wait_for_shares(3, generation=3)
    first.exit()

    assert [actor.counts() for actor in (first, second, third)] == [(3, 3, 0), (2, 2, 0), (1, 1, 0)]
    assert first.lines[-2:] == [("assigned", [0, 1, 2]), ("revoked", [0, 1, 2])]
    assert states_after_empty(stage) == ROUND * 3 + ["PreparingRebalance", "Empty"]
    assert [(each.trigger, each.by) for each in stage.rebalances()][1:] == [
        ("member_left", "three"),
        ("member_left", "two"),
        ("member_left", "one"),
    ]


@pytest.mark.parametrize("loser", ["the leader", "a follower"])
def test_a_lost_join_answer_is_asked_for_again_and_starts_no_other_rebalance(stage: Stage, loser: str) -> None:
    first = stage.enter("one", own_line=True)
    stage.wait_for_shares(3, generation=1)
    second = stage.enter("two", own_line=True)
    stage.wait_for_shares(2, 1, generation=2)
    line = (first if loser == "the leader" else second).line
    assert line is not None
    line.lose_next_answer_to("/join")
    stage.enter("three")
    stage.wait_for_shares(1, 1, 1, generation=3)

    assert not line.is_to_lose_more
    assert [actor.counts() for actor in stage.present()] == [(3, 2, 0), (2, 1, 0), (1, 0, 0)]
    assert [each.generation for each in stage.rebalances()] == [1, 2, 3]
    assert sum(each.restarts for each in stage.rebalances()) == 0
