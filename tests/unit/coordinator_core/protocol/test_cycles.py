"""What the garbage collector does not see (`gc=False`) holds immutable values only, so it is in no cycle."""

import types
import typing
from enum import Enum
from typing import Any

import pytest
from msgspec import Struct

from coordinator_core.protocol import member, records, requests, responses

UNSEEN = [
    each
    for module in (member, records, requests, responses)
    for each in vars(module).values()
    if isinstance(each, type) and issubclass(each, Struct) and not each.__struct_config__.gc
]


def mutable_in(kind: Any) -> list[Any]:  # noqa: ANN401 - a type as an annotation has it
    """Return the types in an annotation that can refer to what is made later."""
    if kind in {str, bytes, int, bool, type(None), ...} or kind in UNSEEN or typing.get_origin(kind) is typing.Literal:
        return []
    if isinstance(kind, type) and issubclass(kind, Enum):
        return []
    if isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return [found for each in typing.get_type_hints(kind).values() for found in mutable_in(each)]
    if typing.get_origin(kind) in {tuple, frozenset, typing.Union, types.UnionType}:
        return [found for each in typing.get_args(kind) for found in mutable_in(each)]
    return [kind]


@pytest.mark.parametrize("kind", UNSEEN)
def test_struct_without_collection_holds_immutable_values(kind: type[Struct]) -> None:
    hints = typing.get_type_hints(kind)
    assert {name: found for name in kind.__struct_fields__ if (found := mutable_in(hints[name]))} == {}
