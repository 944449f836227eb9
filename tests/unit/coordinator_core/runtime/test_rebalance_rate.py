"""The groups with the highest rebalance rates are reported, with their recent rebalances."""

import pytest

from coordinator_core.protocol.states import COMPLETING, PREPARING
from coordinator_core.runtime.rebalance_rate import (
    RATE_WINDOW_MS,
    REBALANCE_COUNT_MIN,
    GroupRebalanceRate,
    RebalanceRate,
)
from coordinator_core.runtime.stuck_groups import NAMED_GROUPS_MAX
from coordinator_core.state_store.rows import TransitionRow
from tests.unit.coordinator_core.runtime.nodes import HeldStore, JumpingClock, Member, config, running


def phases(group_id: str, number: int, state: str = PREPARING) -> list[TransitionRow]:
    return [TransitionRow(group_id, 1, 0, 0, 1, "Stable", state, "left", None)] * number


def test_group_is_reported_from_its_third_join_phase() -> None:
    seen = RebalanceRate()
    seen.observe([*phases("quiet", REBALANCE_COUNT_MIN - 1), *phases("quiet", 9, COMPLETING)], 0)
    seen.observe(phases("loud", REBALANCE_COUNT_MIN), 0)
    seen.observe(phases("loud", 1), 1)
    assert seen.most(1) == (GroupRebalanceRate("loud", REBALANCE_COUNT_MIN + 1),)


def test_old_join_phases_are_forgotten() -> None:
    seen = RebalanceRate()
    seen.observe(phases("g", 2), 0)
    seen.observe(phases("g", 3), 5)
    assert [seen.most(at_ms) for at_ms in (RATE_WINDOW_MS - 1, RATE_WINDOW_MS, RATE_WINDOW_MS + 5)] == [
        (GroupRebalanceRate("g", 5),),
        (GroupRebalanceRate("g", 3),),
        (),
    ]


def test_expired_state_is_forgotten_without_requests() -> None:
    seen = RebalanceRate()
    for minute in range(1_000):
        seen.observe(phases(f"g{minute}", 3), minute * 60_000)
    assert len(vars(seen)["_began"]) == 30
    assert len(vars(seen)["_counts"]) == 10


def test_groups_with_the_most_rebalances_are_named() -> None:
    seen = RebalanceRate()
    for number in range(NAMED_GROUPS_MAX + 5):
        seen.observe(phases(f"g{number}", number + REBALANCE_COUNT_MIN), 0)
    named = seen.most(0)
    assert len(named) == NAMED_GROUPS_MAX
    assert named[0] == GroupRebalanceRate("g24", 24 + REBALANCE_COUNT_MIN)
    assert named[-1] == GroupRebalanceRate("g5", 5 + REBALANCE_COUNT_MIN)


@pytest.mark.anyio
async def test_node_reports_its_rebalancing_groups() -> None:
    clock = JumpingClock()
    async with running(HeldStore(), config(pause_ms=10**9, lease_ttl_ms=10**9), clock) as node:
        await Member(node, "calm").settle()
        for _ in range(2):
            churning = Member(node, "rebalance_rates")
            await churning.settle()
            await churning.leave()
        counted = node.counts()
        clock.jumped_ms += RATE_WINDOW_MS
        later = node.counts()
    assert counted.rebalance_rates == (GroupRebalanceRate("rebalance_rates", 4),)
    assert later.rebalance_rates == ()
    assert counted.shard_count == 50
