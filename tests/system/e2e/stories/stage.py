"""A stage for stories: one group on a real node, real agents as its actors, and the ledger that tells what went on.

An actor polls in a thread of its own. It can be made to stand still, and it can vanish as a killed process does: its
network goes first, so that the node hears nothing of it any more.
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
from tests.support.cutting_proxy import CuttingProxy
from tests.support.waiting import PATIENCE_S, poll_until

PROMPT = {"group_initial_rebalance_delay_ms": 0, "group_min_session_timeout_ms": 100, "heartbeat_interval_ms": 100}
"""A group's settings for stories: it starts at once, and its members hear of everything soon."""

Line = tuple[str, list[int]]


@dataclass(frozen=True)
class Rebalance:
    """A row of the ledger, with the actor's name in place of the member id."""

    generation: int
    trigger: str
    by: str
    restarts: int
    members_after: int


class Stage:
    """One group, its actors and its ledger."""

    def __init__(self, node_url: str, ledger: PsycopgConnection, partitions: int = 3) -> None:
        self.node_url = node_url
        self.topic = f"topic-{uuid4().hex[:8]}"
        self.group_id = f"group-{uuid4().hex[:8]}"
        self.actors: dict[str, Actor] = {}
        self.changed = threading.Condition()
        self._ledger = ledger
        self.call("PUT", f"/v1/topics/{self.topic}", {"partitions": partitions, "reason": "a story"})
        self.configure(**PROMPT)

    def configure(self, **values: int | str) -> None:
        """Put settings in force for the group."""
        self.call("PUT", f"/v1/groups/{self.group_id}/config", {"values": values, "reason": "a story"})

    def call(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        with urllib3.PoolManager() as http:
            response = http.request(
                method, self.node_url + path, json=body, headers={"X-Muster-Actor": "tests"}, timeout=PATIENCE_S
            )
            assert response.status < 300, response.data
            answer: dict[str, Any] = response.json()
            return answer

    def enter(self, name: str, **options: Any) -> Actor:  # noqa: ANN401  # whatever an agent takes
        """Start an agent; `own_line=True` gives it a line to the node that can be cut."""
        self.actors[name] = Actor(self, name, **options)
        return self.actors[name]

    def present(self) -> list[Actor]:
        return [actor for actor in self.actors.values() if not actor.is_gone]

    def shares(self) -> list[list[int]]:
        """Return what each actor on the stage owns, in the order of their entrances."""
        return [sorted(actor.owned) for actor in self.present()]

    def wait_for_shares(self, *sizes: int, generation: int) -> None:
        """Wait until the actors own so many partitions each, all told in this generation."""

        def is_so() -> bool:
            settled = all(actor.assigned_in_generation == generation for actor in self.present())
            return settled and [len(share) for share in self.shares()] == list(sizes)

        self.wait_for(is_so)

    def wait_for(self, is_so: Callable[[], bool]) -> None:
        with self.changed:
            assert self.changed.wait_for(is_so, PATIENCE_S), [
                (a.name, a.assigned_in_generation, a.lines) for a in self.actors.values()
            ]

    def wait_for_group(self, is_so: Callable[[dict[str, Any]], bool]) -> None:
        """Wait until the group, as the node describes it, is so."""
        poll_until(lambda: is_so(self.described()))

    def described(self) -> dict[str, Any]:
        return self.call("GET", f"/v1/groups/{self.group_id}")

    def rebalances(self) -> list[Rebalance]:
        """Return the group's rebalances so far, from the ledger."""
        rows = self._rows(
            "SELECT generation, trigger, coalesce(trigger_member_id, ''), restarts, member_count_after"
            " FROM rebalances WHERE group_id = %s ORDER BY completed_at, generation"
        )
        return [Rebalance(row[0], row[1], _name(row[2]), *row[3:]) for row in rows]

    def states(self) -> list[str]:
        """Return the states that the group went through, from the ledger."""
        rows = self._rows("SELECT to_state FROM group_transitions WHERE group_id = %s ORDER BY at, generation")
        return [row[0] for row in rows]

    def finish(self) -> None:
        for actor in self.actors.values():
            actor.exit()

    def _rows(self, query: str) -> list[tuple[Any, ...]]:
        with self._ledger.cursor() as cursor:
            cursor.execute(query, (self.group_id,))
            return cursor.fetchall()


@dataclass
class Hold:
    """A place where an actor's thread stands still until it is let go."""

    reached: threading.Event = field(default_factory=threading.Event)
    may_go: threading.Event = field(default_factory=threading.Event)

    def stand(self, _: object = None) -> None:
        self.reached.set()
        assert self.may_go.wait(PATIENCE_S)

    def wait_until_reached(self) -> None:
        assert self.reached.wait(PATIENCE_S)

    def release(self) -> None:
        self.may_go.set()


class Actor:
    """An agent at work; `lines` are its callbacks in order, with the partitions' numbers."""

    def __init__(
        self,
        stage: Stage,
        name: str,
        *,
        own_line: bool = False,
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
        self.is_gone = False
        self._stage = stage
        self._in_revoked = in_revoked
        self._holds: list[Hold] = []
        self._is_stopping = threading.Event()
        self._cables = ExitStack()
        self.line = CuttingProxy(stage.node_url) if own_line else None
        if self.line is not None:
            self._cables.enter_context(self.line.running())
        timing = {"session_timeout_ms": 20_000, "retry_backoff_ms": 10, "retry_backoff_max_ms": 200}
        self.agent = ConsumerAgent(
            base_urls or (stage.node_url if self.line is None else self.line.url),
            stage.group_id,
            [stage.topic],
            client_id=name,
            on_assigned=lambda partitions: self._note("assigned", partitions),
            on_revoked=self._revoke,
            on_lost=lambda partitions: self._note("lost", partitions),
            **(timing | options),
        )
        self._thread = threading.Thread(target=self._run, name=name)
        self._thread.start()

    def count(self, what: str) -> int:
        return sum(line[0] == what for line in self.lines)

    def counts(self) -> tuple[int, int, int]:
        """Return how often on_assigned, on_revoked and on_lost were called."""
        return self.count("assigned"), self.count("revoked"), self.count("lost")

    def stand_still(self) -> Hold:
        """Keep the actor from polling; returns when it does not poll any more."""
        hold = Hold()
        self._holds.append(hold)
        self.agent.wakeup()
        hold.wait_until_reached()
        return hold

    def exit(self) -> None:
        """Close the agent, as a program that ends in order does."""
        self._is_stopping.set()
        for hold in self._holds:
            hold.release()
        self.agent.wakeup()
        self._thread.join()
        self._cables.close()

    def vanish(self) -> None:
        """Go as a killed process goes: without a word, and nothing is heard of it again."""
        with self._stage.changed:
            self.is_gone = True
        self._cables.close()
        self.exit()

    def _run(self) -> None:
        try:
            while not self._is_stopping.is_set():
                if self._holds and not self._holds[-1].may_go.is_set():
                    self._holds[-1].stand()
                self.agent.poll(timeout_s=0.2)
                self.agent.wait(timeout_s=0.2)
        except AgentError as error:
            self.error = error
        finally:
            self.agent.close(timeout_s=0.1 if self.is_gone else 5.0)
            with self._stage.changed:
                self.is_gone = True
                self._stage.changed.notify_all()

    def _revoke(self, partitions: tuple[TopicPartition, ...]) -> None:
        self._note("revoked", partitions)
        self._in_revoked()

    def _note(self, what: str, partitions: tuple[TopicPartition, ...]) -> None:
        numbers = [each.partition for each in partitions]
        with self._stage.changed:
            if self.is_gone:
                return
            self.lines.append((what, numbers))
            self.owned = self.owned | set(numbers) if what == "assigned" else self.owned - set(numbers)
            if what == "assigned":
                self.assigned_in_generation = self.agent.generation
            self._stage.changed.notify_all()


def _name(member_id: str) -> str:
    """Return the client id or instance id that a member id begins with; what follows is a UUID."""
    return member_id[: -len("-01234567-89ab-cdef-0123-456789abcdef")]
