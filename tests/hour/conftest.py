"""The hour is simulated once; then its node serves in real time, and every test reads what is shown of the hour."""

import asyncio
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.request import urlopen

import psycopg2
import psycopg2.extras
import pytest
from prometheus_client.parser import text_string_to_metric_families
from structlog.testing import capture_logs

from api.http.app import make_app
from api.http.limits import HttpLimits
from api.http.server import HttpServer
from coordinator_core.runtime.config import NodeConfig
from coordinator_core.runtime.coordinator import Coordinator
from muster.node import bound_listener, open_store
from muster.settings import Settings, psql_url
from tests.conftest import Databases
from tests.hour.consumers import in_process
from tests.hour.lapse import InlineThreads, LapseLoop
from tests.hour.sick_groups import Hour
from tests.spark.conftest import spark

__all__ = ["spark"]

HOUR_S = 3_600.0
PATIENCE_S = 600.0
PAUSE_MS = 600_000
"""The loop does everything itself, so a slow machine makes it pause; that must not give members time back."""
Json = Any
Row = Mapping[str, Any]


@dataclass(frozen=True)
class Platform:
    """A node that serves what happened in the hour, and its database."""

    url: str
    database_url: str
    began_at: datetime
    ended_at: datetime

    def stood_still_s(self, since_minute: int) -> float:
        """Return how long ago a minute of the hour was."""
        return (datetime.now(UTC) - self.began_at).total_seconds() - since_minute * 60

    def api(self, path: str) -> Json:
        """Return what the API answers."""
        with urlopen(self.url + path, timeout=PATIENCE_S) as response:
            return json.load(response)

    def command(self, *arguments: str) -> Json:
        """Return what the command line prints for programs."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("MUSTER_")}
        ran = subprocess.run(
            [sys.executable, "-m", "muster", *arguments, "--json"],
            env={**environment, "MUSTER_URL": self.url, "MUSTER_ACTOR": "tests"},
            check=False,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
        assert ran.returncode == 0, ran.stderr
        return json.loads(ran.stdout)

    def sql(self, statement: str, *values: object) -> list[Row]:
        """Return rows by column."""
        with (
            closing(psycopg2.connect(psql_url(self.database_url))) as connection,
            connection.cursor(cursor_factory=psycopg2.extras.RealDictCursor) as cursor,
        ):
            cursor.execute(statement, values)
            return [dict(row) for row in cursor.fetchall()]

    def metrics(self) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
        """Return the samples of a scrape in full detail, by name and labels."""
        with urlopen(self.url + "/metrics?detail=partition", timeout=PATIENCE_S) as response:
            text = response.read().decode()
        return {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }


@pytest.fixture(scope="module")
def platform(databases: Databases) -> Iterator[Platform]:
    url = databases.create()
    stopping = threading.Event()
    serving: Future[Platform] = Future()
    with capture_logs(), ThreadPoolExecutor(1, thread_name_prefix="hour") as executor:
        ran = executor.submit(_run, url, serving, stopping)
        try:
            yield serving.result(PATIENCE_S) if not ran.done() else ran.result()  # type: ignore[misc]  # it raises
        finally:
            stopping.set()
            ran.result(PATIENCE_S)
    databases.drop(url)


def _run(database_url: str, serving: "Future[Platform]", stopping: threading.Event) -> None:
    loop = LapseLoop(behind_s=HOUR_S)
    try:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(_serve(loop, database_url, serving, stopping))
    except BaseException as failure:
        if not serving.done():
            serving.set_exception(failure)
        raise


async def _serve(loop: LapseLoop, database_url: str, serving: "Future[Platform]", stopping: threading.Event) -> None:
    began_at = datetime.fromtimestamp(loop.now().wall_ms / 1_000, UTC)
    with bound_listener("127.0.0.1", 0) as listener:
        settings = Settings(database_url=database_url, http_port=listener.getsockname()[1])  # type: ignore[arg-type]  # a text, validated there
        with closing(open_store(settings)) as store:
            address = f"127.0.0.1:{settings.http_port}"
            config = NodeConfig(address, settings.node_url, pause_ms=PAUSE_MS)
            coordinator = Coordinator(store, config, loop, InlineThreads())
            await coordinator.start()
            limits = HttpLimits()
            app = make_app(coordinator, limits, "1")
            hour = Hour(in_process(app))
            await hour.pass_by(loop.caught_up)
            server = HttpServer(app, listener, limits, app.connections)
            await server.start()
            serving.set_result(Platform(settings.node_url, database_url, began_at, datetime.now(UTC)))
            while not stopping.is_set():  # noqa: ASYNC110 - set by another thread
                await asyncio.sleep(0.05)
            await hour.end()
            server.refuse_requests()
            await coordinator.stop()
            await server.stop()
