"""Agents of one group at work on a real node, each in a thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from uuid import uuid4

import urllib3

from agent import ConsumerAgent, FencedInstanceId, TopicPartition
from agent.group_api import group_segment
from tests.support.waiting import PATIENCE_S

PARTITIONS = 6

ACTOR = {"X-Muster-Actor": "tests"}

QUICK = {"group_initial_rebalance_delay_ms": 0, "group_min_session_timeout_ms": 500}


class Scene:
    """Agents at work, each in a thread, and what they own at this moment."""

    def __init__(self, node_url: str) -> None:
        self.node_url = node_url
        self.topic = f"orders-{uuid4().hex[:8]}"
        self.group_id = f"billing-{uuid4().hex[:8]}"
        self.agents: dict[str, Running] = {}
        self.overlaps: list[int] = []
        """Partitions that somebody was given while another still had them."""
        self.changed = threading.Condition()
        self.call("PUT", f"/v1/topics/{self.topic}", {"partitions": PARTITIONS, "reason": "a test"})
        self.configure(self.group_id)

    def configure(self, group_id: str) -> None:
        """Make a group quick to start and quick to notice a death."""
        self.call("PUT", f"/v1/groups/{group_segment(group_id)}/config", {"values": QUICK, "reason": "a test"})

    def call(self, method: str, path: str, body: object = None) -> dict[str, object]:
        with urllib3.PoolManager() as http:
            response = http.request(method, self.node_url + path, json=body, headers=ACTOR)
            assert response.status < 300, response.data
            answer: dict[str, object] = response.json()
            return answer

    def start(self, name: str, **options: object) -> Running:
        running = Running(self, name, **options)
        self.agents[name] = running
        return running

    def owned(self) -> dict[str, set[int]]:
        return {name: set(running.owned) for name, running in self.agents.items() if not running.is_closed}

    def is_shared(self, *sizes: int) -> bool:
        """Tell whether the agents own all partitions, each once, in shares of these sizes."""
        shares = list(self.owned().values())
        given_out = sorted(partition for share in shares for partition in share)
        return given_out == list(range(PARTITIONS)) and sorted(map(len, shares)) == sorted(sizes)

    def wait_for(self, is_so: Callable[[], bool]) -> None:
        with self.changed:
            assert self.changed.wait_for(is_so, PATIENCE_S), self.owned()

    def stop(self) -> None:
        for running in self.agents.values():
            running.close()


class Running:
    """An agent that polls in a thread of its own until it is closed."""

    def __init__(self, scene: Scene, name: str, **options: object) -> None:
        self.owned: set[int] = set()
        self.lines: list[tuple[str, list[int]]] = []
        self.error: BaseException | None = None
        self.is_closed = False
        self._scene = scene
        self._is_stopping = threading.Event()
        self.agent = ConsumerAgent(
            options.pop("base_urls", scene.node_url),  # type: ignore[arg-type]  # whatever an agent takes
            scene.group_id,
            [scene.topic],
            client_id=name,
            session_timeout_ms=1_500,
            on_assigned=lambda partitions: self._note("assigned", partitions),
            on_revoked=lambda partitions: self._note("revoked", partitions),
            on_lost=lambda partitions: self._note("lost", partitions),
            **options,  # type: ignore[arg-type]  # whatever an agent takes
        )
        self._thread = threading.Thread(target=self._run, name=name)
        self._thread.start()

    def close(self) -> None:
        """Have the agent closed, and wait for it."""
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
            with self._scene.changed:
                self.is_closed = True
                self._scene.changed.notify_all()

    def _note(self, what: str, partitions: tuple[TopicPartition, ...]) -> None:
        numbers = [each.partition for each in partitions]
        with self._scene.changed:
            self.lines.append((what, numbers))
            if what == "assigned":
                others = [other for other in self._scene.agents.values() if other is not self]
                self._scene.overlaps += [number for number in numbers for other in others if number in other.owned]
            self.owned = self.owned | set(numbers) if what == "assigned" else self.owned - set(numbers)
            self._scene.changed.notify_all()
