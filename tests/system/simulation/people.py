"""Simulated operators and jobs: settings, forced rebalances, removals, deletions, partitions, maintenance runs."""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from uuid import UUID

from coordinator_core.admin.changes import Change
from coordinator_core.admin.groups import delete_group, force_rebalance, reload_group, remove_member
from coordinator_core.admin.maintenance import apply_run
from coordinator_core.admin.offset_reset import Reset, reset_offsets
from coordinator_core.admin.offsets import delete_offsets
from coordinator_core.admin.settings import put_settings
from coordinator_core.admin.topics import delete_topic, put_topic
from coordinator_core.admin.undo import undo_change
from coordinator_core.protocol.errors import NotCoordinator
from coordinator_core.protocol.hashing import shard_of
from coordinator_core.protocol.requests import CommitOffsets, GroupSnapshot, OffsetToCommit, ResetTo
from coordinator_core.protocol.setting_rules import SettingValue
from coordinator_core.protocol.states import EMPTY
from coordinator_core.runtime.coordinator import Coordinator
from coordinator_core.state_store.rows import StoredGroup, TopicRow
from coordinator_core.state_store.runs import GROUP_CLEANUP, OFFSET_RETENTION, WHOLE_GROUP, CandidateRow, RunRow
from tests.support.no_queries import NO_QUERIES
from tests.system.simulation.database import DATABASE_AHEAD_MS, WatchedStore
from tests.system.simulation.fleet import TOPICS, Fleet
from tests.system.simulation.loop import SimulatedLoop
from tests.system.simulation.network import Network, NoAnswer
from tests.system.simulation.node import REQUEST_TIMEOUT_MS, Answer, Message
from tests.system.simulation.world import World

PARTITIONS_MAX = 24
TRIES = 6

SETTINGS: tuple[Mapping[str, SettingValue], ...] = (
    {"rebalance_timeout_ms": 8_000},
    {"rebalance_timeout_ms": 25_000},
    {"rebalance_timeout_ms": None},
    {"session_timeout_ms": 12_000},
    {"session_timeout_ms": None},
    {"group_max_size": 4},
    {"group_max_size": None},
    {"group_sync_timeout_scope": "dynamic"},
    {"group_sync_timeout_scope": None},
    {"group_initial_rebalance_delay_ms": 0},
    {"offsets_retention_minutes": 0},
    {"offsets_retention_minutes": None},
)
BACK_TO_NORMAL: Mapping[str, SettingValue] = {key: None for values in SETTINGS for key in values}

RESETS = ((ResetTo.EARLIEST, 0), (ResetTo.OFFSET, 7), (ResetTo.SHIFT, -20), (ResetTo.CURRENT, 0))
UNDOABLE = ("reset_offsets", "delete_offsets", "delete_group", "apply_run")
ALONE = ("simple-0", "simple-1", "simple-2")
"""Groups without members."""

Deed = Callable[[Coordinator], Awaitable[Answer]]


class People:
    """The operators; an operation that no node accepts is given up after some attempts."""

    def __init__(
        self, world: World, network: Network, clients: SimulatedLoop, store: WatchedStore, fleet: Fleet, shards: int
    ) -> None:
        self._world = world
        self._network = network
        self._clients = clients
        self._store = store
        self._fleet = fleet
        self._shards = shards
        self._counts = dict(TOPICS)
        self.done: list[tuple[str, str]] = []
        """Changes that may be taken back, and of which group they were."""

    # -- what they do --------------------------------------------------------------------------------------

    def change_setting(self) -> None:
        """Change a setting of a group, or of the cluster."""
        group_id = self._group() if self._world.happens(0.8) else None
        values = self._world.chance.choice(SETTINGS)
        a_change = self._a_change("setting_changed", f"{values} for {group_id or 'the cluster'}", group_id or "")
        self._do(group_id or "", a_change, partial(self._put_settings, group_id, values, a_change))

    async def _put_settings(
        self, group_id: str | None, values: Mapping[str, SettingValue], a_change: Change, node: Coordinator
    ) -> None:
        """Change settings as the API does, and record from which version on they are effective where."""
        await put_settings(node, group_id, values, a_change)
        versions = node.metadata_cache.versions
        if group_id is not None:
            self._store.answered_of_groups[group_id] = versions.group_configs
            return
        unconfirmed = await node.confirmations.wait(REQUEST_TIMEOUT_MS)
        self._store.answered_of_cluster.append((versions.cluster_configs, frozenset(unconfirmed)))

    def set_back(self) -> None:
        """Take every setting back."""
        for group_id in (None, *self._fleet.group_ids):
            if group_id is None or group_id in self._store.settings().groups:
                self._set_back(group_id)

    def _set_back(self, group_id: str | None) -> None:
        a_change = Change("operator", "calm", self._uuid())
        self._do(group_id or "", a_change, partial(self._put_settings, group_id, BACK_TO_NORMAL, a_change))

    def force_rebalance(self, group_id: str | None = None) -> None:
        """Make a group rebalance."""
        chosen = group_id or self._group()
        a_change = self._a_change("rebalance_forced", chosen, chosen)
        self._do(chosen, a_change, lambda node: force_rebalance(node, chosen, a_change))

    @property
    def group_ids(self) -> list[str]:
        """Return the groups that agents join."""
        return self._fleet.group_ids

    def reload_group(self, group_id: str) -> None:
        """Reload a quarantined group."""
        a_change = self._a_change("group_reloaded", group_id, group_id)
        self._do(group_id, a_change, lambda node: reload_group(node, group_id, a_change))

    def remove_member(self) -> None:
        """Put a member out."""
        agent = self._fleet.any()
        if agent is None or not agent.member_id:
            return
        group_id, member_id = agent.plan.group_id, agent.member_id
        a_change = self._a_change("member_removed", member_id, group_id)
        self._do(group_id, a_change, lambda node: remove_member(node, group_id, member_id, a_change))

    def delete_offsets(self) -> None:
        """Delete a topic's offsets of a group; mostly refused, since members read it."""
        group_id, topic = self._any_group(), self._world.chance.choice(sorted(TOPICS))
        a_change = self._a_change("offsets_deleted", topic, group_id)
        self._do(group_id, a_change, lambda node: delete_offsets(node, group_id, topic, None, a_change))

    def delete_group(self) -> None:
        """Delete a group; refused while it has members, so most of them are asked first to be empty."""
        group_id = self._group()
        if self._world.happens(0.7):
            self._send_away(group_id)
        a_change = self._a_change("group_deleted", group_id, group_id)
        self._world.after(
            self._world.between(0, 4),
            lambda: self._do(group_id, a_change, lambda node: delete_group(node, group_id, a_change)),
        )

    def _send_away(self, group_id: str) -> None:
        for slot in self._fleet.slots:
            if slot.plan.group_id == group_id and slot.agent is not None:
                self._clients.create_task(slot.agent.leave())

    def reset_offsets(self) -> None:
        """Put a group to other positions; refused while it has members, so some of them are sent away first."""
        group_id = self._any_group()
        if self._world.happens(0.5):
            self._send_away(group_id)
        to, amount = self._world.chance.choice(RESETS)
        a_change = self._a_change("offsets_reset", f"{to} {amount}", group_id)
        reset = Reset(to, amount)
        self._world.after(
            self._world.between(0, 4),
            lambda: self._do(
                group_id, a_change, lambda node: reset_offsets(node, NO_QUERIES, group_id, reset, a_change)
            ),
        )

    def undo(self) -> None:
        """Take something back that was done to offsets, be that possible or not."""
        if self.done:
            change_id, group_id = self._world.chance.choice(self.done)
            if self._world.happens(0.5):
                self._send_away(group_id)
            a_change = self._a_change("change_undone", change_id, group_id)
            self._world.after(
                self._world.between(0, 4),
                lambda: self._do(group_id, a_change, lambda node: undo_change(node, change_id, a_change)),
            )

    def commit_alone(self, group_id: str | None = None) -> None:
        """Commit as a consumer that is in no group; refused by a group that has members."""
        group_id = group_id or self._any_group()
        topic = self._world.chance.choice(sorted(TOPICS))
        offset = OffsetToCommit(topic, self._world.chance.randrange(TOPICS[topic]), self._world.chance.randint(0, 999))
        self._world.strike("simple_commit", f"{topic}/{offset.partition}={offset.offset}", group_id)
        request = CommitOffsets(0, -1, "", None, (offset,))
        self._clients.create_task(self._try(Message("simple", group_id, request), None))

    def raise_topic(self) -> None:
        """Give a topic more partitions."""
        topic = self._world.chance.choice(sorted(TOPICS))
        count = self._counts[topic] = min(PARTITIONS_MAX, self._counts[topic] + self._world.chance.randint(1, 4))
        a_change = self._a_change("topic_raised", f"{topic} to {count}", "")
        self._do("", a_change, lambda node: put_topic(node, topic, count, None, a_change))

    def delete_topic(self) -> None:
        """Delete a topic; mostly it is created again, with as many partitions."""
        topic = self._world.chance.choice(sorted(TOPICS))
        a_change = self._a_change("topic_deleted", topic, "")
        self._do("", a_change, partial(_delete_topic, topic, a_change))
        if self._world.happens(0.8):
            again = Change("operator", "by chance", self._uuid())
            create = partial(_raise, topic, self._counts[topic], again)
            self._world.after(self._world.between(0, 40), lambda: self._do("", again, create))

    def raise_all(self) -> None:
        """Give every topic one partition more, when nothing else makes groups look."""
        for topic in sorted(TOPICS):
            count = self._counts[topic] = self._counts[topic] + 1
            a_change = Change("operator", "calm", self._uuid())
            self._do("", a_change, partial(_raise, topic, count, a_change))

    def apply_run(self) -> None:
        """Propose the expiry of a group's offsets, as a job does, and apply it."""
        group_id = self._group()
        if self._world.happens(0.5):
            a_change = Change("operator", "offsets are to expire", self._uuid())
            values: Mapping[str, SettingValue] = {"offsets_retention_minutes": 0}
            self._do(group_id, a_change, partial(self._put_settings, group_id, values, a_change))
        self._world.after(self._world.between(0, 6), lambda: self._propose(group_id))

    def _propose(self, group_id: str) -> None:
        run_id = self._uuid()
        shard_id = shard_of(group_id, self._shards)
        seen = self._store.stored_offsets(group_id)
        candidates = [
            CandidateRow(run_id, "", shard_id, group_id, one.topic, one.partition, one.commit_version) for one in seen
        ]
        self._store.propose(self._run(run_id, OFFSET_RETENTION), candidates)
        a_change = self._a_change("run_applied", f"{len(candidates)} candidates", group_id)
        # Who looks at a proposal takes a while, in which some of it is out of date.
        looks_for_s = self._world.between(2, 25)
        if self._world.happens(0.7):
            self._world.after(looks_for_s - 1, lambda: self._send_away(group_id))
        self._world.after(looks_for_s, lambda: self._do("", a_change, lambda node: apply_run(node, run_id, a_change)))

    def _run(self, run_id: str, kind: str) -> RunRow:
        as_of_ms = DATABASE_AHEAD_MS + int(self._world.now_s * 1000)
        return RunRow(run_id, kind, as_of_ms, None, None, "proposed", dry_run=False, counts={})

    def clean_up(self) -> None:
        """Empty a group of members and offsets, propose groups that look unused for cleanup, and apply that."""
        group_id = self._group()
        self._send_away(group_id)
        self._world.after(self._world.between(1, 3), lambda: self._delete_all_offsets(group_id))
        self._world.after(self._world.between(3, 8), lambda: self._propose_cleanup(group_id))

    def _delete_all_offsets(self, group_id: str) -> None:
        for topic in sorted(TOPICS):
            a_change = Change("operator", "before a cleanup", self._uuid())
            self._do(group_id, a_change, partial(_delete_offsets, group_id, topic, a_change))

    def _propose_cleanup(self, chosen: str) -> None:
        run_id = self._uuid()
        candidates = [row for group_id in self._fleet.group_ids if (row := self._to_clean_up(run_id, group_id))]
        self._store.propose(self._run(run_id, GROUP_CLEANUP), candidates)
        a_change = self._a_change("cleanup_applied", f"{len(candidates)} candidates", chosen)
        looks_for_s = self._world.between(0, 25)
        if self._world.happens(0.5):  # who came back meanwhile leaves again, or commits without a group
            self._world.after(looks_for_s - 1, lambda: self._send_away(chosen))
        if self._world.happens(0.5):
            self._world.after(looks_for_s, lambda: self.commit_alone(chosen))
        self._world.after(looks_for_s, lambda: self._do("", a_change, lambda node: apply_run(node, run_id, a_change)))

    def _to_clean_up(self, run_id: str, group_id: str) -> CandidateRow | None:
        """Return a group's candidate, if it has no members and no offset, as the job reads the tables."""
        stored = self._store.load_group(group_id)
        if not isinstance(stored, StoredGroup) or stored.group.state != EMPTY or self._store.has_offsets(group_id):
            return None
        seen = GroupSnapshot(stored.group.generation, stored.group.state_since_ms)
        shard_id = shard_of(group_id, self._shards)
        return CandidateRow(run_id, "", shard_id, group_id, *WHOLE_GROUP, 0, GROUP_CLEANUP, seen=seen)

    # -- how -----------------------------------------------------------------------------------------------

    def _group(self) -> str:
        return self._world.chance.choice(self._fleet.group_ids)

    def _any_group(self) -> str:
        """Draw a group, with or without members."""
        return self._world.chance.choice(ALONE) if self._world.happens(0.4) else self._group()

    def _uuid(self) -> str:
        return str(UUID(self._world.name()))

    def _a_change(self, what: str, detail: str, group_id: str) -> Change:
        self._world.strike(what, detail, group_id)
        return Change("operator", "by chance", self._uuid())

    def _do(self, group_id: str, a_change: Change, deed: Deed) -> None:
        self._clients.create_task(self._try(Message("operator", group_id, call=deed), a_change.change_id))

    def _check_noted(self, group_id: str, act_id: str | None, answer: Answer) -> None:
        """Check that what was done is noted, and was done."""
        if act_id is None or isinstance(answer, Exception) or getattr(answer, "is_refused", False):
            return
        noted = self._store.change(act_id)
        if noted is None:
            self._world.fail("ChangesAreRecorded", f"{answer} is answered, and no change says so", group_id)
            return
        was, now = noted.change.before, noted.change.after
        if noted.change.action in UNDOABLE and (act_id, group_id) not in self.done:
            self.done.append((act_id, group_id))
        if sum(row.change_id == act_id for row in self._store.history.changes) > 1:
            self._world.fail("ChangesAreRecorded", f"{act_id} was done more than once", group_id)
        if noted.change.action == "force_rebalance" and now["state"] != "PreparingRebalance":
            self._world.fail("ChangesAreRecorded", f"a rebalance was forced, and the group is {now['state']}", group_id)
        if noted.change.action == "remove_member" and now["member_count"] != was["member_count"] - 1:
            self._world.fail("ChangesAreRecorded", f"a member was removed: {was} became {now}", group_id)

    def _again(self, message: Message, act_id: str) -> None:
        """Ask for the same once more, as a caller does that lost the answer."""
        self._world.strike("act_repeated", act_id, message.group_id)
        self._clients.create_task(self._try(message, act_id, is_again=True))

    async def _try(self, message: Message, act_id: str | None, *, is_again: bool = False) -> None:
        """Ask one node after the other until one has an answer; the change id makes a repeat harmless."""
        names = sorted(self._network.nodes)
        node = self._world.chance.choice(names)
        for _ in range(TRIES):
            try:
                answer = await self._network.ask(node, message)
            except NoAnswer:
                answer = NotCoordinator()
            if getattr(answer, "action", "") != "retry":
                self._check_noted(message.group_id, act_id, answer)
                if act_id is not None and not is_again and self._world.happens(0.3):
                    self._world.after(self._world.between(0, 20), lambda: self._again(message, act_id))
                return
            at = getattr(answer, "coordinator", None)
            node = at.removeprefix("http://") if at else self._world.chance.choice(names)


async def _delete_offsets(group_id: str, topic: str, a_change: Change, node: Coordinator) -> Answer:
    return await delete_offsets(node, group_id, topic, None, a_change)


async def _delete_topic(topic: str, a_change: Change, node: Coordinator) -> Answer:
    deleted = await delete_topic(node, topic, a_change)
    if deleted is None:
        raise ValueError("there is no such topic")
    return deleted


async def _raise(topic: str, count: int, a_change: Change, node: Coordinator) -> TopicRow:
    return await put_topic(node, topic, count, None, a_change)
