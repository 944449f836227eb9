"""A mutation is the code under test with one piece of its text replaced, in place for the length of a block.

The piece must be there, once: a mutation whose code has moved fails, and does not pass for the wrong reason.
"""

import inspect
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch


@contextmanager
def mutated(owner: object, name: str, old: str, new: str) -> Iterator[None]:
    """Replace a function's or method's text for the length of a block.

    Args:
        owner: the class or module that has it.
        name: what it is called there.
        old: the piece of its text to replace.
        new: what stands there instead.
    """
    function: Callable[..., Any] = inspect.unwrap(getattr(owner, name))
    text = textwrap.dedent(inspect.getsource(function))
    assert text.count(old) == 1, f"{name} has this piece {text.count(old)} times: {old}"
    home = sys.modules[function.__module__]
    scope: dict[str, Any] = {}
    exec(compile(text.replace(old, new), f"<mutated {name}>", "exec"), home.__dict__, scope)  # noqa: S102 - its purpose
    with patch.object(owner, name, scope[function.__name__]):
        yield
