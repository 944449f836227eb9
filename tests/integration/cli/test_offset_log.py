"""`muster offset-log dump` shows commits before their checkpoint, and those in quarantine; the doctor counts them."""

import json
from collections.abc import Iterator
from contextlib import closing

import pytest
from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name

from coordinator_core.protocol.hashing import shard_of
from coordinator_core.state_store.postgres import PostgresStore
from tests.support.http_client import Client, position
from tests.support.muster_command import Muster, commit, offsets_of
from tests.support.nodes import running_node
from tests.support.store_rows import committed, write
from tests.support.store_worlds import Owner

LATE_MS = 600_000


@pytest.fixture
def lazy_client(database_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    """Serve a node that makes no checkpoint before one is demanded."""
    monkeypatch.setenv("MUSTER_DATABASE_URL", database_url)
    with (
        running_node(database_url, offsets_checkpoint_interval_ms=LATE_MS) as node,
        closing(Client(node.url)) as client,
    ):
        yield client


def dumped(muster: Muster, *options: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in muster.ok("offset-log", "dump", *options).out.splitlines()]


def checked(muster: Muster) -> str:
    """Return what doctor prints about the offset log."""
    (line,) = [line for line in muster("doctor").out.splitlines() if "offset log" in line]
    return line


def quarantine(database_url: str, connection: PsycopgConnection) -> None:
    """Let the table reject a commit."""
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE offsets ADD CONSTRAINT unlucky CHECK (committed_offset <> 13)")
    with closing(PostgresStore(database_url)) as store:
        Owner(store).write(write("orders", committed=(committed(offset=13),)))


def test_commits_are_dumped_until_they_are_checkpointed(bare_muster: Muster, lazy_client: Client) -> None:
    one, other = (lazy_client.group(name) for name in ("one", "other"))
    commit(one, position(5, metadata="ü"), position(6, partition=1))
    commit(other, position(7))

    first, second, third = dumped(bare_muster)

    assert isinstance(first["seq"], int)
    assert first.keys() >= {"written_at", "committed_at", "leader_epoch", "log_end_offset"}
    named = ("group_id", "shard_id", "topic", "partition", "offset", "metadata", "member_id", "expires_at")
    assert [first[name] for name in named] == ["one", shard_of("one", 50), "orders", 0, 5, "ü", "", None]
    assert [(each["group_id"], each["partition"], each["offset"]) for each in (second, third)] == [
        ("one", 1, 6),
        ("other", 0, 7),
    ]
    assert [each["offset"] for each in dumped(bare_muster, "--group", "other")] == [7]
    assert [each["offset"] for each in dumped(bare_muster, "--shard", str(shard_of("one", 50)))] == [5, 6]
    assert offsets_of(one) == {("orders", 0): 5, ("orders", 1): 6}
    assert [each["group_id"] for each in dumped(bare_muster)] == ["other"]


def test_shard_that_the_database_does_not_have_is_a_usage_error(
    bare_muster: Muster, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MUSTER_DATABASE_URL", database_url)
    assert dumped(bare_muster, "--shard", "49") == []
    said = bare_muster.refused(2, "offset-log", "dump", "--shard", "50")
    assert said == "There is no shard 50; the database has 50 shards."


def test_rejected_commit_is_dumped_and_reported_by_the_doctor(
    bare_muster: Muster, database_url: str, sql_connection: PsycopgConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MUSTER_DATABASE_URL", database_url)
    assert "0 batches of commits wait for a checkpoint" in checked(bare_muster)
    quarantine(database_url, sql_connection)

    (rejected,) = dumped(bare_muster, "--quarantined")

    assert (rejected["group_id"], rejected["offset"]) == ("orders", 13)
    assert "unlucky" in str(rejected["reason"])
    assert dumped(bare_muster) == []
    assert "1 row in quarantined_offsets" in checked(bare_muster)


def test_row_that_cannot_be_decoded_is_dumped_with_its_error(
    bare_muster: Muster, database_url: str, sql_connection: PsycopgConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MUSTER_DATABASE_URL", database_url)
    with sql_connection.cursor() as cursor:
        cursor.execute(r"INSERT INTO offset_log (shard_ids, data) VALUES ('{1}', '\xc1')")
    (row,) = dumped(bare_muster)
    assert "cannot be decoded" in str(row["error"])


def test_dirty_offsets_are_scraped(lazy_client: Client) -> None:
    group = lazy_client.group("one")
    commit(group, position(5), position(6, partition=1))

    def scraped(name: str) -> float:
        lines = lazy_client.call("GET", "/metrics").body.decode().splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.split("{")[0].split(" ")[0] == name)

    assert (scraped("muster_dirty_offsets"), scraped("muster_offsets_checkpointed_total")) == (2, 0)
    assert scraped("muster_oldest_dirty_offset_seconds") > 0
    offsets_of(group)
    assert (scraped("muster_dirty_offsets"), scraped("muster_offsets_checkpointed_total")) == (0, 2)
    assert scraped("muster_oldest_dirty_offset_seconds") == 0
    assert scraped("muster_checkpoint_time_seconds_count") == 1
