"""The database of a command: a node does not outlive its embedded Postgres."""

import signal
import threading
from pathlib import Path
from typing import Self

import pytest

from muster.errors import UserError
from muster.local import database
from muster.local.database import command_database
from muster.settings import load_settings
from tests.support.waiting import PATIENCE_S


class FakePostgres:
    """A Postgres that runs until the test ends it."""

    log_file = Path("postgres.log")

    def __init__(self) -> None:
        self.is_running = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def is_alive(self) -> bool:
        return self.is_running

    def database_url(self) -> str:
        return "postgresql://127.0.0.1:1/muster"

    jobs_url = reader_url = database_url


def test_a_node_ends_with_its_embedded_postgres(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    postgres, is_asked = FakePostgres(), threading.Event()
    monkeypatch.setattr(database, "embedded_postgres", lambda _: postgres)
    monkeypatch.setattr(database, "CHECK_INTERVAL_S", 0.01)
    before = signal.signal(signal.SIGTERM, lambda *_: is_asked.set())
    settings = load_settings(data_dir=tmp_path)

    def serve() -> None:
        with command_database(settings, "serve", node_url=settings.node_url):
            postgres.is_running = False
            assert is_asked.wait(PATIENCE_S)

    try:
        with pytest.raises(UserError, match=r"^Postgres ended, and the node with it; see postgres\.log, and start"):
            serve()
    finally:
        signal.signal(signal.SIGTERM, before)
