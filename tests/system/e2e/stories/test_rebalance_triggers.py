"""Everything that makes a group rebalance, one story each, and what it is to the consumers."""

from __future__ import annotations

import pytest

from agent import TopicPartition
from tests.system.e2e.stories.stage import Hold, Rebalance, Stage


def latest(stage: Stage) -> Rebalance:
    return stage.rebalances()[-1]


@pytest.mark.parametrize(("assignor", "reported"), [("range", (2, 1, 0)), ("cooperative-sticky", (2, 0, 0))])
def test_crashed_consumer_is_evicted_when_its_session_expires(
    stage: Stage, assignor: str, reported: tuple[int, int, int]
) -> None:
    stage.configure(group_initial_rebalance_delay_ms=1_500)
    stage.enter("one", assignors=[assignor])
    stage.enter("two", assignors=[assignor])
    third = stage.enter("three", assignors=[assignor], own_line=True, session_timeout_ms=1_500)
    stage.wait_for_shares(1, 1, 1, generation=1)
    third.vanish()
    stage.wait_for_shares(2, 1, generation=2)

    assert [actor.counts() for actor in stage.present()] == [reported, reported]
    assert latest(stage) == Rebalance(2, "session_expired", "three", restarts=0, members_after=2)


def test_the_others_learn_of_a_leave_by_their_heartbeats(stage: Stage) -> None:
    stage.configure(group_initial_rebalance_delay_ms=1_500)
    first = stage.enter("one", own_line=True)
    second = stage.enter("two")
    stage.wait_for_shares(2, 1, generation=1)
    second.exit()
    stage.wait_for_shares(3, generation=2)

    assert first.line is not None
    paths = [path.rpartition("/")[2] for path in first.line.paths]
    last_join = len(paths) - 1 - paths[::-1].index("join")
    assert paths[last_join - 1] == "heartbeat"
    assert first.lines == [("assigned", [0, 1]), ("revoked", [0, 1]), ("assigned", [0, 1, 2])]
    assert latest(stage) == Rebalance(2, "member_left", "two", restarts=0, members_after=1)


def test_a_consumer_that_stops_polling_leaves_by_itself_and_has_lost_everything_when_it_is_back(stage: Stage) -> None:
    stage.configure(group_initial_rebalance_delay_ms=1_500)
    stage.enter("one")
    slow = stage.enter("two", max_poll_interval_ms=1_500)
    stage.wait_for_shares(2, 1, generation=1)
    standing = slow.stand_still()
    stage.wait_for(lambda: stage.actors["one"].assigned_in_generation == 2)
    left_behind = latest(stage)
    standing.release()
    stage.wait_for_shares(2, 1, generation=3)

    assert left_behind == Rebalance(2, "member_left", "two", restarts=0, members_after=1)
    assert slow.lines == [("assigned", [2]), ("lost", [2]), ("assigned", [2])]
    assert stage.actors["one"].counts() == (3, 2, 0)


def test_a_static_consumer_that_stops_polling_only_falls_silent(stage: Stage) -> None:
    stage.configure(group_initial_rebalance_delay_ms=1_500)
    stage.enter("one")
    slow = stage.enter("two", group_instance_id="two", max_poll_interval_ms=1_000, session_timeout_ms=2_500)
    stage.wait_for(lambda: [actor.assigned_in_generation for actor in stage.present()] == [1, 1])
    had = slow.lines[0][1]
    standing = slow.stand_still()
    stage.wait_for(lambda: stage.actors["one"].assigned_in_generation == 2)
    standing.release()
    stage.wait_for(lambda: [actor.assigned_in_generation for actor in stage.present()] == [3, 3])

    assert [each.trigger for each in stage.rebalances()][1:] == ["session_expired", "member_joined"]
    assert slow.lines[:2] == [("assigned", had), ("lost", had)]


def test_a_consumer_slow_in_its_callback_holds_the_rebalance_up_and_loses_nothing(stage: Stage) -> None:
    giving_back = Hold()
    stage.enter("one", in_revoked=giving_back.stand)
    stage.wait_for_shares(3, generation=1)
    stage.enter("two")
    giving_back.wait_until_reached()
    stage.wait_for_group(lambda group: len(group["members"]) == 2)
    state_meanwhile = stage.described()["state"]
    giving_back.release()
    stage.wait_for_shares(2, 1, generation=2)

    assert state_meanwhile == "PreparingRebalance"
    assert stage.actors["one"].lines == [("assigned", [0, 1, 2]), ("revoked", [0, 1, 2]), ("assigned", [0, 1])]
    assert stage.actors["two"].counts() == (1, 0, 0)


def test_a_consumer_that_does_not_come_back_in_time_is_left_out_of_the_generation(stage: Stage) -> None:
    """Its session is long: what ends its stay is the limit on rejoining, the longest that any member asked for."""
    dead = stage.enter("one", own_line=True, max_poll_interval_ms=2_500)
    stage.wait_for_shares(3, generation=1)
    dead.vanish()
    stage.enter("two", max_poll_interval_ms=1_500)
    stage.wait_for_shares(3, generation=2)

    assert stage.actors["two"].counts() == (1, 0, 0)
    assert latest(stage) == Rebalance(2, "member_joined", "two", restarts=0, members_after=1)


def test_a_topic_that_grows_is_shared_anew(stage: Stage) -> None:
    stage.configure(group_initial_rebalance_delay_ms=1_500)
    stage.enter("one")
    stage.enter("two")
    stage.wait_for_shares(2, 1, generation=1)
    stage.call("PUT", f"/v1/topics/{stage.topic}", {"partitions": 6, "reason": "a story"})
    stage.wait_for_shares(3, 3, generation=2)

    assert [actor.counts() for actor in stage.present()] == [(2, 1, 0), (2, 1, 0)]
    assert latest(stage).trigger == "partitions_changed"


def test_a_consumer_that_wants_another_topic_too_makes_everybody_join_again(stage: Stage) -> None:
    stage.configure(group_initial_rebalance_delay_ms=1_500)
    first, second = stage.enter("one"), stage.enter("two")
    stage.wait_for_shares(2, 1, generation=1)
    follower = next(actor for actor in (first, second) if actor.agent.member_id != stage.described()["leader"])
    standing = follower.stand_still()
    follower.agent.subscribe([stage.topic, "another-topic"])
    standing.release()
    stage.wait_for_shares(2, 1, generation=2)

    assert latest(stage) == Rebalance(2, "subscription_changed", follower.name, restarts=0, members_after=2)
    assert [actor.counts() for actor in (first, second)] == [(2, 1, 0), (2, 1, 0)]


def test_a_group_goes_from_one_assignor_to_another_by_restarting_its_consumers_one_by_one(stage: Stage) -> None:
    stage.enter("one", assignors=["range"])
    stage.wait_for_shares(3, generation=1)
    stage.enter("two", assignors=["roundrobin", "range"])
    stage.wait_for_shares(2, 1, generation=2)
    chosen_together = stage.described()["protocol_name"]
    stage.actors["one"].exit()
    stage.wait_for_shares(3, generation=3)
    chosen_alone = stage.described()["protocol_name"]

    assert (chosen_together, chosen_alone) == ("range", "roundrobin")


def test_a_group_of_default_consumers_becomes_cooperative_by_one_restart_of_each(stage: Stage) -> None:
    def wait_for_sizes(*sizes: int) -> None:
        stage.wait_for(lambda: sorted(map(len, stage.shares())) == list(sizes))

    for name in ("one", "two"):
        stage.enter(name)
    wait_for_sizes(1, 2)
    chosen = [stage.described()["protocol_name"]]
    for name in ("one", "two"):
        stage.actors[name].exit()
        wait_for_sizes(3)
        stage.enter(f"{name} again", assignors=["cooperative-sticky"])
        wait_for_sizes(1, 2)
        chosen.append(stage.described()["protocol_name"])
    reported = {actor: len(actor.lines) for actor in stage.present()}
    stage.enter("three", assignors=["cooperative-sticky"])
    wait_for_sizes(1, 1, 1)
    revoked = [numbers for actor, at in reported.items() for what, numbers in actor.lines[at:] if what == "revoked"]

    assert chosen == ["range", "cooperative-sticky", "cooperative-sticky"]
    assert [len(numbers) for numbers in revoked] == [1], "only what goes to the third is revoked"


def test_a_consumer_that_unsubscribes_leaves_at_once(stage: Stage) -> None:
    stage.configure(group_initial_rebalance_delay_ms=1_500)
    stage.enter("one")
    second = stage.enter("two")
    stage.wait_for_shares(2, 1, generation=1)
    standing = second.stand_still()
    second.agent.unsubscribe()
    stage.wait_for(lambda: stage.actors["one"].assigned_in_generation == 2)
    identity = (second.agent.member_id, second.agent.generation)
    second.agent.subscribe([stage.topic])
    standing.release()
    stage.wait_for_shares(2, 1, generation=3)

    assert identity == ("", -1)
    assert second.lines == [("assigned", [2]), ("revoked", [2]), ("assigned", [2])]
    assert [each.trigger for each in stage.rebalances()][1:] == ["member_left", "member_joined"]


def test_a_successor_begins_where_the_vanished_one_has_committed(stage: Stage) -> None:
    stage.configure(group_initial_rebalance_delay_ms=1_500)
    first = stage.enter("one")
    second = stage.enter("two", own_line=True, session_timeout_ms=1_500)
    stage.wait_for_shares(2, 1, generation=1)
    (number,) = second.owned
    partition = TopicPartition(stage.topic, number)
    standing = second.stand_still()
    second.agent.commit({partition: 41})
    standing.release()
    second.vanish()
    stage.wait_for_shares(3, generation=2)
    first.stand_still()

    assert first.agent.position(partition) == 41
