"""An agent is used by one thread at a time; whoever comes in meanwhile is refused, and never waits.

The thread that is inside may call again: callbacks do.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from agent.errors import ConcurrentUse

Parameters = ParamSpec("Parameters")
Value = TypeVar("Value")


class HasDoor(Protocol):
    """Something that one thread at a time may be in."""

    @property
    def _door(self) -> threading.RLock: ...


Owner = TypeVar("Owner", bound=HasDoor)


def by_one_thread(
    method: Callable[Concatenate[Owner, Parameters], Value],
) -> Callable[Concatenate[Owner, Parameters], Value]:
    """Refuse the method to a second thread while one is in any method that is guarded so.

    Raises:
        ConcurrentUse: another thread is inside.
    """

    @wraps(method)
    def guarded(self: Owner, /, *arguments: Parameters.args, **named: Parameters.kwargs) -> Value:
        if not self._door.acquire(blocking=False):
            raise ConcurrentUse(f"{method.__name__}(): another thread uses this agent; only wakeup() is for all")
        try:
            return method(self, *arguments, **named)
        finally:
            self._door.release()

    return guarded
