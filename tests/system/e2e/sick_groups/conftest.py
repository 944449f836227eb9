"""The hour is simulated once; then its node serves in real time, and every test reads what is shown of the hour."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime

import pytest
from structlog.testing import capture_logs

from api.http.app import make_app
from api.http.limits import HttpLimits
from api.http.server import HttpServer
from api.shared.node_context import NodeContext
from coordinator_core.runtime import timer_loop
from coordinator_core.runtime.config import NodeConfig
from coordinator_core.runtime.coordinator import Coordinator
from muster.node.serve import bound_listener, open_queries, open_store
from muster.settings import Settings
from tests.support.databases import Databases
from tests.support.waiting import POLL_S
from tests.system.e2e.sick_groups.consumers import in_process
from tests.system.e2e.sick_groups.lapse import InlineThreads, LapseLoop
from tests.system.e2e.sick_groups.platform import PATIENCE_S, Platform
from tests.system.e2e.sick_groups.sick_groups import Hour

HOUR_S = 3_600.0
PAUSE_MS = 600_000
"""Everything runs in one loop, which pauses on a slow machine; that must not extend sessions."""
LEASE_MS = 600_000
"""Renewals of a lease of seconds would be a third of what the database does in the hour."""
TICK_MS = 10_000
"""Pauses are not looked for, so that the loop of deadlines need not wake ten times a second for an hour."""


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
        with asyncio.Runner(loop_factory=lambda: loop) as runner, pytest.MonkeyPatch.context() as patch:
            patch.setattr(timer_loop, "TICK_MS", TICK_MS)
            runner.run(_serve(loop, database_url, serving, stopping))
    except BaseException as failure:
        if not serving.done():
            serving.set_exception(failure)
        raise


async def _serve(loop: LapseLoop, database_url: str, serving: "Future[Platform]", stopping: threading.Event) -> None:
    began_at = datetime.fromtimestamp(loop.now().wall_ms / 1_000, UTC)
    with bound_listener("127.0.0.1", 0) as listener:
        settings = Settings(database_url=database_url, http_port=listener.getsockname()[1])  # type: ignore[arg-type]  # a text, validated there
        with closing(open_store(settings)) as store, closing(open_queries(settings)) as queries:
            address = f"127.0.0.1:{settings.http_port}"
            config = NodeConfig(address, {"http": settings.node_url}, lease_ttl_ms=LEASE_MS, pause_ms=PAUSE_MS)
            coordinator = Coordinator(store, config, loop, InlineThreads())
            await coordinator.start()
            limits = HttpLimits()
            app = make_app(NodeContext(coordinator, queries, limits), limits, "1")
            hour = Hour(in_process(app))
            await hour.pass_by(loop.caught_up)
            await _wait_until_stored(coordinator)
            server = HttpServer(app, listener, limits, app.connections, repeated_requests=app)
            await server.start()
            serving.set_result(Platform(settings.node_url, database_url, began_at, datetime.now(UTC)))
            while not stopping.is_set():  # noqa: ASYNC110 - set by another thread
                await asyncio.sleep(0.05)
            await hour.end()
            server.reject_requests()
            await coordinator.stop()
            await server.stop()


async def _wait_until_stored(coordinator: Coordinator) -> None:
    """Return when the tables have everything that happened in the hour; its last commits may be in the log only."""
    while (counts := coordinator.counts()).dirty_offsets or counts.queued_rows:  # noqa: ASYNC110 - counters have no event
        await asyncio.sleep(POLL_S)
    await coordinator._log_ends.flush()  # as at its stop
