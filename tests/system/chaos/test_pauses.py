"""A node that was stopped for less than its lease evicts no member."""

import os
import signal
import time
from pathlib import Path

import pytest

from tests.system.chaos.platform import Platform, Size, resume, running_platform
from tests.system.chaos.run import wait_until_all_commit

pytestmark = [pytest.mark.postgres, pytest.mark.slow]

ONE = Size(nodes=1, agents=6, members=6, processes=1, lease_ttl_ms=5_000, session_timeout_ms=3_000)
PAUSE_S = 4.0
NODE_RESUMES_EARLIER_S = 0.3


def test_pause_longer_than_sessions_and_shorter_than_the_lease_causes_no_rebalance(tmp_path: Path) -> None:
    with running_platform(tmp_path, ONE) as platform:
        wait_until_all_commit(platform, time.monotonic())
        before = group_rows(platform)
        agents, node = platform.fleet(0), platform.node(0)
        assert agents is not None
        assert node is not None
        # The agents are stopped too, so that no heartbeat waits in a socket when the node reads its clock again.
        for process in (agents, node):
            os.kill(process.pid, signal.SIGSTOP)
        platform.run_for(PAUSE_S)
        resume(node)
        platform.run_for(NODE_RESUMES_EARLIER_S)
        resume(agents)
        resumed_s = time.monotonic()
        platform.run_for(ONE.session_timeout_ms / 1000)
        wait_until_all_commit(platform, resumed_s)

        assert group_rows(platform) == before


def group_rows(platform: Platform) -> list[tuple[object, ...]]:
    """Return the group's state and generation, and its members' ids."""
    with platform.database() as connection, connection.cursor() as cursor:
        cursor.execute(
            "SELECT state, groups.generation, member_id FROM groups JOIN members USING (group_id) ORDER BY member_id"
        )
        return cursor.fetchall()
