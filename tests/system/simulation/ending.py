"""Checks of the calm after the storm: every group settles and nothing leaks."""

from collections.abc import Iterator
from math import ceil

from coordinator_core.protocol.consumer_protocol import partitions_of
from coordinator_core.protocol.offsets import EXPIRED, REMOVED
from coordinator_core.protocol.states import COMPLETING, EMPTY, PREPARING, STABLE
from coordinator_core.state_store.runs import OFFSET_RETENTION, TOPIC_DELETION
from tests.system.simulation.agents import Agent
from tests.system.simulation.database import WatchedStore
from tests.system.simulation.fleet import Fleet
from tests.system.simulation.node import Node, Process
from tests.system.simulation.stored import Past
from tests.system.simulation.timed import untimed
from tests.system.simulation.watch import Watch
from tests.system.simulation.world import World

LOOK_EVERY_S = 5.0
TAKES = {OFFSET_RETENTION: EXPIRED, TOPIC_DELETION: REMOVED}
"""Kind of a run → the outcome of an offset that it archived."""
PHASE_MAX_S = 45.0
"""The longest limit that any agent or operator asks for, a window, and something on top."""
CONSUMES_EVERY_S = 60.0
"""An agent without a commit for so long does not consume."""


class Ending:
    """Looks for what does not come to rest."""

    def __init__(self, world: World, watch: Watch, store: WatchedStore, fleet: Fleet, nodes: list[Node]) -> None:
        self._world = world
        self._watch = watch
        self._store = store
        self._fleet = fleet
        self._nodes = nodes
        self.is_calm = False
        self._since_s: dict[str, tuple[tuple[object, ...], float]] = {}

    def begin(self) -> None:
        """Look again and again from now on."""
        self._look()

    def _look(self) -> None:
        """No phase lasts longer than its limit, whatever its members do, and everything has its timer."""
        self._timers()
        self._world.after(LOOK_EVERY_S, self._look)
        if not self.is_calm:
            return
        for group_id, past in self._watch.stored.groups.items():
            life = past.life
            if life is None or life.row is None:
                continue
            seen = (life.created_at_ms, life.state, life.generation, self._is_led(group_id))
            known, since_s = self._since_s.get(group_id, (None, 0.0))
            if known != seen:
                self._since_s[group_id] = seen, self._world.now_s
            elif self._world.now_s - since_s > PHASE_MAX_S and self._is_led(group_id):
                if life.state is PREPARING:
                    self._world.fail("JoinPhasesEnd", f"the join phase lasts since {since_s:.1f} s", group_id)
                if life.state is COMPLETING:
                    self._world.fail("SyncPhasesEnd", f"the wait for syncs lasts since {since_s:.1f} s", group_id)

    def calm(self) -> None:
        """Look at phases as well from now on."""
        self.is_calm = True

    def _processes(self) -> list[Process]:
        running = (node.process for node in self._nodes)
        return [one for one in running if one is not None and one.is_serving and not one.loop.is_paused]

    def _timers(self) -> None:
        """Look at groups that nothing has happened to."""
        for process in self._processes():
            owned = process.coordinator._ownership.owned
            for shard in list(self._watch.served[process.loop]):
                if shard.is_unloaded:
                    del self._watch.served[process.loop][shard]
                elif owned.get(shard.shard_id) is not shard:
                    detail = f"{process.node.name} has forgotten shard {shard.shard_id} without unloading it"
                    self._world.fail("UnloadedShardsReply", detail)
            for shard in owned.values():
                for group_id, group_context in () if shard.is_loading else shard.groups.items():
                    is_calm, ran_for_s = self._watch.is_calm, process.ran_for_s
                    missing = (
                        None
                        if group_context.unstored_writes
                        else untimed(shard, group_context, ran_for_s, is_calm=is_calm)
                    )
                    if missing is not None:
                        self._world.fail("EveryWaitHasATimer", f"{process.node.name}: {missing}", group_id)

    def _is_led(self, group_id: str) -> bool:
        """Return whether a member waits; while only silent static members are left, phases restart without end."""
        for node in self._nodes:
            for shard in [] if node.process is None else node.process.coordinator._ownership.owned.values():
                group_context = shard.groups.get(group_id)
                if group_context is not None and group_context.group.exists:
                    return group_context.group.state is not PREPARING or bool(group_context.group.parked_joins)
        return True

    # -- the end -------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Everything is at rest now."""
        living = {agent.member_id for agent in [*self._fleet.living, *self._fleet.twins] if agent.is_alive}
        for group_id, past in sorted(self._watch.stored.groups.items()):
            self._group(group_id, past, living)
            self._offsets(group_id, past)
        for agent in self._fleet.living:
            if not self._is_stuck(agent):
                self._agent(agent)
        for slot in self._fleet.slots:
            if slot.agent is None and slot.ended_by != "GROUP_MAX_SIZE_REACHED":
                detail = f"{slot.plan.name} is not there; the last one ended by {slot.ended_by}"
                self._world.fail("EveryAgentConsumes", detail, slot.plan.group_id)
        self._shards()
        self._runs()
        for process in self._processes():
            self._process(process)

    def _shards(self) -> None:
        """Every shard is owned by a running node, and no node owns more than its share."""
        living = [process.node.name for process in self._processes()]
        owners = [self._store.owner_of(shard_id)[0] for shard_id in range(self._store.shard_count())]
        share = ceil(len(owners) / max(1, len(living)))
        if any(owner not in living for owner in owners) or any(owners.count(name) > share for name in living):
            self._world.fail("SharesAreEven", f"of {living} own: {owners}")

    def _runs(self) -> None:
        """Every run that was applied has come to its end, and says of every offset what became of it."""
        taken = {(row.change_id, row.group_id, row.topic, row.partition) for row in self._store.history.archived}
        for run in self._store._maintenance._runs.values():
            if run.row.status == "applying":
                self._world.fail("RunsEnd", f"{run.row.run_id} is still being applied: {run.counts()}")
            takes = TAKES.get(run.row.kind)
            for (group_id, topic, number), candidate in run.candidates.items() if takes else ():
                is_taken = (run.change_id, group_id, topic, number) in taken
                if is_taken != (candidate.outcome == takes):
                    what = f"{topic}/{number} is {candidate.outcome}, and {'' if is_taken else 'not '}in the archive"
                    self._world.fail("RunsEnd", what, group_id)

    def _process(self, process: Process) -> None:
        """Nothing is left over, and what stands around groups is known."""
        node, name = process.coordinator, process.node.name
        queued = sum(entry.rows for queue in node._writer._queues.values() for entry in queue.entries)
        if node._writer.queued_rows != queued:
            detail = f"{name} counts {node._writer.queued_rows} queued rows, and there are {queued}"
            self._world.fail("NothingLeaks", detail)
        for shard in node._ownership.owned.values():
            left = [group_id for group_id, group_context in shard.groups.items() if group_context.is_removable]
            held = [group_id for group_id, group_context in shard.groups.items() if group_context.lock is not None]
            if left or held:
                detail = f"{name} remembers {left}, of which there is nothing, and holds {held}"
                self._world.fail("NothingLeaks", detail, (left + held)[0])
        if node.metadata_cache.versions != self._store.versions():
            detail = f"{name} goes by {node.metadata_cache.versions}; the store has {self._store.versions()}"
            self._world.fail("SettingsAreKnown", detail)

    def _is_stuck(self, agent: Agent) -> bool:
        return agent.stuck_until_s > self._world.now_s

    def _group(self, group_id: str, past: Past, living: set[str]) -> None:
        life = past.life
        if life is None or life.row is None:
            return
        is_held_up = life.state is PREPARING and not self._is_led(group_id)  # only stuck static members are left
        if life.state not in {STABLE, EMPTY} and not is_held_up:
            self._world.fail("GroupsSettle", f"the group is {life.state}", group_id)
        for member_id in life.members:
            if member_id not in living:
                self._world.fail(
                    "SilentMembersAreEvicted", f"{member_id} is a member, and no agent has that id", group_id
                )
        if past.open_rebalances and not is_held_up:
            self._world.fail("RebalancesEndOnce", f"{min(past.open_rebalances)} is under way for ever", group_id)
        if life.state is STABLE:
            self._is_covered(group_id, past)

    def _is_covered(self, group_id: str, past: Past) -> None:
        """Every partition of every topic that the group reads has an owner."""
        life = past.life
        assert life is not None
        assert life.row is not None
        counts = {row.topic: row.partitions for row in self._store.topics()}
        wanted = {
            (topic, number) for topic in life.row.subscribed_topics or () for number in range(counts.get(topic, 0))
        }
        owned = {each for row in life.members.values() for each in _partitions(row.assignment)}
        if wanted != owned:
            what = sorted(wanted ^ owned)[:5]
            self._world.fail("NoPartitionIsForgotten", f"without an owner, or with a wrong one: {what}", group_id)

    def _offsets(self, group_id: str, past: Past) -> None:
        """What was answered NONE stands in the store, unless something newer does or people took it away."""
        standing = self._store.offsets_of(group_id)
        if standing != {key: offset for key, (offset, _) in past.offsets.items()}:
            self._world.fail("CommittedOffsetsSurvive", "the store has other offsets than it took", group_id)
        for key, number in sorted(past.answered.items()):
            last_pending = past.offsets.get(key, (0, 0))[1]
            if max(last_pending, past.removed.get(key, 0)) < number:
                detail = f"{key[0]}/{key[1]} was answered NONE, and is lost"
                self._world.fail("CommittedOffsetsSurvive", detail, group_id)

    def _agent(self, agent: Agent) -> None:
        idle_s = self._world.now_s - agent.consumed_at_s
        if idle_s > CONSUMES_EVERY_S and self._world.now_s - agent.started_s > CONSUMES_EVERY_S:
            detail = f"{agent.plan.name} ({agent.membership.state.name}) has consumed nothing for {idle_s:.0f} s"
            self._world.fail("EveryAgentConsumes", detail, agent.plan.group_id)


def _partitions(assignment: bytes) -> Iterator[tuple[str, int]]:
    for topic, numbers in partitions_of(assignment) or ():
        for number in numbers:
            yield topic, number
