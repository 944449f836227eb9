"""Operations on groups record a change, repeat their response under the same change id, and can be undone."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from uuid import uuid4

import pytest

from coordinator_core.admin.changes import CannotUndo, Change, ChangeNotFound, IdempotencyKeyConflict, find_change
from coordinator_core.admin.groups import delete_group, force_rebalance, remove_member
from coordinator_core.admin.maintenance import apply_run
from coordinator_core.admin.offset_reset import Reset, dry_run_reset_offsets, reset_offsets
from coordinator_core.admin.offsets import delete_offsets, dry_run_delete_offsets
from coordinator_core.admin.settings import put_settings
from coordinator_core.admin.topics import delete_topic, put_topic
from coordinator_core.admin.undo import NOT_UNDOABLE, OF_MANY_GROUPS, OF_ONE_GROUP, undo_change
from coordinator_core.protocol.errors import (
    GroupIdNotFound,
    InvalidRequest,
    NonEmptyGroup,
    RetryError,
    UnknownTopicOrPartition,
)
from coordinator_core.protocol.requests import CommitOffsets, OffsetToCommit, ResetTo
from coordinator_core.protocol.settings import GroupSettings
from coordinator_core.runtime.coordinator import Coordinator
from coordinator_core.state_store.change_actions import ChangeAction
from coordinator_core.state_store.rows import ChangeRow
from tests.support.memory_store import MemoryStore
from tests.support.no_queries import NO_QUERIES
from tests.unit.coordinator_core.runtime.nodes import HeldStore, JumpingClock, Member, config, running, state_of, until
from tests.unit.coordinator_core.runtime.proposals import DUE, decided, propose

pytestmark = pytest.mark.anyio


def a_change(change_id: str | None = None) -> Change:
    return Change("ada", "because", change_id or str(uuid4()))


async def commit(
    node: Coordinator,
    group_id: str,
    *offsets: int,
    topic: str = "t",
    end: int | None = 100,
    trusted: tuple[str, ...] = (),
) -> None:
    """Commit an offset for each of the first partitions, from outside of any group."""
    given = tuple(OffsetToCommit(topic, number, offset, log_end_offset=end) for number, offset in enumerate(offsets))
    await node.submit(group_id, CommitOffsets(node.new_token(), -1, "", None, given, trusted_topic_prefixes=trusted))


async def offsets_of(node: Coordinator, group_id: str) -> list[tuple[str, int, int]]:
    return [(one.topic, one.partition, one.offset) for one in await node.fetch_offsets(group_id, None)]


async def noted(node: Coordinator, change_id: str) -> ChangeRow:
    return (await find_change(node, change_id)).change


async def worked_off(node: Coordinator, run_id: str) -> dict[str, int]:
    """Wait until a run is worked off, and return its candidates by outcome."""
    counts = await decided(node, run_id)
    return {outcome: count for outcome, count in counts.items() if outcome != "candidates"}


EARLIEST = Reset(ResetTo.EARLIEST)

# -- every change is recorded ----------------------------------------------------------------------------


async def test_operation_records_its_change() -> None:
    async with running(MemoryStore()) as node:
        member = Member(node, "g")
        await member.settle()
        forced, removed, deleted = a_change(), a_change(), a_change()
        await force_rebalance(node, "g", forced)
        await remove_member(node, "g", member.member_id, removed)
        await delete_group(node, "g", deleted)
        stable = {"state": "Stable", "generation": 1, "member_count": 1}
        preparing = {**stable, "state": "PreparingRebalance"}
        found = [await noted(node, one.change_id) for one in (forced, removed, deleted)]
        assert [(one.action, one.group_id, one.actor, one.reason) for one in found] == [
            ("force_rebalance", "g", "ada", "because"),
            ("remove_member", "g", "ada", "because"),
            ("delete_group", "g", "ada", "because"),
        ]
        assert (found[0].before, found[0].after) == (stable, preparing)
        assert (found[1].before["client_id"], found[1].after["state"]) == ("c", "Empty")
        assert (found[2].before["state"], found[2].after) == ("Empty", {"state": "Dead", "archived": 0})


async def test_operation_without_effect_records_its_change() -> None:
    async with running(MemoryStore()) as node:
        await commit(node, "g", 1)
        nothing = a_change()
        await delete_offsets(node, "g", "other", 3, nothing)
        assert (await noted(node, nothing.change_id)).before == {"offsets": [], "offset_count": 0}


async def test_refused_operation_records_no_change() -> None:
    store = MemoryStore()
    async with running(store) as node:
        await Member(node, "g").settle()
        with pytest.raises(NonEmptyGroup):
            await delete_group(node, "g", a_change())
        with pytest.raises(InvalidRequest):
            await remove_member(node, "g", "nobody", a_change())
        with pytest.raises(NonEmptyGroup):
            await reset_offsets(node, NO_QUERIES, "g", EARLIEST, a_change())
        with pytest.raises(GroupIdNotFound):
            await force_rebalance(node, "unheard", a_change())
        assert store.history.changes == []


async def test_a_deletion_of_offsets_that_is_refused_leaves_no_change_and_is_decided_again() -> None:
    store = MemoryStore()
    async with running(store) as node:
        member = Member(node, "g")
        await member.settle()
        await member.commit(5)
        deletion = a_change()
        assert (await delete_offsets(node, "g", "t", None, deletion)).is_refused
        assert (await delete_offsets(node, "g", "t", 0, deletion)).is_refused
        assert store.history.changes == []
        await remove_member(node, "g", member.member_id, a_change())
        assert not (await delete_offsets(node, "g", "t", None, deletion)).is_refused
        assert (await noted(node, deletion.change_id)).before["offset_count"] == 1
        assert await offsets_of(node, "g") == []


async def test_dry_run_of_a_deletion_reports_outcomes_and_deletes_nothing() -> None:
    store = MemoryStore()
    async with running(store) as node:
        await commit(node, "g", 5, 6)
        would = await dry_run_delete_offsets(node, "g", "t", None)
        assert [(one.partition, one.error) for one in would.offsets] == [(0, None), (1, None)]
        assert store.history.changes == []
        assert await offsets_of(node, "g") == [("t", 0, 5), ("t", 1, 6)]


async def test_a_change_is_stored_in_the_transaction_of_what_it_changes() -> None:
    store = HeldStore()
    async with running(store) as node:
        await commit(node, "g", 1)
        store.go.clear()
        store.is_writing.clear()
        deletion = asyncio.create_task(delete_group(node, "g", a_change()))
        await asyncio.to_thread(store.is_writing.wait)
        assert (store.history.changes, len(store.stored_offsets("g"))) == ([], 1)
        store.go.set()
        await deletion
        assert (len(store.history.changes), store.stored_offsets("g")) == (1, [])


# -- repeats ------------------------------------------------------------------------------------------------


async def test_repeat_on_another_node_gets_the_recorded_response() -> None:
    store = MemoryStore()
    deletion, reset, end = a_change(), a_change(), a_change()
    async with running(store) as node:
        await commit(node, "g", 5, 6)
        first = await delete_offsets(node, "g", "t", 1, deletion)
        first_reset = await reset_offsets(node, NO_QUERIES, "g", EARLIEST, reset)
        await commit(node, "h", 1)
        await delete_group(node, "h", end)
    async with running(store, config("b")) as node:
        await commit(node, "g", 7, 8)
        await commit(node, "h", 9)
        assert await delete_offsets(node, "g", "t", 1, deletion) == first
        assert await reset_offsets(node, NO_QUERIES, "g", EARLIEST, reset) == first_reset
        await delete_group(node, "h", end)
        assert await offsets_of(node, "g") == [("t", 0, 7), ("t", 1, 8)]
        assert await offsets_of(node, "h") == [("t", 0, 9)]


async def test_concurrent_operations_with_one_change_id_are_done_once() -> None:
    store = MemoryStore()
    async with running(store) as node:
        await commit(node, "g", 50)
        twice = a_change()
        shift = Reset(ResetTo.SHIFT, -10)
        answers = await asyncio.gather(*(reset_offsets(node, NO_QUERIES, "g", shift, twice) for _ in range(2)))
        assert answers[0] == answers[1]
        assert await offsets_of(node, "g") == [("t", 0, 40)]
        assert len(store.history.changes) == 1


async def test_change_id_of_another_operation_is_refused() -> None:
    async with running(MemoryStore()) as node:
        await commit(node, "g", 5)
        taken = a_change()
        await delete_offsets(node, "g", "t", 0, taken)
        with pytest.raises(IdempotencyKeyConflict):
            await delete_offsets(node, "g", "other", 0, taken)
        with pytest.raises(IdempotencyKeyConflict):
            await delete_offsets(node, "h", "t", 0, taken)
        with pytest.raises(IdempotencyKeyConflict):
            await put_settings(node, "g", {"group_max_size": 3}, taken)
        with pytest.raises(IdempotencyKeyConflict):
            await put_topic(node, "t", 3, None, taken)
        with pytest.raises(IdempotencyKeyConflict):
            await undo_change(node, taken.change_id, taken)
        with pytest.raises(IdempotencyKeyConflict):
            await delete_offsets(node, "g", "t", 0, replace(taken, actor="another"))


GIVEN = Reset(ResetTo.GIVEN, given=(("t", 0, 1),))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (Reset(ResetTo.EARLIEST, topics=(("t", (0,)),)), Reset(ResetTo.EARLIEST, topics=(("u", (0,)),))),
        (Reset(ResetTo.EARLIEST, topics=(("t", (0,)),)), Reset(ResetTo.EARLIEST, topics=(("t", None),))),
        (GIVEN, Reset(ResetTo.GIVEN, given=(("t", 0, 2),))),
        (GIVEN, Reset(ResetTo.GIVEN, given=(("u", 0, 1),))),
    ],
)
async def test_a_key_under_which_other_offsets_were_reset_is_refused(first: Reset, second: Reset) -> None:
    async with running(MemoryStore()) as node:
        await commit(node, "g", 5)
        await commit(node, "g", 6, topic="u")
        taken = a_change()
        done = await reset_offsets(node, NO_QUERIES, "g", first, taken)
        with pytest.raises(IdempotencyKeyConflict):
            await reset_offsets(node, NO_QUERIES, "g", second, taken)
        assert await reset_offsets(node, NO_QUERIES, "g", first, taken) == done
        assert [offset for topic, _, offset in await offsets_of(node, "g") if topic == "u"] == [6]


@pytest.mark.parametrize("second", [{"group_max_size": 7}, {"group_max_size": 3, "session_timeout_ms": None}, {}])
async def test_a_key_under_which_other_settings_were_put_is_refused(second: dict[str, int | None]) -> None:
    async with running(MemoryStore()) as node:
        taken = a_change()
        await put_settings(node, "g", {"group_max_size": 3}, taken)
        with pytest.raises(IdempotencyKeyConflict):
            await put_settings(node, "g", second, taken)
        await put_settings(node, "g", {"group_max_size": 3}, taken)
        assert node.metadata_cache.effective_settings("g")["group_max_size"].value == 3


async def test_repeat_refreshes_settings_of_another_node() -> None:
    store = MemoryStore()
    async with running(store) as first, running(store, config("b")) as second:
        put = a_change()
        await put_settings(first, None, {"group_max_size": 3}, put)
        await put_settings(second, None, {"group_max_size": 3}, put)
        assert second.metadata_cache.effective_settings("g")["group_max_size"].value == 3


@pytest.mark.parametrize("second", [(9, None), (3, 5)])
async def test_a_key_under_which_the_topic_was_put_otherwise_is_refused(second: tuple[int, int | None]) -> None:
    async with running(MemoryStore()) as node:
        taken = a_change()
        first = await put_topic(node, "t", 3, None, taken)
        with pytest.raises(IdempotencyKeyConflict):
            await put_topic(node, "t", *second, taken)
        again = await put_topic(node, "t", 3, None, taken)
        assert (again.partitions, again.log_start_offset) == (first.partitions, first.log_start_offset)


# -- resets -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("topics", "offsets"),
    [
        ((), [("t", 0, 3), ("t", 1, 3), ("u", 0, 0)]),
        ((("t", None),), [("t", 0, 3), ("t", 1, 3), ("t", 2, 3), ("u", 0, 8)]),
        ((("u", None),), [("t", 0, 5), ("t", 1, 6), ("u", 0, 0)]),
        ((("t", (1,)), ("u", (4, 4))), [("t", 0, 5), ("t", 1, 3), ("u", 0, 8), ("u", 4, 0)]),
    ],
)
async def test_a_reset_is_of_what_is_named_and_else_of_all_that_is_committed(
    topics: tuple[tuple[str, tuple[int, ...] | None], ...], offsets: list[tuple[str, int, int]]
) -> None:
    """Topic t has three partitions and begins at 3; u is in no catalogue."""
    async with running(MemoryStore()) as node:
        await put_topic(node, "t", 3, 3, a_change())
        await commit(node, "g", 5, 6)
        await commit(node, "g", 8, topic="u")
        await reset_offsets(node, NO_QUERIES, "g", Reset(ResetTo.EARLIEST, topics=topics), a_change())
        assert await offsets_of(node, "g") == offsets


async def test_a_dry_run_changes_nothing_and_is_no_change() -> None:
    store = MemoryStore()
    async with running(store) as node:
        await commit(node, "g", 5)
        answer = await dry_run_reset_offsets(node, NO_QUERIES, "g", EARLIEST)
        assert [(one.old_offset, one.new_offset) for one in answer.offsets] == [(5, 0)]
        assert await offsets_of(node, "g") == [("t", 0, 5)]
        assert store.history.changes == []


async def test_latest_is_the_greatest_reported_log_end() -> None:
    store = MemoryStore()
    async with running(store) as node:
        await commit(node, "g", 5, end=90)
        await commit(node, "untrusted", 5, end=2**63 - 1)
        await commit(node, "elsewhere", 5, end=2**63 - 1, trusted=("clicks",))
        await commit(node, "h", 5, end=120, trusted=("t",))
        await until(lambda: bool(store.log_ends(["t"])), "the end is stored")
        await reset_offsets(node, NO_QUERIES, "g", Reset(ResetTo.LATEST), a_change())
        assert await offsets_of(node, "g") == [("t", 0, 120)]


async def test_reset_of_too_many_partitions_is_refused() -> None:
    async with running(MemoryStore()) as node:
        await put_topic(node, "t", 2**31 - 1, None, a_change())
        with pytest.raises(InvalidRequest, match="may have 10000"):
            await dry_run_reset_offsets(node, NO_QUERIES, "g", Reset(ResetTo.EARLIEST, topics=(("t", None),)))
        with pytest.raises(UnknownTopicOrPartition):
            await dry_run_reset_offsets(node, NO_QUERIES, "g", Reset(ResetTo.EARLIEST, topics=(("unheard", None),)))


async def test_a_group_that_was_made_by_a_reset_is_one() -> None:
    async with running(MemoryStore()) as node:
        await reset_offsets(node, NO_QUERIES, "new", Reset(ResetTo.OFFSET, 4, topics=(("t", (0,)),)), a_change())
        assert state_of(node, "new") == "Empty"
        assert (await Member(node, "new").join()).generation == 1


# -- undo ---------------------------------------------------------------------------------------------------


def outcomes(undo: ChangeRow) -> list[tuple[int, str]]:
    return [(one["partition"], one["outcome"]) for one in undo.after["offsets"]]


async def test_undo_of_a_reset_keeps_newer_commits() -> None:
    store = MemoryStore()
    async with running(store) as node:
        await commit(node, "g", 5, 6)
        reset, undo = a_change(), a_change()
        topics = (("t", (0, 1, 2)),)
        await reset_offsets(node, NO_QUERIES, "g", Reset(ResetTo.OFFSET, 2, topics=topics), reset)
        await commit(node, "g", 77)
        done = await undo_change(node, reset.change_id, undo)
        assert outcomes(done) == [(0, "newer_there"), (1, "restored"), (2, "removed")]
        assert await offsets_of(node, "g") == [("t", 0, 77), ("t", 1, 6)]
        assert [one.expires_at_ms is None for one in store.stored_offsets("g")] == [True, False]
        found = await find_change(node, reset.change_id)
        assert found.undone_by_change_id == undo.change_id


async def test_changes_of_offsets_are_undone_one_after_the_other() -> None:
    async with running(MemoryStore()) as node:
        await commit(node, "g", 100)
        first, second, third = a_change(), a_change(), a_change()
        await reset_offsets(node, NO_QUERIES, "g", Reset(ResetTo.OFFSET, 50, topics=(("t", (0,)),)), first)
        await reset_offsets(node, NO_QUERIES, "g", Reset(ResetTo.OFFSET, 10, topics=(("t", (0,)),)), second)
        await delete_offsets(node, "g", "t", None, third)
        for change, offset in ((third, 10), (second, 50), (first, 100)):
            await undo_change(node, change.change_id, a_change())
            assert await offsets_of(node, "g") == [("t", 0, offset)]


async def test_changes_are_undone_one_after_the_other_by_nodes_whose_clocks_differ() -> None:
    store, ahead = MemoryStore(), JumpingClock()
    ahead.jumped_ms = 60_000
    first, second = a_change(), a_change()
    async with running(store, clock=ahead) as node:
        await commit(node, "g", 100)
        await reset_offsets(node, NO_QUERIES, "g", Reset(ResetTo.OFFSET, 50, topics=(("t", (0,)),)), first)
    async with running(store, config("b")) as node:
        await reset_offsets(node, NO_QUERIES, "g", Reset(ResetTo.OFFSET, 10, topics=(("t", (0,)),)), second)
        await undo_change(node, second.change_id, a_change())
        assert outcomes(await undo_change(node, first.change_id, a_change())) == [(0, "restored")]


async def test_undo_keeps_a_commit_that_another_undo_restored() -> None:
    clock = JumpingClock()
    async with running(MemoryStore(), clock=clock) as node:
        await commit(node, "g", 100)
        first, second = a_change(), a_change()
        await reset_offsets(node, NO_QUERIES, "g", Reset(ResetTo.OFFSET, 50, topics=(("t", (0,)),)), first)
        clock.jumped_ms += 1
        await commit(node, "g", 50)
        await reset_offsets(node, NO_QUERIES, "g", Reset(ResetTo.OFFSET, 10, topics=(("t", (0,)),)), second)
        await undo_change(node, second.change_id, a_change())
        assert outcomes(await undo_change(node, first.change_id, a_change())) == [(0, "newer_there")]


async def test_a_new_commit_clears_the_expiry_of_what_was_restored() -> None:
    store = MemoryStore()
    async with running(store) as node:
        await commit(node, "g", 5)
        deletion = a_change()
        await delete_offsets(node, "g", "t", None, deletion)
        await undo_change(node, deletion.change_id, a_change())
        (restored,) = store.stored_offsets("g")
        assert restored.expires_at_ms == restored.committed_at_ms + GroupSettings().retention_ms
        await commit(node, "g", 6)
        assert [one.expires_at_ms for one in await node.fetch_offsets("g", None)] == [None]


async def test_deleted_group_is_restored_empty_with_its_offsets() -> None:
    store = MemoryStore()
    async with running(store) as node:
        await commit(node, "g", 5, 6)
        deletion = a_change()
        await delete_group(node, "g", deletion)
        await undo_change(node, deletion.change_id, a_change())
        assert await offsets_of(node, "g") == [("t", 0, 5), ("t", 1, 6)]
        assert state_of(node, "g") == "Empty"
    async with running(store, config("b")) as node:
        assert state_of(node, "g") == "Empty"


async def test_a_change_is_undone_once_and_a_repeat_is_answered_alike() -> None:
    async with running(MemoryStore()) as node:
        await commit(node, "g", 5)
        deletion, undo = a_change(), a_change()
        await delete_offsets(node, "g", "t", None, deletion)
        first = await undo_change(node, deletion.change_id, undo)
        assert await undo_change(node, deletion.change_id, undo) == first
        with pytest.raises(CannotUndo, match="already"):
            await undo_change(node, deletion.change_id, a_change())


async def test_undo_is_refused_while_members_consume() -> None:
    async with running(MemoryStore()) as node:
        await commit(node, "g", 5)
        reset = a_change()
        await reset_offsets(node, NO_QUERIES, "g", Reset(ResetTo.OFFSET, 2), reset)
        member = Member(node, "g")
        await member.settle()
        with pytest.raises(NonEmptyGroup):
            await undo_change(node, reset.change_id, a_change())
        await member.leave()
        assert outcomes(await undo_change(node, reset.change_id, a_change())) == [(0, "restored")]


def test_every_action_that_cannot_be_undone_has_a_reason() -> None:
    assert set(ChangeAction) - OF_ONE_GROUP - OF_MANY_GROUPS - {ChangeAction.PUT_SETTINGS} == NOT_UNDOABLE.keys()


async def test_change_that_cannot_be_undone_has_a_reason() -> None:
    async with running(MemoryStore()) as node:
        member = Member(node, "g")
        await member.settle()
        forced, removed, topic, deletion, undo = (a_change() for _ in range(5))
        await force_rebalance(node, "g", forced)
        await remove_member(node, "g", member.member_id, removed)
        await put_topic(node, "t", 3, None, topic)
        await delete_offsets(node, "g", "t", None, deletion)
        await undo_change(node, deletion.change_id, undo)
        for change in (forced, removed, topic, undo):
            with pytest.raises(CannotUndo, match="cannot be undone"):
                await undo_change(node, change.change_id, a_change())
        with pytest.raises(ChangeNotFound):
            await undo_change(node, str(uuid4()), a_change())


async def test_setting_is_undone_at_once() -> None:
    async with running(MemoryStore()) as node:
        change = a_change()
        await put_settings(node, "g", {"group_max_size": 3}, change)
        done = await undo_change(node, change.change_id, a_change())
        assert done.after["settings"] == [{"key": "group_max_size", "outcome": "restored", "value": None}]
        assert node.metadata_cache.effective_settings("g")["group_max_size"].source == "default"


# -- the undo of a run is a run -----------------------------------------------------------------------------


async def expired(node: Coordinator, store: MemoryStore, groups: Sequence[str]) -> str:
    """Let groups commit three offsets each, and a run expire them all; return the change under which it did."""
    change = a_change()
    for group_id in groups:
        await commit(node, group_id, *range(3))
    run_id = propose(store, *groups)
    await apply_run(node, run_id, change)
    assert await worked_off(node, run_id) == {"expired": 3 * len(groups)}
    return change.change_id


async def test_expiry_is_undone_by_a_run_in_chunks() -> None:
    store = MemoryStore()
    groups = [f"g{number}" for number in range(5)]
    async with running(store, config(settings=DUE, maintenance_chunk=4)) as node:
        change_id = await expired(node, store, groups)
        await put_settings(node, None, {"offsets_retention_minutes": 60}, a_change())
        await commit(node, "g1", 99)
        await Member(node, "g2").settle()
        undo = a_change()
        await undo_change(node, change_id, undo)
        assert await worked_off(node, undo.change_id) == {"restored": 11, "newer_there": 1, "group_active": 3}
        assert await offsets_of(node, "g1") == [("t", 0, 99), ("t", 1, 1), ("t", 2, 2)]
        assert state_of(node, "g0") == "Empty"
        with pytest.raises(CannotUndo, match="already"):
            await undo_change(node, change_id, a_change())


async def test_another_node_resumes_an_undo_after_a_crash() -> None:
    store = HeldStore()
    async with running(store, config(settings=DUE, maintenance_chunk=2)) as node:
        change_id = await expired(node, store, ["a", "b"])
        undo = a_change()
        store.go.clear()
        store.is_writing.clear()
        await undo_change(node, change_id, undo)
        await asyncio.to_thread(store.is_writing.wait)
        store.go.set()
    async with running(store, config("b", settings=DUE)) as node:
        assert await worked_off(node, undo.change_id) == {"restored": 6}
        assert len(store.history.archived) == 6


# -- topics -------------------------------------------------------------------------------------------------


async def test_a_deleted_topic_takes_every_group_s_offsets_with_it_and_its_readers_rebalance() -> None:
    store = MemoryStore()
    async with running(store) as node:
        await put_topic(node, "t", 3, None, a_change())
        await commit(node, "g", 5, 6)
        await commit(node, "h", 7)
        await commit(node, "h", 8, topic="u")
        reader = Member(node, "reader")
        await reader.settle()
        await reader.commit(3)
        deletion = a_change()
        after = await delete_topic(node, "t", deletion)
        assert after == {"topic": "t", "run_id": deletion.change_id, "candidates": 4}
        assert await worked_off(node, deletion.change_id) == {"removed": 4}
        assert (await offsets_of(node, "g"), await offsets_of(node, "h")) == ([], [("u", 0, 8)])
        assert {row.cause for row in store.history.archived} == {"topic_deleted"}
        assert state_of(node, "reader") == "PreparingRebalance"
        assert await delete_topic(node, "t", deletion) == after
        assert await delete_topic(node, "t", a_change()) is None


def owns(node: Coordinator, group_id: str) -> bool:
    """Return whether a node answers for a group."""
    try:
        node.describe(group_id)
    except RetryError:
        return False
    return True


async def test_deleted_topic_rebalances_groups_of_other_nodes() -> None:
    store = MemoryStore()
    async with running(store) as first, running(store, config("b")) as second:
        await put_topic(first, "t", 3, None, a_change())
        names = [f"g{number}" for number in range(200)]
        await until(lambda: any(second.find_coordinator(one).node_id == "b" for one in names), "it owns some")
        name = next(one for one in names if second.find_coordinator(one).node_id == "b")
        await until(lambda: owns(second, name), "it serves it")
        await Member(second, name).settle()
        await delete_topic(first, "t", a_change())
        await until(lambda: state_of(second, name) == "PreparingRebalance", "it rebalances")


async def test_deleted_topic_is_restored_with_its_offsets() -> None:
    store = MemoryStore()
    async with running(store) as node:
        await put_topic(node, "t", 3, 2, a_change())
        await commit(node, "g", 5, 6)
        deletion, undo = a_change(), a_change()
        await delete_topic(node, "t", deletion)
        await worked_off(node, deletion.change_id)
        done = await undo_change(node, deletion.change_id, undo)
        assert done.after["topic"] == {"topic": "t", "outcome": "restored"}
        assert await worked_off(node, undo.change_id) == {"restored": 2}
        assert await offsets_of(node, "g") == [("t", 0, 5), ("t", 1, 6)]
        assert [(row.partitions, row.log_start_offset) for row in store.topics()] == [(3, 2)]
