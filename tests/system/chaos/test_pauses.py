"""A node that was stopped for less than its lease evicts no member."""

import os
import signal
import time
from pathlib import Path

import pytest

from tests.system.chaos.platform import Platform, Size, running_platform, wake
from tests.system.chaos.run import all_consume

pytestmark = [pytest.mark.postgres, pytest.mark.slow]

ONE = Size(nodes=1, agents=6, members=6, processes=1, lease_ttl_ms=5_000, session_timeout_ms=3_000)
PAUSE_S = 4.0
NODE_AHEAD_S = 0.3


def test_a_pause_longer_than_sessions_and_shorter_than_the_lease_costs_no_rebalance(tmp_path: Path) -> None:
    with running_platform(tmp_path, ONE) as platform:
        all_consume(platform, time.monotonic())
        before = standing(platform)
        agents, node = platform.fleet(0), platform.node(0)
        assert agents is not None
        assert node is not None
        # The agents stand still too, so that no heartbeat waits in a socket when the node looks at its clock again.
        for process in (agents, node):
            os.kill(process.pid, signal.SIGSTOP)
        platform.let_pass(PAUSE_S)
        wake(node)
        platform.let_pass(NODE_AHEAD_S)
        wake(agents)
        resumed_s = time.monotonic()
        platform.let_pass(ONE.session_timeout_ms / 1000)
        all_consume(platform, resumed_s)

        assert standing(platform) == before


def standing(platform: Platform) -> list[tuple[object, ...]]:
    """Return the group's state and generation, and its members' ids."""
    with platform.database() as connection, connection.cursor() as cursor:
        cursor.execute(
            "SELECT state, groups.generation, member_id FROM groups JOIN members USING (group_id) ORDER BY member_id"
        )
        return cursor.fetchall()
