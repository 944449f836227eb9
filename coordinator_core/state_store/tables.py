"""SQLAlchemy definitions of the tables; `migrations/` creates them, and a test compares the two.

Rules that every table keeps:

* Text keys are ``COLLATE "C"``: they compare by bytes, as Kafka's names do.
* Times are ``timestamptz``. Every row of a group has a ``shard_id``, by which Spark reads in parallel.
* Hot rows (``offsets``, ``members``) have no index on a column that every write changes, so updates stay HOT.
* History rows are inserted once, when what they describe is over, into tables partitioned by that time.
* No key is (group_id, generation): a group that is deleted and created again starts at 0; ``group_created_at`` differs.

Source: docs/tables.md, the contract with users of SQL.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    Identity,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    SmallInteger,
    Table,
    Text,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB, UUID

from coordinator_core.protocol.records import Trigger

metadata = MetaData()

Name = Text(collation="C")
At = DateTime(timezone=True)
TRIGGERS = ", ".join(f"'{trigger}'" for trigger in Trigger)


def _check(name: str, condition: str) -> CheckConstraint:
    """Declare a condition on rows; `row_checks.py` checks the same conditions when rows are loaded."""
    return CheckConstraint(text(condition), name=name)


def _time(column: str) -> str:
    """Return the condition that a column is a time from 1970 to 9999, which Python can represent."""
    return f"{column} >= '1970-01-01 00:00:00+00' AND {column} < '10000-01-01 00:00:00+00'"


def times_check(table: str, *columns: str) -> CheckConstraint:
    """Declare that columns of a table are times from 1970 to 9999."""
    return _check(f"{table}_times", " AND ".join(map(_time, columns)))


def _group_key() -> tuple[Column[str], Column[int]]:
    return Column("group_id", Name, nullable=False), Column("shard_id", SmallInteger, nullable=False)


# -- nodes and leases -----------------------------------------------------------------------------

nodes = Table(
    "nodes",
    metadata,
    Column("node_id", Name, primary_key=True),
    Column("listeners", JSONB, nullable=False),
    Column("version", Text, nullable=False),
    Column("started_at", At, nullable=False),
    Column("expires_at", At, nullable=False),
    # Never decreases: a node whose own count is higher knows that the database was rolled back.
    Column("renewals", BigInteger, nullable=False, server_default=text("0")),
    Column("cluster_configs", BigInteger, nullable=False, server_default=text("0")),
    postgresql_with={"fillfactor": 50},
)

shard_leases = Table(
    "shard_leases",
    metadata,
    Column("shard_id", SmallInteger, primary_key=True, autoincrement=False),
    Column("node_id", Name, nullable=True),
    Column("epoch", BigInteger, nullable=False, server_default=text("0")),
    Column("expires_at", At, nullable=True),
    Column("writer_id", BigInteger, nullable=True),
    postgresql_with={"fillfactor": 50},
)

# A row for each store of a node that has leases, or had until another one acquired them (`Fence`).
writers = Table(
    "writers",
    metadata,
    Column("writer_id", BigInteger, primary_key=True, autoincrement=False),
    Column("fence", BigInteger, nullable=False, server_default=text("0")),
    postgresql_with={"fillfactor": 50},
)

# One row: the incarnation of the database, and the identity under which nodes serve it; NULL: no node has yet.
incarnation = Table(
    "incarnation",
    metadata,
    Column("only_row", Boolean, primary_key=True, server_default=text("true")),
    Column("number", BigInteger, nullable=False, server_default=text("1")),
    Column("started_at", At, nullable=False),
    Column("cluster_id", UUID(as_uuid=False), nullable=False, server_default=text("gen_random_uuid()")),
    Column("system_identifier", BigInteger, nullable=True),
    Column("timeline", BigInteger, nullable=True),
    Column("database_oid", BigInteger, nullable=True),
    Column("table_oid", BigInteger, nullable=True),
    CheckConstraint("only_row", name="incarnation_only_row"),
)

# -- current state --------------------------------------------------------------------------------

groups = Table(
    "groups",
    metadata,
    *_group_key(),
    Column("state", Text, nullable=False),
    Column("state_since", At, nullable=False),
    # The state to recover when a failover loses a join phase.
    Column("state_before_join_phase", Text, nullable=False, server_default=text("'Empty'")),
    Column("generation", Integer, nullable=False, server_default=text("0")),
    Column("protocol_type", Text, nullable=True),
    Column("protocol_name", Text, nullable=True),
    Column("leader_id", Text, nullable=True),
    Column("member_count", Integer, nullable=False, server_default=text("0")),
    # NULL: unknown (not a "consumer" group, or a subscription that cannot be decoded).
    Column("subscribed_topics", ARRAY(Text), nullable=True),
    Column("topics_version", BigInteger, nullable=False, server_default=text("0")),
    Column("must_rebalance", Boolean, nullable=False, server_default=text("false")),
    Column("rebalance_started_at", At, nullable=True),
    Column("rebalance_trigger", Text, nullable=True),
    # The ledger's snapshot of the rebalance in progress, until it becomes a row of `rebalances`.
    Column("rebalance", JSONB, nullable=True),
    Column("created_at", At, nullable=False, server_default=text("now()")),
    # The members that a long rebalance waits for: {"phase", "since_ms", "count", "members": [...]}.
    Column("awaited_members", JSONB, nullable=True),
    PrimaryKeyConstraint("group_id"),
    Index("groups_shard_id", "shard_id"),
    _check("groups_shard_id", "shard_id BETWEEN 0 AND 9999"),
    _check("groups_state", "state IN ('Empty', 'PreparingRebalance', 'CompletingRebalance', 'Stable')"),
    _check("groups_state_before_join_phase", "state_before_join_phase IN ('Empty', 'CompletingRebalance', 'Stable')"),
    _check("groups_counts", "generation >= 0 AND member_count >= 0 AND topics_version >= 0"),
    times_check("groups", "state_since", "created_at", "rebalance_started_at"),
    _check("groups_subscribed_topics", "array_position(subscribed_topics, NULL) IS NULL"),
    _check("groups_rebalance_trigger", f"rebalance_trigger IN ({TRIGGERS})"),
    _check("groups_rebalance", "jsonb_typeof(rebalance) = 'object'"),
    postgresql_with={"fillfactor": 80},
)

members = Table(
    "members",
    metadata,
    *_group_key(),
    Column("member_id", Name, nullable=False),
    Column("group_instance_id", Text, nullable=True),
    Column("client_id", Text, nullable=False),
    Column("client_host", Text, nullable=False),
    Column("session_timeout_ms", Integer, nullable=False),
    Column("rebalance_timeout_ms", Integer, nullable=False),
    # Decoded from the chosen protocol's metadata and from the assignment; NULL if that failed.
    Column("subscription", JSONB, nullable=True),
    Column("assignment", JSONB, nullable=True),
    Column("assigned_since", At, nullable=True),
    # Open ownerships: [{"topic", "partitions", "since_ms", "generation", "rebalance_id"}].
    Column("ownership", JSONB, nullable=False, server_default=text("'[]'::jsonb")),
    Column("joined_at", At, nullable=False, server_default=text("now()")),
    # The opaque bytes, as received.
    Column("protocol_names", ARRAY(Text), nullable=False, server_default=text("'{}'::text[]")),
    Column("protocol_metadata", ARRAY(LargeBinary), nullable=False, server_default=text("'{}'::bytea[]")),
    Column("assignment_bytes", LargeBinary, nullable=False, server_default=text("''::bytea")),
    # Order in which members joined, which loading restores.
    Column("join_order", Integer, nullable=False, server_default=text("0")),
    PrimaryKeyConstraint("group_id", "member_id"),
    Index("members_shard_id", "shard_id"),
    _check("members_shard_id", "shard_id BETWEEN 0 AND 9999"),
    _check("members_timeouts", "session_timeout_ms > 0 AND rebalance_timeout_ms >= 0"),
    _check("members_join_order", "join_order >= 0"),
    _check("members_joined_at", _time("joined_at")),
    _check(
        "members_protocols",
        "cardinality(protocol_names) = cardinality(protocol_metadata)"
        " AND array_position(protocol_names, NULL) IS NULL AND array_position(protocol_metadata, NULL) IS NULL",
    ),
    _check("members_ownership", "jsonb_typeof(ownership) = 'array'"),
    postgresql_with={"fillfactor": 80},
)


def _commit_origin() -> tuple[Column[str], Column[str]]:
    """Return the columns that say who sent a commit; NULL: an ordinary commit, or not known."""
    return Column("token_id", Text, nullable=True), Column("client_address", Text, nullable=True)


offsets = Table(
    "offsets",
    metadata,
    *_group_key(),
    Column("topic", Name, nullable=False),
    Column("partition", Integer, nullable=False),
    Column("committed_offset", BigInteger, nullable=False),
    Column("leader_epoch", Integer, nullable=False, server_default=text("-1")),
    Column("metadata", Text, nullable=False, server_default=text("''")),
    Column("log_end_offset", BigInteger, nullable=True),
    Column("committed_at", At, nullable=False),
    Column("expires_at", At, nullable=True),
    Column("member_id", Text, nullable=False, server_default=text("''")),
    # Drawn from a sequence at every write and never repeated, so it identifies the commit.
    Column("commit_version", BigInteger, nullable=False, server_default=text("nextval('commit_version')")),
    # When the log's end was reported; NULL: at committed_at. A reset and an undo keep it; every other commit clears it.
    Column("log_end_at", At, nullable=True),
    *_commit_origin(),
    PrimaryKeyConstraint("group_id", "topic", "partition"),
    Index("offsets_shard_id", "shard_id"),
    _check(
        "offsets_numbers",
        "shard_id BETWEEN 0 AND 9999 AND partition >= 0 AND committed_offset >= 0 AND leader_epoch >= -1"
        " AND log_end_offset >= 0",
    ),
    _check("offsets_committed_at", _time("committed_at")),
    times_check("offsets", "expires_at", "log_end_at"),
    postgresql_with={"fillfactor": 70},
)

# Commits that were answered, a row for each batch; they follow into `offsets` with the next checkpoint of their shards.
offset_log = Table(
    "offset_log",
    metadata,
    Column("seq", BigInteger, primary_key=True, server_default=text("nextval('commit_version')")),
    Column("shard_ids", ARRAY(SmallInteger), nullable=False),
    Column("written_at", At, nullable=False, server_default=text("clock_timestamp()")),
    Column("data", LargeBinary, nullable=False),
    postgresql_with={
        "autovacuum_vacuum_scale_factor": 0,
        "autovacuum_vacuum_threshold": 2000,
        "autovacuum_vacuum_cost_delay": 0,
    },
)

shard_checkpoints = Table(
    "shard_checkpoints",
    metadata,
    Column("shard_id", SmallInteger, primary_key=True, autoincrement=False),
    Column("seq", BigInteger, nullable=False, server_default=text("0")),
    postgresql_with={"fillfactor": 50},
)

# What a checkpoint could not store in `offsets`, and rows of the offset log that cannot be decoded (without a group).
quarantined_offsets = Table(
    "quarantined_offsets",
    metadata,
    Column("quarantine_id", BigInteger, Identity(always=True), primary_key=True),
    Column("quarantined_at", At, nullable=False, server_default=text("clock_timestamp()")),
    Column("seq", BigInteger, nullable=False),
    Column("shard_id", SmallInteger, nullable=True),
    Column("group_id", Name, nullable=True),
    Column("topic", Name, nullable=True),
    Column("partition", Integer, nullable=True),
    Column("reason", Text, nullable=False),
    Column("data", LargeBinary, nullable=False),
)

# The highest log end of each partition that a trusted reporter has reported, and the time of its last report.
log_end_offsets = Table(
    "log_end_offsets",
    metadata,
    Column("topic", Name, nullable=False),
    Column("partition", Integer, nullable=False),
    Column("log_end_offset", BigInteger, nullable=False),
    Column("reported_at", At, nullable=False),
    # Deleting a topic deletes its rows here; the history of a topic that is created again starts at this time.
    Column("first_reported_at", At, nullable=False),
    times_check("log_end_offsets", "reported_at", "first_reported_at"),
    PrimaryKeyConstraint("topic", "partition"),
    postgresql_with={"fillfactor": 50},
)

topics = Table(
    "topics",
    metadata,
    Column("topic", Name, primary_key=True),
    Column("partitions", Integer, nullable=False),
    Column("log_start_offset", BigInteger, nullable=False, server_default=text("0")),
    Column("version", BigInteger, nullable=False, server_default=text("0")),
    _check("topics_numbers", "partitions > 0 AND log_start_offset >= 0"),
)

group_configs = Table(
    "group_configs",
    metadata,
    Column("group_id", Name, nullable=False),
    Column("key", Name, nullable=False),
    Column("value", Text, nullable=False),
    Column("set_by", Text, nullable=False),
    Column("set_at", At, nullable=False),
    times_check("group_configs", "set_at"),
    PrimaryKeyConstraint("group_id", "key"),
)

cluster_configs = Table(
    "cluster_configs",
    metadata,
    Column("key", Name, primary_key=True),
    Column("value", Text, nullable=False),
    Column("set_by", Text, nullable=False),
    Column("set_at", At, nullable=False),
    times_check("cluster_configs", "set_at"),
)

# One row: counts changes of the three tables above and deletions of log ends; a node whose count is lower reads the
# table again.
versions = Table(
    "versions",
    metadata,
    Column("only_row", Boolean, primary_key=True, server_default=text("true")),
    Column("cluster_configs", BigInteger, nullable=False, server_default=text("0")),
    Column("group_configs", BigInteger, nullable=False, server_default=text("0")),
    Column("topics", BigInteger, nullable=False, server_default=text("0")),
    Column("shard_count", SmallInteger, nullable=False),
    Column("log_end_deletions", BigInteger, nullable=False, server_default=text("0")),
    # Set by migrations that remove what programs of an older revision use (`schema_revision.py`).
    Column("oldest_compatible_schema", Text, nullable=False),
    _check("versions_only_row", "only_row"),
    _check("versions_shard_count", "shard_count BETWEEN 1 AND 10000"),
)

# -- history: inserted once, partitioned by day ---------------------------------------------------------

group_transitions = Table(
    "group_transitions",
    metadata,
    *_group_key(),
    Column("group_created_at", At, nullable=False),
    Column("at", At, nullable=False),
    Column("generation", Integer, nullable=False),
    Column("from_state", Text, nullable=True),
    Column("to_state", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("member_id", Text, nullable=True),
    Index("group_transitions_group_id_at", "group_id", "at"),
    postgresql_partition_by="RANGE (at)",
)

rebalances = Table(
    "rebalances",
    metadata,
    Column("rebalance_id", UUID(as_uuid=False), nullable=False),
    *_group_key(),
    Column("group_created_at", At, nullable=False),
    Column("generation", Integer, nullable=False),
    Column("trigger", Text, nullable=False),
    Column("trigger_member_id", Text, nullable=True),
    Column("client_reason", Text, nullable=True),
    Column("started_at", At, nullable=False),
    Column("joined_at", At, nullable=True),
    Column("completed_at", At, nullable=False),
    Column("outcome", Text, nullable=False),
    Column("restarts", Integer, nullable=False),
    Column("member_count_before", Integer, nullable=False),
    Column("member_count_after", Integer, nullable=False),
    Column("partitions_moved", Integer, nullable=False),
    Column("is_trigger_inferred", Boolean, nullable=False, server_default=text("false")),
    Column("is_start_inferred", Boolean, nullable=False, server_default=text("false")),
    PrimaryKeyConstraint("rebalance_id", "completed_at"),
    Index("rebalances_group_id_completed_at", "group_id", "completed_at"),
    postgresql_partition_by="RANGE (completed_at)",
)

rebalance_members = Table(
    "rebalance_members",
    metadata,
    Column("rebalance_id", UUID(as_uuid=False), nullable=False),
    *_group_key(),
    Column("group_created_at", At, nullable=False),
    Column("completed_at", At, nullable=False),
    Column("member_id", Name, nullable=False),
    Column("group_instance_id", Text, nullable=True),
    Column("client_id", Text, nullable=False),
    Column("client_host", Text, nullable=False),
    Column("joined_after_ms", BigInteger, nullable=True),
    Column("synced_after_ms", BigInteger, nullable=True),
    Column("waited_for_ms", BigInteger, nullable=True),
    Column("outcome", Text, nullable=False),
    PrimaryKeyConstraint("rebalance_id", "completed_at", "member_id"),
    postgresql_partition_by="RANGE (completed_at)",
)

member_sessions = Table(
    "member_sessions",
    metadata,
    *_group_key(),
    Column("group_created_at", At, nullable=False),
    Column("member_id", Text, nullable=False),
    Column("group_instance_id", Text, nullable=True),
    Column("client_id", Text, nullable=False),
    Column("client_host", Text, nullable=False),
    Column("generation", Integer, nullable=False),
    Column("session_timeout_ms", Integer, nullable=False),
    Column("joined_at", At, nullable=False),
    Column("started_at", At, nullable=False),
    Column("ended_at", At, nullable=False),
    Column("end_reason", Text, nullable=False),
    Column("last_heartbeat_at", At, nullable=True),
    Column("heartbeat_count", Integer, nullable=True),
    Column("heartbeat_gap_ms_max", Integer, nullable=True),
    # Counts of gaps of at most 1 ms, 2 ms, 4 ms … 2^21 ms, each above the previous bound; the last: longer.
    Column("heartbeat_gap_histogram", ARRAY(Integer), nullable=True),
    Index("member_sessions_group_id_ended_at", "group_id", "ended_at"),
    postgresql_partition_by="RANGE (ended_at)",
)

partition_ownership = Table(
    "partition_ownership",
    metadata,
    *_group_key(),
    Column("group_created_at", At, nullable=False),
    Column("rebalance_id", UUID(as_uuid=False), nullable=False),
    Column("generation", Integer, nullable=False),
    Column("member_id", Text, nullable=False),
    Column("topic", Text, nullable=False),
    Column("partitions", ARRAY(Integer), nullable=False),
    Column("valid_from", At, nullable=False),
    Column("valid_to", At, nullable=False),
    Index("partition_ownership_group_id_valid_to", "group_id", "valid_to"),
    postgresql_partition_by="RANGE (valid_to)",
)

offset_history = Table(
    "offset_history",
    metadata,
    *_group_key(),
    Column("topic", Name, nullable=False),
    Column("partition", Integer, nullable=False),
    Column("at", At, nullable=False),
    Column("committed_offset", BigInteger, nullable=False),
    Column("log_end_offset", BigInteger, nullable=True),
    Column("member_id", Text, nullable=False),
    *_commit_origin(),
    Index("offset_history_group_topic_partition_at", "group_id", "topic", "partition", "at"),
    postgresql_partition_by="RANGE (at)",
)

log_end_history = Table(
    "log_end_history",
    metadata,
    Column("topic", Name, nullable=False),
    Column("partition", Integer, nullable=False),
    Column("at", At, nullable=False),
    Column("log_end_offset", BigInteger, nullable=False),
    PrimaryKeyConstraint("topic", "partition", "at"),
    # Log ends only grow, so this is also the order of time: one lookup finds when a log reached an offset.
    Index("log_end_history_topic_partition_log_end_offset", "topic", "partition", "log_end_offset", "at"),
    postgresql_partition_by="RANGE (at)",
)

HISTORY_TABLES = {
    "group_transitions": "at",
    "rebalances": "completed_at",
    "rebalance_members": "completed_at",
    "member_sessions": "ended_at",
    "partition_ownership": "valid_to",
    "offset_history": "at",
    "log_end_history": "at",
}
"""Every partitioned table and the column it is partitioned by (one partition a day, and a default one)."""

# -- maintenance: runs, candidates, changes and archived offsets ---------------------------------------------

maintenance_runs = Table(
    "maintenance_runs",
    metadata,
    Column("run_id", UUID(as_uuid=False), primary_key=True),
    Column("kind", Text, nullable=False),
    Column("as_of", At, nullable=False),
    Column("interval_start", At, nullable=True),
    Column("interval_end", At, nullable=True),
    # proposed, applying, applied, rejected, failed
    Column("status", Text, nullable=False),
    Column("dry_run", Boolean, nullable=False, server_default=text("false")),
    Column("counts", JSONB, nullable=False, server_default=text("'{}'::jsonb")),
    Column("created_at", At, nullable=False, server_default=text("now()")),
    Column("applied_by", Text, nullable=True),
    Column("change_id", UUID(as_uuid=False), nullable=True),
    Column("finished_at", At, nullable=True),
    # Of a run of kind `undo`: the change whose archived offsets it restores.
    Column("undoes", UUID(as_uuid=False), nullable=True),
    Index("maintenance_runs_kind_as_of", "kind", text("as_of DESC")),
    Index("maintenance_runs_applying", "run_id", postgresql_where=text("status = 'applying'")),
    _check("maintenance_runs_status", "status IN ('proposed', 'applying', 'applied', 'rejected', 'failed')"),
    _check("maintenance_runs_counts", "jsonb_typeof(counts) = 'object'"),
)


def _candidates(
    name: str, columns: Callable[[], Iterable[Column[Any]]], key: tuple[str, ...], times: tuple[str, ...]
) -> Table:
    """Declare a table of candidates and its staging table; return the first.

    Spark writes to staging (JDBC writes are not atomic across partitions), then one INSERT … SELECT publishes.

    Args:
        name: name of the table.
        columns: yields the columns that the job writes, beside those of the group.
        key: columns that name a candidate within its run.
        times: those of the columns that are times.
    """
    Table(
        f"{name}_staging",
        metadata,
        Column("attempt_id", UUID(as_uuid=False), nullable=False),
        *_group_key(),
        *columns(),
        Index(f"{name}_staging_attempt_id", "attempt_id"),
        prefixes=["UNLOGGED"],
    )
    return Table(
        name,
        metadata,
        Column("run_id", UUID(as_uuid=False), nullable=False),
        *_group_key(),
        *columns(),
        # NULL while undecided; then that it was applied, or why the row was kept.
        Column("outcome", Text, nullable=True),
        times_check(name, *times),
        PrimaryKeyConstraint("run_id", *key),
        # In the order of processing: by shard, then by group.
        Index(f"{name}_undecided", "run_id", "shard_id", *key, postgresql_where=text("outcome IS NULL")),
    )


def _expiry_columns() -> Iterator[Column[Any]]:
    yield Column("generation", Integer, nullable=True)
    yield Column("state_since", At, nullable=True)
    yield Column("topic", Name, nullable=False)
    yield Column("partition", Integer, nullable=False)
    yield Column("commit_version", BigInteger, nullable=False)
    yield Column("committed_at", At, nullable=False)
    yield Column("reason", Text, nullable=False)


def _cleanup_columns() -> Iterator[Column[Any]]:
    yield Column("generation", Integer, nullable=False)
    yield Column("state_since", At, nullable=False)
    yield Column("reason", Text, nullable=False)


expiry_candidates = _candidates(
    "expiry_candidates", _expiry_columns, ("group_id", "topic", "partition"), ("committed_at", "state_since")
)
cleanup_candidates = _candidates("cleanup_candidates", _cleanup_columns, ("group_id",), ("state_since",))

archived_offsets = Table(
    "archived_offsets",
    metadata,
    Column("change_id", UUID(as_uuid=False), nullable=False),
    *_group_key(),
    Column("topic", Name, nullable=False),
    Column("partition", Integer, nullable=False),
    Column("committed_offset", BigInteger, nullable=False),
    Column("leader_epoch", Integer, nullable=False),
    Column("metadata", Text, nullable=False),
    Column("log_end_offset", BigInteger, nullable=True),
    Column("committed_at", At, nullable=False),
    Column("archived_at", At, nullable=False),
    Column("cause", Text, nullable=False),
    # As in `offsets`.
    Column("log_end_at", At, nullable=True),
    PrimaryKeyConstraint("change_id", "group_id", "topic", "partition"),
    Index("archived_offsets_group_id", "group_id", "archived_at"),
)
