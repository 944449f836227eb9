"""SQLAlchemy definitions of the tables that only a mirror of a Kafka cluster has rows in."""

from sqlalchemy import BigInteger, Boolean, CheckConstraint, Column, Index, Integer, SmallInteger, Table, Text, text

from coordinator_core.state_store.tables import At, Name, metadata

# One row if the database mirrors a Kafka cluster, none if nodes coordinate its groups.
mirrored_cluster = Table(
    "mirrored_cluster",
    metadata,
    Column("only_row", Boolean, primary_key=True, server_default=text("true")),
    Column("cluster_id", Text, nullable=False),
    Column("created_at", At, nullable=False, server_default=text("date_trunc('milliseconds', clock_timestamp())")),
    Column("source", Text, nullable=False, server_default=text("'topic'")),
    CheckConstraint("only_row", name="mirrored_cluster_only_row"),
)

# How far each shard of a mirror has read its partition of `__consumer_offsets`.
mirror_positions = Table(
    "mirror_positions",
    metadata,
    Column("shard_id", SmallInteger, primary_key=True, autoincrement=False),
    Column("base", BigInteger, nullable=False),
    Column("groups_seq", BigInteger, nullable=False),
    Column("offsets_seq", BigInteger, nullable=False),
    Column("read_at", At, nullable=False),
    postgresql_with={"fillfactor": 50},
)

# Share and streams groups of the mirrored cluster, whose members and generations are not mirrored.
other_groups = Table(
    "other_groups",
    metadata,
    Column("group_id", Name, primary_key=True),
    Column("shard_id", SmallInteger, nullable=False),
    Column("protocol_type", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("state_since", At, nullable=False),
    Column("epoch", Integer, nullable=True),
    Column("member_count", Integer, nullable=True),
    Index("other_groups_shard_id", "shard_id"),
)
