"""Faults and operators that act at random times until the storm ends."""

from collections.abc import Callable
from functools import partial

from tests.system.simulation.fleet import Fleet
from tests.system.simulation.node import Node
from tests.system.simulation.people import People
from tests.system.simulation.weather import Weather
from tests.system.simulation.world import World

STUCK_FOR_GOOD = 2
"""Agents that beat and never join again, when the storm ends: limits must put them out."""
FOR_GOOD_S = 1e9


class Chaos:
    """Whatever strikes by itself, rather than in the course of a call."""

    def __init__(self, world: World, weather: Weather, nodes: list[Node], fleet: Fleet, people: People) -> None:
        self._world = world
        self._weather = weather
        self._nodes = nodes
        self._fleet = fleet
        self._people = people
        deeds: dict[str, Callable[[], object]] = {
            "node_paused": self._pause,
            "node_hiccup": self._hiccup,
            "node_crashed": lambda: self._node().crash("by chance"),
            "node_stopped": self._stop,
            "node_cut_from_store": self._cut_from_store,
            "node_cut_from_agents": self._cut_from_agents,
            "store_down": self._store_down,
            "store_slow": self._store_slow,
            "wall_clock_jumped": self._jump,
            "agent_crashed": fleet.crash,
            "agent_left": fleet.leave,
            "agent_slept": fleet.sleep,
            "agent_stuck": fleet.stick,
            "agent_doubled": fleet.double,
            "setting_changed": people.change_setting,
            "rebalance_forced": people.force_rebalance,
            "member_removed": people.remove_member,
            "offsets_deleted": people.delete_offsets,
            "topic_raised": people.raise_topic,
            "topic_deleted": people.delete_topic,
            "run_applied": people.apply_run,
            "cleanup_applied": people.clean_up,
            "group_deleted": people.delete_group,
            "offsets_reset": people.reset_offsets,
            "change_undone": people.undo,
            "simple_commit": people.commit_alone,
        }
        for name, every_s in weather.events.items():
            self._plan(deeds[name], every_s)

    def _plan(self, deed: Callable[[], object], every_s: float) -> None:
        self._world.after(self._world.chance.expovariate(1 / every_s), partial(self._strike, deed, every_s))

    def _strike(self, deed: Callable[[], object], every_s: float) -> None:
        if not self._weather.is_calm:
            deed()
            self._plan(deed, every_s)

    def calm(self) -> None:
        """End the storm and every fault; only some stuck agents remain, which limits have to deal with."""
        self._world.note("", "the storm is over")
        self._weather.calm()
        self._people.set_back()
        for node in self._nodes:
            node.cut_until_s = 0.0
            if node.process is not None:
                node.process.connections.is_cut = False
        for agent in self._fleet.living:
            agent.stuck_until_s = 0.0
        for _ in range(STUCK_FOR_GOOD):
            agent = self._fleet.stick(FOR_GOOD_S)  # type: ignore[assignment]  # there may be none
            if agent is not None:
                self._people.force_rebalance(agent.plan.group_id)

    # -- nodes ---------------------------------------------------------------------------------------------

    def _node(self) -> Node:
        return self._world.chance.choice(self._nodes)

    def _pause(self) -> None:
        self._pause_for("node_paused", self._world.between(1.0, 14.0))

    def _hiccup(self) -> None:
        self._pause_for("node_hiccup", self._world.between(0.02, 0.6))

    def _pause_for(self, fault: str, for_s: float) -> None:
        node = self._node()
        if node.process is not None and not node.process.loop.is_paused:
            self._world.strike(fault, f"{node.name} for {for_s:.2f} s")
            node.pause(for_s)

    def _stop(self) -> None:
        node = self._node()
        if node.process is not None and node.process.is_serving:
            self._world.strike("node_stopped", node.name)
            node.stop()

    def _cut_from_store(self) -> None:
        process = self._node().process
        if process is not None:
            for_s = self._world.between(0.5, 15)
            self._world.strike("node_cut_from_store", f"{process.node.name} for {for_s:.1f} s")
            process.connections.is_cut = True
            self._world.after(for_s, lambda: setattr(process.connections, "is_cut", False))

    def _cut_from_agents(self) -> None:
        node, for_s = self._node(), self._world.between(0.5, 15)
        self._world.strike("node_cut_from_agents", f"{node.name} for {for_s:.1f} s")
        node.cut_until_s = self._world.now_s + for_s

    def _jump(self) -> None:
        node, by_ms = self._node(), self._world.chance.randint(-5_000, 5_000)
        self._world.strike("wall_clock_jumped", f"{node.name} by {by_ms} ms")
        node.jump(by_ms)

    # -- the database --------------------------------------------------------------------------------------

    def _store_down(self) -> None:
        for_s = self._world.between(0.5, 20)
        self._world.strike("store_down", f"for {for_s:.1f} s")
        self._weather.is_store_down = True
        self._world.after(for_s, lambda: setattr(self._weather, "is_store_down", False))

    def _store_slow(self) -> None:
        for_s, slowness_s = self._world.between(2, 25), self._world.between(0.1, 2.2)
        self._world.strike("store_slow", f"by up to {slowness_s:.1f} s for {for_s:.1f} s")
        self._weather.slowness_s = slowness_s
        self._world.after(for_s, lambda: setattr(self._weather, "slowness_s", 0.0))
