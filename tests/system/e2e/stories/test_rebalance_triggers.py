"""Every trigger of a rebalance, one story each, and its effects on consumers."""

from __future__ import annotations

import pytest

from agent import TopicPartition
from tests.system.e2e.stories.story_group import Pause, Rebalance, StoryGroup


def latest(group: StoryGroup) -> Rebalance:
    return group.rebalances()[-1]


@pytest.mark.slow
@pytest.mark.parametrize(("assignor", "reported"), [("range", (2, 1, 0)), ("cooperative-sticky", (2, 0, 0))])
def test_crashed_consumer_is_evicted_when_its_session_expires(
    group: StoryGroup, assignor: str, reported: tuple[int, int, int]
) -> None:
    group.configure(group_initial_rebalance_delay_ms=1_500)
    group.start("one", assignors=[assignor])
    group.start("two", assignors=[assignor])
    third = group.start("three", assignors=[assignor], has_proxy=True, session_timeout_ms=1_500)
    group.wait_for_shares(1, 1, 1, generation=1)
    third.crash()
    group.wait_for_shares(2, 1, generation=2)

    assert [consumer.counts() for consumer in group.running()] == [reported, reported]
    assert latest(group) == Rebalance(2, "session_expired", "three", restarts=0, members_after=2)


def test_leave_is_reported_to_other_members_by_heartbeat(group: StoryGroup) -> None:
    group.configure(group_initial_rebalance_delay_ms=1_500)
    first = group.start("one", has_proxy=True)
    second = group.start("two")
    group.wait_for_shares(2, 1, generation=1)
    second.close()
    group.wait_for_shares(3, generation=2)

    assert first.proxy is not None
    paths = [path.rpartition("/")[2] for path in first.proxy.paths]
    last_join = len(paths) - 1 - paths[::-1].index("join")
    assert paths[last_join - 1] == "heartbeat"
    assert first.lines == [("assigned", [0, 1]), ("revoked", [0, 1]), ("assigned", [0, 1, 2])]
    assert latest(group) == Rebalance(2, "member_left", "two", restarts=0, members_after=1)


def test_consumer_that_stops_polling_leaves_and_loses_its_partitions(group: StoryGroup) -> None:
    group.configure(group_initial_rebalance_delay_ms=1_500)
    group.start("one")
    slow = group.start("two", max_poll_interval_ms=1_500)
    group.wait_for_shares(2, 1, generation=1)
    pause = slow.pause()
    group.wait_for(lambda: group.consumers["one"].assigned_in_generation == 2)
    after_leave = latest(group)
    pause.release()
    group.wait_for_shares(2, 1, generation=3)

    assert after_leave == Rebalance(2, "member_left", "two", restarts=0, members_after=1)
    assert slow.lines == [("assigned", [2]), ("lost", [2]), ("assigned", [2])]
    assert group.consumers["one"].counts() == (3, 2, 0)


@pytest.mark.slow
def test_static_consumer_that_stops_polling_stops_heartbeats_without_leaving(group: StoryGroup) -> None:
    group.configure(group_initial_rebalance_delay_ms=1_500)
    group.start("one")
    slow = group.start("two", group_instance_id="two", max_poll_interval_ms=1_000, session_timeout_ms=2_500)
    group.wait_for(lambda: [consumer.assigned_in_generation for consumer in group.running()] == [1, 1])
    had = slow.lines[0][1]
    pause = slow.pause()
    group.wait_for(lambda: group.consumers["one"].assigned_in_generation == 2)
    pause.release()
    group.wait_for(lambda: [consumer.assigned_in_generation for consumer in group.running()] == [3, 3])

    assert [each.trigger for each in group.rebalances()][1:] == ["session_expired", "member_joined"]
    assert slow.lines[:2] == [("assigned", had), ("lost", had)]


def test_slow_callback_delays_the_rebalance_and_loses_nothing(group: StoryGroup) -> None:
    revocation = Pause()
    group.start("one", in_revoked=revocation.block)
    group.wait_for_shares(3, generation=1)
    group.start("two")
    revocation.wait_until_reached()
    group.wait_for_group(lambda description: len(description["members"]) == 2)
    state_meanwhile = group.described()["state"]
    revocation.release()
    group.wait_for_shares(2, 1, generation=2)

    assert state_meanwhile == "PreparingRebalance"
    assert group.consumers["one"].lines == [("assigned", [0, 1, 2]), ("revoked", [0, 1, 2]), ("assigned", [0, 1])]
    assert group.consumers["two"].counts() == (1, 0, 0)


def test_consumer_that_rejoins_late_is_not_in_the_generation(group: StoryGroup) -> None:
    """Its session is long: it is evicted at the rebalance timeout, the longest that any member requested."""
    dead = group.start("one", has_proxy=True, max_poll_interval_ms=2_500)
    group.wait_for_shares(3, generation=1)
    dead.crash()
    group.start("two", max_poll_interval_ms=1_500)
    group.wait_for_shares(3, generation=2)

    assert group.consumers["two"].counts() == (1, 0, 0)
    assert latest(group) == Rebalance(2, "member_joined", "two", restarts=0, members_after=1)


def test_added_partitions_are_assigned(group: StoryGroup) -> None:
    group.configure(group_initial_rebalance_delay_ms=1_500)
    group.start("one")
    group.start("two")
    group.wait_for_shares(2, 1, generation=1)
    group.call("PUT", f"/v1/topics/{group.topic}", {"partitions": 6, "reason": "a story"})
    group.wait_for_shares(3, 3, generation=2)

    assert [consumer.counts() for consumer in group.running()] == [(2, 1, 0), (2, 1, 0)]
    assert latest(group).trigger == "partitions_changed"


def test_changed_subscription_makes_every_member_rejoin(group: StoryGroup) -> None:
    group.configure(group_initial_rebalance_delay_ms=1_500)
    first, second = group.start("one"), group.start("two")
    group.wait_for_shares(2, 1, generation=1)
    follower = next(consumer for consumer in (first, second) if consumer.agent.member_id != group.described()["leader"])
    pause = follower.pause()
    follower.agent.subscribe([group.topic, "another-topic"])
    pause.release()
    group.wait_for_shares(2, 1, generation=2)

    assert latest(group) == Rebalance(2, "subscription_changed", follower.name, restarts=0, members_after=2)
    assert [consumer.counts() for consumer in (first, second)] == [(2, 1, 0), (2, 1, 0)]


def test_rolling_restart_changes_the_assignor(group: StoryGroup) -> None:
    group.start("one", assignors=["range"])
    group.wait_for_shares(3, generation=1)
    group.start("two", assignors=["roundrobin", "range"])
    group.wait_for_shares(2, 1, generation=2)
    chosen_together = group.described()["protocol_name"]
    group.consumers["one"].close()
    group.wait_for_shares(3, generation=3)
    chosen_alone = group.described()["protocol_name"]

    assert (chosen_together, chosen_alone) == ("range", "roundrobin")


def test_one_rolling_restart_makes_a_default_group_cooperative(group: StoryGroup) -> None:
    def wait_for_sizes(*sizes: int) -> None:
        group.wait_for(lambda: sorted(map(len, group.shares())) == list(sizes))

    for name in ("one", "two"):
        group.start(name)
    wait_for_sizes(1, 2)
    chosen = [group.described()["protocol_name"]]
    for name in ("one", "two"):
        group.consumers[name].close()
        wait_for_sizes(3)
        group.start(f"{name} again", assignors=["cooperative-sticky"])
        wait_for_sizes(1, 2)
        chosen.append(group.described()["protocol_name"])
    reported = {consumer: len(consumer.lines) for consumer in group.running()}
    group.start("three", assignors=["cooperative-sticky"])
    wait_for_sizes(1, 1, 1)
    revoked = [
        numbers for consumer, at in reported.items() for what, numbers in consumer.lines[at:] if what == "revoked"
    ]

    assert chosen == ["range", "cooperative-sticky", "cooperative-sticky"]
    assert [len(numbers) for numbers in revoked] == [1], "only what goes to the third is revoked"


def test_a_consumer_that_unsubscribes_leaves_at_once(group: StoryGroup) -> None:
    group.configure(group_initial_rebalance_delay_ms=1_500)
    group.start("one")
    second = group.start("two")
    group.wait_for_shares(2, 1, generation=1)
    pause = second.pause()
    second.agent.unsubscribe()
    group.wait_for(lambda: group.consumers["one"].assigned_in_generation == 2)
    identity = (second.agent.member_id, second.agent.generation)
    second.agent.subscribe([group.topic])
    pause.release()
    group.wait_for_shares(2, 1, generation=3)

    assert identity == ("", -1)
    assert second.lines == [("assigned", [2]), ("revoked", [2]), ("assigned", [2])]
    assert [each.trigger for each in group.rebalances()][1:] == ["member_left", "member_joined"]


@pytest.mark.slow
def test_new_member_resumes_at_offsets_committed_by_a_crashed_one(group: StoryGroup) -> None:
    group.configure(group_initial_rebalance_delay_ms=1_500)
    first = group.start("one")
    second = group.start("two", has_proxy=True, session_timeout_ms=1_500)
    group.wait_for_shares(2, 1, generation=1)
    (number,) = second.owned
    partition = TopicPartition(group.topic, number)
    pause = second.pause()
    second.agent.commit({partition: 41})
    pause.release()
    second.crash()
    group.wait_for_shares(3, generation=2)
    first.pause()

    assert first.agent.position(partition) == 41
