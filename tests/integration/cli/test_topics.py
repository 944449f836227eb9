"""Topics on the command line: list, show, set a partition count, and deletion with a dry run first."""

import pytest
from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name

from tests.support.fake_node import FakeNode
from tests.support.http_client import Client, Group, position
from tests.support.known_log_ends import run_sql
from tests.support.muster_command import Muster, commit, offsets_of, undo_command
from tests.support.waiting import poll_until


def partitions_of(client: Client, topic: str) -> int | None:
    """Return the partition count of a topic; None: it has no metadata."""
    found = {each["topic"]: each["partitions"] for each in client.ok("GET", "/v1/topics")["topics"]}
    return found.get(topic)


def test_topics_are_listed(muster: Muster, client: Client, topic: str) -> None:
    put = client.ok("PUT", f"/v1/topics/{topic}", {"partitions": 3, "log_start_offset": 5})

    assert [topic, "3", "5"] in muster.ok("topics", "list").rows
    assert put in muster.ok("topics", "list", "--json").json["topics"]


def test_partitions_are_shown_with_log_start_and_log_end(
    muster: Muster, client: Client, group: Group, topic: str, rows: PsycopgConnection
) -> None:
    client.ok("PUT", f"/v1/topics/{topic}", {"partitions": 2, "log_start_offset": 5})
    commit(group, position(7, topic=topic, partition=1, log_end_offset=12))
    poll_until(lambda: run_sql(rows, "SELECT count(*) FROM log_end_offsets WHERE topic = %s", topic) == [(1,)])

    shown = muster.ok("topics", "show", topic, "--json").json

    assert [row[:3] for row in muster.ok("topics", "show", topic).rows] == [["0", "5", "-"], ["1", "5", "12"]]
    assert (shown["partitions"], shown["log_start_offset"]) == (2, 5)
    assert [(each["partition"], each["log_end_offset"]) for each in shown["log_ends"]] == [(1, 12)]
    assert muster.ok("changes", "list", "--json").json["changes"][0]["action"] == "put_topic"


def test_a_log_end_that_only_a_group_reported_is_shown(
    muster: Muster, client: Client, group: Group, topic: str, rows: PsycopgConnection
) -> None:
    client.ok("PUT", f"/v1/topics/{topic}", {"partitions": 1})
    commit(group, position(7, topic=topic, log_end_offset=12))
    muster.ok("offsets", "delete-log-ends", "--topic", topic, "--execute")

    poll_until(lambda: muster.ok("topics", "show", topic).rows[0][:3] == ["0", "0", "12"])


def test_the_first_partitions_of_a_large_topic_are_shown(muster: Muster, client: Client, topic: str) -> None:
    client.ok("PUT", f"/v1/topics/{topic}", {"partitions": 20_000})

    shown = muster.ok("topics", "show", topic).out.splitlines()

    assert (len(shown), shown[-1]) == (10_002, "These are the first 10,000 of 20,000 partitions.")


def test_empty_topic_list_is_reported(bare_muster: Muster, fake: FakeNode) -> None:
    fake.says(200, {"topics": []})

    assert bare_muster.ok("topics", "list", "--url", fake.url).out == "No topic has metadata.\n"


@pytest.mark.parametrize("command", [["show"], ["delete"], ["delete", "--execute"]])
def test_unknown_topic_is_reported(muster: Muster, command: list[str]) -> None:
    assert muster.refused(1, "topics", *command, "nothing\n") == "There is no topic metadata for nothing�."


def test_partition_count_is_set(muster: Muster, client: Client, topic: str) -> None:
    assert muster.ok("topics", "set", topic, "--partitions", "2").out == f"{topic} has 2 partitions, a new topic.\n"
    assert muster.ok("topics", "set", topic, "--partitions", "3").out == f"{topic} has 3 partitions, before 2.\n"

    done = muster.ok("topics", "set", topic, "--partitions", "4", "--reason", "more load", "--json").json

    assert (done["topic"], done["partitions"]) == (topic, 4)
    change = client.ok("GET", f"/v1/changes/{done['change_id']}")
    assert (change["actor"], change["reason"], change["action"]) == ("ada", "more load", "put_topic")
    assert "partitions: " in muster.refused(1, "topics", "set", topic, "--partitions", "1")
    assert partitions_of(client, topic) == 4
    muster.refused(2, "topics", "set", topic, "--partitions", "0")
    too_many = muster.refused(1, "topics", "set", topic, "--partitions", "2000000000")
    assert too_many.startswith("partitions: expected int <= 100000")
    assert muster.refused(2, "topics", "set", topic) == "Missing option '--partitions'."


def test_deletion_of_a_topic_is_a_dry_run_unless_executed(
    muster: Muster, client: Client, group: Group, topic: str
) -> None:
    client.ok("PUT", f"/v1/topics/{topic}", {"partitions": 2})
    commit(group, position(7, topic=topic))

    would = muster.ok("topics", "delete", topic).out
    assert would.startswith(f"{topic}, 2 partitions, would be deleted, and the offsets of all groups in it archived.")
    assert muster.ok("topics", "delete", topic, "--execute", "--dry-run", "--json").json == {
        "dry_run": True,
        "topic": topic,
        "run_id": None,
        "candidates": None,
        "change_id": None,
    }
    assert partitions_of(client, topic) == 2

    said = muster.ok("topics", "delete", topic, "--execute").out

    assert "archives 1 offset; muster runs show" in said
    assert partitions_of(client, topic) is None
    poll_until(lambda: offsets_of(group) == {})
    run_id = said.splitlines()[1].split()[1]
    poll_until(lambda: client.ok("GET", f"/v1/maintenance/runs/{run_id}")["status"] == "applied")
    muster.ok(*undo_command(said))
    assert partitions_of(client, topic) == 2
    poll_until(lambda: offsets_of(group) == {(topic, 0): 7})


def test_deletion_of_a_topic_returns_its_change(muster: Muster, client: Client, topic: str) -> None:
    client.ok("PUT", f"/v1/topics/{topic}", {"partitions": 2})

    done = muster.ok("topics", "delete", topic, "--execute", "--reason", "unused", "--json").json

    assert (done["dry_run"], done["topic"], done["candidates"]) == (False, topic, 0)
    change = client.ok("GET", f"/v1/changes/{done['change_id']}")
    assert (change["action"], change["reason"]) == ("delete_topic", "unused")
