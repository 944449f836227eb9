"""The documented query for the owner and committed offset of a partition agrees with the API."""

import re
from datetime import UTC, datetime
from typing import Any

import pytest
from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name

from coordinator_core.queries.ownership import Moment, read_offsets_at, read_ownership
from coordinator_core.state_store.postgres import PostgresStore
from tests.support.repository import ROOT
from tests.support.store_rows import (
    MINUTE_MS,
    committed,
    group_row,
    member_row,
    ownership_row,
    removed,
    uuid_of,
    write,
)
from tests.support.store_worlds import Owner, Query

DOC = ROOT / "docs" / "tables.md"
ASKED = "timestamptz '2026-11-21 02:13Z'"
AT_MS = int(datetime(2026, 11, 21, 2, 13, tzinfo=UTC).timestamp()) * 1_000
SINCE_MS = AT_MS - 30 * MINUTE_MS
TAKEN_MS = AT_MS + 5 * MINUTE_MS


def documented() -> str:
    (query,) = (text for text in re.findall(r"```sql\n(.*?)```", DOC.read_text(), re.DOTALL) if ASKED in text)
    return str(query)


def answered(connection: PsycopgConnection, at_ms: int) -> list[tuple[Any, ...]]:
    """Run the query as of another time; unknown values are None."""
    with connection.cursor() as cursor:
        cursor.execute(documented().replace(ASKED, f"to_timestamp({at_ms} / 1000.0)"))
        return [(row[0], row[3], row[5]) for row in cursor.fetchall()]


def asked_of(query: Query, at_ms: int) -> list[tuple[Any, ...]]:
    """Ask as the API does."""
    moment = Moment("orders", at_ms, "clicks", 7)
    owners = [span.member_id for span in query(read_ownership, moment)]
    positions = query(read_offsets_at, moment)
    assert max(len(owners), len(positions)) <= 1
    offset, by = (positions[0].offset, positions[0].member_id) if positions else (None, None)
    return [(owners[0] if owners else None, offset, by)]


@pytest.fixture
def filled(postgres_store: PostgresStore) -> PostgresStore:
    """Change the owner of a partition at 02:13 to the millisecond, commit before and after, and archive the offset."""
    owner = Owner(postgres_store)
    past: dict[str, Any] = {"topic": "clicks", "partitions": (3, 7), "valid_from_ms": SINCE_MS, "valid_to_ms": AT_MS}
    span = {
        "topic": "clicks",
        "partitions": [7],
        "since_ms": AT_MS,
        "generation": 2,
        "rebalance_id": uuid_of("second"),
    }
    owner.write(
        write(
            group=group_row(), members={"m-2": member_row("m-2", ownership=[span])}, ownerships=(ownership_row(**past),)
        ),
        write("other", group=group_row("other"), committed=(committed(partition=7, offset=99),)),
    )
    for offset, at_ms, member_id in ((10, SINCE_MS, "m-1"), (20, AT_MS - 1, "m-1"), (30, AT_MS + MINUTE_MS, "m-2")):
        owner.write(write(committed=(committed("clicks", 7, offset, at_ms=at_ms, member_id=member_id),)))
    (stored,) = postgres_store.stored_offsets("orders")
    owner.write(write(removed=(removed(stored, at_ms=TAKEN_MS),)))
    return postgres_store


@pytest.mark.parametrize(
    ("at_ms", "reported"),
    [
        (SINCE_MS - 1, (None, None, None)),
        (AT_MS - 2, ("m-1", 10, "m-1")),
        (AT_MS - 1, ("m-1", 20, "m-1")),
        (AT_MS, ("m-2", 20, "m-1")),
        (AT_MS + MINUTE_MS, ("m-2", 30, None)),
        (TAKEN_MS, ("m-2", None, None)),
    ],
    ids=["before all", "early", "the last commit before", "02:13", "a commit that was archived", "after it was taken"],
)
def test_query_returns_owner_and_committed_offset_of_a_partition(
    filled: PostgresStore, sql_connection: PsycopgConnection, query: Query, at_ms: int, reported: tuple[Any, ...]
) -> None:
    assert answered(sql_connection, at_ms) == asked_of(query, at_ms) == [reported]
