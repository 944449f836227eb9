"""A simulated platform whose database repeatedly loses transactions, by failovers and rollbacks.

What a database forgets, every other account of the simulation would have to forget, too. So only what holds across a
loss is looked at here:

* `GenerationsGivenOutOnce`: in one life of a group, a generation has one leader.
* `OneOwnerPerPartition`: in one life of a group, a partition has one owner in a generation.
* `EveryAgentConsumes`: when the storm is over, every agent that is there commits.

Nothing that breaks inside of a node, and no answer that ends an agent, is allowed either.
"""

from collections.abc import Iterable
from functools import partial

from coordinator_core.protocol.consumer_protocol import partitions_of
from coordinator_core.protocol.decide import decide
from coordinator_core.protocol.decision import Decision
from coordinator_core.protocol.group import Group
from coordinator_core.protocol.requests import Request
from coordinator_core.protocol.responses import JoinGroupResponse, SyncGroupResponse
from coordinator_core.protocol.settings import Context, Now
from coordinator_core.runtime.shard import Shard
from coordinator_core.state_store.rows import Incarnation
from tests.support.memory_backup import Backup
from tests.system.simulation.chaos import Chaos
from tests.system.simulation.database import WatchedStore, Witness
from tests.system.simulation.ending import CONSUMES_EVERY_S
from tests.system.simulation.fleet import TOPICS, Fleet
from tests.system.simulation.loop import SimulatedLoop
from tests.system.simulation.network import Network
from tests.system.simulation.node import Answer, Ask, Message, Node, Process
from tests.system.simulation.people import People
from tests.system.simulation.probes import probes
from tests.system.simulation.seeds import END_S, GROUPS, NODES, SHARDS, STORM_S, Outcome, first_change
from tests.system.simulation.watch import Watch
from tests.system.simulation.weather import Weather
from tests.system.simulation.world import World

HELD_ACROSS_A_LOSS = frozenset(
    {
        "GenerationsGivenOutOnce",
        "OneOwnerPerPartition",
        "EveryAgentConsumes",
        "NoFatalErrors",
        "NoInvariantIsViolated",
        "NoUnhandledErrors",
        "NoBusyLoops",
    }
)
LOSS_EVERY_S = 70.0
LOSS_S = (0.1, 4.0)
"""How long the standby receives nothing before it is promoted."""
ROLLBACK_S = (4.0, 30.0)
"""How old a snapshot is that is put back in place: more than two renewals."""


class LossyWorld(World):
    """A world in which only what holds across a loss can fail."""

    def fail(self, invariant: str, detail: str, group_id: str | None = None) -> None:
        """Note that an invariant does not hold, if it is one that should."""
        if invariant in HELD_ACROSS_A_LOSS:
            super().fail(invariant, detail, group_id)


class Lookout(Watch):
    """Remembers what members were answered, whatever the database has forgotten."""

    def __init__(self, world: World, shards: int) -> None:
        super().__init__(world, shards)
        self._leaders: dict[tuple[str, int, int], str] = {}
        self._owners: dict[tuple[str, int, int, str, int], str] = {}

    def heard(self, process: Process, message: Message) -> None:
        """Take no note of it."""

    def decide(self, group: Group, request: Request, now: Now, context: Context) -> Decision:
        """Decide as the protocol does."""
        self.decisions += 1
        return decide(group, request, now, context)

    def dropped(self, shard: Shard, waited: Iterable[object]) -> None:
        """Take no note of it."""

    def said(self, process: Process, request: Ask, group_id: str, answer: Answer) -> None:
        """Compare an answer with all that were given before."""
        self.answers += 1
        created_at_ms = self._life_of(process, group_id)
        if created_at_ms is None:
            return
        if isinstance(answer, JoinGroupResponse) and not getattr(request, "group_instance_id", None):
            self._joined_generation((group_id, created_at_ms, answer.generation), answer.leader_id)
        elif isinstance(answer, SyncGroupResponse):
            place = getattr(request, "group_instance_id", None) or request.member_id  # type: ignore[union-attr]  # a sync's
            generation: int = request.generation  # type: ignore[union-attr]
            for topic, numbers in partitions_of(answer.assignment) or ():
                for number in numbers:
                    self._owned((group_id, created_at_ms, generation, topic, number), place)

    def _life_of(self, process: Process, group_id: str) -> int | None:
        shard = process.coordinator._ownership.owned.get(self._shard_of(group_id))
        group_context = None if shard is None else shard.groups.get(group_id)
        if group_context is None or group_context.group.static_members:
            return None  # A static member that is replaced may change a generation's leader.
        return group_context.group.created_at_ms

    def _joined_generation(self, generation: tuple[str, int, int], leader_id: str) -> None:
        known = self._leaders.setdefault(generation, leader_id)
        if known != leader_id:
            detail = f"generation {generation[2]} is led by {known} and by {leader_id}"
            self._world.fail("GenerationsGivenOutOnce", detail, generation[0])

    def _owned(self, owned: tuple[str, int, int, str, int], place: str) -> None:
        known = self._owners.setdefault(owned, place)
        if known != place:
            group_id, _, generation, topic, number = owned
            detail = f"{topic}/{number} is {known}'s and {place}'s in generation {generation}"
            self._world.fail("OneOwnerPerPartition", detail, group_id)

    def _after_turn(self, loop: SimulatedLoop) -> None:
        """Take no note of it."""


class Losses:
    """Lets the database go back."""

    def __init__(self, world: World, weather: Weather, store: WatchedStore) -> None:
        self._world = world
        self._weather = weather
        self._store = store
        self._plan()

    def _plan(self) -> None:
        self._world.after(self._world.chance.expovariate(1 / LOSS_EVERY_S), self._begin)

    def _begin(self) -> None:
        if self._weather.is_calm:
            return
        is_failover = self._world.happens(0.7)
        length_s = self._world.between(*(LOSS_S if is_failover else ROLLBACK_S))
        end = partial(self._end, Backup(self._store), self._store.incarnation(), is_failover=is_failover)
        self._world.after(length_s, end)

    def _end(self, backup: Backup, incarnation: Incarnation, *, is_failover: bool) -> None:
        """Lose the last transactions, unless an incarnation is among them: within a minute its numbers would repeat."""
        if self._weather.is_calm:
            return
        if self._store.incarnation() != incarnation:
            self._plan()
            return
        if is_failover:
            self._world.strike("database_failed_over", "the last transactions are lost")
            backup.promote(self._store)
        else:
            self._world.strike("database_rolled_back", "a snapshot is put back")
            backup.put_back(self._store)
        self._store._under_way.clear()
        self._plan()


def run_lossy_seed(seed: int) -> Outcome:
    """Let a seed's world run from beginning to end, or to its first violation."""
    world = LossyWorld(seed)
    weather = Weather(world)
    lookout = Lookout(world, SHARDS)
    store = lookout.stored.store = WatchedStore(world, SHARDS, Witness())
    with probes(world, lookout):
        nodes = [
            Node(f"node-{number}", world, weather, store, lookout) for number in range(world.chance.randint(*NODES))
        ]
        clients = SimulatedLoop(world, "clients")  # type: ignore[abstract]  # sockets are never asked for
        network = Network(world, weather, {node.name: node for node in nodes}, clients)
        fleet = Fleet(world, network, clients, world.chance.choice(GROUPS))
        people = People(world, network, clients, store, fleet, SHARDS)
        chaos = Chaos(world, weather, nodes, fleet, people)
        Losses(world, weather, store)
        for topic, partitions in TOPICS.items():
            store.put_topic(topic, partitions, 0, first_change(topic))
        for node in nodes:
            world.after(world.between(0, 2), node.boot)
        world.schedule(STORM_S, chaos.calm)
        world.schedule(STORM_S + 61, fleet.ask_anew)
        world.run(END_S)
        if world.violation is None:
            _everybody_consumes(world, fleet)
        for node in nodes:
            node.finish()
        clients.kill()
    failed = world.violation
    sums = {"decisions": lookout.decisions, "answers": lookout.answers, "incarnations": store.incarnation().number}
    transcript = () if failed is None else tuple(world.transcript(failed.group_id))
    return Outcome(seed, failed, world.struck, world.fingerprint, sums, transcript)


def _everybody_consumes(world: World, fleet: Fleet) -> None:
    for agent in fleet.living:
        idle_s = world.now_s - max(agent.consumed_at_s, agent.started_s)
        if idle_s > CONSUMES_EVERY_S and agent.stuck_until_s <= world.now_s:
            detail = f"{agent.plan.name} ({agent.membership.state.name}) has consumed nothing for {idle_s:.0f} s"
            world.fail("EveryAgentConsumes", detail, agent.plan.group_id)
