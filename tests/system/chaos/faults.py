"""The faults of chaos tests: each one injects a failure, waits, and repairs it."""

import os
import resource
import signal
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from random import Random

import psycopg2
import urllib3

from muster import process_table
from muster.local.processes import Child
from muster.settings import psql_url
from tests.system.chaos.link import HOST, Link
from tests.system.chaos.platform import Platform, resume

Fault = Callable[[Platform, Random], str]
"""Injects the fault, and returns a description of it."""

PAUSE_BEYOND_LEASE = 1.6
PAUSE_WITHIN_LEASE = 0.8
DATABASE_DOWN_MAX_S = 1.0
ROUND_TRIP_MAX_S = 0.4
SLOW_CLIENTS = 60
LARGE_REQUESTS = 8
LARGE_BODY_BYTES = 8_000_000
FILE_SIZE_MAX_BYTES = 65_536
"""With files this small Postgres cannot write its log; `File too large` and `No space left` have one path in it."""


def kill_a_node(platform: Platform, random: Random) -> str:
    """Kill a node; its shards move when its leases expire, unless it restarts earlier."""
    number = random.randrange(platform.size.nodes)
    if node := platform.node(number):
        os.kill(node.pid, signal.SIGKILL)
    return f"kill -9 of node {number}"


def stop_a_node_beyond_its_lease(platform: Platform, random: Random) -> str:
    """Stop a node until others own its shards; its pending writes must be rejected."""
    return _stop_a_node(platform, random, PAUSE_BEYOND_LEASE)


def stop_a_node_within_its_lease(platform: Platform, random: Random) -> str:
    """Stop a node for less than its lease, which must not evict a member."""
    return _stop_a_node(platform, random, PAUSE_WITHIN_LEASE)


def restart_the_database(platform: Platform, random: Random) -> str:
    """Stop Postgres as an administrator does, and start it again."""
    platform.postgres.stop()
    platform.run_for(random.random() * DATABASE_DOWN_MAX_S)
    platform.postgres.start()
    return "restart of Postgres"


def crash_the_database(platform: Platform, random: Random) -> str:
    """Kill Postgres; it recovers from its log."""
    server = platform.postgres.child
    assert server is not None
    os.kill(server.pid, signal.SIGKILL)
    platform.run_for(random.random() * DATABASE_DOWN_MAX_S)
    platform.postgres.start()
    return "kill -9 of Postgres"


def cut_database_connections(platform: Platform, random: Random) -> str:
    """Terminate every connection of the nodes, in any statement."""
    with platform.database() as connection, connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
            " WHERE pid <> pg_backend_pid() AND usename = current_user"
        )
        (cut,) = cursor.fetchone() or (0,)
    return f"{cut} connections to Postgres cut"


def kill_agents(platform: Platform, random: Random) -> str:
    """Kill a process with many agents; their partitions are reassigned."""
    number = random.randrange(platform.size.processes)
    if fleet := platform.fleet(number):
        os.kill(fleet.pid, signal.SIGKILL)
    return f"kill -9 of {platform.size.agents // platform.size.processes} agents"


def slow_the_database(platform: Platform, random: Random) -> str:
    """Let every answer of Postgres take long, for every node."""
    round_trip_s = random.uniform(ROUND_TRIP_MAX_S / 4, ROUND_TRIP_MAX_S)
    for link in platform.database_links:
        link.delay_s = round_trip_s / 2
    _run_beyond_a_lease(platform)
    for link in platform.database_links:
        link.restore()
    return f"round trips of {round_trip_s * 1000:.0f} ms to Postgres"


def half_open_the_database(platform: Platform, random: Random) -> str:
    """Let a node's connections to Postgres swallow all bytes, and never close them."""
    number = random.randrange(platform.size.nodes)
    with _silent(platform.database_links[number]):
        _run_beyond_a_lease(platform)
    return f"half-open connections of node {number} to Postgres"


def cut_off_a_node_from_its_peers(platform: Platform, random: Random) -> str:
    """Let other nodes not reach a node, which still reaches them, Postgres and agents."""
    number = random.randrange(platform.size.nodes)
    with _silent(platform.node_links[number]):
        _run_beyond_a_lease(platform)
    return f"no forwarding to node {number}, which forwards"


def make_the_database_read_only(platform: Platform, random: Random) -> str:
    """Let Postgres refuse every write, as a standby does, until some node has noticed."""
    _alter_system(platform, "SET default_transaction_read_only = on")
    try:
        platform.wait_for(lambda: any("the database is read-only" in each for each in platform.reasons()), "a refusal")
        platform.run_for(random.random() * platform.size.lease_ttl_ms / 1000)
    finally:
        _alter_system(platform, "RESET default_transaction_read_only")
    return "read-only Postgres"


def fill_the_log_disk(platform: Platform, random: Random) -> str:
    """Let Postgres have no room for its log: it stops itself, and cannot start again before there is room."""
    server = platform.postgres.child
    assert server is not None
    family = process_table.family_of(server.key, process_table.all_processes())
    for process in (server.key, *family):
        _limit(process.pid, resource.RLIMIT_FSIZE, FILE_SIZE_MAX_BYTES)
    platform.wait_for(lambda: not platform.postgres.is_alive(), "the end of Postgres")
    platform.run_for(random.random() * DATABASE_DOWN_MAX_S)
    platform.postgres.start()
    return "no room for the log of Postgres"


def use_up_file_descriptors(platform: Platform, random: Random) -> str:
    """Let a node open no further file or connection."""
    number = random.randrange(platform.size.nodes)
    if node := platform.node(number):
        hard = _limit(node.pid, resource.RLIMIT_NOFILE, len(list(Path(f"/proc/{node.pid}/fd").iterdir())))
        try:
            _run_beyond_a_lease(platform)
        finally:
            if platform.node(number) is node and node.is_alive():
                resource.prlimit(node.pid, resource.RLIMIT_NOFILE, (hard, hard))
    return f"no file descriptors for node {number}"


def attack_with_slow_clients(platform: Platform, random: Random) -> str:
    """Hold connections to a node that send nothing, or a request that never ends."""
    number = random.randrange(platform.size.nodes)
    with ExitStack() as clients:
        for each in range(SLOW_CLIENTS):
            client = clients.enter_context(closing(socket.socket()))
            client.settimeout(1)
            try:
                client.connect((HOST, platform.node_ports[number]))
                client.sendall(b"POST /v1/groups/g/join HTTP/1.1\r\nHost: 127.0.0.1\r\nX-" if each % 2 else b"")
            except OSError:
                break  # A limit of connections holds.
        _run_beyond_a_lease(platform)
    return f"{SLOW_CLIENTS} slow clients of node {number}"


def starve_a_node_of_memory(platform: Platform, random: Random) -> str:
    """Let a node get no more memory, send it requests that need much, and kill it as the kernel does in a container."""
    number = random.randrange(platform.size.nodes)
    if node := platform.node(number):
        pages = int(Path(f"/proc/{node.pid}/statm").read_text().split()[0])
        _limit(node.pid, resource.RLIMIT_AS, pages * resource.getpagesize())
        url = f"http://{HOST}:{platform.node_ports[number]}/v1/groups/g/offsets"
        try:
            with ThreadPoolExecutor(LARGE_REQUESTS) as clients:
                for _ in range(LARGE_REQUESTS):
                    clients.submit(
                        urllib3.request, "POST", url, body=bytes(LARGE_BODY_BYTES), retries=False, timeout=10
                    )
                _run_beyond_a_lease(platform)
        finally:
            if platform.node(number) is node and node.is_alive():
                os.kill(node.pid, signal.SIGKILL)
    return f"no memory for node {number}"


FAULTS: tuple[Fault, ...] = (
    kill_a_node,
    stop_a_node_beyond_its_lease,
    stop_a_node_within_its_lease,
    restart_the_database,
    crash_the_database,
    cut_database_connections,
    kill_agents,
    slow_the_database,
    half_open_the_database,
    cut_off_a_node_from_its_peers,
    make_the_database_read_only,
    fill_the_log_disk,
    use_up_file_descriptors,
    attack_with_slow_clients,
    starve_a_node_of_memory,
)


def _run_beyond_a_lease(platform: Platform) -> None:
    platform.run_for(PAUSE_BEYOND_LEASE * platform.size.lease_ttl_ms / 1000)


@contextmanager
def _silent(link: Link) -> Iterator[None]:
    link.fall_silent()
    try:
        yield
    finally:
        link.restore()


def _alter_system(platform: Platform, change: str) -> None:
    url = psql_url(platform.postgres.superuser_url("muster"))
    with closing(psycopg2.connect(url, options="-c default_transaction_read_only=off")) as connection:
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute(f"ALTER SYSTEM {change}")
            cursor.execute("SELECT pg_reload_conf()")


def _limit(pid: int, kind: int, soft: int) -> int:
    """Lower the soft limit of a process, if it still runs; return the hard one."""
    try:
        _, hard = resource.prlimit(pid, kind)
        resource.prlimit(pid, kind, (soft, hard))
    except ProcessLookupError:
        return 0
    return hard


def _stop_a_node(platform: Platform, random: Random, leases: float) -> str:
    number = random.randrange(platform.size.nodes)
    pause_s = leases * platform.size.lease_ttl_ms / 1000
    node: Child | None = platform.node(number)
    if node is not None:
        os.kill(node.pid, signal.SIGSTOP)
        try:
            platform.run_for(pause_s)
        finally:
            resume(node)
    return f"SIGSTOP of node {number} for {pause_s:.1f} s"
