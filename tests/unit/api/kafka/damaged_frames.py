"""Decodes every request with a huge number at every place, in a process with little memory.

Run: python -m tests.unit.api.kafka.damaged_frames
"""

import contextlib
import io
import resource
import sys
import typing
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import fields
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from kio.index import load_request_schema
from kio.serial import entity_writer

from api.kafka.apis import APIS
from api.kafka.list_lengths import MalformedFrame
from api.kafka.messages import decode, maker

MEMORY_BYTES: Final = 4 * 2**30
MAX_ITEMS: Final = 2**31
HUGE: Final = (
    b"\xfe\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\x1f",
    b"\x7f\xff\xff\xff",
    b"\x40\x00\x00\x00",
    b"\x80\x00\x00\x00",
    b"\xff\xff\xff\xfe",
)
"""Numbers of variable length and of 32 bits, some of them negative."""
VALUES: Final = {
    "bool": True,
    "bytes": b"x",
    "records": b"x",
    "string": "x",
    "timedelta_i32": timedelta(milliseconds=1),
    "timedelta_i64": timedelta(milliseconds=1),
    "uuid": UUID(int=1),
}


NEGATIVE: Final[Mapping[str, object]] = {**VALUES, "string": "x" * 300} | {f"int{bits}": -1 for bits in (8, 16, 32, 64)}
"""Values whose bytes could be taken for numbers of variable length."""


def requests(values: Mapping[str, object] = VALUES) -> Iterator[tuple[int, int, Any, bytes]]:
    """Yield API, version, message and body of a request of each version, with two items in each list."""
    for key, api in APIS.items():
        for version in range(api.first, api.last + 1):
            schema = load_request_schema(key, version)
            message, buffer = maker(schema)(_sample(schema, values)), io.BytesIO()
            entity_writer(schema)(buffer, message)
            yield key, version, message, buffer.getvalue()


def _sample(schema: type[Any], values: Mapping[str, object]) -> dict[str, Any]:
    return {each.name: _value(each.type, each.metadata.get("kafka_type"), values) for each in fields(schema)}


def _value(kind: Any, kafka_type: str | None, values: Mapping[str, object]) -> Any:  # noqa: ANN401  # of a field
    for each in (kind, *typing.get_args(kind)):
        if typing.get_origin(each) is tuple:
            item = _sample(typing.get_args(each)[0], values) if kafka_type is None else values.get(kafka_type, 1)
            return (item, item)
    assert kafka_type is not None
    return values.get(kafka_type, 1)


def main() -> None:
    """Write how many damaged requests were refused, and how many decoded."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    outcomes: Counter[str] = Counter()
    for key, version, _, body in requests():
        for place in range(len(body)):
            for number in HUGE:
                for rest in (body[place + 1 :], body[place + len(number) :]):
                    outcomes["damaged"] += 1
                    with contextlib.suppress(MalformedFrame):
                        decode(key, version, body[:place] + number + rest, 0, MAX_ITEMS)
                        outcomes["decoded"] += 1
    sys.stdout.write(f"{dict(outcomes)}\n")


if __name__ == "__main__":
    main()
