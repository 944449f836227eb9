"""A runner of queries for tests of operations that need none."""

from collections.abc import Callable
from typing import Concatenate, Final, ParamSpec, TypeVar

from coordinator_core.queries.limits import QueryLimits
from coordinator_core.state_store.postgres.connections import Transaction

P = ParamSpec("P")
T = TypeVar("T")


class NoQueries:
    """Has no database, so every query fails."""

    limits = QueryLimits()

    async def run(
        self, query: Callable[Concatenate[Transaction, P], T], /, *_arguments: P.args, **_keywords: P.kwargs
    ) -> T:
        raise AssertionError(f"there is no database for {query}")

    def close(self) -> None:
        """Do nothing."""


NO_QUERIES: Final = NoQueries()
