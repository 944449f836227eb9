"""A node as a process: it reports its address, shuts down gracefully, and reports startup errors in one sentence."""

import asyncio
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg2
import pytest

from muster.errors import UserError
from muster.node.serve import bound_listener, open_store, run_node, serve_node
from muster.settings import Settings, psql_url
from tests.support.http_client import Client, join_body, position
from tests.support.memory_store import MemoryStore
from tests.support.no_queries import NO_QUERIES
from tests.support.nodes import CLUSTER_SECRET
from tests.support.ports import free_port
from tests.support.silent_proxy import SilentProxy
from tests.support.waiting import PATIENCE_S

PARKED_STATUSES = {421, 503}
SLOW_QUERY_S = 120
"""Twice the limit for the time of a stop, with a reserve for slow machines."""


@contextmanager
def serving(database_url: str, data_dir: Path, port: int) -> Iterator[subprocess.Popen[str]]:
    """Run `muster serve` for the block, which starts when the node reports that it serves."""
    settings = {
        "MUSTER_DATABASE_URL": database_url,
        "MUSTER_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
        "MUSTER_REQUEST_TIMEOUT_MS": str(1_000 * PATIENCE_S),
    }
    command = [sys.executable, "-m", "muster", "serve", "--port", str(port), "--data-dir", str(data_dir)]
    with subprocess.Popen(
        command, env={**os.environ, **settings}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            assert select.select([process.stdout], [], [], PATIENCE_S)[0], "the node did not start"
            assert process.stdout.readline() == f"Muster serves on http://127.0.0.1:{port}\n"
            yield process
        finally:
            process.kill()


def test_stopped_node_answers_parked_requests_and_exits_with_0(database_url: str, tmp_path: Path) -> None:
    port = free_port()
    with serving(database_url, tmp_path, port) as process, closing(Client(f"http://127.0.0.1:{port}")) as client:
        group = client.group("g")
        member = group.stable()
        parked = client.later(group, "join", join_body(member_id=group.handshake()))
        while group.describe()["state"] == "Stable":
            member.post("heartbeat")

        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=PATIENCE_S)

        answer = parked.result(PATIENCE_S)
        assert (answer.status in PARKED_STATUSES, answer.json["action"]) == (True, "retry")
        assert process.returncode == 0
        assert "Traceback" not in log
    assert owned_shards(database_url) == 0


def test_stopping_node_does_not_wait_for_a_hanging_database(database_url: str, tmp_path: Path) -> None:
    port = free_port()
    with (
        SilentProxy(database_url).running() as database,
        serving(database.url, tmp_path, port) as process,
        closing(Client(f"http://127.0.0.1:{port}")) as client,
    ):
        group = client.group("g")
        member = group.stable()
        database.fall_silent()
        commit = {"generation": 1, "member_id": member.member_id, "offsets": [position(5)]}
        committing = client.later(group, "offsets", commit)
        unready = client.call("GET", "/readyz")

        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=PATIENCE_S)

    answer = committing.result(PATIENCE_S)
    assert (answer.status in PARKED_STATUSES, answer.json["action"]) == (True, "retry")
    events = [json.loads(line)["event"] for line in log.splitlines()]
    assert (unready.status, process.returncode) == (503, 0)
    assert "shard_release_timed_out" in events
    assert events[-1] == "node_stopped"


def test_stopping_node_does_not_wait_for_a_slow_query(database_url: str, tmp_path: Path) -> None:
    with closing(psycopg2.connect(psql_url(database_url))) as connection, connection, connection.cursor() as cursor:
        cursor.execute("SELECT pg_get_viewdef('dashboards.newest_runs'::regclass)")
        (definition,) = cursor.fetchall()[0]
        cursor.execute(
            "CREATE OR REPLACE VIEW dashboards.newest_runs AS"  # noqa: S608 - the database's own definition
            f" SELECT runs.* FROM ({definition.rstrip(';')}) AS runs RIGHT JOIN pg_sleep({SLOW_QUERY_S}) ON true"
        )
    port = free_port()
    with serving(database_url, tmp_path, port) as process, closing(Client(f"http://127.0.0.1:{port}")) as client:
        assert client.call("GET", "/metrics").status == 200  # without the newest runs, which take too long
        process.send_signal(signal.SIGTERM)
        began_s = time.monotonic()
        _, log = process.communicate(timeout=PATIENCE_S)

    assert time.monotonic() - began_s < SLOW_QUERY_S / 2
    events = [json.loads(line)["event"] for line in log.splitlines()]
    assert (process.returncode, "query_close_timed_out" in events) == (0, True)


class SilentStore(MemoryStore):
    """A store that does not return the number of shards until it is released."""

    def __init__(self) -> None:
        super().__init__()
        self.go = threading.Event()

    def shard_count(self) -> int:
        assert self.go.wait(PATIENCE_S), "the test never let it go"
        return super().shard_count()


def test_a_node_that_is_stopped_while_it_starts_does_not_wait_for_its_database_either(database_url: str) -> None:
    store, settings = SilentStore(), Settings(database_url=database_url)  # type: ignore[arg-type]  # validated there
    is_served = threading.Event()

    async def start_and_stop(listener: socket.socket) -> bool:
        stopping = asyncio.Event()
        stopping.set()
        is_handed_over = await serve_node(settings, store, NO_QUERIES, listener, stopping, is_served.set)
        store.go.set()
        return is_handed_over

    with bound_listener("127.0.0.1", 0) as listener:
        assert not asyncio.run(start_and_stop(listener))
    assert not is_served.is_set()


def test_restarted_node_loads_its_members(database_url: str, tmp_path: Path) -> None:
    port = free_port()
    with serving(database_url, tmp_path, port) as process, closing(Client(f"http://127.0.0.1:{port}")) as client:
        member = client.group("g").stable()
        process.kill()
        process.wait(PATIENCE_S)
    with serving(database_url, tmp_path, port):
        heartbeat = member.post("heartbeat")

    assert heartbeat.status == 200


def owned_shards(database_url: str) -> int:
    with closing(psycopg2.connect(psql_url(database_url))) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM shard_leases WHERE expires_at > clock_timestamp()")
        count: int = cursor.fetchall()[0][0]
        return count


def test_address_in_use_is_reported_in_one_sentence(database_url: str) -> None:
    with bound_listener("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]

        with pytest.raises(UserError, match=f"cannot listen on 127.0.0.1:{port}"):
            run_node(Settings(database_url=database_url, http_port=port))  # type: ignore[arg-type]  # validated there


def test_unreachable_database_is_reported_in_one_sentence() -> None:
    nowhere = f"postgresql+psycopg2://u:secret@127.0.0.1:{free_port()}/muster"
    settings = Settings(database_url=nowhere)  # type: ignore[arg-type]  # validated there

    with bound_listener("127.0.0.1", 0) as listener, closing(open_store(settings)) as store:
        serving_nothing = serve_node(settings, store, NO_QUERIES, listener, asyncio.Event(), lambda: None)
        with pytest.raises(UserError, match="database cannot be reached") as refusal:
            asyncio.run(serving_nothing)

    assert refusal.value.exit_code == 3
    assert refusal.value.sentence.endswith("; start it, or correct MUSTER_DATABASE_URL.")
    assert "secret" not in refusal.value.sentence


def test_shards_are_released_if_the_start_fails_after_they_were_acquired(database_url: str) -> None:
    settings = Settings(database_url=database_url, require_tokens=True, cluster_secret=CLUSTER_SECRET)  # type: ignore[arg-type]  # validated there

    with bound_listener("127.0.0.1", 0) as listener, closing(open_store(settings)) as store:
        serving_nothing = serve_node(settings, store, NO_QUERIES, listener, asyncio.Event(), lambda: None)
        with pytest.raises(AssertionError, match=r"there is no database for .*tokens_version"):
            asyncio.run(serving_nothing)

    assert owned_shards(database_url) == 0


def test_tokens_are_not_silently_ignored(database_url: str, tmp_path: Path) -> None:
    settings = Settings(database_url=database_url, tokens_file=tmp_path / "tokens", http_port=free_port())  # type: ignore[arg-type]  # validated there

    with pytest.raises(UserError, match="MUSTER_TOKENS_FILE"):
        run_node(settings)


def test_node_without_tokens_listens_on_loopback_only(database_url: str) -> None:
    with pytest.raises(ValueError, match="TOKENS_FILE"):
        Settings(database_url=database_url, http_host="0.0.0.0")  # type: ignore[arg-type]  # validated there
