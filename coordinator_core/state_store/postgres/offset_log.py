"""The offset log in Postgres: appended by the writer, and checkpointed into `offsets` by the owner of each shard.

Rules:

* A batch is one row of `offset_log`. Its position `seq` is the commit version of its offsets.
* `shard_checkpoints` has the position up to which the commits of a shard are in `offsets`. A checkpoint stores the
  dirty offsets and raises the position in one transaction, which checks the leases as a write does.
* A row may be deleted when the checkpoints of all its shards have passed it.
* Acquiring the lease of a shard waits for the former owner's writes (fence.py). A load after that finds every commit in
  `offsets`, or in the log after the shard's checkpoint.
* An offset that the database rejects, or a row that cannot be decoded, moves to `quarantined_offsets`.

Source: ARCHITECTURE.md "The offset log".
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import msgspec
from msgspec.structs import replace
from psycopg2 import Binary

from coordinator_core.state_store.dirty_offsets import DirtyOffset, DirtyOffsets
from coordinator_core.state_store.offset_log import LoggedCommits, decode, encode_unchecked, join
from coordinator_core.state_store.postgres.arrays import array_literal
from coordinator_core.state_store.postgres.autocommit import AutocommitConnection
from coordinator_core.state_store.postgres.commits import store_commits
from coordinator_core.state_store.postgres.connections import Transaction
from coordinator_core.state_store.postgres.failures import DataRefused
from coordinator_core.state_store.postgres.fence import FENCE_CHECK
from coordinator_core.state_store.postgres.prepared_statements import PreparedStatement
from coordinator_core.state_store.rows import GroupWrite, QuarantinedOffset, ShardCheckpoint, ShardLog

# -- append ------------------------------------------------------------------------------------------------

_APPEND: Final = """
INSERT INTO offset_log (shard_ids, data) SELECT %(shard_ids)s::smallint[], %(data)s::bytea RETURNING seq
"""
_APPEND_FENCED: Final = PreparedStatement.of(
    "append_commits",
    f"""
WITH fence_check AS MATERIALIZED ({FENCE_CHECK})
INSERT INTO offset_log (shard_ids, data) SELECT %(shard_ids)s::smallint[], %(data)s::bytea FROM fence_check
RETURNING seq
""",  # noqa: S608 - constants
)


def append_in_one_statement(
    autocommit: AutocommitConnection, proof: Mapping[str, Any], writes: Sequence[GroupWrite]
) -> int | None:
    """Append the commits of a batch that has nothing else; return their position, or None if the fence is another.

    Args:
        autocommit: the connection.
        proof: the parameters of `FENCE_CHECK`.
        writes: the batch.
    """
    rows = autocommit.run(_APPEND_FENCED, {**proof, **_row(writes)})
    return int(rows[0][0]) if rows else None


def append(transaction: Transaction, writes: Iterable[GroupWrite]) -> int:
    """Append the commits that go to the log; return their position, or 0 if there are none."""
    logged = [write for write in writes if write.logged is not None]
    return int(transaction.execute(_APPEND, _row(logged)).scalar_one()) if logged else 0


def _row(writes: Sequence[GroupWrite]) -> dict[str, Any]:
    shard_ids = sorted({write.shard_id for write in writes})
    data = join([write.logged.data for write in writes if write.logged is not None])
    return {"shard_ids": array_literal(shard_ids), "data": Binary(data)}


# -- checkpoint --------------------------------------------------------------------------------------------

_RAISE_POSITIONS: Final = """
INSERT INTO shard_checkpoints AS stored (shard_id, seq)
SELECT * FROM unnest(%(shards)s::smallint[], %(positions)s::bigint[])
ON CONFLICT (shard_id) DO UPDATE SET seq = excluded.seq WHERE stored.seq < excluded.seq
"""

_QUARANTINE: Final = """
INSERT INTO quarantined_offsets (seq, shard_id, group_id, topic, partition, reason, data)
VALUES (%(seq)s, %(shard_id)s, %(group_id)s, %(topic)s, %(partition)s, %(reason)s, %(data)s)
"""

LATE_ROWS: Final = 10_000
"""How many positions another node may have drawn before the last row that was trimmed, and commit later."""

_TRIM: Final = """
WITH remaining AS (SELECT min(seq) AS seq FROM offset_log WHERE seq >= %(seq)s),
trimmed AS (
    DELETE FROM offset_log AS log
    WHERE seq >= (SELECT seq FROM remaining) AND NOT EXISTS (
        SELECT FROM unnest(log.shard_ids) AS given (shard_id) LEFT JOIN shard_checkpoints AS stored USING (shard_id)
        WHERE coalesce(stored.seq, 0) < log.seq)
)
SELECT seq FROM remaining
"""

StoreOffsets = Callable[[Transaction, DirtyOffsets], tuple[QuarantinedOffset, ...]]
"""Stores offsets, and returns those that it has quarantined."""


def store_checkpoint(
    transaction: Transaction, shards: Mapping[int, ShardCheckpoint], store_offsets: StoreOffsets
) -> tuple[QuarantinedOffset, ...]:
    """Store the dirty offsets of shards whose leases are checked, and raise their positions."""
    dirty = DirtyOffsets()
    for shard in shards.values():
        dirty.add_newer(shard.dirty)
    quarantined = store_offsets(transaction, dirty)
    positions = array_literal([shard.position for shard in shards.values()])
    transaction.execute(_RAISE_POSITIONS, {"shards": array_literal(shards), "positions": positions})
    return quarantined


def store_whole(transaction: Transaction, dirty: DirtyOffsets) -> tuple[QuarantinedOffset, ...]:
    """Store offsets, all or none."""
    store_commits(transaction, dirty)
    return ()


def store_in_halves(transaction: Transaction, dirty: DirtyOffsets) -> tuple[QuarantinedOffset, ...]:
    """Store the offsets that the database accepts, and quarantine the others."""
    try:
        with transaction.savepoint():
            store_commits(transaction, dirty)
    except DataRefused as refusal:
        if len(dirty) > 1:
            return tuple(found for half in dirty.halves() for found in store_in_halves(transaction, half))
        return tuple(_quarantined(transaction, each, str(refusal)) for each in dirty.all())
    return ()


def _quarantined(transaction: Transaction, dirty: DirtyOffset, reason: str) -> QuarantinedOffset:
    (group_id, shard_id, version, _, record, _), offset = dirty
    data = join([encode_unchecked(LoggedCommits(shard_id, group_id, (replace(record, offsets=(offset,)),)))])
    found = QuarantinedOffset(group_id, offset.topic, offset.partition, reason)
    row = {**found._asdict(), "seq": version, "shard_id": shard_id, "data": Binary(data)}
    transaction.execute(_QUARANTINE, row)
    return found


def trim(transaction: Transaction, from_seq: int) -> int:
    """Delete the rows that all checkpoints have passed; return where the next call begins.

    Args:
        transaction: the transaction.
        from_seq: where to begin. Rows before it are deleted, and an open snapshot may keep very many of them.
    """
    first = transaction.execute(_TRIM, {"seq": from_seq}).scalar()
    return from_seq if first is None else max(from_seq, first - LATE_ROWS)


# -- load --------------------------------------------------------------------------------------------------

_POSITIONS: Final = "SELECT shard_id, seq FROM shard_checkpoints WHERE shard_id = ANY (%(shards)s::smallint[])"

_LOAD: Final = """
SELECT seq, data FROM offset_log
WHERE seq > %(seq)s AND shard_ids && %(shards)s::smallint[]
ORDER BY seq
"""

_UNREADABLE: Final = """
INSERT INTO quarantined_offsets (seq, reason, data)
SELECT %(seq)s, %(reason)s, %(data)s
WHERE NOT EXISTS (SELECT FROM quarantined_offsets WHERE seq = %(seq)s AND group_id IS NULL)
"""


def load_dirty_offsets(transaction: Transaction, shard_ids: Iterable[int]) -> dict[int, ShardLog]:
    """Return the commits of each shard that no checkpoint has passed; its lease was acquired before.

    A row that cannot be decoded is quarantined.
    """
    wanted = list(shard_ids)
    shards = {"shards": array_literal(wanted)}
    positions = dict.fromkeys(wanted, 0)
    positions.update({row.shard_id: row.seq for row in transaction.execute(_POSITIONS, shards)})
    loaded = {shard: ShardLog(position, []) for shard, position in positions.items()}
    first = min(positions.values(), default=0)
    for seq, data in transaction.execute(_LOAD, {**shards, "seq": first}):
        try:
            commits = decode(bytes(data))
        except msgspec.DecodeError as failure:
            transaction.execute(_UNREADABLE, {"seq": seq, "reason": str(failure), "data": data})
            continue
        for one in commits:
            log = loaded.get(one.shard_id)
            if log is not None and seq > log.position:
                log.commits.append((seq, one))
    return loaded


def read_offset_log(transaction: Transaction) -> Iterator[tuple[int, LoggedCommits]]:
    """Yield all commits that are in the log, each with its position, the oldest first.

    A row that cannot be decoded is left out; the next load of its shards quarantines it.
    """
    for seq, data in transaction.execute("SELECT seq, data FROM offset_log ORDER BY seq"):
        with suppress(msgspec.DecodeError):
            yield from ((seq, one) for one in decode(bytes(data)))
