"""Writes of commits: replace stored offsets, and add the replaced offset of an earlier minute to history.

Commits are the most frequent writes. A batch of commits only is one statement, which checks the fence, stores the rows
and is a transaction of its own: one round trip instead of four (BEGIN, fence check, rows, COMMIT), after each of which
the writer thread waits for the interpreter.

A commit of many partitions sends its group, topic, member and time once for all of them.
"""

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

from sqlalchemy import Column, DateTime

from coordinator_core.store import tables
from coordinator_core.store.postgres.arrays import Arrays, Bundle, Bundles
from coordinator_core.store.postgres.autocommit import AutocommitConnection
from coordinator_core.store.postgres.connections import Transaction
from coordinator_core.store.postgres.fence import FENCE_CHECK
from coordinator_core.store.postgres.folding import Folded, FoldedCommit, OffsetKey
from coordinator_core.store.postgres.prepared_statements import PreparedStatement
from coordinator_core.store.postgres.upserts import Rows, insert, or_replace, run, upsert
from coordinator_core.store.rows import Batch

BUNDLE_FROM = 8
"""The minimum number of partitions per commit for sending rows in bundles; for fewer, bundles are slower."""


def store_commits(transaction: Transaction, folded: Folded, known: AbstractSet[OffsetKey]) -> None:
    """Store a batch's commits within its transaction.

    Args:
        transaction: the transaction.
        folded: the batch.
        known: partitions whose stored offset is of the same minute, so that a commit does not add it to history.
    """
    insert(transaction, "offset_history", OFFSET_HISTORY, map(_past_row, folded.superseded))
    first: Rows = []
    again: Rows = []
    for key, entry in folded.commits.items():
        if key in known:
            again.append(_row(entry)[1:])
        else:
            first.append(_row(entry))
    run(transaction, _FIRST, _FIRST_COMMITS, first)
    run(transaction, _AGAIN, _COMMITS, again)
    if folded.has_older_log_ends:
        run(transaction, _KEEP_LOG_END_AT, _LOG_END_AT, _older_log_ends(folded.commits.values()))


class Statements(NamedTuple):
    """Two statements for one form of rows: `again` skips the history lookup, if all partitions are known."""

    first: PreparedStatement
    again: PreparedStatement


class PreparedCommits(NamedTuple):
    """A batch of commits only, with the parameters of its statement."""

    folded: Folded
    statements: Statements
    parameters: Mapping[str, Any]


def prepare_commits(batch: Batch, folded: Folded) -> PreparedCommits:
    """Return the statement and parameters for a batch of commits only.

    Args:
        batch: the batch.
        folded: the folded batch: commits, without offsets that are replaced within it.
    """
    entries = folded.commits.values()
    if len(entries) >= BUNDLE_FROM * len(batch.writes):
        return PreparedCommits(folded, _IN_BUNDLES, _BUNDLES.parameters(_bundles(entries)))
    return PreparedCommits(folded, _ROW_BY_ROW, _FIRST_COMMITS.parameters(map(_row, entries)))


def commit_in_one_statement(
    autocommit: AutocommitConnection,
    proof: Mapping[str, Any],
    commits: PreparedCommits,
    known: AbstractSet[OffsetKey],
) -> bool:
    """Store a batch of commits only; return whether the fence was valid, so that they are stored.

    Args:
        autocommit: the connection.
        proof: the parameters of `FENCE_CHECK`.
        commits: the batch.
        known: as for `store_commits`.
    """
    first, again = commits.statements
    statement = again if commits.folded.commits.keys() <= known else first
    ((is_stored,),) = autocommit.run(statement, {**commits.parameters, **proof})
    return bool(is_stored)


# -- columns and their values --------------------------------------------------------------------------------

OFFSET_HISTORY = Arrays(*(column for column in tables.offset_history.columns))
_COMMITS = Arrays(
    tables.offsets.c.group_id,
    tables.offsets.c.shard_id,
    tables.offsets.c.committed_at,
    tables.offsets.c.member_id,
    tables.offsets.c.expires_at,
    # From here on in the order of OffsetToCommit's fields, which saves time per row.
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


def _older_log_ends(entries: Iterable[FoldedCommit]) -> Iterator[tuple[Any, ...]]:
    """Return the values of `_LOG_END_AT` for offsets whose log ends were reported before their commit."""
    for (group_id, _, _, record), offset in entries:
        if record.log_end_at_ms is not None:
            yield group_id, offset.topic, offset.partition, record.log_end_at_ms


def _row(entry: FoldedCommit) -> tuple[Any, ...]:
    """Return the values of `_FIRST_COMMITS`; all but the first one are those of `_COMMITS`."""
    (group_id, shard_id, first_minute_ms, (at_ms, member_id, expires_at_ms, *_)), offset = entry
    return (first_minute_ms, group_id, shard_id, at_ms, member_id, expires_at_ms, *offset)


def _past_row(entry: FoldedCommit) -> tuple[Any, ...]:
    """Return the values of `OFFSET_HISTORY`."""
    (group_id, shard_id, _, record), offset = entry
    partition = (offset.topic, offset.partition)
    log_end_offset = offset.log_end_offset if record.log_end_at_ms is None else None
    return (group_id, shard_id, *partition, record.at_ms, offset.offset, log_end_offset, record.member_id)


def _bundles(entries: Iterable[FoldedCommit]) -> Iterator[Bundle]:
    """Bundle successive offsets with the same commit and topic."""
    for (group_id, shard_id, first_minute_ms, record), of_commit in groupby(entries, itemgetter(0)):
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
_HELD = "EXISTS (SELECT FROM fence_check)"

_AGAIN = upsert(tables.offsets, _COMMITS)
_FIRST = f"WITH given AS MATERIALIZED ({_FIRST_COMMITS.source}), past AS ({_PAST}) {_PUT}"
_AT_ONCE = f"""
WITH fence_check AS MATERIALIZED ({FENCE_CHECK}),
given AS {{materialized}} ({{source}} WHERE {_HELD}),
{{past}}
stored AS ({_PUT})
SELECT EXISTS (SELECT FROM fence_check)
"""  # noqa: S608


def _statements(name: str, first: str, again: str) -> Statements:
    """Return the statements for two sources of rows; the first source also has each commit's first minute."""
    with_past = _AT_ONCE.format(source=first, materialized="MATERIALIZED", past=f"past AS ({_PAST}),")
    without = _AT_ONCE.format(source=again, materialized="", past="")
    return Statements(PreparedStatement.of(f"{name}_first", with_past), PreparedStatement.of(f"{name}_again", without))


_ROW_BY_ROW = _statements("commits", _FIRST_COMMITS.source, _COMMITS.source)
_IN_BUNDLES = _statements("bundles", _BUNDLES.source, _BUNDLES.source)
