"""Operators' acts on live groups: each leaves its change, is answered alike when it is repeated, and can be undone."""

import asyncio
from collections.abc import Sequence
from uuid import uuid4

import pytest

from coordinator_core.protocol.errors import (
    GroupIdNotFound,
    InvalidRequest,
    NonEmptyGroup,
    RetryError,
    UnknownTopicOrPartition,
)
from coordinator_core.protocol.requests import CommitOffsets, OffsetToCommit, ResetTo
from coordinator_core.protocol.settings import GroupSettings
from coordinator_core.runtime.act import Act, CannotUndo, ChangeUnknown, KeyTaken
from coordinator_core.runtime.coordinator import Coordinator
from coordinator_core.runtime.resetting import Reset
from coordinator_core.store.memory import MemoryStore
from coordinator_core.store.memory.store import wall_clock_ms
from coordinator_core.store.rows import ChangeRow
from tests.support.waiting import limited
from tests.unit.coordinator_core.runtime.nodes import HeldStore, Member, config, running, state_of, until
from tests.unit.coordinator_core.runtime.proposals import DUE, propose

pytestmark = pytest.mark.anyio


def act(change_id: str | None = None) -> Act:
    return Act("ada", "because", change_id or str(uuid4()))


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
    await node.ask(group_id, CommitOffsets(node.new_token(), -1, "", None, given, trusted_topics=trusted))


async def offsets_of(node: Coordinator, group_id: str) -> list[tuple[str, int, int]]:
    return [(one.topic, one.partition, one.offset) for one in await node.fetch_offsets(group_id, None)]


async def noted(node: Coordinator, change_id: str) -> ChangeRow:
    return (await node.operators.change(change_id)).change


async def worked_off(node: Coordinator, run_id: str) -> dict[str, int]:
    """Wait until a run is worked off, and return its candidates by outcome."""
    async with limited("the run is worked off"):
        while (run := await node.run(run_id)).status != "applied":  # noqa: ASYNC110 - only the store knows
            await asyncio.sleep(0.005)
    return {outcome: count for outcome, count in run.counts.items() if outcome != "candidates"}


EARLIEST = Reset(ResetTo.EARLIEST)

# -- every act leaves its change ----------------------------------------------------------------------------


async def test_an_operator_s_act_is_noted_with_what_it_changed() -> None:
    async with running(MemoryStore()) as node:
        member = Member(node, "g")
        await member.settle()
        forced, put_out, deleted = act(), act(), act()
        await node.operators.force_rebalance("g", forced)
        await node.operators.remove_member("g", member.member_id, put_out)
        await node.operators.delete_group("g", deleted)
        stable = {"state": "Stable", "generation": 1, "member_count": 1}
        preparing = {**stable, "state": "PreparingRebalance"}
        found = [await noted(node, one.change_id) for one in (forced, put_out, deleted)]
        assert [(one.action, one.group_id, one.actor, one.reason) for one in found] == [
            ("force_rebalance", "g", "ada", "because"),
            ("remove_member", "g", "ada", "because"),
            ("delete_group", "g", "ada", "because"),
        ]
        assert (found[0].before, found[0].after) == (stable, preparing)
        assert (found[1].before["client_id"], found[1].after["state"]) == ("c", "Empty")
        assert (found[2].before["state"], found[2].after) == ("Empty", {"state": "Dead", "archived": 0})


async def test_an_act_that_found_nothing_to_change_is_noted_all_the_same() -> None:
    async with running(MemoryStore()) as node:
        await commit(node, "g", 1)
        nothing = act()
        await node.operators.delete_offsets("g", "other", 3, nothing)
        assert (await noted(node, nothing.change_id)).before == {"offsets": [], "offset_count": 0}


async def test_a_refused_act_leaves_no_change() -> None:
    store = MemoryStore()
    async with running(store) as node:
        await Member(node, "g").settle()
        with pytest.raises(NonEmptyGroup):
            await node.operators.delete_group("g", act())
        with pytest.raises(InvalidRequest):
            await node.operators.remove_member("g", "nobody", act())
        with pytest.raises(NonEmptyGroup):
            await node.operators.reset_offsets("g", EARLIEST, act())
        with pytest.raises(GroupIdNotFound):
            await node.operators.force_rebalance("unheard", act())
        assert store.history.changes == []


async def test_a_deletion_of_offsets_that_is_refused_leaves_no_change_and_is_decided_again() -> None:
    store = MemoryStore()
    async with running(store) as node:
        member = Member(node, "g")
        await member.settle()
        await member.commit(5)
        deletion = act()
        assert (await node.operators.delete_offsets("g", "t", None, deletion)).is_refused
        assert (await node.operators.delete_offsets("g", "t", 0, deletion)).is_refused
        assert store.history.changes == []
        await node.operators.remove_member("g", member.member_id, act())
        assert not (await node.operators.delete_offsets("g", "t", None, deletion)).is_refused
        assert (await noted(node, deletion.change_id)).before["offset_count"] == 1
        assert await offsets_of(node, "g") == []


async def test_a_dry_run_of_a_deletion_tells_what_would_be_and_leaves_everything() -> None:
    store = MemoryStore()
    async with running(store) as node:
        await commit(node, "g", 5, 6)
        would = await node.operators.try_deletion("g", "t", None)
        assert [(one.partition, one.error) for one in would.offsets] == [(0, None), (1, None)]
        assert store.history.changes == []
        assert await offsets_of(node, "g") == [("t", 0, 5), ("t", 1, 6)]


async def test_a_change_is_stored_in_the_transaction_of_what_it_changes() -> None:
    store = HeldStore()
    async with running(store) as node:
        await commit(node, "g", 1)
        store.go.clear()
        store.is_writing.clear()
        deletion = asyncio.create_task(node.operators.delete_group("g", act()))
        await asyncio.to_thread(store.is_writing.wait)
        assert (store.history.changes, len(store.stored_offsets("g"))) == ([], 1)
        store.go.set()
        await deletion
        assert (len(store.history.changes), store.stored_offsets("g")) == (1, [])


# -- repeats ------------------------------------------------------------------------------------------------


async def test_a_repeat_is_answered_as_the_first_was_by_another_node_too() -> None:
    store = MemoryStore()
    deletion, reset, end = act(), act(), act()
    async with running(store) as node:
        await commit(node, "g", 5, 6)
        first = await node.operators.delete_offsets("g", "t", 1, deletion)
        first_reset = await node.operators.reset_offsets("g", EARLIEST, reset)
        await commit(node, "h", 1)
        await node.operators.delete_group("h", end)
    async with running(store, config("b")) as node:
        await commit(node, "g", 7, 8)
        await commit(node, "h", 9)
        assert await node.operators.delete_offsets("g", "t", 1, deletion) == first
        assert await node.operators.reset_offsets("g", EARLIEST, reset) == first_reset
        await node.operators.delete_group("h", end)
        assert await offsets_of(node, "g") == [("t", 0, 7), ("t", 1, 8)]
        assert await offsets_of(node, "h") == [("t", 0, 9)]


async def test_two_alike_at_once_are_done_once() -> None:
    store = MemoryStore()
    async with running(store) as node:
        await commit(node, "g", 50)
        twice = act()
        shift = Reset(ResetTo.SHIFT, -10)
        answers = await asyncio.gather(*(node.operators.reset_offsets("g", shift, twice) for _ in range(2)))
        assert answers[0] == answers[1]
        assert await offsets_of(node, "g") == [("t", 0, 40)]
        assert len(store.history.changes) == 1


async def test_a_key_that_belongs_to_another_act_is_refused() -> None:
    async with running(MemoryStore()) as node:
        await commit(node, "g", 5)
        taken = act()
        await node.operators.delete_offsets("g", "t", 0, taken)
        with pytest.raises(KeyTaken):
            await node.operators.delete_offsets("g", "other", 0, taken)
        with pytest.raises(KeyTaken):
            await node.operators.delete_offsets("h", "t", 0, taken)
        with pytest.raises(KeyTaken):
            await node.operators.put_settings("g", {"group_max_size": 3}, taken)
        with pytest.raises(KeyTaken):
            await node.operators.put_topic("t", 3, None, taken)
        with pytest.raises(KeyTaken):
            await node.operators.undo(taken.change_id, taken)


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
        taken = act()
        done = await node.operators.reset_offsets("g", first, taken)
        with pytest.raises(KeyTaken):
            await node.operators.reset_offsets("g", second, taken)
        assert await node.operators.reset_offsets("g", first, taken) == done
        assert [offset for topic, _, offset in await offsets_of(node, "g") if topic == "u"] == [6]


async def test_a_reset_that_an_earlier_version_noted_is_answered_as_it_was() -> None:
    store = MemoryStore()
    async with running(store) as node:
        await commit(node, "g", 5)
        reset = act()
        done = await node.operators.reset_offsets("g", GIVEN, reset)
        (change,) = store.history.changes
        del change.after["asked"]
        assert await node.operators.reset_offsets("g", GIVEN, reset) == done


@pytest.mark.parametrize("second", [{"group_max_size": 7}, {"group_max_size": 3, "session_timeout_ms": None}, {}])
async def test_a_key_under_which_other_settings_were_put_is_refused(second: dict[str, int | None]) -> None:
    async with running(MemoryStore()) as node:
        taken = act()
        await node.operators.put_settings("g", {"group_max_size": 3}, taken)
        with pytest.raises(KeyTaken):
            await node.operators.put_settings("g", second, taken)
        await node.operators.put_settings("g", {"group_max_size": 3}, taken)
        assert node.settings_in_force("g")["group_max_size"].value == 3


async def test_a_repeat_shows_the_setting_on_a_node_that_has_not_looked_since() -> None:
    store = MemoryStore()
    async with running(store) as first, running(store, config("b")) as second:
        put = act()
        await first.operators.put_settings("g", {"group_max_size": 3}, put)
        await second.operators.put_settings("g", {"group_max_size": 3}, put)
        assert second.settings_in_force("g")["group_max_size"].value == 3


@pytest.mark.parametrize("second", [(9, None), (3, 5)])
async def test_a_key_under_which_the_topic_was_put_otherwise_is_refused(second: tuple[int, int | None]) -> None:
    async with running(MemoryStore()) as node:
        taken = act()
        first = await node.operators.put_topic("t", 3, None, taken)
        with pytest.raises(KeyTaken):
            await node.operators.put_topic("t", *second, taken)
        again = await node.operators.put_topic("t", 3, None, taken)
        assert (again.partitions, again.log_start_offset) == (first.partitions, first.log_start_offset)


# -- resets -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("topics", "offsets"),
    [
        ((), [("t", 0, 3), ("t", 1, 3), ("t", 2, 3), ("u", 0, 0)]),
        ((("t", None),), [("t", 0, 3), ("t", 1, 3), ("t", 2, 3), ("u", 0, 8)]),
        ((("u", None),), [("t", 0, 5), ("t", 1, 6), ("u", 0, 0)]),
        ((("t", (1,)), ("u", (4, 4))), [("t", 0, 5), ("t", 1, 3), ("u", 0, 8), ("u", 4, 0)]),
    ],
)
async def test_a_reset_is_of_what_is_named_and_else_of_all_that_is_known(
    topics: tuple[tuple[str, tuple[int, ...] | None], ...], offsets: list[tuple[str, int, int]]
) -> None:
    """Topic t has three partitions and begins at 3; u is in no catalogue."""
    async with running(MemoryStore()) as node:
        await node.operators.put_topic("t", 3, 3, act())
        await commit(node, "g", 5, 6)
        await commit(node, "g", 8, topic="u")
        await node.operators.reset_offsets("g", Reset(ResetTo.EARLIEST, topics=topics), act())
        assert await offsets_of(node, "g") == offsets


async def test_a_dry_run_changes_nothing_and_is_no_change() -> None:
    store = MemoryStore()
    async with running(store) as node:
        await commit(node, "g", 5)
        answer = await node.operators.try_reset("g", EARLIEST)
        assert [(one.old_offset, one.new_offset) for one in answer.offsets] == [(5, 0)]
        assert await offsets_of(node, "g") == [("t", 0, 5)]
        assert store.history.changes == []


async def test_latest_is_the_furthest_end_that_a_trusted_reporter_or_the_group_itself_named() -> None:
    store = MemoryStore()
    async with running(store) as node:
        await commit(node, "g", 5, end=90)
        await commit(node, "untrusted", 5, end=2**63 - 1)
        await commit(node, "elsewhere", 5, end=2**63 - 1, trusted=("clicks",))
        await commit(node, "h", 5, end=120, trusted=("t",))
        await until(lambda: bool(store.log_ends(["t"])), "the end is stored")
        await node.operators.reset_offsets("g", Reset(ResetTo.LATEST), act())
        assert await offsets_of(node, "g") == [("t", 0, 120)]


async def test_a_datetime_is_what_was_committed_then() -> None:
    store = MemoryStore()
    async with running(store) as node:
        await commit(node, "g", 5)
        at_ms = store.stored_offsets("g")[0].committed_at_ms
        await until(lambda: wall_clock_ms() > at_ms, "time passes")
        await node.operators.reset_offsets("g", Reset(ResetTo.OFFSET, 9), act())
        await node.operators.reset_offsets("g", Reset(ResetTo.DATETIME, at_ms=at_ms), act())
        assert await offsets_of(node, "g") == [("t", 0, 5)]
        with pytest.raises(InvalidRequest, match="t 0"):
            await node.operators.reset_offsets("g", Reset(ResetTo.DATETIME, at_ms=at_ms - 1), act())


async def test_a_reset_that_comes_to_too_many_partitions_is_refused() -> None:
    async with running(MemoryStore()) as node:
        await node.operators.put_topic("t", 2**31 - 1, None, act())
        with pytest.raises(InvalidRequest, match="may come to 10000"):
            await node.operators.try_reset("g", Reset(ResetTo.EARLIEST, topics=(("t", None),)))
        with pytest.raises(UnknownTopicOrPartition):
            await node.operators.try_reset("g", Reset(ResetTo.EARLIEST, topics=(("unheard", None),)))


async def test_a_group_that_was_made_by_a_reset_is_one() -> None:
    async with running(MemoryStore()) as node:
        await node.operators.reset_offsets("new", Reset(ResetTo.OFFSET, 4, topics=(("t", (0,)),)), act())
        assert state_of(node, "new") == "Empty"
        assert (await Member(node, "new").join()).generation == 1


# -- undo ---------------------------------------------------------------------------------------------------


def outcomes(undo: ChangeRow) -> list[tuple[int, str]]:
    return [(one["partition"], one["outcome"]) for one in undo.after["offsets"]]


async def test_a_reset_is_taken_back_but_not_what_was_committed_since() -> None:
    store = MemoryStore()
    async with running(store) as node:
        await commit(node, "g", 5, 6)
        reset, undo = act(), act()
        topics = (("t", (0, 1, 2)),)
        await node.operators.reset_offsets("g", Reset(ResetTo.OFFSET, 2, topics=topics), reset)
        await commit(node, "g", 77)
        done = await node.operators.undo(reset.change_id, undo)
        assert outcomes(done) == [(0, "newer_there"), (1, "restored"), (2, "removed")]
        assert await offsets_of(node, "g") == [("t", 0, 77), ("t", 1, 6)]
        assert [one.expires_at_ms is None for one in store.stored_offsets("g")] == [True, False]
        found = await node.operators.change(reset.change_id)
        assert found.undone_by == undo.change_id


async def test_a_new_commit_clears_the_expiry_of_what_was_restored() -> None:
    store = MemoryStore()
    async with running(store) as node:
        await commit(node, "g", 5)
        deletion = act()
        await node.operators.delete_offsets("g", "t", None, deletion)
        await node.operators.undo(deletion.change_id, act())
        (restored,) = store.stored_offsets("g")
        assert restored.expires_at_ms == restored.committed_at_ms + GroupSettings().retention_ms
        await commit(node, "g", 6)
        assert [one.expires_at_ms for one in store.stored_offsets("g")] == [None]


async def test_a_deleted_group_comes_back_empty_with_its_offsets() -> None:
    store = MemoryStore()
    async with running(store) as node:
        await commit(node, "g", 5, 6)
        deletion = act()
        await node.operators.delete_group("g", deletion)
        await node.operators.undo(deletion.change_id, act())
        assert await offsets_of(node, "g") == [("t", 0, 5), ("t", 1, 6)]
        assert state_of(node, "g") == "Empty"
    async with running(store, config("b")) as node:
        assert state_of(node, "g") == "Empty"


async def test_a_change_is_undone_once_and_a_repeat_is_answered_alike() -> None:
    async with running(MemoryStore()) as node:
        await commit(node, "g", 5)
        deletion, undo = act(), act()
        await node.operators.delete_offsets("g", "t", None, deletion)
        first = await node.operators.undo(deletion.change_id, undo)
        assert await node.operators.undo(deletion.change_id, undo) == first
        with pytest.raises(CannotUndo, match="already"):
            await node.operators.undo(deletion.change_id, act())


async def test_positions_are_not_moved_under_consumers_until_they_stop() -> None:
    async with running(MemoryStore()) as node:
        await commit(node, "g", 5)
        reset = act()
        await node.operators.reset_offsets("g", Reset(ResetTo.OFFSET, 2), reset)
        member = Member(node, "g")
        await member.settle()
        with pytest.raises(NonEmptyGroup):
            await node.operators.undo(reset.change_id, act())
        await member.leave()
        assert outcomes(await node.operators.undo(reset.change_id, act())) == [(0, "restored")]


async def test_what_cannot_be_undone_says_so() -> None:
    async with running(MemoryStore()) as node:
        member = Member(node, "g")
        await member.settle()
        forced, put_out, topic, deletion, undo = (act() for _ in range(5))
        await node.operators.force_rebalance("g", forced)
        await node.operators.remove_member("g", member.member_id, put_out)
        await node.operators.put_topic("t", 3, None, topic)
        await node.operators.delete_offsets("g", "t", None, deletion)
        await node.operators.undo(deletion.change_id, undo)
        for change in (forced, put_out, topic, undo):
            with pytest.raises(CannotUndo, match="cannot be undone"):
                await node.operators.undo(change.change_id, act())
        with pytest.raises(ChangeUnknown):
            await node.operators.undo(str(uuid4()), act())


async def test_a_setting_is_taken_back_at_once() -> None:
    async with running(MemoryStore()) as node:
        change = act()
        await node.operators.put_settings("g", {"group_max_size": 3}, change)
        done = await node.operators.undo(change.change_id, act())
        assert done.after["settings"] == [{"key": "group_max_size", "outcome": "restored", "value": None}]
        assert node.settings_in_force("g")["group_max_size"].source == "default"


# -- the undo of a run is a run -----------------------------------------------------------------------------


async def expired(node: Coordinator, store: MemoryStore, groups: Sequence[str]) -> str:
    """Let groups commit three offsets each, and a run expire them all; return the change under which it did."""
    change = act()
    for group_id in groups:
        await commit(node, group_id, *range(3))
    run_id = propose(store, *groups)
    await node.operators.apply_run(run_id, change)
    assert await worked_off(node, run_id) == {"expired": 3 * len(groups)}
    return change.change_id


async def test_an_expiry_is_taken_back_by_a_run_in_chunks() -> None:
    store = MemoryStore()
    groups = [f"g{number}" for number in range(5)]
    async with running(store, config(settings=DUE, maintenance_chunk=4)) as node:
        change_id = await expired(node, store, groups)
        await node.operators.put_settings(None, {"offsets_retention_minutes": 60}, act())
        await commit(node, "g1", 99)
        await Member(node, "g2").settle()
        undo = act()
        await node.operators.undo(change_id, undo)
        assert await worked_off(node, undo.change_id) == {"restored": 11, "newer_there": 1, "group_active": 3}
        assert await offsets_of(node, "g1") == [("t", 0, 99), ("t", 1, 1), ("t", 2, 2)]
        assert state_of(node, "g0") == "Empty"
        with pytest.raises(CannotUndo, match="already"):
            await node.operators.undo(change_id, act())


async def test_another_node_goes_on_with_an_undo_whose_node_is_gone() -> None:
    store = HeldStore()
    async with running(store, config(settings=DUE, maintenance_chunk=2)) as node:
        change_id = await expired(node, store, ["a", "b"])
        undo = act()
        store.go.clear()
        store.is_writing.clear()
        await node.operators.undo(change_id, undo)
        await asyncio.to_thread(store.is_writing.wait)
        store.go.set()
    async with running(store, config("b", settings=DUE)) as node:
        assert await worked_off(node, undo.change_id) == {"restored": 6}
        assert len(store.history.archived) == 6


# -- topics -------------------------------------------------------------------------------------------------


async def test_a_deleted_topic_takes_every_group_s_offsets_with_it_and_its_readers_rebalance() -> None:
    store = MemoryStore()
    async with running(store) as node:
        await node.operators.put_topic("t", 3, None, act())
        await commit(node, "g", 5, 6)
        await commit(node, "h", 7)
        await commit(node, "h", 8, topic="u")
        reader = Member(node, "reader")
        await reader.settle()
        await reader.commit(3)
        deletion = act()
        after = await node.operators.delete_topic("t", deletion)
        assert after == {"topic": "t", "run_id": deletion.change_id, "candidates": 4}
        assert await worked_off(node, deletion.change_id) == {"removed": 4}
        assert (await offsets_of(node, "g"), await offsets_of(node, "h")) == ([], [("u", 0, 8)])
        assert {row.cause for row in store.history.archived} == {"topic_deleted"}
        assert state_of(node, "reader") == "PreparingRebalance"
        assert await node.operators.delete_topic("t", deletion) == after
        assert await node.operators.delete_topic("t", act()) is None


def owns(node: Coordinator, group_id: str) -> bool:
    """Tell whether a node answers for a group."""
    try:
        node.describe(group_id)
    except RetryError:
        return False
    return True


async def test_another_node_s_readers_learn_that_a_topic_is_gone() -> None:
    store = MemoryStore()
    async with running(store) as first, running(store, config("b")) as second:
        await first.operators.put_topic("t", 3, None, act())
        names = [f"g{number}" for number in range(200)]
        await until(lambda: any(second.coordinator_of(one).node_id == "b" for one in names), "it owns some")
        name = next(one for one in names if second.coordinator_of(one).node_id == "b")
        await until(lambda: owns(second, name), "it serves it")
        await Member(second, name).settle()
        await first.operators.delete_topic("t", act())
        await until(lambda: state_of(second, name) == "PreparingRebalance", "it rebalances")


async def test_a_deleted_topic_comes_back_with_its_offsets() -> None:
    async with running(MemoryStore()) as node:
        await node.operators.put_topic("t", 3, 2, act())
        await commit(node, "g", 5, 6)
        deletion, undo = act(), act()
        await node.operators.delete_topic("t", deletion)
        await worked_off(node, deletion.change_id)
        done = await node.operators.undo(deletion.change_id, undo)
        assert done.after["topic"] == {"topic": "t", "outcome": "restored"}
        assert await worked_off(node, undo.change_id) == {"restored": 2}
        assert await offsets_of(node, "g") == [("t", 0, 5), ("t", 1, 6)]
        assert [(row.partitions, row.log_start_offset) for row in await node.topics()] == [(3, 2)]
