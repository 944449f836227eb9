"""Reads of a node are limited in number and time by its settings."""

from contextlib import closing

import pytest
from pydantic import SecretStr

from coordinator_core.state_store.interface import StoreUnavailable
from muster.node.serve import open_store
from muster.settings import Settings


def test_concurrent_reads_are_limited(database_url: str) -> None:
    with closing(open_store(Settings(database_url=SecretStr(database_url), max_reads=1))) as store:
        with pytest.raises(StoreUnavailable, match="in use"):
            store._readers.read(lambda _: store.shard_count())
        assert store.shard_count() == 50


def test_read_is_ended_by_the_statement_timeout(database_url: str) -> None:
    with closing(open_store(Settings(database_url=SecretStr(database_url), read_timeout_ms=100))) as store:
        with pytest.raises(StoreUnavailable, match="statement timeout"):
            store._readers.read(lambda reading: reading.execute("SELECT pg_sleep(60)"))
        assert store.shard_count() == 50
