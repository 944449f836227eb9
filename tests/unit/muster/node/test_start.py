"""The start of a node whose database is lost meanwhile."""

import asyncio
from collections.abc import Callable
from typing import Any, NoReturn

import pytest

from coordinator_core.protocol.errors import CoordinatorNotAvailable
from coordinator_core.queries.limits import QueryLimits
from muster.errors import UserError
from muster.node.serve import bound_listener, serve_node
from muster.settings import Settings
from tests.support.memory_store import MemoryStore


class LostDatabase:
    """Cannot be reached."""

    limits = QueryLimits()

    async def run(self, query: Callable[..., Any], /, *_arguments: Any, **_keywords: Any) -> NoReturn:  # noqa: ANN401
        raise CoordinatorNotAvailable(f"the database is away for {query.__name__}")

    def close(self) -> None:
        """Do nothing."""


def test_a_database_that_is_lost_before_the_kafka_listener_starts_is_reported_in_one_sentence() -> None:
    with bound_listener("127.0.0.1", 0) as http, bound_listener("127.0.0.1", 0) as kafka:
        settings = Settings(database_url="postgresql+psycopg2://u@127.0.0.1/muster", kafka_port=kafka.getsockname()[1])  # type: ignore[arg-type]  # validated there
        serving = serve_node(settings, MemoryStore(), LostDatabase(), http, asyncio.Event(), lambda: None, kafka)
        with pytest.raises(UserError) as refusal:
            asyncio.run(serving)

    assert refusal.value.exit_code == 3
    assert refusal.value.sentence.startswith(
        "The cluster id in the database cannot be read (the database is away for read_cluster_id); "
    )
