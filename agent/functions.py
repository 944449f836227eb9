"""Check of the functions that a caller passes to the agent."""

from __future__ import annotations

import inspect
from functools import partial


def check_function(name: str, function: object, arguments: int, *, may_be_coroutine: bool) -> None:
    """Check that a function can be called with so many arguments, and does its work when it is.

    Raises:
        ValueError: it is no function, takes other arguments, is a generator function, or is a coroutine function where
            that is not awaited; the message names it.
    """
    if not callable(function):
        raise ValueError(f"{name} must be a function, and is {function!r}")
    called = function.func if isinstance(function, partial) else function
    kinds = (called, getattr(called, "__call__", None))  # noqa: B004  # it is callable; an object's method says how
    if any(map(inspect.isgeneratorfunction, kinds)) or any(map(inspect.isasyncgenfunction, kinds)):
        raise ValueError(f"{name} must not be a generator function, which does nothing when it is called")
    if not may_be_coroutine and any(map(inspect.iscoroutinefunction, kinds)):
        raise ValueError(f"{name} must not be a coroutine function here; callbacks of agent.aio may be")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # Of some functions in C it is not known.
        return
    try:
        signature.bind(*[None] * arguments)
    except TypeError:
        raise ValueError(f"{name} must take {arguments} positional argument{'s' * (arguments != 1)}") from None
