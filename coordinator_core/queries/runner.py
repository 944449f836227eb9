"""`Queries`: runs queries on threads and connections of their own."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Concatenate, Final, ParamSpec, Protocol, TypeVar

from coordinator_core.queries.limits import QueryLimits
from coordinator_core.runtime.database_errors import QueryFailures
from coordinator_core.state_store.postgres.connections import ConnectionPool, Limits, Transaction

P = ParamSpec("P")
T = TypeVar("T")

LOCK_TIMEOUT_MS: Final = 1_500
"""How long a query waits for the lock of a table that is being changed."""


class QueryRunner(Protocol):
    """Runs queries; tests have one without a database."""

    limits: QueryLimits

    async def run(
        self, query: Callable[Concatenate[Transaction, P], T], /, *arguments: P.args, **keywords: P.kwargs
    ) -> T:
        """Return the result of a query.

        Raises:
            CoordinatorNotAvailable: the database cannot be reached, or does not answer in time.
        """
        ...

    def close(self) -> None:
        """Wait for running queries, and close every connection."""
        ...


class Queries:
    """Runs queries of one database."""

    def __init__(self, url: str, limits: QueryLimits | None = None, *, connect_timeout_s: int = 2) -> None:
        """Do not connect before the first query.

        Args:
            url: `postgresql+psycopg2://user:password@host:port/database`.
            limits: the limits of queries; each concurrent query has a connection and a thread.
            connect_timeout_s: how long connecting may take.
        """
        self.limits = limits or QueryLimits()
        timeouts = Limits(
            statement_timeout_ms=self.limits.query_timeout_ms,
            lock_timeout_ms=LOCK_TIMEOUT_MS,
            idle_in_transaction_timeout_ms=self.limits.query_timeout_ms,
            connect_timeout_s=connect_timeout_s,
        )
        self._pool = ConnectionPool(url, "queries", self.limits.max_queries, timeouts, is_autocommit=True)
        self._threads = ThreadPoolExecutor(self.limits.max_queries, thread_name_prefix="muster-queries")
        self._failures = QueryFailures()

    async def run(
        self, query: Callable[Concatenate[Transaction, P], T], /, *arguments: P.args, **keywords: P.kwargs
    ) -> T:
        """Return the result of a query; each of its statements sees what was committed before it.

        Raises:
            CoordinatorNotAvailable: the database cannot be reached, or does not answer in time.
        """
        call = partial(self.read, query, *arguments, **keywords)
        return await self._failures.answer(asyncio.get_running_loop().run_in_executor(self._threads, call))

    def read(self, query: Callable[Concatenate[Transaction, P], T], /, *arguments: P.args, **keywords: P.kwargs) -> T:
        """Return the result of a query that runs on this thread; raises StoreError."""
        return self._pool.read(lambda transaction: query(transaction, *arguments, **keywords))

    def disconnect(self) -> None:
        """Close every connection that is not in use; further queries open new ones."""
        self._pool.close()

    def close(self) -> None:
        """Wait for running queries, cancel those that have not begun, and close every connection."""
        self._threads.shutdown(wait=True, cancel_futures=True)
        self._pool.close()
