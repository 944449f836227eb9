"""The weather of a seed: the faults that occur and their probabilities, drawn for every seed.

Some seeds see nearly everything, some only a few kinds, so that rare ones also meet a calm world. When the storm is
over (`calm`), nothing goes wrong any more.
"""

from collections.abc import Mapping

from tests.system.simulation.world import World

STORE = {
    "write_crash_before": 0.0004,
    "write_crash_after": 0.0004,
    "write_unknown_taken": 0.0008,
    "write_unknown_not_taken": 0.0008,
    "write_unknown_late": 0.0006,
    "write_timed_out": 0.0005,
    "write_deadlocked": 0.002,
    "write_refused": 0.0005,
    "lease_answer_lost": 0.004,
    "outcome_heard_late": 0.01,
}
"""Fault → how likely it is, each time the database is called."""

NETWORK = {
    "request_lost": 0.004,
    "reply_lost": 0.004,
    "request_doubled": 0.006,
    "request_delayed": 0.004,
    "reply_delayed": 0.004,
}
"""Fault → how likely it is, for each message."""

EVENTS = {
    "node_paused": 90.0,
    "node_hiccup": 60.0,
    "node_crashed": 200.0,
    "node_stopped": 240.0,
    "node_cut_from_store": 200.0,
    "node_cut_from_agents": 200.0,
    "store_down": 250.0,
    "store_slow": 120.0,
    "wall_clock_jumped": 150.0,
    "agent_crashed": 25.0,
    "agent_left": 40.0,
    "agent_slept": 30.0,
    "agent_stuck": 90.0,
    "agent_doubled": 150.0,
    "setting_changed": 60.0,
    "rebalance_forced": 80.0,
    "member_removed": 80.0,
    "offsets_deleted": 60.0,
    "topic_raised": 120.0,
    "topic_deleted": 120.0,
    "run_applied": 90.0,
    "cleanup_applied": 90.0,
    "group_deleted": 120.0,
    "offsets_reset": 70.0,
    "change_undone": 60.0,
    "simple_commit": 25.0,
}
"""Fault, or what people do → once in how many seconds, on average."""

FORCES = (0.4, 2.0)
SCALES = (0.5, 2.0)
"""By what the chances of a seed, and then of each fault, are multiplied."""
LIKELIEST = max(sum(STORE.values()), sum(NETWORK.values())) * FORCES[1] * SCALES[1]
"""At least how likely any of several faults is."""
PRESENT = 0.75
"""How likely it is that a seed knows a kind of fault at all."""


class Weather:
    """How things stand with the world's faults."""

    def __init__(self, world: World) -> None:
        self.is_store_down = False
        self.slowness_s = 0.0
        """What every call of the database takes on top."""
        self._world = world
        self._is_calm = False
        force = world.between(*FORCES)
        self.store = {name: self._scaled(chance, force) for name, chance in STORE.items()}
        self.network = {name: self._scaled(chance, force) for name, chance in NETWORK.items()}
        self.events = {
            name: every_s / world.between(0.5, 1.5) / force
            for name, every_s in EVENTS.items()
            if world.happens(PRESENT)
        }

    def _scaled(self, chance: float, force: float) -> float:
        return chance * force * self._world.between(*SCALES) if self._world.happens(PRESENT) else 0.0

    def calm(self) -> None:
        """Let nothing go wrong from now on."""
        self._is_calm = True
        self.is_store_down = False
        self.slowness_s = 0.0
        self.store = dict.fromkeys(self.store, 0.0)
        self.network = dict.fromkeys(self.network, 0.0)

    @property
    def is_calm(self) -> bool:
        """Return whether the storm is over."""
        return self._is_calm

    def draw(self, chances: Mapping[str, float], prefix: str) -> str | None:
        """Draw one fault of those whose names begin so, or none."""
        left = self._world.chance.random()
        if left > LIKELIEST:
            return None
        for name, chance in chances.items():
            if name.startswith(prefix):
                left -= chance
                if left < 0:
                    return name
        return None

    def store_delay_s(self) -> float:
        """Draw how long a message to or from the database takes."""
        delay_s = 0.0013 + 0.002 * self._world.chance.random() ** 4
        return delay_s + self.slowness_s * self._world.chance.random() if self.slowness_s else delay_s

    def network_delay_s(self) -> float:
        """Draw how long a message between an agent and a node takes."""
        return 0.0002 + 0.003 * self._world.chance.random() ** 3
