"""Counters count each event once, when it is stored."""

import asyncio
from collections.abc import Mapping

import pytest
import structlog

from coordinator_core.protocol.errors import RebalanceInProgress
from coordinator_core.protocol.records import RemovalReason
from coordinator_core.protocol.states import GroupState
from coordinator_core.queries.metrics_snapshot import MetricsSnapshot
from coordinator_core.runtime.coordinator import Coordinator
from coordinator_core.runtime.counters import Distribution
from coordinator_core.state_store.interface import StoreUnavailable
from coordinator_core.state_store.rows import Renewal
from tests.support.no_queries import NO_QUERIES
from tests.unit.coordinator_core.runtime.nodes import LEASE_TTL_MS, HeldStore, Member, running, until

pytestmark = pytest.mark.anyio


async def test_a_measurement_counts_in_the_first_bound_that_holds_it() -> None:
    distribution = Distribution((1, 5, 10))
    for value in (0, 1, 1.5, 5, 10, 10.5, 99):
        distribution.add(value)
    assert (distribution.counts, distribution.total) == ([2, 2, 1, 2], 127)


async def test_what_is_not_stored_is_not_counted() -> None:
    store = HeldStore()
    async with running(store) as node:
        member = Member(node, "g")
        await member.settle()
        store.failure = StoreUnavailable("away")
        with_failure = asyncio.gather(member.commit(5), return_exceptions=True)
        await with_failure
        failed = node.counts()
        await until(lambda: node.counts().shards_active == 50, "the shard comes back")
        await member.commit(6)
        counts = node.counts()
    assert (failed.sums.offsets_committed, failed.sums.batches_failed, failed.sums.shards_failed) == (0, 1, 1)
    assert (counts.sums.offsets_committed, counts.sums.shards_acquired) == (1, 51)


async def test_groups_and_members_are_counted_as_they_are() -> None:
    async with running(HeldStore()) as node:
        settled, parked = Member(node, "settled"), Member(node, "parked")
        await settled.settle()
        await parked.settle()
        second = Member(node, "parked")
        waiting = asyncio.create_task(second.join())
        await until(lambda: node.counts().groups.parked_joins == 1, "a join is parked")
        await until(lambda: node.counts().active_timers >= 3, "it is stored, so its time runs")
        groups = node.counts()
        waiting.cancel()
    assert groups.groups.by_state == {
        GroupState.STABLE: 1,
        GroupState.PREPARING_REBALANCE: 1,
        GroupState.COMPLETING_REBALANCE: 0,
        GroupState.EMPTY: 0,
    }
    assert groups.groups.members == 3
    assert sorted(groups.members_of_group) == [("parked", 2), ("settled", 1)]
    assert 0 < groups.lease_left_s <= LEASE_TTL_MS / 1000


async def test_a_group_has_one_deadline_for_its_join_phase_and_each_member_one_for_its_session() -> None:
    async with running(HeldStore()) as node:
        first, second = Member(node, "g"), Member(node, "g")
        await first.settle()
        for _ in range(3):
            await first.heartbeat()
            await first.commit(7)
        assert node.counts().active_timers == 1
        joins = [asyncio.create_task(second.join())]
        await until(lambda: node.counts().active_timers == 3, "the second waits, and the phase has its limit")
        for _ in range(3):
            with pytest.raises(RebalanceInProgress):
                await first.heartbeat()
            assert node.counts().active_timers == 3
        await asyncio.gather(first.join(), *joins)


async def test_a_rebalance_is_counted_by_why_it_began_and_how_it_ended() -> None:
    async with running(HeldStore()) as node:
        member = Member(node, "g")
        await member.settle()
        await member.leave()
        sums = node.counts().sums
    assert sums.rebalances == {("member_joined", "completed"): 1, ("member_left", "emptied"): 1}
    assert sums.phases_started == {"member_joined": 1, "member_left": 1}
    assert (sums.members_joined, sums.members_removed[RemovalReason.LEFT], sums.groups_created) == (1, 1, 1)
    assert sum(sums.rebalance_s["join"].counts) == sum(sums.rebalance_s["sync"].counts) == 1


async def test_heartbeats_are_not_counted_below_the_http_server() -> None:
    async with running(HeldStore()) as node:
        member = Member(node, "g")
        await member.settle()
        before = without_renewals(node)
        for _ in range(3):
            await member.heartbeat()
        after = without_renewals(node)
    assert before == after


def without_renewals(node: Coordinator) -> object:
    """Return all sums but the one that rises by itself."""
    return vars(node.counts().sums) | {"renewals": None}


class AwayStore(HeldStore):
    """A store whose leases cannot be renewed while it is away."""

    def __init__(self) -> None:
        super().__init__()
        self.is_away = False
        self.reason = StoreUnavailable("away")

    def renew(
        self,
        node_id: str,
        listeners: Mapping[str, str],
        version: str,
        epochs: Mapping[int, int],
        ttl_ms: int,
        last: Renewal | None = None,
        cluster_configs: int = 0,
    ) -> Renewal:
        if self.is_away:
            raise self.reason
        return super().renew(node_id, listeners, version, epochs, ttl_ms, last, cluster_configs)


async def test_each_reason_of_an_outage_of_the_database_is_logged_once_and_its_end() -> None:
    store = AwayStore()
    with structlog.testing.capture_logs() as events:
        async with running(store) as node:
            store.is_away = True
            await until(lambda: node.counts().sums.renewals_failed >= 2, "renewals fail")
            store.reason = StoreUnavailable("another password")
            await until(lambda: node.counts().sums.renewals_failed >= 4, "renewals fail for another reason")
            away = (await node.readiness(), node.counts().is_store_reachable)
            store.is_away = False
            await until(lambda: node.counts().is_store_reachable, "the store is back")
    reported = [(event["event"], event.get("reason")) for event in events if event["event"].startswith("database_")]
    assert reported == [
        ("database_unreachable", "StoreUnavailable: away"),
        ("database_unreachable", "StoreUnavailable: another password"),
        ("database_recovered", None),
    ]
    assert (away[0].is_ready, away[1]) == (False, False)


async def test_a_node_that_stops_is_not_ready() -> None:
    async with running(HeldStore()) as node:
        ready = await node.readiness()
    stopped = await node.readiness()
    assert (ready.is_ready, stopped.is_ready, stopped.reasons) == (True, False, ("the node is stopping",))
    assert await MetricsSnapshot(NO_QUERIES, node).offset_totals(by_partition=False) is None
