"""A store with its surroundings: time that passes, jobs that propose, and stored history."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

import psycopg2
from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name

from coordinator_core.queries.runner import Queries
from coordinator_core.state_store.interface import Store
from coordinator_core.state_store.postgres import PostgresStore
from coordinator_core.state_store.postgres.connections import Transaction
from coordinator_core.state_store.postgres.leases import read_leases
from coordinator_core.state_store.postgres.maintenance import read_run
from coordinator_core.state_store.rows import (
    ArchivedOffset,
    Batch,
    ChangeRow,
    CheckpointResult,
    GroupWrite,
    LeaseRow,
    MemberSessionRow,
    PartitionOwnershipRow,
    RebalanceMemberRow,
    RebalanceRow,
    ShardCheckpoint,
    TransitionRow,
    WriteResult,
)
from coordinator_core.state_store.runs import CandidateRow, RunRow
from tests.support.memory_store import MemoryStore
from tests.support.memory_store.groups import History, OffsetHistoryRow, dirty_offsets
from tests.support.store_rows import NOW_MS, ForecastRow

P = ParamSpec("P")
T = TypeVar("T")

NODE = "node-1:8080"

TTL_MS = 60_000


class Query(Protocol):
    """Returns the result of a query, which gets a transaction before the arguments."""

    def __call__(
        self, query: Callable[Concatenate[Transaction, P], T], /, *arguments: P.args, **keywords: P.kwargs
    ) -> T: ...


class World(Protocol):
    """What a contract test may use besides the store."""

    store: Store

    def leases(self) -> tuple[LeaseRow, ...]: ...

    def run(self, run_id: str) -> RunRow: ...

    def pass_time(self, length_ms: int) -> None: ...

    def fail_over(self) -> None: ...

    def propose(
        self, run: RunRow, candidates: Iterable[CandidateRow], forecasts: Iterable[ForecastRow] = ()
    ) -> None: ...

    def history(self) -> History: ...

    def today_ms(self) -> int: ...


class Owner:
    """The node that the tests write as: it owns every shard."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.epochs = store.acquire_leases(NODE, range(store.shard_count()), TTL_MS)

    def write(self, *writes: GroupWrite) -> WriteResult:
        """Store writes, and checkpoint their commits, so that reads find them."""
        written = self.append(*writes)
        self.checkpoint()
        return written

    def append(self, *writes: GroupWrite) -> WriteResult:
        """Store writes, whose commits are only in the offset log; return the result without their position."""
        return replace(self.store.write(Batch(NODE, self.epochs, writes)), log_position=0)

    def checkpoint(self) -> CheckpointResult:
        """Store all commits of the offset log in the table."""
        logs = self.store.load_offset_log(self.epochs)
        shards = {shard: checkpoint_of(self.store, shard, self.epochs[shard]) for shard in logs if logs[shard].commits}
        return self.store.checkpoint(NODE, shards) if shards else CheckpointResult()


def checkpoint_of(store: Store, shard_id: int, epoch: int) -> ShardCheckpoint:
    """Return the checkpoint of all commits of a shard that are in the log."""
    shard_log = store.load_offset_log([shard_id])[shard_id]
    position = shard_log.commits[-1][0] if shard_log.commits else shard_log.position
    return ShardCheckpoint(epoch, position, dirty_offsets(shard_log.commits))


def checkpoint_log(store: Store, leases: Iterable[LeaseRow]) -> None:
    """Store every commit of the offset log in the table, in the name of the nodes that own the shards."""
    for lease in leases:
        checkpoint = checkpoint_of(store, lease.shard_id, lease.epoch)
        if lease.node_id is not None and checkpoint.dirty:
            store.checkpoint(lease.node_id, {lease.shard_id: checkpoint})


def has_commits(store: Store, group_id: str) -> bool:
    """Return whether a group has offsets, in the table or in the offset log."""
    logs = store.load_offset_log(range(store.shard_count())).values()
    is_logged = any(logged.group_id == group_id for shard_log in logs for _, logged in shard_log.commits)
    return is_logged or store.has_offsets(group_id)


class MemoryWorld:
    """Time is a number."""

    def __init__(self) -> None:
        self._now_ms = NOW_MS
        self._store = MemoryStore(clock_ms=lambda: self._now_ms)
        self.store: Store = self._store

    def pass_time(self, length_ms: int) -> None:
        self._now_ms += length_ms

    def fail_over(self) -> None:
        """Let the database be another one than the stored identity names."""
        identity = self._store.identity
        self._store.identity = replace(identity, timeline=identity.timeline + 1)

    def leases(self) -> tuple[LeaseRow, ...]:
        return self._store.leases()

    def run(self, run_id: str) -> RunRow:
        return self._store.run(run_id)

    def propose(self, run: RunRow, candidates: Iterable[CandidateRow], forecasts: Iterable[ForecastRow] = ()) -> None:
        """Store a proposal; forecasts are only read by queries, which this store does not have."""
        self.pass_time(1)
        self._store.propose(run, candidates)

    def history(self) -> History:
        return self._store.history

    def today_ms(self) -> int:
        return self._now_ms


class PostgresWorld:
    """Time passes by moving stored times; jobs and readers use SQL."""

    def __init__(self, store: PostgresStore, connection: PsycopgConnection, queries: Queries) -> None:
        self.store: Store = store
        self._connection = connection
        self._queries = queries
        # The template may be hours old, and generations jump by the time since the last renewal.
        self._fetch("UPDATE incarnation SET started_at = now() RETURNING 1")

    def leases(self) -> tuple[LeaseRow, ...]:
        return self._queries.read(read_leases)

    def run(self, run_id: str) -> RunRow:
        return self._queries.read(read_run, run_id)

    def pass_time(self, length_ms: int) -> None:
        earlier = "SET expires_at = expires_at - %s * interval '1 ms' RETURNING 1"
        for table in ("shard_leases", "nodes"):
            self._fetch(f"UPDATE {table} {earlier}", length_ms)
        self._fetch("UPDATE maintenance_runs SET created_at = created_at - %s * interval '1 ms' RETURNING 1", length_ms)
        self._fetch("UPDATE incarnation SET started_at = started_at - %s * interval '1 ms' RETURNING 1", length_ms)

    def fail_over(self) -> None:
        """Let the database be another one than the stored identity names."""
        self._fetch("UPDATE incarnation SET timeline = timeline - 1 RETURNING 1")

    def propose(self, run: RunRow, candidates: Iterable[CandidateRow], forecasts: Iterable[ForecastRow] = ()) -> None:
        propose(self._connection, run, candidates, forecasts)

    def history(self) -> History:
        return History(
            transitions=[
                TransitionRow(*row)
                for row in self._fetch(
                    "SELECT group_id, shard_id, ms(group_created_at), ms(at), generation, from_state, to_state, reason,"
                    " member_id FROM group_transitions ORDER BY at"
                )
            ],
            rebalances=[
                RebalanceRow(*row)
                for row in self._fetch(
                    "SELECT rebalance_id::text, group_id, shard_id, ms(group_created_at), generation, trigger,"
                    " trigger_member_id, client_reason, ms(started_at), ms(joined_at), ms(completed_at), outcome,"
                    " restarts, member_count_before, member_count_after, partitions_moved FROM rebalances"
                    " ORDER BY completed_at"
                )
            ],
            ownerships=[
                PartitionOwnershipRow(*(*row[:7], tuple(row[7]), *row[8:]))
                for row in self._fetch(
                    "SELECT group_id, shard_id, ms(group_created_at), rebalance_id::text, generation, member_id, topic,"
                    " partitions, ms(valid_from), ms(valid_to) FROM partition_ownership ORDER BY valid_to"
                )
            ],
            rebalance_members=[
                RebalanceMemberRow(*row)
                for row in self._fetch(
                    "SELECT rebalance_id::text, group_id, shard_id, ms(group_created_at), ms(completed_at), member_id,"
                    " group_instance_id, client_id, client_host, joined_after_ms, synced_after_ms, waited_for_ms,"
                    " outcome"
                    " FROM rebalance_members ORDER BY completed_at, member_id"
                )
            ],
            sessions=[
                MemberSessionRow(*(*row[:-1], tuple(row[-1])))
                for row in self._fetch(
                    "SELECT group_id, shard_id, ms(group_created_at), member_id, group_instance_id, client_id,"
                    " client_host, generation, session_timeout_ms, ms(joined_at), ms(started_at), ms(ended_at),"
                    " end_reason, ms(last_heartbeat_at), heartbeat_count, heartbeat_gap_ms_max,"
                    " heartbeat_gap_histogram FROM member_sessions ORDER BY ended_at"
                )
            ],
            offset_history=[
                OffsetHistoryRow(*row)
                for row in self._fetch(
                    "SELECT group_id, shard_id, topic, partition, ms(at), committed_offset, log_end_offset, member_id,"
                    " token_id, client_address FROM offset_history ORDER BY group_id, topic, partition, at"
                )
            ],
            archived=[
                ArchivedOffset(*row)
                for row in self._fetch(
                    "SELECT change_id::text, group_id, shard_id, topic, partition, committed_offset, leader_epoch,"
                    " metadata, log_end_offset, ms(committed_at), ms(archived_at), cause, ms(log_end_at)"
                    " FROM archived_offsets"
                    " ORDER BY change_id, group_id, topic, partition"
                )
            ],
            changes=[
                ChangeRow(*row)
                for row in self._fetch(
                    "SELECT change_id::text, ms(at), actor, action, group_id, before, after, reason FROM changes"
                    " ORDER BY at"
                )
            ],
        )

    def today_ms(self) -> int:
        return int(self._fetch("SELECT ms(clock_timestamp())")[0][0])

    def _fetch(self, statement: str, *parameters: object) -> list[tuple[Any, ...]]:
        with self._connection.cursor() as cursor:
            cursor.execute(statement, parameters)
            return cursor.fetchall()


def propose(
    connection: PsycopgConnection,
    run: RunRow,
    candidates: Iterable[CandidateRow],
    forecasts: Iterable[ForecastRow] = (),
) -> None:
    """Store a proposal, as a Spark job does; the candidates' change ids are ignored."""
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO maintenance_runs"
            " (run_id, kind, as_of, interval_start, interval_end, status, dry_run, counts)"
            " VALUES (%s, %s, to_timestamp(%s / 1000.0), to_timestamp(%s / 1000.0), to_timestamp(%s / 1000.0),"
            " %s, %s, %s)",
            (
                *(run.run_id, run.kind, run.as_of_ms, run.interval_start_ms, run.interval_end_ms),
                *(run.status, run.dry_run, psycopg2.extras.Json(run.counts)),
            ),
        )
        for row in candidates:
            if row.seen is not None:
                cursor.execute(
                    "INSERT INTO cleanup_candidates (run_id, shard_id, group_id, generation, state_since, reason)"
                    " VALUES (%s, %s, %s, %s, to_timestamp(%s / 1000.0), 'group_empty')",
                    (row.run_id, row.shard_id, row.group_id, *row.seen),
                )
                continue
            cursor.execute(
                "INSERT INTO expiry_candidates (run_id, shard_id, group_id, topic, partition, commit_version,"
                " committed_at, reason) VALUES (%s, %s, %s, %s, %s, %s, now(), 'group_empty')",
                (row.run_id, *row[2:7]),
            )
        # As a job does: a second run of an interval replaces what the first forecast.
        cursor.execute(
            "DELETE FROM offset_expiry_forecasts AS seen USING maintenance_runs AS run"
            " WHERE run.run_id = %s AND seen.interval_end = coalesce(run.interval_end, run.as_of)",
            (run.run_id,),
        )
        for forecast in forecasts:
            cursor.execute(
                "INSERT INTO offset_expiry_forecasts (group_id, shard_id, within_a_day, within_a_week, "
                "next_expiry_at,"
                " run_id, interval_start, interval_end, as_of)"
                " SELECT %s, %s, %s, %s, to_timestamp(%s / 1000.0), run_id,"
                " coalesce(interval_start, interval_end, as_of), coalesce(interval_end, as_of), as_of"
                " FROM maintenance_runs WHERE run_id = %s",
                (*forecast, run.run_id),
            )


MS_FUNCTION = """
CREATE FUNCTION ms(instant timestamptz) RETURNS bigint LANGUAGE sql IMMUTABLE
RETURN floor(extract(epoch FROM instant) * 1000)::bigint
"""
