"""The store in Postgres. Import `PostgresStore`; the modules beside it are its parts."""

from coordinator_core.store.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
