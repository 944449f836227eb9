"""`PostgresStore`, the `Store` on a Postgres database: assigns each call to a connection pool."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Concatenate, ParamSpec, TypeVar

import structlog

from coordinator_core.state_store.interface import StoreError
from coordinator_core.state_store.partition_drop import DroppedDay, HasCopy
from coordinator_core.state_store.postgres import (
    archive,
    changes,
    incarnations,
    leases,
    loading,
    maintenance,
    mirrors,
    offset_log,
    partitions,
    reads,
    rejections,
    revision,
    seals,
    settings_and_topics,
    writes,
)
from coordinator_core.state_store.postgres import log_ends as log_end_rows
from coordinator_core.state_store.postgres.autocommit import AutocommitConnection
from coordinator_core.state_store.postgres.connections import ConnectionPool, Limits, Transaction
from coordinator_core.state_store.postgres.fence import Fence
from coordinator_core.state_store.postgres.identity import read_incarnation
from coordinator_core.state_store.postgres.known_server import KnownServer
from coordinator_core.state_store.rows import (
    LEASE_TTL_MS,
    Batch,
    CheckpointResult,
    Renewal,
    ShardCheckpoint,
    WriteResult,
)

log = structlog.get_logger("muster.runtime")

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

KEY_LOOKUPS_ONLY = {"enable_hashjoin": "off", "enable_mergejoin": "off"}
"""The writer finds every row by its key; outdated statistics must not make the planner read whole tables."""

CHANGES_AT_ONCE = 2
"""The maximum number of concurrent changes of settings, topics and runs; those of one kind are serialized anyway."""


def _reading(
    function: Callable[Concatenate[Transaction, Parameters], Result],
) -> Callable[Concatenate[PostgresStore, Parameters], Result]:
    """Return a method that calls a function with a connection of the readers."""

    def read(self: PostgresStore, /, *args: Parameters.args, **named: Parameters.kwargs) -> Result:
        return self._readers.read(lambda transaction: function(transaction, *args, **named))

    return read


def _changing(
    function: Callable[Concatenate[Transaction, Parameters], Result], *, is_of_leases: bool = False
) -> Callable[Concatenate[PostgresStore, Parameters], Result]:
    """Return a method that calls a function in a transaction of an administrative change, or of leases."""

    def change(self: PostgresStore, /, *args: Parameters.args, **named: Parameters.kwargs) -> Result:
        pool = self._leases if is_of_leases else self._changes
        return pool.transact(lambda transaction: function(transaction, *args, **named))

    return change


class PostgresStore:
    """Stores everything in one Postgres database, which has the schema of this version.

    It has two connections for the writer, one each for checkpoints and leases, and small pools for administrative
    changes and for reads. `Store` describes its methods.
    """

    def __init__(
        self,
        url: str,
        *,
        lease_ttl_ms: int = LEASE_TTL_MS,
        read_timeout_ms: int = 10_000,
        connect_timeout_s: int = 2,
        readers: int = 4,
        on_new_incarnation: Callable[[], None] = lambda: None,
    ) -> None:
        """Do not connect before the first call.

        Args:
            url: `postgresql+psycopg2://user:password@host:port/database`.
            lease_ttl_ms: how long a lease lasts. The timeouts of transactions are below half of it.
            read_timeout_ms: the timeout of one read.
            connect_timeout_s: how long connecting may take.
            readers: the maximum number of concurrent reads.
            on_new_incarnation: called, on the thread of leases, when a renewal finds a new incarnation.
        """
        bounded = Limits(
            statement_timeout_ms=lease_ttl_ms * 4 // 10,
            lock_timeout_ms=lease_ttl_ms * 3 // 10,
            idle_in_transaction_timeout_ms=lease_ttl_ms * 4 // 10,
            connect_timeout_s=connect_timeout_s,
        )
        patient = replace(bounded, statement_timeout_ms=read_timeout_ms)
        self._writer = ConnectionPool(url, "writer", 1, bounded, KEY_LOOKUPS_ONLY)
        self._commits = AutocommitConnection(url, "writer", bounded, KEY_LOOKUPS_ONLY)
        self._checkpoints = ConnectionPool(url, "checkpoints", 1, bounded, KEY_LOOKUPS_ONLY)
        self._log_start = 0
        """Where the next deletion of checkpointed rows of the offset log begins."""
        self._server = KnownServer()
        self._fence = Fence()
        self._leases = ConnectionPool(url, "leases", 1, bounded)
        self._changes = ConnectionPool(url, "changes", CHANGES_AT_ONCE, patient)
        self._readers = ConnectionPool(url, "reader", readers, patient, is_autocommit=True)
        self._on_new_incarnation = on_new_incarnation

    def close(self) -> None:
        """Close every connection."""
        for pool in (self._writer, self._commits, self._checkpoints, self._leases, self._changes, self._readers):
            pool.close()

    # -- writes -------------------------------------------------------------------------------------------

    def write(self, batch: Batch) -> WriteResult:
        """Store a batch in one transaction, or say which shards and groups of it are not stored."""
        return writes.write(self._writer, self._commits, self._server, self._fence, batch)

    # -- the offset log -----------------------------------------------------------------------------------

    def checkpoint(self, node_id: str, shards: Mapping[int, ShardCheckpoint]) -> CheckpointResult:
        """Store the dirty offsets of shards in the table, and delete the rows of the log that are checkpointed."""
        result = writes.checkpoint(self._checkpoints, self._server, self._fence, node_id, shards)
        try:
            self._log_start = self._checkpoints.transact(partial(offset_log.trim, from_seq=self._log_start))
        except StoreError as error:  # The checkpoint is stored, and the next one deletes its rows, too.
            log.warning("offset_log_trim_failed", reason=str(error))
        return result

    load_offset_log = _reading(offset_log.load_dirty_offsets)

    # -- ownership ----------------------------------------------------------------------------------------

    def renew(
        self,
        node_id: str,
        listeners: Mapping[str, str],
        version: str,
        epochs: Mapping[int, int],
        ttl_ms: int,
        last: Renewal | None = None,
        cluster_configs: int = 0,
    ) -> Renewal:
        """Renew the node's row and all its leases at once.

        In a new incarnation, other connections are opened again: they may lead to the former server, if it still runs.
        """
        node = {"node_id": node_id, "listeners": listeners, "version": version, "cluster_configs": cluster_configs}
        renew = partial(leases.renew, server=self._server, node=node, epochs=epochs, ttl_ms=ttl_ms, last=last)
        renewal = self._leases.transact(renew)
        if last is not None and renewal.incarnation != last.incarnation:
            for pool in (self._writer, self._checkpoints, self._changes, self._readers):
                pool.close()
            self._on_new_incarnation()
        return renewal

    def acquire_leases(self, node_id: str, shard_ids: Iterable[int], ttl_ms: int) -> dict[int, int]:
        """Acquire the leases of these shards that are free, expired or already ours; return shard → new epoch."""
        wanted = sorted(shard_ids)
        acquire = partial(leases.acquire_leases, server=self._server, fence=self._fence, node_id=node_id)
        return self._leases.transact(partial(acquire, shard_ids=wanted, ttl_ms=ttl_ms))

    def release(self, node_id: str, epochs: Mapping[int, int]) -> None:
        """Release the leases of these shards that are still ours."""
        self._fence.forget(epochs)
        self._leases.transact(partial(leases.release, node_id=node_id, epochs=epochs))

    delete_node = _changing(leases.delete_node, is_of_leases=True)
    delete_lost_nodes = _changing(leases.delete_lost_nodes, is_of_leases=True)
    shard_count = _reading(leases.read_shard_count)
    start_incarnation = _changing(incarnations.start, is_of_leases=True)
    incarnation = _reading(read_incarnation)

    # -- groups and offsets -------------------------------------------------------------------------------

    load_shards = _reading(loading.load_shards)
    load_group = _reading(loading.load_group)
    fetch_offsets = _reading(reads.fetch_offsets)
    stored_offsets = _reading(reads.stored_offsets)
    has_offsets = _reading(reads.has_offsets)
    count_offsets = _reading(reads.count_offsets)
    report_log_ends = _changing(log_end_rows.report_log_ends)
    log_ends = _reading(log_end_rows.read_log_ends)

    # -- the schema and its partitions --------------------------------------------------------------------

    schema = _reading(revision.read_schema)

    def lacks_history_partitions(self) -> bool:
        """Return whether the partition of today or tomorrow is missing, or a default partition has rows."""
        return partitions.are_missing(self._readers)

    def create_history_partitions(self, days_ahead: int) -> None:
        """Create the missing partitions of today and the days ahead."""
        partitions.create_ahead(self._changes, days_ahead)

    # -- settings and topic metadata ----------------------------------------------------------------------

    versions = _reading(leases.read_versions)
    unconfirmed_nodes = _reading(leases.read_unconfirmed_nodes)
    topics = _reading(settings_and_topics.read_topics)
    settings = _reading(settings_and_topics.read_settings)

    # -- maintenance --------------------------------------------------------------------------------------

    next_candidates = _reading(maintenance.next_candidates)
    archived_offsets = _reading(changes.archived_offsets)
    expire_proposals = _changing(rejections.expire_proposals)
    finish_runs = _changing(maintenance.finish_runs)

    def drop_archived(self, has_copy: HasCopy) -> DroppedDay | None:
        """Decide about one day of history of an applying run; drop it if its rows are those that were copied."""
        return archive.drop_archived(self._changes, has_copy)

    # -- operations of operators --------------------------------------------------------------------------

    change = _reading(changes.find_change)
    undone_changes = _reading(changes.undone_changes)
    restorable_settings = _reading(settings_and_topics.restorable_settings)
    delete_log_ends = _changing(settings_and_topics.delete_log_ends)
    put_topic = _changing(settings_and_topics.put_topic)
    delete_topic = _changing(settings_and_topics.delete_topic)
    put_settings = _changing(settings_and_topics.put_settings)
    undo_settings = _changing(settings_and_topics.undo_settings)
    begin_undo = _changing(settings_and_topics.begin_undo)
    begin_apply = _changing(maintenance.begin_apply)
    reject = _changing(maintenance.reject)
    seal_changes = _changing(seals.seal_changes)

    # -- mirrored clusters --------------------------------------------------------------------------------

    mirror_of = _changing(mirrors.mirror_of, is_of_leases=True)
    mirror_source = _reading(mirrors.read_source)
    mirrored_cluster = _reading(mirrors.read_mirrored_cluster)
    observe_topics = _changing(mirrors.observe_topics)
    forget_topics = _changing(mirrors.forget_topics)
    forget_log_ends = _changing(mirrors.forget_log_ends)
    committed_topics = _reading(mirrors.read_committed_topics)
    store_other_groups = _changing(mirrors.store_other_groups)
    mirror_position = _reading(mirrors.read_position)
