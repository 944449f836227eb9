"""The interface between the scenario interpreter and a coordinator, in process or over HTTP.

Results are dictionaries in the terms of the scenario file. An error is its Kafka name, success is "NONE". `UNSEEN`
stands for a value that a driver cannot observe; it is not compared.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from threading import Event
from typing import Any, Final, Protocol

Answer = dict[str, Any]
Value = Any
"""Any value of a scenario's field."""


class Unseen(Enum):
    """Placeholder for values that a driver cannot observe."""

    UNSEEN = "unseen"


UNSEEN: Final = Unseen.UNSEEN


@dataclass(slots=True)
class Handle:
    """A join or a sync that was sent, and its response, which may arrive on another thread."""

    on_answer: Callable[[Answer], None]
    answer: Answer | None = None
    _is_here: Event = field(default_factory=Event)

    def resolve(self, answer: Answer) -> None:
        """Set the answer, once."""
        assert self.answer is None, "answered twice"
        self.on_answer(answer)
        self.answer = answer
        self._is_here.set()

    def wait(self, patience_s: float) -> None:
        """Wait for the response, at most for a timeout."""
        self._is_here.wait(patience_s)


class Driver(Protocol):
    """A coordinator under test, and its clock."""

    def settle(self, handle: Handle, *, is_due: bool) -> None:
        """Return when the handle has its answer, if it gets one now.

        Args:
            handle: a join or a sync that was sent.
            is_due: whether an answer is expected; otherwise only one that comes at once is waited for.
        """

    def join(self, group: str, fields: Answer, handle: Handle) -> None: ...
    def sync(self, group: str, fields: Answer, handle: Handle) -> None: ...
    def heartbeat(self, group: str, fields: Answer) -> Answer: ...
    def leave(self, group: str, members: list[Answer]) -> Answer: ...
    def commit(self, group: str, fields: Answer) -> Answer: ...
    def fetch(self, group: str, partitions: list[Answer] | None) -> Answer: ...
    def offset_delete(self, group: str, partitions: list[Answer]) -> Answer: ...
    def describe(self, group: str) -> Answer: ...
    def list_groups(self, states: list[str], types: list[str]) -> Answer: ...
    def delete_group(self, group: str) -> Answer: ...
    def find_coordinator(self, key: str, partitions: int) -> Answer: ...
    def advance(self, ms: int) -> None: ...
    def cleanup(self) -> None: ...
    def delete_topic_partitions(self, partitions: list[Answer]) -> None: ...
    def reload(self, config: dict[str, Any]) -> None: ...
    def set_loading(self, on: bool) -> None: ...
    def state(self, group: str) -> Answer: ...
    def transitions(self, group: str) -> list[str]: ...
    def metrics(self) -> Answer: ...
