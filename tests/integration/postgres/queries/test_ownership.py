"""Committed offsets as of a time, as a reset uses them."""

import pytest

from coordinator_core.admin.offset_reset import Reset, reset_offsets
from coordinator_core.protocol.errors import InvalidRequest
from coordinator_core.protocol.requests import ResetTo
from coordinator_core.queries.runner import Queries
from coordinator_core.state_store.postgres import PostgresStore
from tests.support.memory_store.store import wall_clock_ms
from tests.unit.coordinator_core.runtime.nodes import a_change, commit_simple, running, until

pytestmark = pytest.mark.anyio


async def test_a_reset_to_a_time_commits_what_was_committed_then(
    postgres_store: PostgresStore, queries: Queries
) -> None:
    async with running(postgres_store) as node:
        await commit_simple(node, "g", 1)
        (before,) = await node.fetch_offsets("g", None)
        at_ms = before.committed_at_ms
        await until(lambda: wall_clock_ms() > at_ms, "time passes")
        await reset_offsets(node, queries, "g", Reset(ResetTo.OFFSET, 9), a_change())
        await reset_offsets(node, queries, "g", Reset(ResetTo.DATETIME, at_ms=at_ms), a_change())
        assert [one.offset for one in await node.fetch_offsets("g", None)] == [before.offset]
        with pytest.raises(InvalidRequest, match="t 0"):
            await reset_offsets(node, queries, "g", Reset(ResetTo.DATETIME, at_ms=at_ms - 1), a_change())
