"""A maintenance run that fails does not stop the work on other runs, and is retried later."""

from collections.abc import Iterable, Sequence

import pytest
from structlog.testing import capture_logs

from coordinator_core.admin.maintenance import apply_run
from coordinator_core.admin.undo import undo_change
from coordinator_core.protocol.errors import CoordinatorNotAvailable
from coordinator_core.protocol.hashing import shard_of
from coordinator_core.protocol.requests import StoredOffset
from coordinator_core.runtime.maintenance import EXPIRY_CHECK_MS, RETRY_AFTER_MS
from coordinator_core.state_store.interface import StoreUnavailable
from coordinator_core.state_store.partition_drop import DroppedDay, HasCopy
from coordinator_core.state_store.rows import ArchivedOffset
from coordinator_core.state_store.runs import CandidateRow
from tests.support.memory_store import MemoryStore
from tests.unit.coordinator_core.runtime.nodes import (
    JumpingClock,
    a_change,
    commit_simple,
    config,
    running,
    until,
)
from tests.unit.coordinator_core.runtime.proposals import DUE, decided, outcome_counts, propose

pytestmark = pytest.mark.anyio

LEASE_TTL_MS = 3_000
"""Long enough to keep leases on a busy machine."""


class FailingStore(MemoryStore):
    """A store that fails to read the candidates' offsets of one group."""

    failing_group: str | None = None
    error: Exception = ValueError("year 20000 is out of range")

    def stored_offsets(self, group_id: str, partitions: Sequence[tuple[str, int]] | None = None) -> list[StoredOffset]:
        if group_id == self.failing_group and partitions is not None:
            raise self.error
        return super().stored_offsets(group_id, partitions)


class FailingArchiveStore(MemoryStore):
    """A store that fails to read the next archived day."""

    def drop_archived(self, has_copy: HasCopy) -> DroppedDay | None:
        raise ValueError("year 20000 is out of range")


class EmptiedArchiveStore(MemoryStore):
    """A store whose archive has lost the offsets of partition 0."""

    def archived_offsets(
        self, change_id: str, group_id: str, partitions: Sequence[tuple[str, int]] | None = None
    ) -> list[ArchivedOffset]:
        return [row for row in super().archived_offsets(change_id, group_id, partitions) if row.partition]


class UnreadableStore(MemoryStore):
    """A store that reads no candidates; leases are renewed all the same."""

    reads = 0

    def next_candidates(
        self, shard_ids: Iterable[int], limit: int, without_groups: Sequence[str] = (), without_runs: Sequence[str] = ()
    ) -> list[CandidateRow]:
        self.reads += 1
        raise StoreUnavailable("too many clients already")


class CountingStore(MemoryStore):
    """A store that counts the checks for expired proposals."""

    expiry_checks = 0

    def expire_proposals(self, ttl_hours: int, actor: str) -> list[str]:
        self.expiry_checks += 1
        return super().expire_proposals(ttl_hours, actor)


@pytest.mark.parametrize(
    "error", [ValueError("year 20000 is out of range"), CoordinatorNotAvailable("the database refused it")], ids=str
)
async def test_failing_run_does_not_stop_other_runs(error: Exception) -> None:
    store, clock = FailingStore(), JumpingClock()
    store.error = error
    async with running(store, config(settings=DUE, lease_ttl_ms=LEASE_TTL_MS, maintenance_chunk=1), clock) as node:
        for group_id in ("a", "b"):
            await commit_simple(node, group_id, 2)
        group_of_run = {propose(store, group_id): group_id for group_id in ("a", "b")}
        failing, other = sorted(group_of_run)
        store.failing_group = group_of_run[failing]
        await apply_run(node, failing, a_change())
        assert await outcome_counts(node, other) == {"expired": 2}
        assert store.run(failing).status == "applying"
        store.failing_group = None
        clock.jumped_ms = RETRY_AFTER_MS
        await until(lambda: store.run(failing).status == "applied", "the run is retried")


async def test_candidate_under_the_shard_of_other_groups_is_not_decided() -> None:
    """That shard has no members of the group, and would remove what they have committed."""
    store = MemoryStore()
    with capture_logs() as events:
        async with running(store, config(settings=DUE, lease_ttl_ms=LEASE_TTL_MS)) as node:
            await commit_simple(node, "g", 2)
            run_id = propose(store, "g", shard_id=(shard_of("g", 50) + 1) % 50)
            await apply_run(node, run_id, a_change())
            renewals = node.counts().sums.renewals
            await until(lambda: node.counts().sums.renewals > renewals + 1, "the node renews")
    assert len(store.stored_offsets("g")) == 2
    assert store.run(run_id).status == "applying"
    assert ("maintenance_run_failed", "g") in {(each["event"], each.get("group")) for each in events}


async def test_undo_of_an_offset_that_is_no_longer_in_the_archive_has_an_outcome() -> None:
    store = EmptiedArchiveStore()
    async with running(store, config(settings=DUE, lease_ttl_ms=LEASE_TTL_MS)) as node:
        await commit_simple(node, "g", 2)
        applied = a_change()
        await apply_run(node, run_id := propose(store, "g"), applied)
        assert await decided(node, run_id) == {"expired": 2}
        undo = a_change()
        await undo_change(node, applied.change_id, undo)
        assert await decided(node, undo.change_id) == {"candidates": 2, "restored": 1, "already_gone": 1}


async def test_proposal_without_a_decision_expires() -> None:
    store_clock = JumpingClock()
    store = MemoryStore(clock_ms=lambda: store_clock.now().wall_ms)
    old = propose(store)
    store_clock.jumped_ms = 24 * 3_600_000 + 1
    new = propose(store)
    with capture_logs() as events:
        async with running(store, config(proposal_ttl_hours=24)):
            await until(lambda: store.run(old).status == "rejected", "the old proposal expires")
    decision = store.run(old).decision
    assert decision is not None
    assert (decision.actor, decision.reason) == ("node:a", "expired: no decision within 24 hours")
    assert [each["run"] for each in events if each["event"] == "maintenance_run_expired"] == [old]
    assert store.run(new).status == "proposed"


async def test_expired_proposals_are_looked_for_at_an_interval() -> None:
    store, clock = CountingStore(), JumpingClock()
    async with running(store, config(lease_ttl_ms=LEASE_TTL_MS), clock) as node:
        await until(lambda: store.expiry_checks == 1, "the first check")
        renewals = node.counts().sums.renewals
        await until(lambda: node.counts().sums.renewals > renewals + 2, "the node renews several times")
        assert store.expiry_checks == 1
        clock.jumped_ms = EXPIRY_CHECK_MS
        await until(lambda: store.expiry_checks == 2, "the next check")


async def test_unexpected_error_of_a_run_is_logged_once_until_the_retry() -> None:
    store = FailingStore()
    with capture_logs() as events:
        async with running(store, config(settings=DUE, lease_ttl_ms=LEASE_TTL_MS)) as node:
            await commit_simple(node, "g", 2)
            run_id = propose(store, "g")
            store.failing_group = "g"
            await apply_run(node, run_id, a_change())
            renewals = node.counts().sums.renewals
            await until(lambda: node.counts().sums.renewals > renewals + 3, "the node renews several times")
    failed = [(each["run"], each["group"]) for each in events if each["event"] == "maintenance_run_failed"]
    assert failed == [(run_id, "g")]


async def test_unreadable_archived_day_does_not_stop_runs_of_offsets() -> None:
    store = FailingArchiveStore()
    with capture_logs() as events:
        async with running(store, config(settings=DUE, lease_ttl_ms=LEASE_TTL_MS)) as node:
            await commit_simple(node, "g", 2)
            assert await outcome_counts(node, propose(store, "g")) == {"expired": 2}
    assert [each["event"] for each in events].count("history_drop_failed") == 1


async def test_database_that_reads_no_candidates_is_logged_once() -> None:
    store = UnreadableStore()
    with capture_logs() as events:
        async with running(store, config(lease_ttl_ms=300)):
            await until(lambda: store.reads > 2, "every renewal tries again")
    assert [each["event"] for each in events].count("maintenance_run_paused") == 1
