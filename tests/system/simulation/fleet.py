"""The fleet of agents: an agent that died, left or ended is restarted after a while."""

from dataclasses import dataclass

from tests.system.simulation.agents import Agent, Plan
from tests.system.simulation.loop import SimulatedLoop
from tests.system.simulation.network import Network
from tests.system.simulation.world import World

SESSIONS_MS = (6_000, 12_000, 20_000, 30_000, 30_000)
REBALANCES_MS = (10_000, 15_000, 20_000, 30_000)
SIZES = (1, 2, 2, 3, 3, 4, 4, 5, 6, 8, 12)
AGENTS_MAX = 110
BACK_AFTER_S = (1.0, 25.0)
END_REASONS = ("killed", "left", "GROUP_MAX_SIZE_REACHED")
"""What an agent may end by at any time."""
TOPICS = {"clicks": 6, "orders": 12, "payments": 4, "views": 9}
"""Topics of the topic metadata, and how many partitions each has at first."""


@dataclass(slots=True)
class Slot:
    """One agent that there should be."""

    plan: Plan
    agent: Agent | None = None
    reconnected_at_s: float = 0.0
    ended_by: str = ""
    """What the last agent here ended by."""


class Fleet:
    """The groups, and their agents."""

    def __init__(self, world: World, network: Network, clients: SimulatedLoop, groups: int) -> None:
        self._world = world
        self._network = network
        self._clients = clients
        self.slots = [Slot(plan, reconnected_at_s=world.between(0, 30)) for plan in _plans(world, groups)]
        self.group_ids = sorted({slot.plan.group_id for slot in self.slots})
        self.started = 0
        """How many agents were started, all in all."""
        self.twins: list[Agent] = []
        """Second processes of static members, as after a deployment that went wrong."""
        world.after(0.5, self._tend)

    def _tend(self) -> None:
        """Start missing agents, once a second."""
        now_s = self._world.now_s
        for slot in self.slots:
            agent = slot.agent
            if agent is not None and agent.problem is not None:
                self._world.fail("NoUnhandledErrors", f"{slot.plan.name}: {agent.problem!r}", slot.plan.group_id)
            if agent is not None and not agent.is_alive:
                self._end(slot, agent.fatal or "")
                slot.agent, slot.reconnected_at_s = None, now_s + self._world.between(*BACK_AFTER_S)
            elif agent is None and slot.reconnected_at_s <= now_s:
                slot.agent = self._start(slot.plan)
        self._world.after(1.0, self._tend)

    def _end(self, slot: Slot, ended_by: str) -> None:
        """Take note of how an agent ended: what it asks is in order, so only twins and full groups are refused."""
        slot.ended_by = ended_by
        is_static = slot.plan.group_instance_id is not None
        if ended_by not in (*END_REASONS, "FENCED_INSTANCE_ID" if is_static else ""):
            self._world.fail("NoFatalErrors", f"{slot.plan.name} gets {ended_by}", slot.plan.group_id)

    def _start(self, plan: Plan) -> Agent:
        self.started += 1
        return Agent(plan, self._world, self._network, self._clients)

    @property
    def living(self) -> list[Agent]:
        """Return every agent that runs now."""
        return [slot.agent for slot in self.slots if slot.agent is not None and slot.agent.is_alive]

    def any(self) -> Agent | None:
        """Draw an agent that runs now."""
        living = self.living
        return self._world.chance.choice(living) if living else None

    def ask_anew(self) -> None:
        """Let every agent forget which node serves its group."""
        for agent in self.living:
            agent.look_elsewhere()

    def crash(self) -> None:
        """Kill an agent."""
        agent = self.any()
        if agent is not None:
            self._world.strike("agent_crashed", agent.plan.name, agent.plan.group_id)
            agent.kill()

    def leave(self) -> None:
        """Let an agent leave."""
        agent = self.any()
        if agent is not None:
            self._world.strike("agent_left", agent.plan.name, agent.plan.group_id)
            self._clients.create_task(agent.leave())

    def sleep(self) -> None:
        """Let an agent do nothing for so long that its session may end."""
        agent = self.any()
        if agent is not None:
            self._world.strike("agent_slept", agent.plan.name, agent.plan.group_id)
            agent.sleeps_until_s = self._world.now_s + self._world.between(1, 20)

    def stick(self, for_s: float | None = None) -> Agent | None:
        """Let an agent beat, and not come round to joining."""
        agent = self.any()
        if agent is not None:
            self._world.strike("agent_stuck", agent.plan.name, agent.plan.group_id)
            agent.stuck_until_s = self._world.now_s + (self._world.between(5, 60) if for_s is None else for_s)
        return agent

    def double(self) -> None:
        """Start a second process of a static member: it takes the place, and the first is fenced."""
        static = [slot for slot in self.slots if slot.agent is not None and slot.plan.group_instance_id is not None]
        if static:
            slot = self._world.chance.choice(static)
            self._world.strike("agent_doubled", slot.plan.name, slot.plan.group_id)
            if slot.agent is not None:
                self.twins.append(slot.agent)
            slot.agent = self._start(slot.plan)


def _plans(world: World, groups: int) -> list[Plan]:
    plans: list[Plan] = []
    for number in range(groups):
        size = world.chance.choice(SIZES)
        if len(plans) + size <= AGENTS_MAX:
            plans += _group(world, f"group-{number:02}", size)
    return plans


def _group(world: World, group_id: str, size: int) -> list[Plan]:
    """Draw a group: its members share what they read and how; each has its own pace, and some a fixed place."""
    chance = world.chance
    topics = tuple(sorted(chance.sample(sorted(TOPICS), chance.randint(1, 2))))
    assignors = chance.choice((("range",), ("roundrobin",), ("range", "roundrobin")))
    is_static = chance.random() < 0.3
    session_ms, rebalance_ms = chance.choice(SESSIONS_MS), chance.choice(REBALANCES_MS)
    return [
        Plan(
            name=f"{group_id}-{number}",
            group_id=group_id,
            topics=topics,
            assignors=tuple(chance.sample(assignors, len(assignors))),
            session_timeout_ms=session_ms if chance.random() < 0.7 else chance.choice(SESSIONS_MS),
            rebalance_timeout_ms=rebalance_ms,
            commit_every_s=world.between(15, 40),
            group_instance_id=f"{group_id}-i{number}" if is_static and chance.random() < 0.8 else None,
        )
        for number in range(size)
    ]
