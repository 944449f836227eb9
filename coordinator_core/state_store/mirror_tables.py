"""SQLAlchemy definitions of the tables that only a mirror of a Kafka cluster has rows in."""

from sqlalchemy import BigInteger, Boolean, CheckConstraint, Column, SmallInteger, Table, Text, text

from coordinator_core.state_store.tables import At, metadata

# One row if the database mirrors a Kafka cluster, none if nodes coordinate its groups.
mirrored_cluster = Table(
    "mirrored_cluster",
    metadata,
    Column("only_row", Boolean, primary_key=True, server_default=text("true")),
    Column("cluster_id", Text, nullable=False),
    Column("created_at", At, nullable=False, server_default=text("date_trunc('milliseconds', clock_timestamp())")),
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
