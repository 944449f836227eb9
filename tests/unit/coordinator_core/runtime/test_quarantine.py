"""A group whose rows cannot be loaded, or are refused, is refused alone, until it is repaired and reloaded."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest
from structlog.testing import capture_logs

from coordinator_core.admin.changes import Change
from coordinator_core.admin.groups import delete_group, force_rebalance, reload_group, remove_member
from coordinator_core.admin.offset_reset import Reset, reset_offsets
from coordinator_core.admin.offsets import delete_offsets
from coordinator_core.admin.topics import put_topic
from coordinator_core.protocol.errors import CoordinatorNotAvailable
from coordinator_core.protocol.group import Group
from coordinator_core.protocol.hashing import shard_of
from coordinator_core.protocol.requests import CommitOffsets, OffsetToCommit, ResetTo
from coordinator_core.protocol.settings import Now
from coordinator_core.runtime import shard
from coordinator_core.runtime.coordinator import Coordinator
from coordinator_core.runtime.quarantine import FAILURES_EXPIRE_MS, FAILURES_MAX, REFUSALS, Quarantine, ReloadRefused
from coordinator_core.state_store.projection import project
from coordinator_core.state_store.rows import GroupWrite, StoredGroup, UnreadableGroup
from tests.support.memory_store import MemoryStore
from tests.support.no_queries import NO_QUERIES
from tests.support.store_rows import candidate, change_row, run_row, uuid_of
from tests.support.waiting import PATIENCE_S
from tests.unit.coordinator_core.runtime.nodes import Member, RefusingStore, config, running, until

pytestmark = pytest.mark.anyio

SICK = "g"
WELL = next(f"g{n}" for n in range(10_000) if shard_of(f"g{n}", 50) == shard_of(SICK, 50))
"""A group of the same shard."""


OVERTAKING_S = 0.2
"""How long a reload that must wait has time to overtake another."""


class LateReads(MemoryStore):
    """A store that returns the first group that is loaded, after `is_held` is set, when `go` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.is_held = threading.Event()
        self.has_read = threading.Event()
        self.go = threading.Event()

    def load_group(self, group_id: str) -> StoredGroup | UnreadableGroup | None:
        found = super().load_group(group_id)
        if self.is_held.is_set():
            self.is_held.clear()
            self.has_read.set()
            assert self.go.wait(PATIENCE_S), "the test never let the read go"
        return found


def a_change() -> Change:
    return Change("ada", "a test", str(uuid4()))


async def two_groups(store: MemoryStore) -> tuple[Member, Member]:
    """Let a node serve two groups of one shard, each with a member that has committed, and stop the node."""
    async with running(store) as node:
        sick, well = Member(node, SICK), Member(node, WELL)
        for member in (sick, well):
            await member.settle()
            await member.commit(41)
    return sick, well


async def whole(node: Coordinator) -> None:
    """Wait until the node owns and has loaded every shard."""
    await until(lambda: node.counts().shards_active == 50, "all shards are served")


def sick_row(store: MemoryStore) -> Any:  # noqa: ANN401 - a row, or what is left of it
    return store._groups.standing(SICK).row


# -- one group, and no other ----------------------------------------------------------------------------------


async def test_unreadable_row_quarantines_its_group_only() -> None:
    store = MemoryStore()
    sick, well = await two_groups(store)
    store.edit_group(SICK, state="stable")
    with capture_logs() as events:
        async with running(store) as node:
            await whole(node)
            sick.node = well.node = node
            await well.heartbeat()
            await well.commit(42)
            with pytest.raises(CoordinatorNotAvailable, match=r"quarantined.*groups\.state is 'stable'.*groups reload"):
                await sick.heartbeat()
            (found,) = node.quarantined()
            readiness = await node.readiness()
            assert node.counts().quarantined_groups == 1
    assert (found.group_id, found.shard_id) == (SICK, shard_of(SICK, 50))
    assert readiness.is_ready
    assert readiness.reasons == ("1 group is quarantined, and not served: muster groups quarantined lists them",)
    (event,) = [each for each in events if each["event"] == "group_quarantined"]
    assert (event["group"], event["log_level"]) == (SICK, "error")


async def test_quarantined_group_refuses_requests_and_writes_nothing() -> None:
    store = MemoryStore()
    sick, _ = await two_groups(store)
    store.edit_group(SICK, generation=-7)
    before, changes = sick_row(store), len(store.history.changes)
    async with running(store) as node:
        await whole(node)
        sick.node = node
        alone = CommitOffsets(node.new_token(), -1, "", None, (OffsetToCommit("t", 0, 7),))
        attempts: list[Callable[[], Awaitable[object]]] = [
            sick.heartbeat,
            lambda: Member(node, SICK).join(),
            sick.sync,
            sick.leave,
            lambda: sick.commit(42),
            lambda: node.submit(SICK, alone),
            lambda: delete_group(node, SICK, a_change()),
            lambda: force_rebalance(node, SICK, a_change()),
            lambda: remove_member(node, SICK, sick.member_id, a_change()),
            lambda: delete_offsets(node, SICK, "t", None, a_change()),
            lambda: reset_offsets(node, NO_QUERIES, SICK, Reset(ResetTo.EARLIEST), a_change()),
        ]
        for attempt in attempts:
            with pytest.raises(CoordinatorNotAvailable, match="quarantined"):
                await attempt()
        with pytest.raises(CoordinatorNotAvailable, match="quarantined"):
            node.describe(SICK)
        assert [each.offset for each in await node.fetch_offsets(SICK, None)] == [41]
    assert sick_row(store) == before
    assert len(store.history.changes) == changes


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"state": "Dead"}, "groups.state is 'Dead'"),
        ({"state_before_join_phase": "PreparingRebalance"}, "groups.state_before_join_phase"),
        ({"generation": -1}, "groups.generation is -1"),
        ({"state_since_ms": None}, "groups.state_since is not a time"),
        ({"created_at_ms": 2**60}, "groups.created_at is not a time"),
        ({"rebalance_trigger": "because"}, "groups.rebalance_trigger is 'because'"),
        ({"subscribed_topics": ("t", None)}, "groups.subscribed_topics"),
        ({"rebalance": [1]}, "groups.rebalance is not a JSON object"),
        (
            {"rebalance": {"in_progress": {"started_at_ms": "now"}, "last_owners": []}},
            "groups.rebalance does not have the shape",
        ),
        ({"rebalance": {"last_owners": 3}}, "groups.rebalance does not have the shape"),
        ({"leader_id": None}, "groups.leader_id None is not a member"),
        ({"leader_id": "somebody"}, "groups.leader_id 'somebody' is not a member"),
        ({"protocol_name": None}, "groups.protocol_name is null"),
        ({"protocol_name": "sticky"}, "does not support"),
        ({"protocol_type": None}, "groups.protocol_type is null"),
        ({"state": "Empty"}, "members has 1 rows of the group"),
        ({"generation": "three"}, "TypeError"),
    ],
    ids=str,
)
async def test_quarantine_names_the_invalid_column(columns: dict[str, Any], reason: str) -> None:
    store = MemoryStore()
    _, well = await two_groups(store)
    store.edit_group(SICK, **columns)
    async with running(store) as node:
        await whole(node)
        well.node = node
        await well.heartbeat()
        (found,) = node.quarantined()
    assert reason in found.reason


async def test_row_under_another_shard_is_neither_served_nor_replaced() -> None:
    store = MemoryStore()
    sick, _ = await two_groups(store)
    store.edit_group(SICK, shard_id=(shard_of(SICK, 50) + 1) % 50)
    async with running(store) as node:
        await whole(node)
        sick.node = node
        with pytest.raises(CoordinatorNotAvailable, match="belongs to shard"):
            await Member(node, SICK).join()


async def test_members_without_a_group_row_are_quarantined() -> None:
    store = MemoryStore()
    await two_groups(store)
    store._groups.standing(SICK).row = None
    async with running(store) as node:
        await whole(node)
        with pytest.raises(CoordinatorNotAvailable, match="groups has none"):
            await Member(node, SICK).join()


# -- reloading ------------------------------------------------------------------------------------------------


async def test_repaired_group_keeps_its_members() -> None:
    store = MemoryStore()
    sick, well = await two_groups(store)
    store.edit_group(SICK, state="stable")
    async with running(store) as node:
        await whole(node)
        sick.node = well.node = node
        still = a_change()
        with pytest.raises(ReloadRefused, match=r"remains quarantined: groups\.state is 'stable'"):
            await reload_group(node, SICK, still)
        store.edit_group(SICK, state="Stable")
        epoch = node.find_coordinator(SICK).epoch
        reload = a_change()
        await reload_group(node, SICK, reload)
        await reload_group(node, SICK, reload)
        await sick.heartbeat()
        await sick.commit(42)
        await well.heartbeat()
        assert (node.quarantined(), node.find_coordinator(SICK).epoch) == ([], epoch)
        view = node.describe(SICK)
        assert view is not None
        assert (view.state, view.generation) == ("Stable", 1)
        (change,) = [each for each in store.history.changes if each.action == "reload_group"]
    assert (change.change_id, change.actor, change.group_id) == (reload.change_id, "ada", SICK)
    assert "groups.state" in change.before["quarantined"]
    assert change.after == {"state": "Stable", "generation": 1, "member_count": 1}


@pytest.mark.parametrize("is_same_change", [False, True])
async def test_two_reloads_at_once_load_the_group_once(is_same_change: bool) -> None:
    """The rows that the second one has read are older than what the group has decided since the first."""
    store = LateReads()
    sick, _ = await two_groups(store)
    store.edit_group(SICK, state="stable")
    async with running(store) as node:
        await whole(node)
        store.edit_group(SICK, state="Stable")
        sick.node = node
        late, early = a_change(), a_change()
        store.is_held.set()
        second = asyncio.create_task(reload_group(node, SICK, late))
        await asyncio.to_thread(store.has_read.wait)
        first = asyncio.create_task(reload_group(node, SICK, late if is_same_change else early))
        await asyncio.wait([first], timeout=OVERTAKING_S)
        if first.done():
            await sick.leave()
        store.go.set()
        outcomes = await asyncio.gather(first, second, return_exceptions=True)
        assert outcomes[1] is None
        assert outcomes[0] is None if is_same_change else isinstance(outcomes[0], ReloadRefused)
        await sick.heartbeat()
        assert len([each for each in store.history.changes if each.action == "reload_group"]) == 1


async def test_a_group_that_is_served_is_not_reloaded() -> None:
    store = MemoryStore()
    await two_groups(store)
    async with running(store) as node:
        await whole(node)
        for group_id in (WELL, "unheard of"):
            with pytest.raises(ReloadRefused, match="nothing to reload"):
                await reload_group(node, group_id, a_change())
    assert [each.action for each in store.history.changes] == []


async def test_group_with_deleted_rows_does_not_exist_after_a_reload() -> None:
    store = MemoryStore()
    await two_groups(store)
    store.edit_group(SICK, state="stable")
    async with running(store) as node:
        await whole(node)
        standing = store._groups.standing(SICK)
        standing.row = None
        standing.members.clear()
        await reload_group(node, SICK, a_change())
        assert node.describe(SICK) is None
        again = Member(node, SICK)
        await again.settle()
        await again.heartbeat()
    assert len([each for each in store.history.changes if each.action == "reload_group"]) == 1


async def test_group_is_refused_while_its_shard_reloads() -> None:
    store = MemoryStore()
    sick, _ = await two_groups(store)
    store.edit_group(SICK, state="stable")
    async with running(store) as node:
        await whole(node)
        sick.node = node
        shard = node._ownership.owned[shard_of(SICK, 50)]
        shard.is_loading = True
        with pytest.raises(CoordinatorNotAvailable, match="quarantined"):
            await sick.heartbeat()
        shard.fail(CoordinatorNotAvailable("a write failed"))
        await whole(node)
        assert [each.group_id for each in node.quarantined()] == [SICK]


# -- writes that the database refuses --------------------------------------------------------------------------


async def test_group_whose_writes_are_refused_again_and_again_is_quarantined_alone() -> None:
    store = RefusingStore()
    async with running(store) as node:
        sick, well = Member(node, SICK), Member(node, WELL)
        await well.settle()
        store.refused = SICK
        for _ in range(FAILURES_MAX):
            with pytest.raises(CoordinatorNotAvailable, match="the database refused a value of the write"):
                await sick.join()
            await whole(node)
        with pytest.raises(CoordinatorNotAvailable, match=r"quarantined.*has refused its writes.*groups reload"):
            await sick.join()
        epoch = node.find_coordinator(SICK).epoch
        await well.heartbeat()
        await well.commit(42)
        node.serving_shard(WELL).fail(CoordinatorNotAvailable("a write failed"))
        await whole(node)
        assert [each.group_id for each in node.quarantined()] == [SICK]
        assert node.find_coordinator(SICK).epoch == epoch + 1

        store.refused = None
        await reload_group(node, SICK, a_change())
        await sick.settle()
        assert node.quarantined() == []


async def test_group_whose_rows_are_refused_whenever_it_is_loaded_is_quarantined() -> None:
    store = RefusingStore()
    async with running(store) as node:
        await Member(node, SICK).settle()
        store.refused = SICK
        await put_topic(node, "t", 8, None, a_change())
        await until(lambda: len(node.quarantined()) == 1, "the group is quarantined")
        await whole(node)
        assert (SICK in node.loaded_shard(SICK).groups, sick_row(store).state) == (False, "Stable")


async def test_refused_changes_of_operators_quarantine_no_group() -> None:
    """The cause is the change, and the members of the group are served."""
    store = RefusingStore()
    async with running(store) as node:
        well = Member(node, SICK)
        await well.settle()
        for _ in range(FAILURES_MAX):
            store.refused = SICK
            with pytest.raises(CoordinatorNotAvailable, match="the database refused a value of the write"):
                await force_rebalance(node, SICK, a_change())
            store.refused = None
            await whole(node)
        await well.heartbeat()


def refuse(quarantine: Quarantine, *refusals: tuple[int, int]) -> None:
    """Count refused writes of a group, each in an epoch at a time."""
    for epoch, at_ms in refusals:
        quarantine.count_failure(SICK, 7, epoch, Now(at_ms, at_ms), REFUSALS)


def test_refused_writes_count_for_some_minutes_and_once_in_an_epoch() -> None:
    quarantine = Quarantine(lambda _: False)
    refuse(quarantine, (1, 0), (1, 0), (1, 0), (2, 1), (3, FAILURES_EXPIRE_MS))
    assert quarantine.of_shards({7}) == []
    refuse(quarantine, (4, FAILURES_EXPIRE_MS))
    assert [each.group_id for each in quarantine.of_shards({7})] == [SICK]


def test_quarantine_for_refused_writes_ends_when_another_node_has_owned_the_shard() -> None:
    """That node has counted refusals of its own, and the group may have been reloaded there."""
    quarantine = Quarantine(lambda _: False)
    refuse(quarantine, (1, 0), (2, 0), (3, 0))
    for epoch in (4, 5):
        quarantine.begin_load(7, epoch)
        assert quarantine.get(SICK) is not None
    quarantine.begin_load(7, 7)
    assert quarantine.get(SICK) is None


# -- requests that violate an invariant --------------------------------------------------------------------------


@pytest.fixture
def fault(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return groups, empty at first, whose decisions fail to become rows."""
    groups: list[str] = []

    def faulty_project(group: Group, *others: Any) -> GroupWrite | None:  # noqa: ANN401 - passed on
        assert group.group_id not in groups, "a fault of the program"
        return project(group, *others)

    monkeypatch.setattr(shard, "project", faulty_project)
    return groups


async def test_group_whose_requests_violate_an_invariant_again_and_again_is_quarantined_alone(fault: list[str]) -> None:
    async with running(MemoryStore()) as node:
        sick, well = Member(node, SICK), Member(node, WELL)
        await well.settle()
        for _ in range(FAILURES_MAX):
            fault.append(SICK)
            with pytest.raises(CoordinatorNotAvailable, match="shard is being loaded again"):
                await sick.join()
            fault.clear()
            await whole(node)
        with pytest.raises(CoordinatorNotAvailable, match=r"quarantined.*have violated an invariant.*groups reload"):
            await sick.join()
        await well.commit(42)

        await reload_group(node, SICK, a_change())
        await sick.settle()


async def test_group_that_violates_an_invariant_whenever_it_is_loaded_is_quarantined(fault: list[str]) -> None:
    async with running(MemoryStore()) as node:
        well = Member(node, WELL)
        await well.settle()
        await Member(node, SICK).settle()
        fault.append(SICK)
        node.serving_shard(SICK).fail(CoordinatorNotAvailable("a write failed"))
        await until(lambda: len(node.quarantined()) == 1, "the group is quarantined")
        await whole(node)
        await well.commit(42)


async def test_changes_of_operators_that_violate_an_invariant_quarantine_no_group(fault: list[str]) -> None:
    async with running(MemoryStore()) as node:
        well = Member(node, SICK)
        await well.settle()
        for _ in range(FAILURES_MAX):
            fault.append(SICK)
            with pytest.raises(CoordinatorNotAvailable, match="shard is being loaded again"):
                await force_rebalance(node, SICK, a_change())
            fault.clear()
            await whole(node)
        await well.heartbeat()


# -- maintenance ----------------------------------------------------------------------------------------------


async def test_candidates_of_a_quarantined_group_wait_and_block_no_others() -> None:
    store = MemoryStore()
    sick, well = await two_groups(store)
    store.edit_group(SICK, state="stable")
    run_id = uuid_of("run")
    store.propose(run_row(), [candidate(0, each, shard_id=shard_of(each, 50)) for each in (SICK, WELL)])
    async with running(store, replace(config(), maintenance_chunk=1)) as node:
        await whole(node)
        sick.node = well.node = node
        store.begin_apply(run_id, change_row("apply"))
        await until(lambda: store.run(run_id).counts.get("undecided") == 1, "the other group's candidate is decided")
        assert store.run(run_id).status == "applying"
        store.edit_group(SICK, state="Stable")
        await reload_group(node, SICK, a_change())
        await until(lambda: store.run(run_id).status == "applied", "the run is applied")
