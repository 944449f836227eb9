"""A decorator: only one thread or task at a time may run the decorated methods of an object."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, cast

from agent.core.runtime import Runtime

Parameters = ParamSpec("Parameters")
Value = TypeVar("Value")


class HasRuntime(Protocol):
    """An object whose runtime knows which thread or task runs one of its methods."""

    @property
    def _runtime(self) -> Runtime: ...


Owner = TypeVar("Owner", bound=HasRuntime)


def exclusive(
    method: Callable[Concatenate[Owner, Parameters], Value],
) -> Callable[Concatenate[Owner, Parameters], Value]:
    """Reject a call, or the run of a coroutine, while another thread or task is inside; see `Runtime.exclusive`."""
    if inspect.iscoroutinefunction(method):

        @wraps(method)
        async def guarded_coroutine(self: Owner, /, *arguments: Any, **named: Any) -> Any:  # noqa: ANN401  # the method's
            with self._runtime.exclusive(method.__name__):
                return await cast("Awaitable[Any]", method(self, *arguments, **named))

        return cast("Callable[Concatenate[Owner, Parameters], Value]", guarded_coroutine)

    @wraps(method)
    def guarded(self: Owner, /, *arguments: Parameters.args, **named: Parameters.kwargs) -> Value:
        with self._runtime.exclusive(method.__name__):
            return method(self, *arguments, **named)

    return guarded
