"""A node's reads after a failover: connections to the former server are closed, even while it still runs."""

from muster.node.serve import open_database
from muster.settings import Settings
from tests.support.store_worlds import NODE, TTL_MS


def test_in_a_new_incarnation_queries_and_reads_have_new_connections(database_url: str) -> None:
    with open_database(Settings(database_url=database_url)) as (store, queries):  # type: ignore[arg-type]  # a text, validated there

        def servers() -> tuple[int, int]:
            query, read = (
                pool.read(lambda reading: reading.execute("SELECT pg_backend_pid()").scalar_one())
                for pool in (queries, store._readers)
            )
            return query, read

        last = store.renew(NODE, {}, "1.0", {}, TTL_MS)
        before = servers()
        assert servers() == before
        store.start_incarnation(1, NODE, "failed over")
        store.renew(NODE, {}, "1.0", {}, TTL_MS, last)
        assert not set(before) & set(servers())
