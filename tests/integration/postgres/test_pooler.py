"""Nodes work behind PgBouncer in session mode, and refuse it in transaction mode, which would share their sessions."""

from contextlib import closing
from pathlib import Path

import pytest

from coordinator_core.state_store.postgres.connections import ConnectionPool, Limits
from muster.errors import UserError
from muster.node.schema import require_schema
from tests.support.pooler import PoolMode, pooled

pytestmark = pytest.mark.postgres

LIMITS = Limits(
    statement_timeout_ms=1_234, lock_timeout_ms=567, idle_in_transaction_timeout_ms=890, connect_timeout_s=10
)
SETTINGS = "SELECT current_setting('statement_timeout'), current_setting('lock_timeout'), current_setting('jit')"


def test_pooler_in_session_mode_is_accepted_and_timeouts_are_effective(database_url: str, tmp_path: Path) -> None:
    with pooled(tmp_path, database_url, PoolMode.SESSION) as pooler:
        require_schema(pooler.url)
        with closing(ConnectionPool(pooler.url, "test", 1, LIMITS)) as pool:
            effective = pool.transact(lambda transaction: tuple(transaction.execute(SETTINGS).one()))
    assert effective == ("1234ms", "567ms", "off")


def test_pooler_in_transaction_mode_is_refused(database_url: str, tmp_path: Path) -> None:
    with (
        pooled(tmp_path, database_url, PoolMode.TRANSACTION) as pooler,
        pytest.raises(UserError, match="set pool_mode = session"),
    ):
        require_schema(pooler.url)
