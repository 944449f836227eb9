"""Resets with the flags of kafka-consumer-groups, and export and import of offsets; dry runs by default."""

import io
import json
import os
import sys
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name

from tests.support.fake_node import FakeNode
from tests.support.http_client import Client, Group, Json, fresh_id, position
from tests.support.known_log_ends import end_is, run_sql
from tests.support.muster_command import Muster, commit, offsets_of, undo_command
from tests.support.waiting import PATIENCE_S, poll_until

ORDERS = ("--topic", "orders")


def reset(muster: Muster, group: Group, *flags: str) -> list[Json]:
    """Reset, and return the plan of the one group."""
    ran = muster.ok("groups", "reset-offsets", "--group", group.group_id, *flags, "--json")
    (plan,) = ran.json["groups"]
    return [(each["topic"], each["partition"], each["old_offset"], each["new_offset"]) for each in plan["offsets"]]


@pytest.mark.parametrize(
    ("flags", "new_offset"),
    [
        (["--to-earliest"], 0),
        (["--to-latest"], 50),
        (["--to-current"], 5),
        (["--to-offset", "7"], 7),
        (["--shift-by", "3"], 8),
        (["--shift-by", "-2"], 3),
        (["--shift-by=-2"], 3),
    ],
)
def test_each_reset_target_moves_to_its_offset(
    muster: Muster, group: Group, flags: list[str], new_offset: int, topic: str
) -> None:
    commit(group, position(5, topic=topic, log_end_offset=50))

    assert reset(muster, group, "--topic", topic, *flags) == [(topic, 0, 5, new_offset)]
    assert offsets_of(group) == {(topic, 0): 5}
    assert reset(muster, group, "--topic", topic, *flags, "--execute") == [(topic, 0, 5, new_offset)]
    assert offsets_of(group) == {(topic, 0): new_offset}


def test_datetime_and_duration_select_offsets_committed_at_that_time(muster: Muster, group: Group) -> None:
    commit(group, position(5))
    (committed,) = group.client.ok("GET", f"{group.path}/offsets")["offsets"]
    at = datetime.fromisoformat(committed["committed_at"]) + timedelta(milliseconds=1)
    plain = at.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="milliseconds")
    while datetime.now(UTC) < at:
        pass

    for flags in (["--to-datetime", at.isoformat()], ["--to-datetime", plain], ["--by-duration", "PT0S"]):
        assert reset(muster, group, "--all-topics", *flags) == [("orders", 0, 5, 5)]
    ran = muster("groups", "reset-offsets", group.group_id, "--all-topics", "--by-duration", "P2DT3H")
    assert (ran.exit_code, ran.out) == (1, "0 partitions of 0 groups would be moved. Nothing was changed.\n")
    assert "nothing is known to have been committed by then (INVALID_REQUEST)" in ran.err


def test_topics_and_partitions_are_selected_as_in_kafka_s_tool(muster: Muster, group: Group) -> None:
    commit(group, *(position(5, partition=number) for number in range(3)), position(6, topic="visits"))

    assert reset(muster, group, "--topic", "orders:0,2", "--topic", "visits", "--to-offset", "1") == [
        ("orders", 0, 5, 1),
        ("orders", 2, 5, 1),
        ("visits", 0, 6, 1),
    ]
    assert len(reset(muster, group, "--all-topics", "--to-offset", "1")) == 4


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--all-topics"], "Use exactly one of --to-earliest, --to-latest"),
        (["--all-topics", "--to-earliest", "--to-latest"], "Use exactly one of"),
        (["--to-earliest"], "Name topics with --topic or use --all-topics."),
        (["--to-earliest", "--all-topics", "--topic", "t"], "Name topics or use --all-topics, not both."),
        (["--all-topics", "--to-datetime", "yesterday"], "--to-datetime yesterday: a time looks like 2026-11-21"),
        (["--all-topics", "--by-duration", "1h"], "--by-duration 1h: a duration looks like PT1H30M, or P2D."),
        (["--all-topics", "--by-duration", "-PT1H"], "--by-duration -PT1H: a duration looks like"),
        (["--all-topics", "--by-duration", "P"], "--by-duration P: a duration looks like"),
        (["--all-topics", "--by-duration", "P9999999999D"], "that is too long ago"),
        (["--all-topics", "--by-duration", "P999999D"], "that is too long ago"),
        (["--all-topics", "--to-offset", "-1"], "Invalid value for '--to-offset'"),
        (["--from-file", "nowhere.csv"], "There is no file nowhere.csv."),
        (["--from-file", "/"], "/ cannot be read (Is a directory)."),
    ],
)
def test_invalid_flags_are_usage_errors(muster: Muster, group: Group, flags: list[str], said: str) -> None:
    commit(group, position(5))

    assert said in muster.refused(2, "groups", "reset-offsets", group.group_id, *flags, "--execute")
    assert offsets_of(group) == {("orders", 0): 5}


def test_reset_says_how_many_partitions_keep_their_offset(muster: Muster, group: Group) -> None:
    commit(group, *(position(number, partition=number) for number in range(3)))
    command = ["groups", "reset-offsets", group.group_id, "--all-topics", "--to-offset", "1"]

    said = muster.ok(*command).out
    assert "3 partitions of 1 group would be moved, 1 of them to where they are. Dry run;" in said
    assert "3 partitions of 1 group moved, 1 of them to where they are." in muster.ok(*command, "--execute").out


def test_reset_creates_a_group_only_with_create(muster: Muster, group: Group) -> None:
    flags = ["groups", "reset-offsets", group.group_id, "--topic", "orders:0", "--to-offset", "3", "--execute"]

    assert muster.refused(1, *flags) == (
        f"{group.group_id}: the group does not exist; --create creates it (GROUP_ID_NOT_FOUND)."
    )
    assert offsets_of(group) == {}
    muster.ok(*flags, "--create")
    assert offsets_of(group) == {("orders", 0): 3}


def test_reset_of_several_groups_prints_one_summary_and_each_rejection(muster: Muster, client: Client) -> None:
    busy, idle = client.group(fresh_id()), client.group(fresh_id())
    busy.stable()
    commit(idle, position(5))

    ran = muster("groups", "reset-offsets", busy.group_id, idle.group_id, "--all-topics", "--to-earliest", "--execute")

    assert ran.exit_code == 1
    assert ran.err == f"muster: {busy.group_id}: the group has members; stop them first (NON_EMPTY_GROUP).\n"
    assert "1 partition of 1 group moved." in ran.out
    assert offsets_of(idle) == {("orders", 0): 0}


def test_reset_prints_its_undo_command(muster: Muster, group: Group) -> None:
    commit(group, position(5))
    said = muster.ok("groups", "reset-offsets", group.group_id, *ORDERS, "--to-offset", "1", "--execute").out
    assert "orders 0" in muster.ok(*undo_command(said)).out
    assert offsets_of(group) == {("orders", 0): 5}


def test_a_position_outside_of_the_log_is_recorded(muster: Muster, group: Group, topic: str) -> None:
    commit(group, position(5, topic=topic, log_end_offset=9))

    said = muster.ok("groups", "reset-offsets", group.group_id, "--topic", topic, "--to-offset", "90").out

    assert "90 is outside of the log" in said


# -- files --------------------------------------------------------------------------------------------------


def test_exported_plan_is_accepted_by_from_file(muster: Muster, group: Group, tmp_path: Path, topic: str) -> None:
    commit(group, position(5, topic=topic, log_end_offset=50), position(6, partition=1, topic=topic, log_end_offset=60))
    command = ["groups", "reset-offsets", group.group_id, "--all-topics", "--to-latest", "--export"]
    assert "use one of them" in muster.refused(2, *command, "--execute")
    plan = muster.ok(*command).out

    assert plan == f"{topic},0,50\n{topic},1,60\n"
    assert offsets_of(group) == {(topic, 0): 5, (topic, 1): 6}
    file = tmp_path / "plan.csv"
    file.write_text(plan)
    reset(muster, group, "--from-file", str(file), "--topic", f"{topic}:1", "--execute")
    assert offsets_of(group) == {(topic, 0): 5, (topic, 1): 60}
    reset(muster, group, "--from-file", str(file), "--execute")
    assert offsets_of(group) == {(topic, 0): 50, (topic, 1): 60}


@pytest.mark.parametrize("form", ["csv", "json"])
def test_exported_offsets_are_imported(muster: Muster, client: Client, tmp_path: Path, form: str) -> None:
    prefix = fresh_id("saved, ")
    groups = [client.group(f"{prefix}{name}") for name in ("a", 'b "quoted"')]
    for number, group in enumerate(groups):
        commit(group, position(number + 5, topic="a,b"), position(number + 7, partition=3))
    file = tmp_path / "offsets"
    said = muster.ok("offsets", "export", "--all-groups", "--prefix", prefix, "--format", form, "--to", str(file)).out
    assert said == f"{file} holds 4 offsets of 2 groups.\n"
    before = [offsets_of(group) for group in groups]
    for group in groups:
        muster.ok("groups", "reset-offsets", f"--group={group.group_id}", "--all-topics", "--to-earliest", "--execute")

    assert "Dry run" in muster.ok("offsets", "import", str(file)).out
    muster.ok("offsets", "import", str(file), f"--group={groups[0].group_id}", "--execute")
    assert [offsets_of(group) for group in groups] == [before[0], {("a,b", 0): 0, ("orders", 3): 0}]
    muster.ok("offsets", "import", str(file), "--execute")

    assert [offsets_of(group) for group in groups] == before
    assert file.stat().st_mode & 0o777 == 0o600


def test_export_of_all_groups_names_the_group_also_if_there_is_one(muster: Muster, group: Group) -> None:
    """As that of Kafka's tool: a backup that names none could be imported into another group."""
    commit(group, position(5))
    of_all = ["--all-groups", "--prefix", group.group_id]

    line = f"{group.group_id},orders,0,5\n"
    assert muster.ok("offsets", "export", *of_all).out == line
    assert muster.ok("groups", "reset-offsets", *of_all, "--all-topics", "--to-current", "--export").out == line
    assert muster.ok("offsets", "export", group.group_id).out == "orders,0,5\n"


def test_export_to_a_pipe_keeps_the_pipe(muster: Muster, group: Group, tmp_path: Path) -> None:
    commit(group, position(5))
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()), daemon=True)
    reader.start()

    assert muster.ok("offsets", "export", group.group_id, "--to", str(pipe)).out == ""

    reader.join(PATIENCE_S)
    assert read == ["orders,0,5\n"]
    assert pipe.is_fifo()


def test_unknown_group_has_no_offsets_to_delete(muster: Muster, group: Group, tmp_path: Path) -> None:
    commit(group, position(5))
    file = tmp_path / "backup.csv"

    said = muster.refused(1, "offsets", "export", group.group_id, "typo", "--to", str(file))

    assert said == "typo: the group does not exist and has no history (GROUP_ID_NOT_FOUND)."
    assert not file.exists()


def test_offsets_of_one_group_are_imported_into_another(
    muster: Muster, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = client.group(fresh_id()), client.group(fresh_id())
    commit(old, position(5), position(6, partition=1))
    saved = muster.ok("offsets", "export", old.group_id).out
    assert saved == "orders,0,5\norders,1,6\n"

    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(saved.encode())))
    muster.ok("offsets", "import", "-", "--group", new.group_id, "--create", "--execute")

    assert offsets_of(new) == offsets_of(old)
    assert muster.refused(2, "offsets", "import", "-") == "stdin holds no offsets."


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "holds no offsets."),
        ("orders,0\n", "Line 1 of FILE has 2 columns; topic,partition,offset are wanted."),
        ("orders,0,1\n\norders\n", "Line 3 of FILE has 1 column;"),
        ("orders,0,-1\n", "Line 1 of FILE: the offset '-1' is no number from 0 on."),
        ("orders,x,1\n", "Line 1 of FILE: the partition 'x' is no number"),
        ("orders,0,1\norders,0,2\n", "FILE names orders 0 twice."),
        ("topic,partition,offset\n", "holds no offsets."),
        ("{", "FILE is not JSON as muster offsets export writes it"),
        ('{"offsets": [{"topic": "orders"}]}', "FILE is not JSON as muster offsets export writes it"),
        ('{"groups": 3}', "FILE is not JSON as muster offsets export writes it"),
        ('orders,0,1\n"orders,1,2\n' + "orders,2,3\n" * 20_000, "FILE is not CSV from line 2 on (field larger than"),
        ("another,orders,0,1\n", "The file has no offsets of "),
        ("\xff", "FILE is not UTF-8."),
    ],
)
def test_invalid_file_is_reported_with_its_line(
    muster: Muster, group: Group, tmp_path: Path, text: str, said: str
) -> None:
    file = tmp_path / "offsets.csv"
    file.write_text(text, encoding="latin-1")
    commit(group, position(5))

    assert said.replace("FILE", str(file)) in muster.refused(
        2, "offsets", "import", str(file), "--group", group.group_id
    )


def test_a_file_with_headings_or_a_byte_order_mark_is_read(muster: Muster, group: Group, tmp_path: Path) -> None:
    commit(group, position(5))
    file = tmp_path / "offsets.csv"
    file.write_bytes(b'\xef\xbb\xbfTOPIC, PARTITION, OFFSET\r\n"orders", 0, 4\r\n')

    muster.ok("offsets", "import", str(file), "--group", group.group_id, "--execute")

    assert offsets_of(group) == {("orders", 0): 4}


def test_a_file_without_groups_needs_one(muster: Muster, tmp_path: Path) -> None:
    file = tmp_path / "offsets.csv"
    file.write_text("orders,0,1\n")

    assert muster.refused(2, "offsets", "import", str(file)) == "The file names no group, so name exactly one."


def test_large_requests_are_split_by_partitions(
    muster: Muster, group: Group, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("muster.cli.offset_resets.PARTITIONS_A_REQUEST", 2)
    file = tmp_path / "offsets.csv"
    file.write_text("".join(f"orders,{number},{number}\n" for number in range(5)))

    ran = muster.ok("offsets", "import", str(file), "--group", group.group_id, "--create", "--execute", "--json")

    assert len(ran.json["groups"][0]["change_ids"]) == 3
    assert offsets_of(group) == {("orders", number): number for number in range(5)}


# -- delete -------------------------------------------------------------------------------------------------


def test_offsets_are_deleted_with_execute_and_restored_by_undo(muster: Muster, group: Group) -> None:
    commit(group, *(position(5, partition=number) for number in range(3)), position(6, topic="visits"))
    wanted = ["offsets", "delete", group.group_id, "--topic", "orders:0,2", "--topic", "visits"]

    output = muster.ok(*wanted).out
    assert "3 offsets would be deleted. Dry run; use --execute to apply." in output
    assert len(offsets_of(group)) == 4
    done = muster.ok(*wanted, "--execute", "--json").json
    assert {each["outcome"] for each in done["offsets"]} == {"deleted"}
    assert offsets_of(group) == {("orders", 1): 5}
    for change_id in done["change_ids"]:
        muster.ok("changes", "undo", change_id)
    assert len(offsets_of(group)) == 4
    muster.ok(*undo_command(muster.ok("offsets", "delete", group.group_id, "--topic", "visits", "--execute").out))
    assert len(offsets_of(group)) == 4


@pytest.mark.parametrize("command", ["delete g", "delete-log-ends"])
def test_deletion_that_ends_in_the_middle_says_how_far_it_came(
    bare_muster: Muster, fake: FakeNode, command: str
) -> None:
    if command == "delete g":
        fake.says(200, {"offsets": [], "next_cursor": None})
    fake.says(200, {"offsets": [], "log_ends": []})
    fake.says(403, {"code": "TOPIC_AUTHORIZATION_FAILED", "detail": "the token does not cover visits"})

    topics = ("--topic", "orders", "--topic", "visits", "--topic", "views")
    said = bare_muster.refused(1, "offsets", *command.split(), *topics, "--execute", "--url", fake.url)

    assert said == (
        "Stopped after 1 of 3 deletions; muster changes list shows what was changed.\n"
        "muster: the token does not cover visits (TOPIC_AUTHORIZATION_FAILED)."
    )


def test_subscribed_offsets_are_not_deleted(muster: Muster, group: Group) -> None:
    group.stable().commit(position(5))

    wanted = ["offsets", "delete", "--group", group.group_id, "--topic", "orders"]

    output, ran = muster(*wanted), muster(*wanted, "--execute")

    assert (output.exit_code, output.err) == (1, "muster: Some offsets would be refused.\n")
    assert (ran.exit_code, ran.err) == (1, "muster: Some offsets were refused.\n")
    assert output.rows[0] == ran.rows[0] == ["orders", "0", "5", "GROUP_SUBSCRIBED_TO_TOPIC"]
    assert output.out.splitlines()[-1] == "0 offsets would be deleted, 1 refused. Nothing was changed."
    assert ran.out.splitlines()[-1] == "0 offsets deleted, 1 refused."
    assert offsets_of(group) == {("orders", 0): 5}
    assert muster.ok("changes", "list", group.group_id, "--json").json == {"changes": []}


def test_offsets_of_unsubscribed_topics_are_deleted_and_others_rejected(muster: Muster, group: Group) -> None:
    member = group.stable()
    member.commit(position(5), position(6, topic="visits"))
    wanted = ["offsets", "delete", group.group_id, "--topic", "orders", "--topic", "visits"]

    output, ran = muster(*wanted, "--json"), muster(*wanted, "--execute", "--json")

    outcomes = [[each["outcome"] for each in one.json["offsets"]] for one in (output, ran)]
    assert outcomes == [["GROUP_SUBSCRIBED_TO_TOPIC", which] for which in ("would be deleted", "deleted")]
    assert (output.exit_code, output.json["change_ids"], ran.exit_code) == (1, [], 1)
    (change_id,) = ran.json["change_ids"]
    (change,) = muster.ok("changes", "list", group.group_id, "--json").json["changes"]
    assert (change["change_id"], change["before"]["offset_count"]) == (change_id, 1)
    assert offsets_of(group) == {("orders", 0): 5}


def test_deletion_of_no_offsets_prints_no_undo_command(muster: Muster, group: Group) -> None:
    commit(group, position(5))
    wanted = ["offsets", "delete", group.group_id, "--topic", "visits"]

    assert muster.ok(*wanted).out == "0 offsets would be deleted. Nothing was changed.\n"
    assert muster.ok(*wanted, "--execute").out == "0 offsets deleted.\n"


def test_offsets_of_unknown_groups_are_rejected_before_a_request(muster: Muster, group: Group) -> None:
    wanted = ["offsets", "delete", group.group_id, "--topic", "orders"]

    assert "(GROUP_ID_NOT_FOUND)." in muster.refused(1, *wanted)


# -- show ---------------------------------------------------------------------------------------------------


def test_offsets_are_shown_as_kafkas_console_prints_them(muster: Muster, group: Group) -> None:
    commit(group, position(5), position(6, partition=1, leader_epoch=3, metadata="noted"))
    shown = group.client.ok("GET", f"{group.path}/offsets")["offsets"]
    at_ms = [round(datetime.fromisoformat(each["committed_at"]).timestamp() * 1000) for each in shown]

    lines = muster.ok("offsets", "show", group.group_id, "--format", "kafka").out.splitlines()

    values = (
        f"offset=5, leaderEpoch=Optional.empty, metadata=, commitTimestamp={at_ms[0]}, expireTimestamp=None",
        f"offset=6, leaderEpoch=Optional[3], metadata=noted, commitTimestamp={at_ms[1]}, expireTimestamp=None",
    )
    assert lines == [
        f"[{group.group_id},orders,{partition}]::OffsetAndMetadata({value})" for partition, value in enumerate(values)
    ]


def test_offset_expiry_is_shown_as_by_kafka_s_console(muster: Muster, group: Group) -> None:
    commit(group, position(5))
    done = muster.ok("groups", "reset-offsets", group.group_id, *ORDERS, "--to-offset", "1", "--execute", "--json").json
    muster.ok("changes", "undo", done["groups"][0]["change_ids"][0])
    (shown,) = muster.ok("offsets", "show", group.group_id, "--json").json["groups"][0]["offsets"]
    expires_at_ms = round(datetime.fromisoformat(shown["expires_at"]).timestamp() * 1000)

    said = muster.ok("offsets", "show", group.group_id, "--format", "kafka").out

    assert said.endswith(f", expireTimestamp=Some({expires_at_ms}))\n")


def test_offsets_are_shown_in_every_form(muster: Muster, group: Group, topic: str) -> None:
    commit(group, position(5, topic=topic, log_end_offset=8), position(6, topic="visits"))

    table = muster.ok("offsets", "show", group.group_id)
    assert table.out.split("\n", 1)[0].split()[:5] == ["GROUP", "TOPIC", "PARTITION", "OFFSET", "LOG-END-OFFSET"]
    assert [row[:5] for row in table.rows] == [
        [group.group_id, topic, "0", "5", "8"],
        [group.group_id, "visits", "0", "6", "-"],
    ]
    assert muster.ok("offsets", "show", group.group_id, "--topic", "visits", "--format", "csv").out == "visits,0,6\n"
    as_json = muster.ok("offsets", "show", group.group_id, "--json").json
    assert json.dumps(as_json) == json.dumps(muster.ok("offsets", "export", group.group_id, "--format", "json").json)
    assert muster.ok("offsets", "show", group.group_id, "--topic", "others").out == "Nothing is committed.\n"


def test_offsets_of_an_unknown_group_are_not_shown_as_none(muster: Muster) -> None:
    for form in ("table", "json"):
        said = muster.refused(1, "offsets", "show", "misspelled", "--format", form)
        assert said == "misspelled: the group does not exist and has no history (GROUP_ID_NOT_FOUND)."


def test_offsets_are_shown_with_the_end_that_another_group_reported(
    muster: Muster, client: Client, group: Group, topic: str, rows: PsycopgConnection
) -> None:
    commit(group, position(5, topic=topic))
    commit(client.group(fresh_id()), position(9, topic=topic, log_end_offset=12))
    end_is(rows, topic, 12)

    assert [row[3:5] for row in muster.ok("offsets", "show", group.group_id).rows] == [["5", "12"]]


def test_a_token_that_may_read_offsets_only_is_shown_no_log_ends(bare_muster: Muster, fake: FakeNode) -> None:
    offset = {"topic": "orders", "partition": 0, "offset": 5, "committed_at": "2026-11-21T02:13:04Z", "metadata": ""}
    fake.says(200, {"offsets": [offset], "next_cursor": None})
    fake.says(403, {"code": "GROUP_AUTHORIZATION_FAILED", "detail": "not for agents", "action": "fix"})

    assert [row[:5] for row in bare_muster.ok("offsets", "show", "g", "--url", fake.url).rows] == [
        ["g", "orders", "0", "5", "-"]
    ]


# -- wrong ends of logs -------------------------------------------------------------------------------------


def test_wrong_log_ends_are_listed_and_deleted_with_execute(
    muster: Muster, group: Group, topic: str, rows: PsycopgConnection
) -> None:
    largest = 2**63 - 1
    commit(group, *(position(5, topic=topic, partition=each, log_end_offset=largest) for each in range(3)))
    stored = "SELECT partition FROM log_end_offsets WHERE topic = %s ORDER BY 1"
    poll_until(lambda: len(run_sql(rows, stored, topic)) == 3)
    command = ("offsets", "delete-log-ends", "--topic", f"{topic}:0,2")

    tried = muster.ok(*command)
    assert [row[:3] for row in tried.rows[:2]] == [[topic, each, str(largest)] for each in ("0", "2")]
    assert "2 log ends would be deleted. Dry run; use --execute to apply.\n" in tried.out
    assert len(run_sql(rows, stored, topic)) == 3
    done = muster.ok(*command, "--execute", "--reason", "a faulty reporter").out
    assert "2 log ends deleted. The next report of each sets it again.\n" in done
    assert run_sql(rows, stored, topic) == [(1,)]
    assert muster.ok(*command, "--execute").out == "No log end of these is known. Nothing was changed.\n"

    rest = muster.ok("offsets", "delete-log-ends", "--topic", topic, "--execute", "--json").json
    assert [(each["topic"], each["partition"]) for each in rest["log_ends"]] == [(topic, 1)]
    (change_id,) = rest["change_ids"]
    assert "delete_log_ends" in muster.ok("changes", "show", change_id).out
    assert "the next report of an end brings it back" in muster.refused(1, "changes", "undo", change_id)
