"""Agents of one group on a real node, each in a thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from uuid import uuid4

import urllib3

from agent import ConsumerAgent, FencedInstanceId, TopicPartition
from agent.core.group_api import group_segment
from tests.support.waiting import PATIENCE_S

PARTITIONS = 6

ACTOR = {"X-Muster-Actor": "tests"}

QUICK = {"group_initial_rebalance_delay_ms": 0, "group_min_session_timeout_ms": 500}


class AgentGroup:
    """Running agents of one group, and the partitions that they own."""

    def __init__(self, node_url: str) -> None:
        self.node_url = node_url
        self.topic = f"orders-{uuid4().hex[:8]}"
        self.group_id = f"billing-{uuid4().hex[:8]}"
        self.agents: dict[str, RunningAgent] = {}
        self.overlaps: list[int] = []
        """Partitions that were assigned to one agent while another still owned them."""
        self.changed = threading.Condition()
        self.call("PUT", f"/v1/topics/{self.topic}", {"partitions": PARTITIONS, "reason": "a test"})
        self.configure(self.group_id)

    def configure(self, group_id: str) -> None:
        """Set a short initial delay and session timeout."""
        self.call("PUT", f"/v1/groups/{group_segment(group_id)}/config", {"values": QUICK, "reason": "a test"})

    def call(self, method: str, path: str, body: object = None) -> dict[str, object]:
        with urllib3.PoolManager() as http:
            response = http.request(method, self.node_url + path, json=body, headers=ACTOR)
            assert response.status < 300, response.data
            answer: dict[str, object] = response.json()
            return answer

    def start(self, name: str, **options: object) -> RunningAgent:
        running = RunningAgent(self, name, **options)
        self.agents[name] = running
        return running

    def owned(self) -> dict[str, set[int]]:
        return {name: set(running.owned) for name, running in self.agents.items() if not running.is_closed}

    def is_shared(self, *sizes: int) -> bool:
        """Return whether the agents own all partitions, each once, in shares of these sizes."""
        shares = list(self.owned().values())
        assigned = sorted(partition for share in shares for partition in share)
        return assigned == list(range(PARTITIONS)) and sorted(map(len, shares)) == sorted(sizes)

    def wait_for(self, condition_holds: Callable[[], bool]) -> None:
        with self.changed:
            assert self.changed.wait_for(condition_holds, PATIENCE_S), self.owned()

    def stop(self) -> None:
        for running in self.agents.values():
            running.close()


class RunningAgent:
    """An agent that polls in its own thread until it is closed."""

    def __init__(self, group: AgentGroup, name: str, **options: object) -> None:
        self.owned: set[int] = set()
        self.lines: list[tuple[str, list[int]]] = []
        self.error: BaseException | None = None
        self.is_closed = False
        self._group = group
        self._is_stopping = threading.Event()
        self.agent = ConsumerAgent(
            options.pop("base_urls", group.node_url),  # type: ignore[arg-type]  # whatever an agent takes
            group.group_id,
            [group.topic],
            client_id=name,
            session_timeout_ms=1_500,
            on_assigned=lambda partitions: self._record("assigned", partitions),
            on_revoked=lambda partitions: self._record("revoked", partitions),
            on_lost=lambda partitions: self._record("lost", partitions),
            **options,  # type: ignore[arg-type]  # whatever an agent takes
        )
        self._thread = threading.Thread(target=self._run, name=name)
        self._thread.start()

    def close(self) -> None:
        """Close the agent, and wait until its thread has ended."""
        self._is_stopping.set()
        self.agent.wakeup()
        self._thread.join()

    def _run(self) -> None:
        try:
            with self.agent:
                while not self._is_stopping.is_set():
                    self.agent.poll(timeout_s=0.2)
                    self.agent.wait(timeout_s=0.2)
        except FencedInstanceId as error:
            self.error = error
        finally:
            with self._group.changed:
                self.is_closed = True
                self._group.changed.notify_all()

    def _record(self, what: str, partitions: tuple[TopicPartition, ...]) -> None:
        numbers = [each.partition for each in partitions]
        with self._group.changed:
            self.lines.append((what, numbers))
            if what == "assigned":
                others = [other for other in self._group.agents.values() if other is not self]
                self._group.overlaps += [number for number in numbers for other in others if number in other.owned]
            self.owned = self.owned | set(numbers) if what == "assigned" else self.owned - set(numbers)
            self._group.changed.notify_all()
