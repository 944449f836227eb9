"""Responses from rows of queries: a field is the row's attribute of the same name, a time `at` its `at_ms`."""

from typing import Any, TypeVar

from msgspec import Struct

from api.http.times import instant_or_none

ResponseT = TypeVar("ResponseT", bound=Struct)


def response_of(kind: type[ResponseT], row: object, **others: Any) -> ResponseT:  # noqa: ANN401 - fields of any type
    """Return a response with the values of a row.

    Args:
        kind: the type of the response.
        row: a row with an attribute for each field of the response, or for a time with one in milliseconds.
        others: fields whose values are not the row's.
    """
    return kind(**{name: _value(row, name) for name in kind.__struct_fields__ if name not in others}, **others)


def _value(row: object, name: str) -> Any:  # noqa: ANN401 - likewise
    return getattr(row, name) if hasattr(row, name) else instant_or_none(getattr(row, f"{name}_ms"))
