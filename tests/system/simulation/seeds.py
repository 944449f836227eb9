"""Run a seed: a storm of some minutes, then a calm in which every group has to settle."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from coordinator_core.admin.changes import Change
from coordinator_core.state_store.change_actions import ChangeAction
from coordinator_core.state_store.rows import ChangeRow
from tests.support.nodes import without_collector
from tests.system.simulation.chaos import Chaos
from tests.system.simulation.database import DATABASE_AHEAD_MS, WatchedStore
from tests.system.simulation.ending import Ending
from tests.system.simulation.fleet import TOPICS, Fleet
from tests.system.simulation.loop import SimulatedLoop
from tests.system.simulation.network import Network
from tests.system.simulation.node import Node
from tests.system.simulation.people import People
from tests.system.simulation.probes import probes
from tests.system.simulation.unreadable import QuarantineWatch, SpoiledStore, Spoilers
from tests.system.simulation.watch import Watch
from tests.system.simulation.weather import Weather
from tests.system.simulation.world import Violation, World

STORM_S = 430.0
END_S = 600.0
"""Ten simulated minutes a seed, the calm at the end included."""
SHARDS = 8
NODES = (2, 4)
GROUPS = (1, 1, 2, 3, 4, 5, 8, 24)
"""A seed has one of these numbers of groups: few find most faults in less time, many those between groups."""
GROUPS_BESIDE = (16,)
"""So many that groups share a shard with an unreadable one."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a seed."""

    seed: int
    violation: Violation | None
    struck: Counter[str]
    fingerprint: str
    sums: dict[str, int] = field(default_factory=dict)
    """How much was checked, by kind."""
    transcript: tuple[str, ...] = ()


def run_seed(seed: int) -> Outcome:
    """Let a seed's world run from beginning to end, or to its first violation."""
    world = World(seed)
    watch = Watch(world, SHARDS)
    store = watch.stored.store = WatchedStore(world, SHARDS, watch.stored)
    return _outcome(world, watch, _run(world, watch, store))


def run_unreadable_seed(seed: int) -> Outcome:
    """Let a seed's world run in which stored groups cannot be read, now and then."""
    world = World(seed)
    watch = QuarantineWatch(world, SHARDS)
    store = watch.stored.store = SpoiledStore(world, SHARDS, watch.stored)
    outcome = _outcome(world, watch, _run(world, watch, store))
    outcome.sums.update(refused=watch.refused, served_beside=watch.served_beside)
    return outcome


def first_violation(seeds: Iterable[int], run: Callable[[int], Outcome] = run_seed) -> Violation | None:
    """Run seeds up to the first one that fails, and return its violation; None if none fails."""
    return next((found for found in (run(seed).violation for seed in seeds) if found is not None), None)


def _run(world: World, watch: Watch, store: WatchedStore) -> Fleet:
    weather = Weather(world)
    # CPython 3.11 crashes now and then when it collects coroutines of killed processes during a step of another task.
    with probes(world, watch), without_collector():
        nodes = [Node(f"node-{number}", world, weather, store, watch) for number in range(world.chance.randint(*NODES))]
        return _run_nodes(world, weather, watch, store, nodes)


def _run_nodes(world: World, weather: Weather, watch: Watch, store: WatchedStore, nodes: list[Node]) -> Fleet:
    clients = SimulatedLoop(world, "clients")  # type: ignore[abstract]  # sockets are never asked for
    network = Network(world, weather, {node.name: node for node in nodes}, clients)
    groups = GROUPS_BESIDE if isinstance(store, SpoiledStore) else GROUPS
    fleet = Fleet(world, network, clients, world.chance.choice(groups))
    people = People(world, network, clients, store, fleet, SHARDS)
    chaos = Chaos(world, weather, nodes, fleet, people)
    ending = Ending(world, watch, store, fleet, nodes)
    if isinstance(store, SpoiledStore):
        world.schedule(STORM_S + 50, Spoilers(world, weather, store, people, nodes).check)
    for topic, partitions in TOPICS.items():
        store.put_topic(topic, partitions, 0, first_change(topic))
    for node in nodes:
        world.after(world.between(0, 2), node.boot)
    world.schedule(STORM_S, chaos.calm)
    world.schedule(1.0, ending.begin)
    world.schedule(STORM_S + 15, ending.calm)
    world.schedule(STORM_S + 60, watch.calm)
    world.schedule(STORM_S + 61, fleet.ask_anew)
    world.schedule(STORM_S + 40, people.raise_all)
    world.run(END_S)
    if world.violation is None:
        ending.check()
    for node in nodes:
        node.finish()
    clients.kill()
    return fleet


def first_change(topic: str) -> ChangeRow:
    return Change("job", None, f"topic_metadata-{topic}").row(ChangeAction.PUT_TOPIC, None, DATABASE_AHEAD_MS)


def _outcome(world: World, watch: Watch, fleet: Fleet) -> Outcome:
    failed = world.violation
    return Outcome(
        seed=world.seed,
        violation=failed,
        struck=world.struck,
        fingerprint=world.fingerprint,
        sums={
            "events": world.events,
            "agents": fleet.started,
            "decisions": watch.decisions,
            "answers": watch.answers,
            "writes": watch.stored.writes,
            "comparisons": watch.comparisons,
        },
        transcript=() if failed is None else tuple(world.transcript(failed.group_id)),
    )
