"""The faults of chaos tests: each one injects a failure, waits, and repairs it."""

import os
import signal
from collections.abc import Callable
from random import Random

from muster.local.processes import Child
from tests.system.chaos.platform import Platform, resume

Fault = Callable[[Platform, Random], str]
"""Injects the fault, and returns a description of it."""

PAUSE_BEYOND_LEASE = 1.6
PAUSE_WITHIN_LEASE = 0.8
DATABASE_DOWN_MAX_S = 1.0


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


FAULTS: tuple[Fault, ...] = (
    kill_a_node,
    stop_a_node_beyond_its_lease,
    stop_a_node_within_its_lease,
    restart_the_database,
    crash_the_database,
    cut_database_connections,
    kill_agents,
)


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
