"""Commits take the place of what is stored; a position whose minute they end goes to history as it stood.

They are the most that a node writes. So a batch that holds nothing else is one statement, which proves the leases and
stores in one breath and is a transaction of its own: one round trip where there would be four (BEGIN, the proof, the
rows, COMMIT), after each of which the writer has to wait for the interpreter.

A commit of many partitions names its group, topic, member and time once for all of them: most of what a batch says.
"""

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

from sqlalchemy import Column, DateTime

from coordinator_core.store import tables
from coordinator_core.store.postgres.arrays import Arrays, Bundle, Bundles
from coordinator_core.store.postgres.at_once import AtOnce
from coordinator_core.store.postgres.connections import Transaction
from coordinator_core.store.postgres.folding import Folded, OffsetKey, Position
from coordinator_core.store.postgres.known_server import KnownServer
from coordinator_core.store.postgres.prepared_statements import PreparedStatement
from coordinator_core.store.postgres.proof import PROOF, proof_parameters
from coordinator_core.store.postgres.upserts import Rows, insert, or_replace, run, upsert
from coordinator_core.store.rows import Batch

BUNDLE_FROM = 8
"""From so many partitions a commit on, a batch's rows travel in bundles; below, Postgres takes longer over them."""


def store_commits(transaction: Transaction, folded: Folded, known: AbstractSet[OffsetKey]) -> None:
    """Store a batch's commits within its transaction.

    Args:
        transaction: the one to write in.
        folded: what there is to write.
        known: partitions whose stored position is certainly none that a commit of this batch sends to history.
    """
    insert(transaction, "offset_history", OFFSET_HISTORY, map(_past_row, folded.superseded))
    first: Rows = []
    again: Rows = []
    for key, position in folded.commits.items():
        if key in known:
            again.append(_row(position)[1:])
        else:
            first.append(_row(position))
    run(transaction, _FIRST, _FIRST_COMMITS, first)
    run(transaction, _AGAIN, _COMMITS, again)
    if folded.has_older_log_ends:
        run(transaction, _KEEP_LOG_END_AT, _LOG_END_AT, _older_log_ends(folded.commits.values()))


class Statements(NamedTuple):
    """Two statements for one form of rows: `again` where all positions are known to belong nowhere but here."""

    first: PreparedStatement
    again: PreparedStatement


class PreparedCommits(NamedTuple):
    """A batch of nothing but commits, as its statement takes it."""

    folded: Folded
    statements: Statements
    parameters: Mapping[str, Any]


def prepare_commits(batch: Batch, folded: Folded) -> PreparedCommits:
    """Write out the parameters of the statement that stores a batch of nothing but commits.

    Args:
        batch: the batch.
        folded: what is left of it: commits, and no position that they supersede within it.
    """
    positions = folded.commits.values()
    if len(positions) >= BUNDLE_FROM * len(batch.writes):
        return PreparedCommits(
            folded, _IN_BUNDLES, {**proof_parameters(batch), **_BUNDLES.parameters(_bundles(positions))}
        )
    rows = map(_row, positions)
    return PreparedCommits(folded, _ROW_BY_ROW, {**proof_parameters(batch), **_FIRST_COMMITS.parameters(rows)})


def commit_at_once(
    at_once: AtOnce, server: KnownServer, commits: PreparedCommits, known: AbstractSet[OffsetKey]
) -> frozenset[int]:
    """Store a batch of nothing but commits; return the shards whose leases hold, to which alone it was stored.

    Args:
        at_once: the connection for it.
        server: the one that the leases hold on.
        commits: what to store.
        known: as for `store_commits`.
    """
    first, again = commits.statements
    statement = again if commits.folded.commits.keys() <= known else first
    ((shards,),) = at_once.run(statement, {**commits.parameters, **server.proof_parameters()})
    return frozenset(shards)


# -- columns, and where their values come from ---------------------------------------------------------------

OFFSET_HISTORY = Arrays(*(column for column in tables.offset_history.columns))
_COMMITS = Arrays(
    tables.offsets.c.group_id,
    tables.offsets.c.shard_id,
    tables.offsets.c.committed_at,
    tables.offsets.c.member_id,
    tables.offsets.c.expires_at,
    # From here on in the order of an OffsetToCommit's fields: rows of commits are the most that a node writes.
    tables.offsets.c.topic,
    tables.offsets.c.partition,
    tables.offsets.c.committed_offset,
    tables.offsets.c.leader_epoch,
    tables.offsets.c.metadata,
    tables.offsets.c.log_end_offset,
)
_LOG_END_AT = Arrays(
    tables.offsets.c.group_id, tables.offsets.c.topic, tables.offsets.c.partition, tables.offsets.c.log_end_at
)
_FIRST_MINUTE = Column("first_minute", DateTime(timezone=True))
_FIRST_COMMITS = Arrays(_FIRST_MINUTE, *_COMMITS.columns)
_BUNDLES = Bundles(
    common=(
        _FIRST_MINUTE,
        tables.offsets.c.group_id,
        tables.offsets.c.shard_id,
        tables.offsets.c.committed_at,
        tables.offsets.c.member_id,
        tables.offsets.c.expires_at,
        tables.offsets.c.topic,
    ),
    own=(  # an OffsetToCommit's other fields
        tables.offsets.c.partition,
        tables.offsets.c.committed_offset,
        tables.offsets.c.leader_epoch,
        tables.offsets.c.metadata,
        tables.offsets.c.log_end_offset,
    ),
)


def _older_log_ends(positions: Iterable[Position]) -> Iterator[tuple[Any, ...]]:
    """Return the values of `_LOG_END_AT` of those positions whose log ends were not reported with them."""
    for (group_id, _, _, record), offset in positions:
        if record.log_end_at_ms is not None:
            yield group_id, offset.topic, offset.partition, record.log_end_at_ms


def _row(position: Position) -> tuple[Any, ...]:
    """Return the values of `_FIRST_COMMITS`; the first one is no column of `_COMMITS`."""
    (group_id, shard_id, first_minute_ms, (at_ms, member_id, expires_at_ms, *_)), offset = position
    return (first_minute_ms, group_id, shard_id, at_ms, member_id, expires_at_ms, *offset)


def _past_row(position: Position) -> tuple[Any, ...]:
    """Return the values of `OFFSET_HISTORY`."""
    (group_id, shard_id, _, record), offset = position
    partition = (offset.topic, offset.partition)
    log_end_offset = offset.log_end_offset if record.log_end_at_ms is None else None
    return (group_id, shard_id, *partition, record.at_ms, offset.offset, log_end_offset, record.member_id)


def _bundles(positions: Iterable[Position]) -> Iterator[Bundle]:
    """Bundle positions that follow each other and have commit and topic in common."""
    for (group_id, shard_id, first_minute_ms, record), of_commit in groupby(positions, itemgetter(0)):
        common = (first_minute_ms, group_id, shard_id, record.at_ms, record.member_id, record.expires_at_ms)
        for topic, offsets in groupby([offset for _, offset in of_commit], itemgetter(0)):
            _, *own = zip(*offsets, strict=True)
            yield Bundle((*common, topic), own)


# -- statements ------------------------------------------------------------------------------------------------

_PAST = """
INSERT INTO offset_history (group_id, shard_id, topic, partition, at, committed_offset, log_end_offset, member_id)
SELECT group_id, stored.shard_id, topic, partition,
    stored.committed_at, stored.committed_offset,
    CASE WHEN stored.log_end_at IS NULL THEN stored.log_end_offset END, stored.member_id
FROM given JOIN offsets AS stored USING (group_id, topic, partition)
WHERE stored.committed_at < given.first_minute
"""
_PUT = f"""
INSERT INTO offsets ({_COMMITS.column_list}) SELECT {_COMMITS.column_list} FROM given {or_replace(tables.offsets)}
"""  # noqa: S608
_KEEP_LOG_END_AT = f"""
UPDATE offsets SET log_end_at = given.log_end_at
FROM ({_LOG_END_AT.source}) AS given
WHERE (offsets.group_id, offsets.topic, offsets.partition) = (given.group_id, given.topic, given.partition)
"""  # noqa: S608
_HELD = "shard_id = ANY (ARRAY(SELECT shard_id FROM proof))"

_AGAIN = upsert(tables.offsets, _COMMITS)
_FIRST = f"WITH given AS MATERIALIZED ({_FIRST_COMMITS.source}), past AS ({_PAST}) {_PUT}"
_AT_ONCE = f"""
WITH proof AS MATERIALIZED ({PROOF}),
given AS {{materialized}} ({{source}} WHERE {_HELD}),
{{past}}
stored AS ({_PUT})
SELECT coalesce(array_agg(shard_id), '{{{{}}}}') FROM proof
"""  # noqa: S608


def _statements(name: str, first: str, again: str) -> Statements:
    """Return the statements for two sources of rows, of which the first has each commit's first minute as well."""
    with_past = _AT_ONCE.format(source=first, materialized="MATERIALIZED", past=f"past AS ({_PAST}),")
    without = _AT_ONCE.format(source=again, materialized="", past="")
    return Statements(PreparedStatement.of(f"{name}_first", with_past), PreparedStatement.of(f"{name}_again", without))


_ROW_BY_ROW = _statements("commits", _FIRST_COMMITS.source, _COMMITS.source)
_IN_BUNDLES = _statements("bundles", _BUNDLES.source, _BUNDLES.source)
