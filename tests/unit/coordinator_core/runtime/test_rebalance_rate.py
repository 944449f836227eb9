"""A group that rebalances again and again is named with how often it did of late, and of many the most restless."""

import pytest

from coordinator_core.protocol.states import COMPLETING, PREPARING
from coordinator_core.runtime.restless import OF_LATE_MS, RESTLESS_FROM, RestlessGroup, Restlessness
from coordinator_core.runtime.unsettled import NAMED_GROUPS_MAX
from coordinator_core.store.rows import TransitionRow
from tests.unit.coordinator_core.runtime.nodes import HeldStore, JumpingClock, Member, config, running


def phases(group_id: str, number: int, state: str = PREPARING) -> list[TransitionRow]:
    return [TransitionRow(group_id, 1, 0, 0, 1, "Stable", state, "left", None)] * number


def test_a_group_is_named_from_the_third_join_phase_on_with_how_many_began_of_late() -> None:
    seen = Restlessness()
    seen.observe([*phases("quiet", RESTLESS_FROM - 1), *phases("quiet", 9, COMPLETING)], 0)
    seen.observe(phases("loud", RESTLESS_FROM), 0)
    seen.observe(phases("loud", 1), 1)
    assert seen.most(1) == (RestlessGroup("loud", RESTLESS_FROM + 1),)


def test_what_began_longer_ago_is_forgotten_as_it_came() -> None:
    seen = Restlessness()
    seen.observe(phases("g", 2), 0)
    seen.observe(phases("g", 3), 5)
    assert [seen.most(at_ms) for at_ms in (OF_LATE_MS - 1, OF_LATE_MS, OF_LATE_MS + 5)] == [
        (RestlessGroup("g", 5),),
        (RestlessGroup("g", 3),),
        (),
    ]


def test_nobody_has_to_ask_for_what_is_over_to_be_forgotten() -> None:
    seen = Restlessness()
    for minute in range(1_000):
        seen.observe(phases(f"g{minute}", 3), minute * 60_000)
    assert len(vars(seen)["_began"]) == 30
    assert len(vars(seen)["_counts"]) == 10


def test_of_many_the_most_restless_are_named() -> None:
    seen = Restlessness()
    for number in range(NAMED_GROUPS_MAX + 5):
        seen.observe(phases(f"g{number}", number + RESTLESS_FROM), 0)
    named = seen.most(0)
    assert len(named) == NAMED_GROUPS_MAX
    assert named[0] == RestlessGroup("g24", 24 + RESTLESS_FROM)
    assert named[-1] == RestlessGroup("g5", 5 + RESTLESS_FROM)


@pytest.mark.anyio
async def test_a_node_tells_which_of_its_groups_do_not_come_to_rest() -> None:
    clock = JumpingClock()
    async with running(HeldStore(), config(pause_ms=10**9, lease_ttl_ms=10**9), clock) as node:
        await Member(node, "calm").settle()
        for _ in range(2):
            restless = Member(node, "restless")
            await restless.settle()
            await restless.leave()
        counted = node.counts()
        clock.jumped_ms += OF_LATE_MS
        later = node.counts()
    assert counted.restless == (RestlessGroup("restless", 4),)
    assert later.restless == ()
    assert counted.shard_count == 50
