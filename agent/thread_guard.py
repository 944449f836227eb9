"""Decorator that rejects concurrent calls of an agent from a second thread.

The second thread gets an error at once; it never waits. The thread inside may call again, as callbacks do.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from agent.errors import ConcurrentUse

Parameters = ParamSpec("Parameters")
Value = TypeVar("Value")


class HasThreadLock(Protocol):
    """An object with a lock that `single_threaded` takes."""

    @property
    def _thread_lock(self) -> threading.RLock: ...


Owner = TypeVar("Owner", bound=HasThreadLock)


def single_threaded(
    method: Callable[Concatenate[Owner, Parameters], Value],
) -> Callable[Concatenate[Owner, Parameters], Value]:
    """Reject a call while another thread is inside any decorated method of the object.

    Raises:
        ConcurrentUse: another thread is inside.
    """

    @wraps(method)
    def guarded(self: Owner, /, *arguments: Parameters.args, **named: Parameters.kwargs) -> Value:
        if not self._thread_lock.acquire(blocking=False):
            raise ConcurrentUse(
                f"{method.__name__}(): another thread is using this agent; only wakeup() may be called from any thread"
            )
        try:
            return method(self, *arguments, **named)
        finally:
            self._thread_lock.release()

    return guarded
