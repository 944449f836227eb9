"""One group on a real node with real agents as its consumers, and the history of its rebalances.

A consumer polls in its own thread. It can be paused, and it can crash as a killed process does: its connections are cut
first, so that the node receives nothing more from it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import urllib3
from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name

from agent import AgentError, ConsumerAgent, TopicPartition
from tests.support.blocking_aio_agent import BlockingAioAgent
from tests.support.cutting_proxy import CuttingProxy
from tests.support.waiting import PATIENCE_S, poll_until

PROMPT = {"group_initial_rebalance_delay_ms": 0, "group_min_session_timeout_ms": 100, "heartbeat_interval_ms": 100}
"""A group's settings for stories: no initial rebalance delay, and short heartbeat intervals."""

Line = tuple[str, list[int]]


@dataclass(frozen=True)
class Rebalance:
    """A row of `rebalances`, with the consumer's name in place of the member id."""

    generation: int
    trigger: str
    by: str
    restarts: int
    members_after: int


class StoryGroup:
    """One group, its consumers and its history."""

    def __init__(
        self,
        node_url: str,
        ledger: PsycopgConnection,
        partitions: int = 3,
        agent_class: type[ConsumerAgent | BlockingAioAgent] = ConsumerAgent,
    ) -> None:
        self.node_url = node_url
        self.agent_class = agent_class
        self.topic = f"topic-{uuid4().hex[:8]}"
        self.group_id = f"group-{uuid4().hex[:8]}"
        self.consumers: dict[str, Consumer] = {}
        self.changed = threading.Condition()
        self._ledger = ledger
        self.call("PUT", f"/v1/topics/{self.topic}", {"partitions": partitions, "reason": "a story"})
        self.configure(**PROMPT)

    def configure(self, **values: int | str) -> None:
        """Change settings of the group."""
        self.call("PUT", f"/v1/groups/{self.group_id}/config", {"values": values, "reason": "a story"})

    def call(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        with urllib3.PoolManager() as http:
            response = http.request(
                method, self.node_url + path, json=body, headers={"X-Muster-Actor": "tests"}, timeout=PATIENCE_S
            )
            assert response.status < 300, response.data
            answer: dict[str, Any] = response.json()
            return answer

    def start(self, name: str, **options: Any) -> Consumer:  # noqa: ANN401  # whatever an agent takes
        """Start an agent; with `has_proxy=True` its connections can be cut."""
        self.consumers[name] = Consumer(self, name, **options)
        return self.consumers[name]

    def running(self) -> list[Consumer]:
        return [consumer for consumer in self.consumers.values() if not consumer.is_closed]

    def shares(self) -> list[list[int]]:
        """Return what each running consumer owns, in the order of their starts."""
        return [sorted(consumer.owned) for consumer in self.running()]

    def wait_for_shares(self, *sizes: int, generation: int) -> None:
        """Wait until the consumers own these numbers of partitions, all assigned in this generation."""

        def condition_holds() -> bool:
            settled = all(consumer.assigned_in_generation == generation for consumer in self.running())
            return settled and [len(share) for share in self.shares()] == list(sizes)

        self.wait_for(condition_holds)

    def wait_for(self, condition_holds: Callable[[], bool]) -> None:
        with self.changed:
            assert self.changed.wait_for(condition_holds, PATIENCE_S), [
                (a.name, a.assigned_in_generation, a.lines) for a in self.consumers.values()
            ]

    def wait_for_group(self, condition_holds: Callable[[dict[str, Any]], bool]) -> None:
        """Wait until the description of the group fulfills a condition."""
        poll_until(lambda: condition_holds(self.described()))

    def described(self) -> dict[str, Any]:
        return self.call("GET", f"/v1/groups/{self.group_id}")

    def rebalances(self) -> list[Rebalance]:
        """Return the group's completed rebalances, from the history."""
        rows = self._rows(
            "SELECT generation, trigger, coalesce(trigger_member_id, ''), restarts, member_count_after"
            " FROM rebalances WHERE group_id = %s ORDER BY completed_at, generation"
        )
        return [Rebalance(row[0], row[1], _name(row[2]), *row[3:]) for row in rows]

    def states(self) -> list[str]:
        """Return the states that the group has entered, from the history."""
        rows = self._rows("SELECT to_state FROM group_transitions WHERE group_id = %s ORDER BY at, generation")
        return [row[0] for row in rows]

    def close(self) -> None:
        for consumer in self.consumers.values():
            consumer.close()

    def _rows(self, query: str) -> list[tuple[Any, ...]]:
        with self._ledger.cursor() as cursor:
            cursor.execute(query, (self.group_id,))
            return cursor.fetchall()


@dataclass
class Pause:
    """Blocks a consumer's thread until it is released."""

    reached: threading.Event = field(default_factory=threading.Event)
    released: threading.Event = field(default_factory=threading.Event)

    def block(self, _: object = None) -> None:
        self.reached.set()
        assert self.released.wait(PATIENCE_S)

    def wait_until_reached(self) -> None:
        assert self.reached.wait(PATIENCE_S)

    def release(self) -> None:
        self.released.set()


class Consumer:
    """A running agent; `lines` are its callbacks in order, with the partitions' numbers."""

    def __init__(
        self,
        group: StoryGroup,
        name: str,
        *,
        has_proxy: bool = False,
        base_urls: Sequence[str] = (),
        in_revoked: Callable[[], object] = lambda: None,
        **options: Any,  # noqa: ANN401  # whatever an agent takes
    ) -> None:
        self.name = name
        self.lines: list[Line] = []
        self.owned: set[int] = set()
        self.assigned_in_generation = 0
        """The generation of the latest on_assigned."""
        self.error: AgentError | None = None
        self.is_closed = False
        self._group = group
        self._in_revoked = in_revoked
        self._pauses: list[Pause] = []
        self._is_stopping = threading.Event()
        self._proxies = ExitStack()
        self.proxy = CuttingProxy(group.node_url) if has_proxy else None
        if self.proxy is not None:
            self._proxies.enter_context(self.proxy.running())
        timing = {"session_timeout_ms": 20_000, "retry_backoff_ms": 10, "retry_backoff_max_ms": 200}
        self.agent = group.agent_class(
            base_urls or (group.node_url if self.proxy is None else self.proxy.url),
            group.group_id,
            [group.topic],
            client_id=name,
            on_assigned=lambda partitions: self._record("assigned", partitions),
            on_revoked=self._revoke,
            on_lost=lambda partitions: self._record("lost", partitions),
            **(timing | options),
        )
        self._thread = threading.Thread(target=self._run, name=name)
        self._thread.start()

    def count(self, what: str) -> int:
        return sum(line[0] == what for line in self.lines)

    def counts(self) -> tuple[int, int, int]:
        """Return how often on_assigned, on_revoked and on_lost were called."""
        return self.count("assigned"), self.count("revoked"), self.count("lost")

    def pause(self) -> Pause:
        """Stop polling until the pause is released; returns once polling has stopped."""
        pause = Pause()
        self._pauses.append(pause)
        self.agent.wakeup()
        pause.wait_until_reached()
        return pause

    def close(self) -> None:
        """Close the agent, as a program that ends normally does."""
        self._is_stopping.set()
        for pause in self._pauses:
            pause.release()
        self.agent.wakeup()
        self._thread.join()
        self._proxies.close()

    def crash(self) -> None:
        """End as a killed process does: cut the connections without leaving the group."""
        with self._group.changed:
            self.is_closed = True
        self._proxies.close()
        self.close()

    def _run(self) -> None:
        try:
            while not self._is_stopping.is_set():
                if self._pauses and not self._pauses[-1].released.is_set():
                    self._pauses[-1].block()
                self.agent.poll(timeout_s=0.2)
                self.agent.wait(timeout_s=0.2)
        except AgentError as error:
            self.error = error
        finally:
            self.agent.close(timeout_s=0.1 if self.is_closed else 5.0)
            with self._group.changed:
                self.is_closed = True
                self._group.changed.notify_all()

    def _revoke(self, partitions: tuple[TopicPartition, ...]) -> None:
        self._record("revoked", partitions)
        self._in_revoked()

    def _record(self, what: str, partitions: tuple[TopicPartition, ...]) -> None:
        numbers = [each.partition for each in partitions]
        with self._group.changed:
            if self.is_closed:
                return
            self.lines.append((what, numbers))
            self.owned = self.owned | set(numbers) if what == "assigned" else self.owned - set(numbers)
            if what == "assigned":
                self.assigned_in_generation = self.agent.generation
            self._group.changed.notify_all()


def _name(member_id: str) -> str:
    """Return the client id or instance id that a member id begins with; what follows is a UUID."""
    return member_id[: -len("-01234567-89ab-cdef-0123-456789abcdef")]
