"""Group commands: list, describe, rebalances, and deletion with a dry run first."""

from datetime import datetime

import pytest
from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name

from muster.display import FLAPPING_REBALANCES
from tests.support.fake_node import FakeNode
from tests.support.http_client import Client, Group, fresh_id, gives, join_body, position
from tests.support.known_log_ends import age, run_sql
from tests.support.muster_command import PATIENT, Muster, commit, offsets_of, undo_command
from tests.support.offset_log import wait_for_checkpoint
from tests.support.waiting import poll_until

ODD_IDS = ["a/b", "a b", "~tilde", "größe", ".", "..", "100%", "a?b#c", "[red]", "=cmd", "-dash"]

# -- list ---------------------------------------------------------------------------------------------------


def test_groups_are_listed_with_their_states(muster: Muster, client: Client) -> None:
    prefix = fresh_id("listed-")
    stable, empty = client.group(prefix + "a"), client.group(prefix + "b")
    stable.stable()
    commit(empty, position(1))

    ran = muster.ok("groups", "list", "--prefix", prefix)

    assert [row[:4] for row in ran.rows] == [[stable.group_id, "Stable", "1", "1"], [empty.group_id, "Empty", "0", "0"]]
    shown = muster.ok("groups", "list", "--prefix", prefix, "--state", "empty,dead", "--json").json["groups"]
    assert [each["group_id"] for each in shown] == [empty.group_id]


@pytest.mark.parametrize("command", [["list"], ["overview"], ["delete", "--all-groups"]])
@pytest.mark.parametrize(("states", "named"), [("Stable,asleep", "asleep"), ("", ""), (",", "")])
def test_states_that_do_not_exist_are_a_usage_error(
    muster: Muster, command: list[str], states: str, named: str
) -> None:
    said = muster.refused(2, "groups", *command, "--state", states)

    assert said == f"--state '{named}': use Empty, PreparingRebalance, CompletingRebalance, Stable, Dead."


def test_list_continues_over_pages_up_to_its_limit(
    muster: Muster, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("muster.node_client.PAGE", 2)
    prefix = fresh_id("paged-")
    ids = [f"{prefix}{number}" for number in range(5)]
    for group_id in ids:
        commit(client.group(group_id), position(1))

    shown = [muster.ok("groups", "list", "--prefix", prefix, *more).rows for more in ([], ["--limit", "3"])]

    assert [[row[0] for row in rows] for rows in shown] == [ids, ids[:3]]


def test_empty_group_list_is_reported(muster: Muster) -> None:
    assert muster.ok("groups", "list", "--prefix", "nobody's").out == "No matching groups.\n"
    assert muster.ok("groups", "list", "--prefix", "nobody's", "--json").json == {"groups": []}


def test_share_and_streams_groups_are_listed_over_pages(
    muster: Muster, rows: PsycopgConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("muster.node_client.PAGE", 1)
    columns = "group_id, shard_id, protocol_type, state, state_since, epoch, member_count"
    for group_id, kind in (("jobs", "share"), ("words", "streams")):
        values = "(%s, 0, %s, 'Stable', '2026-01-01 00:00:00+00', 5, 2)"
        run_sql(rows, f"INSERT INTO other_groups ({columns}) VALUES {values}", group_id, kind)  # noqa: S608 - written here

    listed = muster.ok("groups", "other").rows

    assert [(*row[:3], *row[-2:]) for row in listed] == [
        ("jobs", "share", "Stable", "2", "5"),
        ("words", "streams", "Stable", "2", "5"),
    ]
    shown = muster.ok("groups", "other", "--limit", "1", "--json").json["groups"]
    assert [(each["group_id"], each["state_since"]) for each in shown] == [("jobs", "2026-01-01T00:00:00Z")]


# -- describe -----------------------------------------------------------------------------------------------


def test_a_group_is_described_in_full(muster: Muster, group: Group, topic: str) -> None:
    member = group.stable(topic)
    member.commit(position(5, topic=topic, log_end_offset=12))

    said = muster.ok("groups", "describe", group.group_id).out

    state, members, offsets = [line.split() for line in said.splitlines() if line.startswith(group.group_id + " ")]
    assert state[1].startswith("127.0.0.1:")
    assert state[2:6] == ["range", "Stable", "1", "1"]
    assert members[1:5] == [member.member_id, "127.0.0.1", "agent-1", "1"]
    assert offsets[1:9] == [topic, "0", "5", "12", "7", member.member_id, "127.0.0.1", "agent-1"]
    assert offsets[-1] in {"ms", "s"}


@pytest.mark.parametrize(
    ("flags", "kafkas"),
    [
        (["--offsets"], "GROUP TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG CONSUMER-ID HOST CLIENT-ID"),
        (["--members"], "GROUP CONSUMER-ID GROUP-INSTANCE-ID HOST CLIENT-ID #PARTITIONS"),
        (["--members", "--verbose"], "GROUP CONSUMER-ID GROUP-INSTANCE-ID HOST CLIENT-ID #PARTITIONS ASSIGNMENT"),
        (["--state"], "GROUP COORDINATOR (ID) ASSIGNMENT-STRATEGY STATE #MEMBERS"),
    ],
)
def test_the_columns_of_kafkas_command_come_first_in_its_order(
    muster: Muster, group: Group, flags: list[str], kafkas: str
) -> None:
    member = group.member(group.post("join", join_body(group_instance_id="i-1")))
    member.post("sync", group_instance_id="i-1", assignments=[gives(member.member_id, 0)])
    member.commit(position(5))

    headings, row = muster.ok("groups", "describe", group.group_id, *flags).out.splitlines()

    assert " ".join(headings.split()).startswith(kafkas)
    assert row.startswith(group.group_id)


def test_lag_from_a_stale_log_end_is_marked(muster: Muster, group: Group, rows: PsycopgConnection, topic: str) -> None:
    ends = [position(12, topic=topic, log_end_offset=12), position(5, topic=topic, partition=1, log_end_offset=12)]
    group.post("offsets", {"generation": -1, "member_id": "", "offsets": ends})
    poll_until(lambda: run_sql(rows, "SELECT count(*) FROM log_end_offsets WHERE topic = %s", topic) == [(2,)])
    age(rows, topic, 3_600)

    said = muster.ok("groups", "describe", group.group_id, "--offsets").out
    first, second = [line for line in said.splitlines() if line.startswith(group.group_id + " ")]
    assert "0 when last known, " in first
    assert first.split()[1:5] == [topic, "0", "12", "≥12"]
    assert second.split()[1:6] == [topic, "1", "5", "≥12", "≥7"]
    assert f"The log ends of 2 partitions are out of date: that of {topic} 0 was last reported " in said
    shown = muster.ok("offsets", "show", group.group_id)
    assert [row[1:5] for row in shown.rows[:2]] == [[topic, "0", "12", "≥12"], [topic, "1", "5", "≥12"]]
    assert f"The log ends of 2 partitions are out of date: that of {topic} 0 was last reported " in shown.out
    assert "≥7" in muster.ok("groups", "overview", "--search", group.group_id).out


@pytest.mark.parametrize("how", [["GROUP"], ["--group", "GROUP"]])
def test_group_is_given_as_argument_or_flag(muster: Muster, group: Group, how: list[str]) -> None:
    group.stable()
    named = [group.group_id if word == "GROUP" else word for word in how]

    for command in (["groups", "describe"], ["groups", "members"], ["groups", "rebalances"], ["offsets", "show"]):
        muster.ok(*command, *named)
    (described,) = muster.ok("groups", "describe", *named, "--json").json["groups"]
    assert described["group_id"] == group.group_id


def test_a_description_for_programs_has_offsets_with_lag_and_owner(muster: Muster, group: Group, topic: str) -> None:
    member = group.stable(topic)
    member.commit(position(5, topic=topic), position(7, partition=1, topic=topic, log_end_offset=7))

    (described,) = muster.ok("groups", "describe", group.group_id, "--json").json["groups"]

    shown = [
        (each["partition"], each["current_offset"], each["lag"], each["member_id"]) for each in described["offsets"]
    ]
    assert shown == [(0, 5, None, member.member_id), (1, 7, 0, None)]
    assert described["members"][0]["member_id"] == member.member_id


def test_members_are_shown_with_their_assignment_on_request(muster: Muster, group: Group) -> None:
    member = group.member(group.post("join", join_body(group_instance_id="i-1")))
    member.post("sync", group_instance_id="i-1", assignments=[gives(member.member_id, 0)])

    said = muster.ok("groups", "members", group.group_id, "--verbose").out

    assert said.splitlines()[1].split()[1:7] == [member.member_id, "i-1", "127.0.0.1", "agent-1", "1", "orders:0"]


def test_awaited_members_are_named(muster: Muster, group: Group) -> None:
    first = group.stable(client_id="slow-one", **PATIENT)
    group.client.later(group, "join", join_body(member_id=group.handshake(), **PATIENT))
    poll_until(lambda: group.describe()["waiting_until"] is not None)

    said = muster.ok("groups", "describe", group.group_id, "--state").out

    assert f"waits for slow-one at 127.0.0.1 ({first.member_id}) to join until 20" in said
    assert f"muster groups remove-member --group={group.group_id} --member={first.member_id}" in said
    assert f"muster config set --group={group.group_id} rebalance_timeout_ms=MS" in said
    group.client.call("POST", f"{group.path}/leave", {"members": [{"member_id": first.member_id}]})


def test_unknown_group_is_reported_and_the_others_are_shown(muster: Muster, group: Group) -> None:
    commit(group, position(1))

    ran = muster("groups", "describe", "nobody", group.group_id)

    assert ran.exit_code == 1
    assert ran.err == "muster: nobody: the group does not exist and has no history (GROUP_ID_NOT_FOUND).\n"
    assert " Empty " in ran.out


def test_description_of_no_groups_is_one_sentence(bare_muster: Muster, fake: FakeNode) -> None:
    fake.says(200, {"groups": [], "next_cursor": None})

    assert bare_muster.ok("groups", "describe", "--all-groups", "--url", fake.url).out == "There are no groups.\n"
    described = bare_muster.ok("groups", "describe", "--all-groups", "--json", "--url", fake.url)
    assert described.json == {"groups": []}


@pytest.mark.parametrize("group_id", ODD_IDS)
def test_any_group_id_can_be_requested(muster: Muster, client: Client, group_id: str) -> None:
    group = client.group(group_id) if group_id not in {".", "..", "~tilde"} else None
    muster.ok(
        "groups",
        "reset-offsets",
        f"--group={group_id}",
        "--topic",
        "orders:0",
        "--to-offset",
        "3",
        "--create",
        "--execute",
    )

    (shown,) = muster.ok("offsets", "show", f"--group={group_id}", "--format", "json").json["groups"]

    assert (shown["group_id"], shown["offsets"][0]["offset"]) == (group_id, 3)
    assert group_id in muster.ok("groups", "list").out
    assert group is None or offsets_of(group) == {("orders", 0): 3}


def test_control_characters_in_names_are_escaped(muster: Muster, client: Client) -> None:
    group_id = fresh_id("evil\x1b[2J\n")
    commit(client.group(group_id), position(1))

    said = muster.ok("groups", "list", "--prefix", "evil").out

    assert "\x1b" not in said
    assert "\x1b" not in muster.ok("groups", "describe", f"--group={group_id}").out
    assert "\x1b" not in muster("groups", "delete", f"--group={group_id}", "nobody\x1b[2J").err
    assert len(said.splitlines()) == 2


# -- rebalances ---------------------------------------------------------------------------------------------


def test_rebalances_are_listed_with_trigger_and_slowest_member(muster: Muster, group: Group) -> None:
    first = group.stable(client_id="the-slow-one", **PATIENT)
    waiting = group.client.later(group, "join", join_body(member_id=group.handshake(), **PATIENT))
    poll_until(lambda: group.describe()["waiting_for"] == [first.member_id])
    group.client.later(group, "join", join_body(member_id=first.member_id, client_id="the-slow-one", **PATIENT))
    leader = group.member(waiting.result())
    assert leader.joined["generation"] == 2
    for each in group.describe()["members"]:
        group.client.call("POST", f"{group.path}/leave", {"members": [{"member_id": each["member_id"]}]})
    poll_until(lambda: group.describe()["state"] == "Empty")

    shown = muster.ok("groups", "rebalances", group.group_id, "--json").json["rebalances"]
    said = muster.ok("groups", "rebalances", group.group_id).out

    assert shown[-1]["trigger"] == "member_joined"
    completed = [datetime.fromisoformat(row["completed_at"]) for row in shown]
    assert completed == sorted(completed, reverse=True)
    assert "the-slow-one (" in said
    assert len(muster.ok("groups", "rebalances", group.group_id, "--limit", "1").rows) == 1


def test_group_without_rebalances_is_reported(muster: Muster, group: Group) -> None:
    commit(group, position(1))

    assert "has not rebalanced" in muster.ok("groups", "rebalances", group.group_id).out


def test_a_flapping_group_is_marked(muster: Muster, client: Client) -> None:
    group = client.group(fresh_id("flaps"))
    for _ in range(5):
        member = group.stable()
        group.post("leave", {"members": [{"member_id": member.member_id}]})
    group.stable()

    (glance,) = muster.ok("groups", "overview", "--search", group.group_id).rows
    (listed,) = muster.ok("groups", "list", "--prefix", group.group_id).rows
    described = muster.ok("groups", "describe", group.group_id, "--state").out.splitlines()[1].split()

    assert [glance[1:3], listed[1:3], described[3:5]] == [["Stable,", "flapping"]] * 3
    (for_programs,) = muster.ok("groups", "describe", group.group_id, "--json").json["groups"]
    assert for_programs["rebalances_last_hour"] >= FLAPPING_REBALANCES


# -- owners, overview ---------------------------------------------------------------------------------------


def test_ownership_is_returned_for_any_time(muster: Muster, group: Group) -> None:
    member = group.stable()
    member.commit(position(5))

    (row,) = muster.ok("groups", "owners", group.group_id, "--topic", "orders:0").rows
    assert row[:3] == ["orders", "0", member.member_id]
    assert muster.ok("groups", "owners", group.group_id, "--at", "2020-01-01").out.startswith("No ownership")
    shown = muster.ok("groups", "owners", group.group_id, "--json").json
    assert (shown["ownership"][0]["partitions"], shown["offsets"][0]["offset"]) == ([0], 5)
    assert "--at yesterday: a time looks like" in muster.refused(2, "groups", "owners", "g", "--at", "yesterday")
    assert "Name one partition" in muster.refused(2, "groups", "owners", "g", "--topic", "orders:1,2")


def test_overview_lists_groups_with_problems_first(
    muster: Muster, client: Client, topic: str, rows: PsycopgConnection
) -> None:
    prefix = fresh_id("glance")
    settled, unsettled = client.group(prefix + "-a"), client.group(prefix + "-b")
    commit(settled, position(5, topic=topic, log_end_offset=12))
    member = unsettled.join()
    wait_for_checkpoint(rows)

    listed = muster.ok("groups", "overview", "--search", prefix).rows

    assert [row[:2] for row in listed] == [[unsettled.group_id, "CompletingRebalance"], [settled.group_id, "Empty"]]
    (lagging,) = muster.ok("groups", "overview", "--search", prefix, "--state", "empty", "--json").json["groups"]
    assert lagging["lag"] == 7
    assert muster.ok("groups", "overview", "--search", "nobody's").out == "No matching groups.\n"
    unsettled.post("leave", {"members": [{"member_id": member.member_id}]})


# -- rebalance and remove-member ----------------------------------------------------------------------------


def test_rebalance_is_forced(muster: Muster, group: Group) -> None:
    member = group.stable()

    done = muster.ok("groups", "rebalance", group.group_id, "--reason", "a test", "--json").json

    assert done["group_id"] == group.group_id
    assert group.client.ok("GET", f"/v1/changes/{done['change_id']}")["reason"] == "a test"
    assert member.post("heartbeat").code == "REBALANCE_IN_PROGRESS"
    assert "GROUP_ID_NOT_FOUND" in muster.refused(1, "groups", "rebalance", "nobody")
    assert muster.ok("groups", "rebalance", group.group_id).out.endswith("There is no undo.\n")


@pytest.mark.parametrize(
    "how",
    [
        ["GROUP", "MEMBER"],
        ["GROUP", "CLIENT"],
        ["CLIENT", "--group", "GROUP"],
        ["GROUP", "--member", "MEMBER"],
        ["--group", "GROUP", "--member", "MEMBER"],
    ],
)
def test_member_is_removed_on_request(muster: Muster, group: Group, how: list[str]) -> None:
    member = group.stable(client_id="slow one")
    words = {"GROUP": group.group_id, "MEMBER": member.member_id, "CLIENT": "slow one"}
    wanted = ["groups", "remove-member", *(words.get(word, word) for word in how)]

    output = muster.ok(*wanted).out
    owned = "Its 1 partition (orders:0) has no owner until another member joins. There is no undo."
    assert output.startswith(f"slow one at 127.0.0.1 ({member.member_id}) would be removed. {owned}")
    assert len(group.describe()["members"]) == 1
    would = muster.ok(*wanted, "--json").json
    assert (would["dry_run"], would["member_id"], would["change_id"]) == (True, member.member_id, None)
    done = muster.ok(*wanted, "--execute", "--json").json
    assert (done["dry_run"], done["partition_count"]) == (False, 1)
    assert group.client.ok("GET", f"/v1/changes/{done['change_id']}")["action"] == "remove_member"
    assert group.describe()["members"] == []
    named = "slow one" if "CLIENT" in how else member.member_id
    assert muster.refused(1, *wanted) == f"{group.group_id} has no member {named}."


def test_members_show_ownership_and_wait_during_a_rebalance(muster: Muster, group: Group) -> None:
    slow = group.stable(client_id="slow-one", **PATIENT)
    ready = join_body(member_id=group.handshake(), client_id="ready", **PATIENT)
    group.client.later(group, "join", ready)
    poll_until(lambda: group.describe()["state"] == "PreparingRebalance")

    rows = {row[3]: row for row in muster.ok("groups", "members", group.group_id).rows}
    output = muster.ok("groups", "remove-member", group.group_id, slow.member_id).out
    counted = muster.ok("groups", "remove-member", group.group_id, slow.member_id, "--json").json

    assert (rows["slow-one"][4], rows["slow-one"][-1]) == ("1", "join")
    assert rows["slow-one"][5:7] != ["joining,", "waiting"]
    assert (rows["ready"][4], rows["ready"][5:7], rows["ready"][-1]) == ("0", ["joining,", "waiting"], "-")
    assert "Its 1 partition (orders:0) goes to the other members." in output
    assert counted["partition_count"] == 1
    group.client.call("POST", f"{group.path}/leave", {"members": [{"member_id": slow.member_id}]})


def test_the_leader_of_a_sync_phase_is_named(muster: Muster, group: Group) -> None:
    leader = group.join(**PATIENT)

    said = muster.ok("groups", "describe", group.group_id).out

    assert f"waits for agent-1 at 127.0.0.1 ({leader.member_id}, the leader) to sync until 20" in said
    assert "sync (leader)" in said
    assert f"muster config set --group={group.group_id} rebalance_timeout_ms=MS" in said
    group.client.call("POST", f"{group.path}/leave", {"members": [{"member_id": leader.member_id}]})


def test_removal_by_an_ambiguous_name_is_rejected(muster: Muster, group: Group) -> None:
    first = group.stable(**PATIENT)
    group.client.later(group, "join", join_body(member_id=group.handshake(), **PATIENT))
    poll_until(lambda: len(group.describe()["members"]) == 2)

    said = muster.refused(1, "groups", "remove-member", group.group_id, "agent-1", "--execute")

    assert said == f"{group.group_id} has 2 members of that client id; name one by its member id."
    group.client.call("POST", f"{group.path}/leave", {"members": [{"member_id": first.member_id}]})


# -- delete -------------------------------------------------------------------------------------------------


def test_deletion_is_a_dry_run_unless_executed(muster: Muster, group: Group) -> None:
    commit(group, position(5), position(6, partition=1))

    output = muster.ok("groups", "delete", group.group_id).out
    assert "would be deleted  2 offsets would be archived" in output
    assert "Dry run; use --execute to apply." in output
    assert len(offsets_of(group)) == 2

    (done,) = muster.ok("groups", "delete", group.group_id, "--execute", "--reason", "it is old", "--json").json[
        "groups"
    ]
    assert offsets_of(group) == {}
    change = muster.ok("changes", "show", done["change_id"], "--json").json
    assert (change["actor"], change["reason"], change["action"]) == ("ada", "it is old", "delete_group")
    muster.ok("changes", "undo", done["change_id"])
    assert len(offsets_of(group)) == 2


def test_deletion_prints_its_undo_command_if_offsets_were_archived(muster: Muster, client: Client) -> None:
    group, without = client.group(fresh_id()), client.group(fresh_id())
    commit(group, position(5))
    member = without.stable()
    without.client.ok("POST", f"{without.path}/leave", {"members": [{"member_id": member.member_id}]})
    poll_until(lambda: without.describe()["state"] == "Empty")

    said = muster.ok("groups", "delete", group.group_id, without.group_id, "--execute").out

    assert said.count("Undo with: ") == 1
    muster.ok(*undo_command(said))
    assert offsets_of(group) == {("orders", 0): 5}


def test_dry_run_with_nothing_to_delete_does_not_advise_to_execute(muster: Muster, group: Group) -> None:
    group.stable()

    refused = muster("groups", "delete", group.group_id)
    none = muster("groups", "delete", "--all-groups", "--prefix", fresh_id())

    assert (refused.exit_code, refused.out.splitlines()[-1]) == (1, "1 group: 1 refused. Nothing was changed.")
    assert (none.exit_code, none.out) == (0, "No group is chosen. Nothing was changed.\n")


def test_dry_run_overrides_execute(muster: Muster, group: Group) -> None:
    commit(group, position(5))

    muster.ok("groups", "delete", group.group_id, "--execute", "--dry-run")

    assert offsets_of(group) == {("orders", 0): 5}


@pytest.mark.parametrize("execute", [[], ["--execute"]])
def test_rejected_deletion_does_not_prevent_the_others(muster: Muster, client: Client, execute: list[str]) -> None:
    busy, idle = client.group(fresh_id()), client.group(fresh_id())
    busy.stable()
    commit(idle, position(1))

    ran = muster("groups", "delete", busy.group_id, idle.group_id, "nobody", *execute, "--json")

    outcomes = [each["outcome"] for each in ran.json["groups"]]
    assert outcomes == ["refused", "deleted" if execute else "would be deleted", "refused"]
    assert "NON_EMPTY_GROUP" in ran.json["groups"][0]["detail"]
    assert "GROUP_ID_NOT_FOUND" in ran.json["groups"][2]["detail"]
    assert ran.exit_code == 1
    assert (offsets_of(idle) == {}) is bool(execute)


@pytest.mark.parametrize("execute", [[], ["--execute"]])
def test_refused_deletion_is_summarized_once_in_the_same_words(
    muster: Muster, client: Client, execute: list[str]
) -> None:
    idle = client.group(fresh_id())
    commit(idle, position(1))

    ran = muster("groups", "delete", idle.group_id, "nobody", *execute)

    assert (ran.exit_code, ran.err) == (1, "")
    assert ran.out.count("1 refused") == 1
    assert " ".join(ran.rows[1]) == "nobody refused the group does not exist and has no history (GROUP_ID_NOT_FOUND)"


def test_all_groups_can_be_narrowed_by_state_and_prefix(muster: Muster, client: Client) -> None:
    prefix = fresh_id("old-")
    busy, idle, other = (client.group(group_id) for group_id in (prefix + "a", prefix + "b", fresh_id("kept-")))
    busy.stable()
    commit(idle, position(1))
    commit(other, position(1))

    said = muster.ok("groups", "delete", "--all-groups", "--state", "Empty", "--prefix", prefix, "--execute").out

    assert "1 group: 1 deleted." in said.splitlines()
    assert offsets_of(idle) == {}
    assert offsets_of(other) != {}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "Name a group or use --all-groups."),
        (["a", "--all-groups"], "Name groups or use --all-groups, not both."),
        (["a", "--state", "Empty"], "--state and --prefix require --all-groups."),
    ],
)
def test_ambiguous_group_selection_is_a_usage_error(muster: Muster, arguments: list[str], said: str) -> None:
    assert muster.refused(2, "groups", "delete", *arguments) == said
    assert muster.refused(2, "groups", "reset-offsets", "--to-latest", "--all-topics", *arguments) == said


# -- tuning -------------------------------------------------------------------------------------------------


def test_advice_and_simulated_timeouts_are_shown(muster: Muster, group: Group) -> None:
    group.stable()

    said = muster.ok(
        "groups", "tuning", group.group_id, "--session-timeout-ms", "20000", "--rebalance-timeout-ms", "9000"
    ).out
    shown = muster.ok("groups", "tuning", "--group", group.group_id, "--session-timeout-ms", "20000", "--json").json

    (row,) = [line.split() for line in said.splitlines() if line.startswith("session_timeout_ms")]
    assert row[1:5] == ["10000", "-", "too", "little"]
    assert "A session timeout of 20000 ms would have changed nothing" in said
    assert "A rebalance timeout of 9000 ms would have changed nothing" in said
    assert "muster config set" not in said
    assert shown["what_if"]["session_timeout_ms"]["value"] == 20_000
    assert "INVALID_REQUEST" in muster.refused(1, "groups", "tuning", group.group_id, "--session-timeout-ms", "0")
