"""Parses topics with partitions, times and durations from the command line."""

from __future__ import annotations

import datetime as dt
import re
from typing import Final

from muster.errors import USAGE_EXIT_CODE, UserError
from muster.node_client import Json

DURATION: Final = re.compile(
    r"P(?:(?P<days>\d{1,18})D)?(?:T(?:(?P<hours>\d{1,18})H)?(?:(?P<minutes>\d{1,18})M)?(?:(?P<seconds>\d{1,18})S)?)?"
)
PARTITION_DIGITS_MAX: Final = 10
TOPIC: Final = re.compile(r"(?P<topic>.+):(?P<partitions>-?\d[^:]*)", re.DOTALL)


def topic_and_partitions(text: str) -> Json:
    """Read `orders`, or `orders:0,1`.

    Raises:
        UserError: a partition is no number, or has too many digits.
    """
    match = TOPIC.fullmatch(text)
    if match is None:
        return {"topic": text}
    numbers = match["partitions"].split(",")
    if not all(map(str.isdecimal, numbers)):
        raise UserError(f"--topic {text}: partitions are numbers, as in orders:0,1.", USAGE_EXIT_CODE)
    if any(len(number) > PARTITION_DIGITS_MAX for number in numbers):
        raise UserError(f"A partition has at most {PARTITION_DIGITS_MAX} digits.", USAGE_EXIT_CODE)
    return {"topic": match["topic"], "partitions": list(map(int, numbers))}


def instant(text: str, flag: str) -> dt.datetime:
    """Read a time, to the microsecond; without a zone it is UTC, and a date is its midnight."""
    try:
        moment = dt.datetime.fromisoformat(text)
        moment.astimezone(dt.UTC)  # Which the first and the last day of all may not be.
    except (ValueError, OverflowError):
        raise UserError(
            f"{flag} {text}: a time looks like 2026-11-21T02:13:00, or with a zone 2026-11-21T02:13:00+01:00.",
            USAGE_EXIT_CODE,
        ) from None
    return moment.replace(tzinfo=dt.UTC) if moment.tzinfo is None else moment


def duration_ago(text: str) -> dt.datetime:
    """Return the time that an ISO 8601 duration, of days and smaller units, lies in the past.

    Source: Kafka's ``--by-duration``.
    """
    match = DURATION.fullmatch(text)
    parts = {} if match is None else {name: int(number) for name, number in match.groupdict().items() if number}
    if not parts:
        raise UserError(f"--by-duration {text}: a duration looks like PT1H30M, or P2D.", USAGE_EXIT_CODE)
    try:
        return dt.datetime.now(dt.UTC) - dt.timedelta(**parts)
    except OverflowError:
        raise UserError(f"--by-duration {text}: that is too long ago.", USAGE_EXIT_CODE) from None


def one_partition(named: Json) -> int | None:
    """Return the only partition that is named with a topic; None if none is.

    Raises:
        UserError: there are several.
    """
    partitions = named.get("partitions", [])
    if len(partitions) > 1:
        raise UserError("Name one partition, as in orders:7, or none.", USAGE_EXIT_CODE)
    return partitions[0] if partitions else None
