"""The start of a node whose database is lost meanwhile, or whose log is on a full disk."""

import asyncio
import errno
import io
import sys
from collections.abc import Callable
from typing import Any, NoReturn

import pytest
import structlog

from coordinator_core.protocol.errors import CoordinatorNotAvailable
from coordinator_core.queries.limits import QueryLimits
from muster.errors import UserError
from muster.node.kafka import addresses
from muster.node.serve import bound_listener, serve_node, write_log
from muster.settings import Settings
from tests.support.memory_store import MemoryStore


class LostDatabase:
    """Cannot be reached."""

    limits = QueryLimits()

    async def run(self, query: Callable[..., Any], /, *_arguments: Any, **_keywords: Any) -> NoReturn:  # noqa: ANN401
        raise CoordinatorNotAvailable(f"the database is away for {query.__name__}")

    def close(self) -> None:
        """Do nothing."""


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_kafka_listener_of_all_addresses_has_to_be_named_for_clients(host: str) -> None:
    settings = Settings(require_tokens=True, kafka_host=host, kafka_port=9_092)
    with pytest.raises(UserError, match="set MUSTER_KAFKA_ADVERTISED"):
        addresses(settings)
    named = settings.model_copy(update={"kafka_advertised": "muster-1:9092"})
    assert addresses(named) == {"kafka": "muster-1:9092"}


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


class FullDisk(io.StringIO):
    """A file on a full disk."""

    def write(self, text: str) -> NoReturn:
        self.lost = text
        raise OSError(errno.ENOSPC, "No space left on device")

    def flush(self) -> NoReturn:
        raise OSError(errno.ENOSPC, "No space left on device")


def test_log_line_is_lost_on_a_full_disk_and_the_node_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    disk, before = FullDisk(), structlog.get_config()
    monkeypatch.setattr(sys, "stderr", disk)
    try:
        write_log()
        structlog.get_logger("muster.node").warning("first_line")
    finally:
        structlog.configure(**before)

    assert "first_line" in disk.lost


def test_host_that_is_not_this_machine_is_no_question_of_the_port_alone() -> None:
    with pytest.raises(UserError) as refusal, bound_listener("192.0.2.1", 0, "MUSTER_KAFKA_PORT"):
        pass

    assert refusal.value.sentence == (
        "The node cannot listen on 192.0.2.1:0 (Cannot assign requested address);"
        " choose another MUSTER_KAFKA_PORT, or an address of this machine."
    )
