"""SQLAlchemy definitions of the audit log, its seals, and the tokens that it names."""

from sqlalchemy import UUID, CheckConstraint, Column, Index, Integer, Table, Text, UniqueConstraint, text
from sqlalchemy.dialects.postgresql import JSONB

from coordinator_core.state_store.tables import At, Name, metadata, times_check

changes = Table(
    "changes",
    metadata,
    Column("change_id", UUID(as_uuid=False), primary_key=True),
    Column("at", At, nullable=False),
    Column("actor", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("group_id", Name, nullable=True),
    Column("before", JSONB, nullable=True),
    Column("after", JSONB, nullable=True),
    Column("reason", Text, nullable=True),
    Column("undone_at", At, nullable=True),
    Column("undone_by_change_id", UUID(as_uuid=False), nullable=True),
    Column("token_id", Text, nullable=True),
    Column("client_address", Text, nullable=True),
    Column("sealed_minute", At, nullable=True),
    times_check("changes", "at", "undone_at"),
    Index("changes_group_id_at", "group_id", "at"),
    Index("changes_unsealed", "change_id", postgresql_where=text("sealed_minute IS NULL")),
)

change_seals = Table(
    "change_seals",
    metadata,
    Column("minute", At, primary_key=True),
    Column("change_count", Integer, nullable=False),
    Column("seal", Text, nullable=False),
    times_check("change_seals", "minute"),
)

# Tokens that were issued by command. Rows are never deleted, so their number and the sum of their versions only grow.
tokens = Table(
    "tokens",
    metadata,
    Column("token_id", Text, primary_key=True),
    Column("sha256", Text, nullable=False),
    Column("actor", Text, nullable=False),
    Column("permissions", JSONB, nullable=False),
    Column("issued_at", At, nullable=False),
    Column("expires_at", At, nullable=True),
    Column("revoked_at", At, nullable=True),
    Column("version", Integer, nullable=False, server_default=text("1")),
    UniqueConstraint("sha256", name="tokens_sha256_key"),
    CheckConstraint("sha256 ~ '^[0-9a-f]{64}$' AND token_id = left(sha256, 16)", name="tokens_token_id"),
    times_check("tokens", "issued_at", "expires_at", "revoked_at"),
)
