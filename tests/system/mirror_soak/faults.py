"""The faults of the soak: each one injects a failure, lets members work meanwhile, and repairs it."""

import os
import signal
from collections.abc import Callable
from random import Random
from typing import Final

from tests.system.mirror_soak.platform import Platform

Fault = Callable[[Platform, Random], str]
"""Injects the fault, and returns a description of it."""

AWAY_MAX_S: Final = 10.0
PAUSE_MAX_S: Final = 4.0
"""Beyond the lease of a mirror."""
DATABASE_AWAY_MAX_S: Final = 3.0


def kill_a_broker(platform: Platform, random: Random) -> str:
    """Kill a broker and start it again; others take over the groups that it coordinates."""
    return _broker_away(platform, random, is_killed=True)


def restart_a_broker(platform: Platform, random: Random) -> str:
    """Stop a broker as an administrator does, and start it again."""
    return _broker_away(platform, random, is_killed=False)


def kill_a_mirror(platform: Platform, random: Random) -> str:
    """Kill a mirror and start it again; another one may have its shards meanwhile."""
    number = random.randrange(len(platform.mirrors))
    platform.mirrors[number].kill()
    return f"kill -9 of mirror {number}"


def kill_all_mirrors(platform: Platform, random: Random) -> str:
    """Kill all mirrors at once, so that nothing is read for a moment."""
    for mirror in platform.mirrors:
        mirror.kill()
    return "kill -9 of all mirrors"


def pause_a_mirror(platform: Platform, random: Random) -> str:
    """Stop a mirror for about its lease; what it writes afterwards may be refused."""
    number, pause_s = random.randrange(len(platform.mirrors)), random.uniform(0, PAUSE_MAX_S)
    pid = platform.mirrors[number].child.pid
    os.kill(pid, signal.SIGSTOP)
    try:
        platform.work_for(pause_s)
    finally:
        os.kill(pid, signal.SIGCONT)
    return f"SIGSTOP of mirror {number} for {pause_s:.1f} s"


def restart_the_database(platform: Platform, random: Random) -> str:
    """Stop Postgres as an administrator does, and start it again."""
    platform.postgres.stop()
    platform.work_for(random.uniform(0, DATABASE_AWAY_MAX_S))
    platform.postgres.start()
    return "restart of Postgres"


def crash_the_database(platform: Platform, random: Random) -> str:
    """Kill Postgres; it recovers from its log."""
    server = platform.postgres.child
    assert server is not None, "Postgres runs between faults"
    os.kill(server.pid, signal.SIGKILL)
    platform.work_for(random.uniform(0, DATABASE_AWAY_MAX_S))
    platform.postgres.start()
    return "kill -9 of Postgres"


FAULTS: Final[tuple[Fault, ...]] = (
    kill_a_broker,
    restart_a_broker,
    kill_a_mirror,
    kill_all_mirrors,
    pause_a_mirror,
    restart_the_database,
    crash_the_database,
)


def _broker_away(platform: Platform, random: Random, *, is_killed: bool) -> str:
    platform.cluster.wait_until_replicated()
    number = random.randrange(len(platform.cluster.brokers))
    broker = platform.cluster.brokers[number]
    (broker.kill if is_killed else broker.stop)()
    away_s = random.uniform(0, AWAY_MAX_S)
    platform.work_for(away_s)
    broker.start()
    return f"{'kill -9' if is_killed else 'stop'} of broker {number + 1}, away for {away_s:.1f} s and its start"
