"""The Postgres store. Import `PostgresStore`; the other modules are its parts."""

from coordinator_core.state_store.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
