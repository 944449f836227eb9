"""Fields of sensors and operators as their users write them, or as templates render them."""

import math
from collections.abc import Mapping
from typing import Any

NATIVE_ADVICE = "a template of a list needs render_template_as_native_obj=True"


def is_template(value: Any) -> bool:
    """Return whether a value, or one in it, is known only when the task runs: a template, or another task's result."""
    if isinstance(value, str):
        return "{{" in value or "{%" in value
    if isinstance(value, list | tuple | set | frozenset):
        return any(is_template(each) for each in value)
    return not isinstance(value, int | float | None)


def text(field: str, value: Any) -> str:
    """Return a text; a number, such as another task's result, is its digits.

    Raises:
        ValueError: it is neither.
    """
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueError(f"{field}: {value!r} is no text")
    return str(value)


def names(field: str, value: Any) -> list[str]:
    """Return names; a text is one name, and None is none.

    Raises:
        ValueError: something is no name.
    """
    found = [] if value is None else [value] if isinstance(value, str) else list(value)
    for name in found:
        if not isinstance(name, str) or not name or (name[0], name[-1]) == ("[", "]"):
            raise ValueError(f"{field}: {name!r} is no name; {NATIVE_ADVICE}")
    return found


def topics(field: str, value: Any) -> list[dict[str, Any]]:
    """Return topics as the HTTP API has them, for which none are all; a text is the name of one, and None is none.

    Raises:
        ValueError: something is neither a name nor a mapping, or an empty list does not name any.
    """
    found = [] if value is None else [value] if isinstance(value, str | Mapping) else list(value)
    if value is not None and not found:
        raise ValueError(f"{field}: {value!r} names no topic; None is all topics")
    return [
        _numbered(field, each) if isinstance(each, Mapping) else {"topic": names(field, [each])[0]} for each in found
    ]


def offsets(field: str, value: Any) -> list[dict[str, Any]]:
    """Return offsets of partitions as the HTTP API has them; None is none.

    Raises:
        ValueError: something is no mapping.
    """
    found = [] if value is None else [value] if isinstance(value, Mapping) else value
    if not all(isinstance(each, Mapping) for each in found):
        raise ValueError(f"{field}: {value!r} is no list of mappings; {NATIVE_ADVICE}")
    return [_numbered(field, each) for each in found]


def _numbered(field: str, value: Mapping[str, Any]) -> dict[str, Any]:
    """Return a mapping of the HTTP API, with numbers for those that templates rendered as text."""
    found = dict(value)
    for name in found.keys() & {"partition", "offset"}:
        found[name] = whole_number(field, found[name])
    if isinstance(found.get("partitions"), list | tuple):
        found["partitions"] = [whole_number(field, number) for number in found["partitions"]]
    return found


def whole_number(field: str, value: Any) -> int | None:
    """Return a number, or None.

    Raises:
        ValueError: it is neither a whole number nor the text of one.
    """
    if value is None:
        return None
    try:
        return int(str(value))
    except ValueError:
        raise ValueError(f"{field}: {value!r} is no whole number") from None


def records(field: str, value: Any) -> int | None:
    """Return a number of records, or None.

    Raises:
        ValueError: it is no whole number, or below 0.
    """
    number = whole_number(field, value)
    if number is not None and number < 0:
        raise ValueError(f"{field}: {number} is below 0")
    return number


def seconds(field: str, value: Any) -> float | None:
    """Return a length of time in seconds, or None.

    Raises:
        ValueError: it is no number, below 0 or infinite.
    """
    if value is None:
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not 0 <= number < math.inf:
        raise ValueError(f"{field}: {value!r} is no number of seconds")
    return number
