"""Settings, topic metadata, operations and maintenance runs on existing groups."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from uuid import uuid4

import pytest

from coordinator_core.admin.changes import Change, IdempotencyKeyConflict
from coordinator_core.admin.groups import delete_group, remove_member
from coordinator_core.admin.offsets import delete_offsets
from coordinator_core.admin.settings import put_settings
from coordinator_core.admin.topics import delete_log_ends, delete_topic, put_topic
from coordinator_core.admin.undo import undo_change
from coordinator_core.protocol.errors import CoordinatorNotAvailable, InvalidRequest, NonEmptyGroup, UnknownMemberId
from coordinator_core.runtime.coordinator import Coordinator
from coordinator_core.state_store.change_actions import ChangeAction
from coordinator_core.state_store.rows import ChangeRow, TopicRow, Versions
from tests.support.memory_store import MemoryStore
from tests.support.memory_store.store import wall_clock_ms
from tests.support.waiting import PATIENCE_S
from tests.unit.coordinator_core.runtime.nodes import (
    HeldStore,
    JumpingClock,
    Member,
    a_change,
    commit_simple,
    config,
    running,
    state_of,
    until,
)
from tests.unit.coordinator_core.runtime.proposals import DUE, outcome_counts, propose

pytestmark = pytest.mark.anyio


# -- settings and topic metadata --------------------------------------------------------------------------------


async def test_changed_setting_is_effective_at_once_with_its_source() -> None:
    async with running(MemoryStore()) as node:
        await put_settings(node, "g", {"session_timeout_ms": 7_000, "group_max_size": 3}, a_change())
        await put_settings(node, None, {"group_max_size": 5}, a_change())
        of_group = node.metadata_cache.effective_settings("g")
        assert (of_group["group_max_size"].value, of_group["group_max_size"].source) == (3, "group")
        assert (node.metadata_cache.effective_settings("h")["group_max_size"].value) == 5
        assert (await Member(node, "g").join()).session_timeout_ms == 7_000


async def test_another_node_learns_of_a_setting_within_one_renewal() -> None:
    store = MemoryStore()
    async with running(store) as first, running(store, config("b")) as second:
        await put_settings(first, "g", {"group_max_size": 3}, a_change())
        await until(lambda: second.metadata_cache.effective_settings("g")["group_max_size"].value == 3, "it is known")


class HeldSettings(MemoryStore):
    """A store whose changes of settings wait for `go`."""

    def __init__(self) -> None:
        super().__init__()
        self.has_begun = threading.Event()
        self.go = threading.Event()

    def put_settings(
        self,
        group_id: str | None,
        values: Mapping[str, str | None],
        change: ChangeRow,
        checked: Versions | None = None,
    ) -> bool:
        self.has_begun.set()
        assert self.go.wait(PATIENCE_S), "the test never let the change go"
        return super().put_settings(group_id, values, change, checked)


async def test_change_during_the_stop_of_a_node_is_to_be_repeated() -> None:
    """What it reads afterwards, the node's threads no longer read."""
    store = HeldSettings()
    async with running(store) as node:
        change = asyncio.create_task(put_settings(node, None, {"group_max_size": 5}, a_change()))
        await asyncio.to_thread(store.has_begun.wait)

        async def go_when_threads_end() -> None:
            await until(lambda: node._threads._readers._shutdown, "the threads end")  # type: ignore[attr-defined]
            store.go.set()

        going = asyncio.create_task(go_when_threads_end())
    await going
    with pytest.raises(CoordinatorNotAvailable, match="the node is stopping"):
        await change
    assert store.settings().cluster == {"group_max_size": "5"}


@pytest.mark.parametrize(
    "values",
    [
        {"no_such_setting": 1},
        {"group_max_size": 0},
        {"group_max_size": "many"},
        {"group_min_session_timeout_ms": 2_000_000},
        {"session_timeout_ms": 10_000, "heartbeat_interval_ms": 10_000},
    ],
)
async def test_invalid_setting_is_refused(values: dict[str, int | str]) -> None:
    store = MemoryStore()
    async with running(store) as node:
        with pytest.raises(InvalidRequest):
            await put_settings(node, None, values, a_change())
        assert store.settings().cluster == {}


async def test_cluster_setting_that_conflicts_with_a_group_is_refused() -> None:
    async with running(MemoryStore()) as node:
        await put_settings(node, "tight", {"group_max_session_timeout_ms": 20_000}, a_change())
        said = r"group tight: group_min_session_timeout_ms \(30000\) is above group_max_session_timeout_ms \(20000\)"
        with pytest.raises(InvalidRequest, match=said):
            await put_settings(node, None, {"group_min_session_timeout_ms": 30_000}, a_change())
        assert node.metadata_cache.effective_settings(None)["group_min_session_timeout_ms"].value == 1
        await put_settings(node, None, {"group_min_session_timeout_ms": 20_000}, a_change())


async def test_taking_back_a_setting_of_the_cluster_that_a_group_needs_is_refused() -> None:
    async with running(MemoryStore()) as node:
        wide = a_change()
        await put_settings(node, None, {"group_max_session_timeout_ms": 9_000_000}, wide)
        await put_settings(node, "slow", {"group_min_session_timeout_ms": 2_000_000}, a_change())
        with pytest.raises(InvalidRequest, match="group slow: "):
            await undo_change(node, wide.change_id, a_change())
        assert node.metadata_cache.effective_settings(None)["group_max_session_timeout_ms"].value == 9_000_000


async def test_restored_setting_that_conflicts_with_a_newer_one_is_refused() -> None:
    async with running(MemoryStore()) as node:
        low, high = "group_min_session_timeout_ms", "group_max_session_timeout_ms"
        await put_settings(node, None, {low: 6_000}, a_change())
        short = a_change()
        await put_settings(node, None, {low: 1_000, high: 5_000}, short)
        await put_settings(node, None, {high: 4_000}, a_change())
        with pytest.raises(InvalidRequest, match=r"\(6000\) is above group_max_session_timeout_ms \(4000\)"):
            await undo_change(node, short.change_id, a_change())
        assert node.metadata_cache.effective_settings(None)[low].value == 1_000


async def test_setting_that_an_undo_does_not_restore_cannot_conflict() -> None:
    async with running(MemoryStore()) as node:
        high, change = "group_max_session_timeout_ms", a_change()
        await put_settings(node, None, {high: 20_000}, a_change())
        await put_settings(node, None, {high: 40_000, "group_max_size": 10}, change)
        await put_settings(node, None, {high: 50_000, "session_timeout_ms": 30_000}, a_change())
        done = await undo_change(node, change.change_id, a_change())
        outcomes = {one["key"]: one["outcome"] for one in done.after["settings"]}
        assert outcomes == {high: "newer_there", "group_max_size": "restored"}


class OvertakenStore(MemoryStore):
    """A store in which another node changes settings between the check of a change and its transaction."""

    def __init__(self) -> None:
        super().__init__()
        self._overtaking: tuple[str | None, Mapping[str, str | None], ChangeRow] | None = None

    def overtake(self, group_id: str | None, values: Mapping[str, str | None], change: Change) -> None:
        """Change these settings before the next transaction that changes some."""
        self._overtaking = (group_id, values, change.row(ChangeAction.PUT_SETTINGS, group_id, wall_clock_ms()))

    def _overtake(self) -> None:
        overtaking, self._overtaking = self._overtaking, None
        if overtaking is not None:
            super().put_settings(*overtaking)

    def put_settings(
        self,
        group_id: str | None,
        values: Mapping[str, str | None],
        change: ChangeRow,
        checked: Versions | None = None,
    ) -> bool:
        self._overtake()
        return super().put_settings(group_id, values, change, checked)

    def undo_settings(self, change_id: str, change: ChangeRow, checked: Versions | None = None) -> ChangeRow | None:
        self._overtake()
        return super().undo_settings(change_id, change, checked)


LOW, HIGH = "group_min_session_timeout_ms", "group_max_session_timeout_ms"
OVERTAKING = [(None, None), ("tight", None), (None, "tight")]


@pytest.mark.parametrize(("group_id", "other"), OVERTAKING)
async def test_settings_of_two_nodes_at_once_cannot_conflict(group_id: str | None, other: str | None) -> None:
    store = OvertakenStore()
    async with running(store) as node:
        store.overtake(other, {HIGH: "20000"}, a_change())
        with pytest.raises(InvalidRequest, match=r"\(30000\) is above group_max_session_timeout_ms \(20000\)"):
            await put_settings(node, group_id, {LOW: 30_000}, a_change())
        await put_settings(node, group_id, {LOW: 10_000}, a_change())


async def test_settings_of_one_group_at_once_cannot_conflict() -> None:
    async with running(MemoryStore()) as node:
        changes = (put_settings(node, "g", {key: value}, a_change()) for key, value in ((LOW, 30_000), (HIGH, 20_000)))
        outcomes = await asyncio.gather(*changes, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [type(None), InvalidRequest]


async def test_undo_and_a_change_of_settings_at_once_cannot_conflict() -> None:
    store = OvertakenStore()
    async with running(store) as node:
        low = a_change()
        await put_settings(node, None, {LOW: 30_000}, a_change())
        await put_settings(node, None, {LOW: 1_000}, low)
        store.overtake(None, {HIGH: "20000"}, a_change())
        with pytest.raises(InvalidRequest, match=r"\(30000\) is above group_max_session_timeout_ms \(20000\)"):
            await undo_change(node, low.change_id, a_change())
        assert node.metadata_cache.effective_settings(None)[LOW].value == 1_000


@pytest.mark.parametrize(
    ("group_id", "values"),
    [("other", {"group_max_size": "3"}), ("g", {"group_max_size": "4"})],
    ids=["group", "values"],
)
async def test_idempotency_key_of_two_changes_of_settings_at_once_is_refused(
    group_id: str, values: dict[str, str | None]
) -> None:
    store, change = OvertakenStore(), a_change()
    async with running(store) as node:
        store.overtake(group_id, values, change)
        with pytest.raises(IdempotencyKeyConflict):
            await put_settings(node, "g", {"group_max_size": 3}, change)
        assert store.settings().groups == {group_id: values}


async def test_change_of_settings_that_is_sent_twice_at_once_is_made_once() -> None:
    store, change = OvertakenStore(), a_change()
    async with running(store) as node:
        store.overtake("g", {"group_max_size": "3"}, change)
        await put_settings(node, "g", {"group_max_size": 3}, change)
        assert store.settings().groups == {"g": {"group_max_size": "3"}}


class KeyTakenStore(MemoryStore):
    """A store in which another change takes the id of a change of topics just before its transaction."""

    def _take(self, change: ChangeRow) -> None:
        super().put_settings(None, {"group_max_size": "3"}, replace(change, action=ChangeAction.PUT_SETTINGS))

    def put_topic(self, topic: str, partitions: int, log_start_offset: int | None, change: ChangeRow) -> TopicRow:
        self._take(change)
        return super().put_topic(topic, partitions, log_start_offset, change)

    def delete_topic(self, topic: str, change: ChangeRow) -> ChangeRow | None:
        self._take(change)
        return super().delete_topic(topic, change)

    def delete_log_ends(self, topic: str, partition: int | None, change: ChangeRow) -> ChangeRow:
        self._take(change)
        return super().delete_log_ends(topic, partition, change)


@pytest.mark.parametrize(
    "make",
    [
        lambda node, change: put_topic(node, "orders", 9, None, change),
        lambda node, change: delete_topic(node, "orders", change),
        lambda node, change: delete_log_ends(node, "orders", 0, change),
    ],
    ids=["put", "delete", "delete log ends"],
)
async def test_idempotency_key_of_a_change_of_topics_that_another_takes_meanwhile_is_refused(
    make: Callable[[Coordinator, Change], Awaitable[object]],
) -> None:
    store = KeyTakenStore()
    MemoryStore.put_topic(store, "orders", 6, None, a_change().row(ChangeAction.PUT_TOPIC, None, 0))
    async with running(store) as node:
        with pytest.raises(IdempotencyKeyConflict):
            await make(node, a_change())
        assert [(row.topic, row.partitions) for row in store.topics()] == [("orders", 6)]


async def test_existing_settings_conflict_does_not_block_a_group() -> None:
    store = MemoryStore()
    unchecked = ChangeRow(str(uuid4()), 0, "sql", "put_settings", "odd", None, None, None)
    store.put_settings("odd", {"group_min_session_timeout_ms": "2000000"}, unchecked)
    async with running(store) as node:
        await put_settings(node, None, {"group_max_size": 5}, a_change())
        assert node.metadata_cache.effective_settings("odd")["group_max_size"].value == 5


async def test_a_raised_partition_count_rebalances_the_groups_that_read_the_topic() -> None:
    async with running(MemoryStore()) as node:
        await put_topic(node, "t", 3, None, a_change())
        reader, other = Member(node, "reader"), Member(node, "other", topics=("u",))
        await reader.settle()
        await other.settle()
        await put_topic(node, "t", 6, None, a_change())
        assert state_of(node, "reader") == "PreparingRebalance"
        assert state_of(node, "other") == "Stable"


async def test_a_stored_rebalance_timeout_in_which_no_group_would_settle_counts_as_the_least() -> None:
    store = MemoryStore()
    unchecked = ChangeRow(str(uuid4()), 0, "sql", "put_settings", "g", None, None, None)
    store.put_settings("g", {"rebalance_timeout_ms": "0"}, unchecked)
    async with running(store) as node:
        assert node.metadata_cache.effective_settings("g")["rebalance_timeout_ms"].value == 1_000
        member = Member(node, "g")
        assert (await member.join()).rebalance_timeout_ms == 1_000
        await member.sync((member.member_id, b""))
        assert state_of(node, "g") == "Stable"


async def test_a_lowered_rebalance_timeout_frees_a_group_that_is_stuck() -> None:
    clock = JumpingClock()
    async with running(MemoryStore(), config(pause_ms=10**9, lease_ttl_ms=10**9), clock) as node:
        silent = Member(node, "g")
        await silent.settle()
        joining = asyncio.create_task(Member(node, "g").join())
        await until(lambda: state_of(node, "g") == "PreparingRebalance", "it prepares")
        clock.jumped_ms += 2_000
        await put_settings(node, "g", {"rebalance_timeout_ms": 1_000}, a_change())
        assert (await joining).generation == 2


# -- operators ---------------------------------------------------------------------------------------------


async def test_removed_member_is_unknown() -> None:
    async with running(MemoryStore()) as node:
        member = Member(node, "g")
        await member.settle()
        await remove_member(node, "g", member.member_id, a_change())
        with pytest.raises(UnknownMemberId):
            await member.heartbeat()


async def test_a_group_with_members_is_not_deleted() -> None:
    async with running(MemoryStore()) as node:
        await Member(node, "g").settle()
        with pytest.raises(NonEmptyGroup):
            await delete_group(node, "g", a_change())


async def test_a_deleted_group_leaves_its_offsets_in_the_archive_and_starts_afresh() -> None:
    store = MemoryStore()
    async with running(store) as node:
        await commit_simple(node, "g", 2)
        await delete_group(node, "g", a_change())
        assert node.describe("g") is None
        assert [row.to_state for row in store.history.transitions][-1] == "Dead"
        assert [row.partition for row in store.history.archived] == [0, 1]
        assert (await Member(node, "g").join()).generation == 1


async def test_a_commit_waits_while_offsets_are_read_for_a_deletion() -> None:
    store = HeldStore()
    async with running(store) as node:
        await commit_simple(node, "g", 1)
        store.go.clear()
        store.is_writing.clear()
        deletion = asyncio.create_task(delete_offsets(node, "g", "t", 0, a_change()))
        await asyncio.to_thread(store.is_writing.wait)
        commit = asyncio.create_task(Member(node, "g").commit(99))
        await asyncio.sleep(0)
        store.go.set()
        await asyncio.gather(deletion, commit)
        assert [offset.offset for offset in await node.fetch_offsets("g", None)] == [99]


# -- maintenance -------------------------------------------------------------------------------------------


async def test_a_run_that_is_applied_archives_what_is_due_and_repeats_without_effect() -> None:
    store = MemoryStore()
    async with running(store, config(settings=DUE)) as node:
        await commit_simple(node, "g", 3)
        run_id = propose(store, "g")
        assert (await outcome_counts(node, run_id))["expired"] == 3
        assert await node.fetch_offsets("g", None) == []
        assert len(store.history.archived) == 3
        await commit_simple(node, "g", 1)
        await outcome_counts(node, run_id)
        assert len(await node.fetch_offsets("g", None)) == 1


async def test_an_offset_that_was_committed_since_is_kept() -> None:
    store = MemoryStore()
    async with running(store, config(settings=DUE)) as node:
        await commit_simple(node, "g", 2)
        run_id = propose(store, "g")
        await Member(node, "g").commit(7, partition=1)
        counts = await outcome_counts(node, run_id)
        assert (counts["expired"], counts["committed_since"]) == (1, 1)
        assert [offset.partition for offset in await node.fetch_offsets("g", None)] == [1]


async def test_a_group_that_woke_keeps_what_was_proposed() -> None:
    store = MemoryStore()
    async with running(store, config(settings=DUE)) as node:
        await commit_simple(node, "g", 2)
        run_id = propose(store, "g")
        await Member(node, "g").settle()
        assert (await outcome_counts(node, run_id))["not_due"] == 2


async def test_retention_set_to_for_ever_since_keeps_everything() -> None:
    store = MemoryStore()
    async with running(store, config(settings=DUE)) as node:
        await commit_simple(node, "g", 2)
        run_id = propose(store, "g")
        await put_settings(node, "g", {"offsets_retention_minutes": -1}, a_change())
        assert (await outcome_counts(node, run_id))["not_due"] == 2


async def test_a_run_that_is_only_proposed_takes_nothing() -> None:
    store = MemoryStore()
    async with running(store, config(settings=DUE)) as node:
        await commit_simple(node, "g", 2)
        run_id = propose(store, "g")
        await put_settings(node, None, {"group_max_size": 9}, a_change())
        assert store.run(run_id).status == "proposed"
        assert len(await node.fetch_offsets("g", None)) == 2
