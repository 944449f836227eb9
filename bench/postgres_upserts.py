"""Measure how many committed offsets Postgres stores a second, in batches of one statement and one COMMIT.

Three methods are measured, and the fastest is the ceiling: `unnest` with ON CONFLICT, the same with the common columns
of a commit sent once, and COPY into a temporary table with a merge. Statements and parameters are prepared before, so
the time is Postgres' alone.
"""

import io
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from itertools import cycle, groupby
from typing import Final, NamedTuple

import psycopg2
from psycopg2.extensions import cursor as Cursor  # noqa: N812 - a class under a function's name

from bench.figures import middle
from muster.settings import psql_url

ROUNDS: Final = 3
BATCHES: Final = 8
"""Number of different batches sent in turn."""

COLUMNS: Final = (
    "group_id, shard_id, topic, partition, committed_offset, leader_epoch, metadata, log_end_offset,"
    " committed_at, expires_at, member_id"
)
UPSERT: Final = f"""
INSERT INTO offsets ({COLUMNS}) SELECT {COLUMNS} FROM {{source}}
ON CONFLICT (group_id, topic, partition) DO UPDATE SET
    committed_offset = excluded.committed_offset, leader_epoch = excluded.leader_epoch,
    metadata = excluded.metadata, log_end_offset = excluded.log_end_offset, committed_at = excluded.committed_at,
    expires_at = excluded.expires_at, member_id = excluded.member_id, commit_version = excluded.commit_version
"""  # noqa: S608 - nothing in it comes from outside
TYPES: Final = (
    "text[], smallint[], text[], integer[], bigint[], integer[], text[], bigint[], timestamptz[], timestamptz[], text[]"
)
BUNDLE_TYPES: Final = (
    "text[], smallint[], text[], text[], text[], text[], text[], text[], timestamptz[], timestamptz[], text[]"
)
ARRAYS: Final = ", ".join(f"${number}" for number in range(1, 12))
UNNEST: Final = UPSERT.format(source=f"unnest({ARRAYS}) AS given ({COLUMNS})")
BUNDLES: Final = UPSERT.format(
    source=f"""(
SELECT bundle.group_id, bundle.shard_id, bundle.topic, own.partition, own.committed_offset, own.leader_epoch,
    own.metadata, own.log_end_offset, bundle.committed_at, bundle.expires_at, bundle.member_id
FROM unnest({ARRAYS}) AS bundle ({COLUMNS})
CROSS JOIN LATERAL unnest(bundle.partition::integer[], bundle.committed_offset::bigint[],
    bundle.leader_epoch::integer[], bundle.metadata::text[], bundle.log_end_offset::bigint[])
    AS own (partition, committed_offset, leader_epoch, metadata, log_end_offset)
) AS given"""  # noqa: S608 - likewise
)
OWN: Final = slice(3, 8)
"""Columns that differ between the rows of a commit; the others are common."""
PARTITIONS: Final = 100
"""Partitions of a group."""
STAGE: Final = f"CREATE TEMP TABLE given AS SELECT {COLUMNS} FROM offsets WITH NO DATA"  # noqa: S608 - likewise
MERGE: Final = UPSERT.format(source="given")
PREPARED: Final = (
    f"PREPARE by_unnest ({TYPES}) AS {UNNEST}",
    f"PREPARE in_bundles ({BUNDLE_TYPES}) AS {BUNDLES}",
    f"PREPARE merge AS {MERGE}",
)
GIVEN: Final = ", ".join(["%s"] * 11)


class Batch(NamedTuple):
    """One transaction's rows, in the form of each method."""

    arrays: tuple[str, ...]
    bundles: tuple[str, ...]
    lines: str


def rows_per_s(database_url: str, keys: int, batch_rows: int, duration_s: float) -> float:
    """Return how many rows a second Postgres stores by the fastest method.

    Args:
        database_url: a migrated database.
        keys: number of partitions; their rows are inserted before the measurement.
        batch_rows: rows of a transaction.
        duration_s: how long each method is measured in each round, in seconds.
    """
    with closing(psycopg2.connect(psql_url(database_url))) as connection, connection.cursor() as cursor:
        for statement in (STAGE, *PREPARED):
            cursor.execute(statement)
        _send_by_unnest(cursor, _batch(range(keys)))
        connection.commit()
        batches = list(_batches(keys, batch_rows))

        def measured(send: Callable[[Cursor, Batch], None]) -> float:
            began_s, sent = time.perf_counter(), 0
            for batch in cycle(batches):
                send(cursor, batch)
                connection.commit()
                sent += batch_rows
                took_s = time.perf_counter() - began_s
                if took_s >= duration_s:
                    return sent / took_s
            raise AssertionError("there are batches")

        rounds = [
            [measured(send) for send in (_send_by_unnest, _send_in_bundles, _send_by_copy)] for _ in range(ROUNDS)
        ]
    return max(middle(of_way) for of_way in zip(*rounds, strict=True))


def _send_by_unnest(cursor: Cursor, batch: Batch) -> None:
    cursor.execute(f"EXECUTE by_unnest ({GIVEN})", batch.arrays)


def _send_in_bundles(cursor: Cursor, batch: Batch) -> None:
    cursor.execute(f"EXECUTE in_bundles ({GIVEN})", batch.bundles)


def _send_by_copy(cursor: Cursor, batch: Batch) -> None:
    cursor.execute("DELETE FROM given")
    cursor.copy_expert("COPY given FROM STDIN", io.StringIO(batch.lines))
    cursor.execute("EXECUTE merge")


def _batches(keys: int, batch_rows: int) -> Iterator[Batch]:
    for number in range(BATCHES):
        first = number * batch_rows
        yield _batch([(first + each) % keys for each in range(batch_rows)])


def _batch(numbers: Sequence[int]) -> Batch:
    rows = [_row(number) for number in numbers]
    commits = [_in_common(list(some)) for _, some in groupby(rows, lambda row: row[0])]
    return Batch(arrays_of(rows), arrays_of(commits), "".join("\t".join(row) + "\n" for row in rows))


def _in_common(rows: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """Combine a commit's rows into one row, with arrays of the differing columns."""
    own = [f'"{array}"' for array in arrays_of([row[OWN] for row in rows])]
    return (*rows[0][: OWN.start], *own, *rows[0][OWN.stop :])


def arrays_of(rows: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    r"""Write rows in the order of `COLUMNS`, an array a column; `\N` stands for NULL."""
    return tuple("{" + ",".join(column).replace("\\N", "NULL") + "}" for column in zip(*rows, strict=True))


def _row(number: int) -> tuple[str, ...]:
    group = f"upserts-{number // PARTITIONS}"
    at = "2030-01-01T00:00:00.123Z"
    member = "bench-00000000-0000-0000-0000-000000000000"
    return (group, "1", "orders", str(number % PARTITIONS), str(number), "-1", "m", "\\N", at, "\\N", member)
