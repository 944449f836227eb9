"""With PgBouncer between nodes and Postgres nothing answered is lost, even while it is killed and started again."""

import time
from contextlib import closing
from pathlib import Path
from random import Random

import psycopg2
import pytest

from muster.local.embedded_postgres import EmbeddedPostgres
from muster.settings import psql_url
from tests.support.pooler import PoolMode, pooled
from tests.system.chaos.faults import cut_database_connections, restart_the_database
from tests.system.chaos.invariants import check_invariants
from tests.system.chaos.journal import read_journals
from tests.system.chaos.platform import DURABLE, Platform, Size, running
from tests.system.chaos.run import wait_until_all_commit

pytestmark = [pytest.mark.postgres, pytest.mark.slow]

SMALL = Size(nodes=2, agents=12, members=6, processes=1, lease_ttl_ms=2_000)
KILLS = 4
DOWN_MAX_S = 3.0


def test_kills_of_the_pooler_under_load_lose_nothing(tmp_path: Path) -> None:
    random = Random(1)
    with (
        EmbeddedPostgres(tmp_path / "database", options=DURABLE) as postgres,
        pooled(tmp_path, postgres.database_url(), PoolMode.SESSION) as pooler,
    ):
        platform = Platform(tmp_path, SMALL, postgres, database_url=pooler.url)
        with running(platform):
            for _ in range(KILLS):
                wait_until_all_commit(platform, time.monotonic())
                pooler.kill()
                platform.run_for(random.random() * DOWN_MAX_S)
                pooler.start()
            for fault in (restart_the_database, cut_database_connections):
                wait_until_all_commit(platform, time.monotonic())
                fault(platform, random)
            ended_s = time.monotonic()
            platform.wait_for(platform.are_nodes_ready, "every node's readiness")
            wait_until_all_commit(platform, ended_s)
            platform.stop_agents()
            with closing(psycopg2.connect(psql_url(postgres.database_url()))) as connection:
                invariants = check_invariants(read_journals(tmp_path), connection)
    assert [invariant for invariant in invariants if invariant.violations] == []
    assert all(invariant.checked for invariant in invariants)
    assert platform.unexpected_errors() == []
