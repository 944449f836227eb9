"""The ledger over HTTP: what the tables hold of a group, page by page and moment by moment."""

from contextlib import closing
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote

import pytest
from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name

from tests.support.http_client import Client, Group, fresh_id, gives, join_body, position
from tests.support.nodes import running_node
from tests.support.waiting import PATIENCE_S

Json = Any
NOBODY = {"generation": -1, "member_id": ""}


def listed(group: Group, what: str, query: str = "") -> Json:
    return group.client.ok("GET", f"{group.path}/{what}{query}")


def rebalanced(group: Group, times: int) -> None:
    """Let a group of one rebalance so often; every member leaves after it."""
    for _ in range(times):
        member = group.stable()
        group.post("leave", {"members": [{"member_id": member.member_id}]})


# -- rebalances -------------------------------------------------------------------------------------------


def test_every_rebalance_is_told_with_its_reason_and_outcome(group: Group) -> None:
    member = group.stable(reason="a new one")
    group.post("leave", {"members": [{"member_id": member.member_id, "reason": "going home"}]})

    emptied, completed = listed(group, "rebalances")["rebalances"]

    assert (completed["trigger"], completed["outcome"], completed["generation"]) == ("member_joined", "completed", 1)
    assert (completed["member_count_before"], completed["member_count_after"]) == (0, 1)
    assert completed["started_at"] <= completed["joined_at"] <= completed["completed_at"]
    assert (emptied["trigger"], emptied["trigger_member_id"]) == ("member_left", member.member_id)
    assert (emptied["outcome"], emptied["client_reason"]) == ("emptied", "going home")


def test_who_held_a_rebalance_up_is_told(client: Client, group: Group) -> None:
    member = group.stable()
    parked = client.later(group, "join", join_body(member_id=group.handshake()))
    while member.ask("heartbeat").status == 200:
        pass
    group.post("leave", {"members": [{"member_id": member.member_id}]})
    newcomer = group.member(parked.result(PATIENCE_S)).member_id
    assert group.member(parked.result()).sync(gives(newcomer, 0)).status == 200

    newest = listed(group, "rebalances")["rebalances"][0]["rebalance_id"]
    told = listed(group, f"rebalances/{newest}/members")

    left, joined = sorted(told["members"], key=lambda part: part["member_id"] == newcomer)
    assert (told["group_id"], told["rebalance_id"]) == (group.group_id, newest)
    assert (left["member_id"], left["outcome"], left["joined_after_ms"]) == (member.member_id, "left", None)
    assert (joined["member_id"], joined["outcome"], joined["joined_after_ms"]) == (newcomer, "joined", 0)
    (waited,) = told["waited_for"]  # Both have one client id, on one host.
    assert (waited["client_id"], waited["client_host"]) == (left["client_id"], left["client_host"])
    assert waited["waited_for_ms"] == left["waited_for_ms"] + joined["waited_for_ms"]
    assert waited["member_count"] == sum(part["waited_for_ms"] > 0 for part in (left, joined))
    assert [part["waited_for_ms"] for part in told["members"]] == sorted(
        (left["waited_for_ms"], joined["waited_for_ms"]), reverse=True
    )


def test_a_rebalance_that_is_not_over_or_not_there_has_no_members(client: Client, group: Group) -> None:
    group.stable()
    nobody = "00000000-0000-4000-8000-000000000000"
    assert listed(group, f"rebalances/{nobody}/members")["members"] == []
    assert client.call("GET", f"{group.path}/rebalances/first/members").code == "INVALID_REQUEST"
    unheard = client.call("GET", f"/v1/groups/unheard-of/rebalances/{nobody}/members")
    assert unheard.code == "GROUP_ID_NOT_FOUND"


def test_the_rebalance_under_way_comes_first_and_has_no_end(client: Client, group: Group) -> None:
    member = group.stable()
    parked = client.later(group, "join", join_body(member_id=group.handshake()))
    while len(found := listed(group, "rebalances")["rebalances"]) < 2:
        member.ask("heartbeat")

    under_way, over = found
    assert [under_way[key] for key in ("completed_at", "outcome", "member_count_after", "partitions_moved")] == [
        None
    ] * 4
    assert (under_way["trigger"], under_way["generation"], over["outcome"]) == ("member_joined", 1, "completed")
    group.post("leave", {"members": [{"member_id": member.member_id}]})
    assert parked.result(PATIENCE_S).status == 200


def test_a_page_has_the_columns_of_its_table(group: Group, rows: PsycopgConnection) -> None:
    rebalanced(group, 1)
    for table in ("rebalances", "transitions"):
        with rows.cursor() as cursor:
            name = "group_transitions" if table == "transitions" else table
            cursor.execute(
                "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 ORDER BY attnum", (name,)
            )
            columns = [name for (name,) in cursor.fetchall()]
        assert list(listed(group, table)[table][0]) == columns


@pytest.mark.parametrize("what", ["rebalances", "transitions", "stays"])
def test_pages_join_without_gap_or_repeat(group: Group, what: str) -> None:
    rebalanced(group, 3)
    everything = listed(group, what)
    assert everything["next_cursor"] is None

    pages: list[Json] = []
    cursor: str | None = ""
    while cursor is not None:
        page = listed(group, what, f"?limit=2&cursor={quote(cursor)}")
        pages += page[what]
        cursor = page["next_cursor"]

    assert pages == everything[what]


def test_transitions_tell_a_life_from_its_end(client: Client, group: Group) -> None:
    rebalanced(group, 1)
    client.ok("DELETE", f"{group.path}?reason=test")

    states = [(each["from_state"], each["to_state"]) for each in listed(group, "transitions")["transitions"]]

    assert states == [
        ("Empty", "Dead"),
        ("PreparingRebalance", "Empty"),
        ("Stable", "PreparingRebalance"),
        ("CompletingRebalance", "Stable"),
        ("PreparingRebalance", "CompletingRebalance"),
        ("Empty", "PreparingRebalance"),
        (None, "Empty"),
    ]


# -- who owned what, and what was committed ----------------------------------------------------------------


def test_who_owned_a_partition_and_what_was_committed_is_one_question(group: Group, topic: str) -> None:
    first = group.join(topic=topic)
    assert first.sync(gives(first.member_id, 0, 7, topic=topic)).status == 200
    first.commit(position(5, partition=7, topic=topic, log_end_offset=9), position(1, topic=topic))

    answer = listed(group, "assignments", f"?topic={topic}&partition=7")

    (owned,), (committed,) = answer["assignments"], answer["offsets"]
    assert (answer["group_id"], answer["at"]) == (group.group_id, None)
    assert (owned["member_id"], owned["topic"], owned["partitions"]) == (first.member_id, topic, [7])
    assert (owned["generation"], owned["valid_to"]) == (1, None)
    assert (committed["partition"], committed["offset"], committed["log_end_offset"]) == (7, 5, 9)
    assert committed["member_id"] == first.member_id
    assert committed["committed_at"] >= owned["valid_from"]


def test_the_past_is_told_by_the_moment(group: Group) -> None:
    first = group.stable()
    first.commit(position(5))
    (held,) = listed(group, "assignments")["assignments"]
    group.post("leave", {"members": [{"member_id": first.member_id}]})
    second = group.stable()
    since = datetime.fromisoformat(held["valid_from"])

    before = as_of(group, since - timedelta(milliseconds=1))
    then = as_of(group, since)
    now = as_of(group, since + timedelta(days=1))

    assert (before["assignments"], before["offsets"]) == ([], [])
    assert [each["member_id"] for each in then["assignments"]] == [first.member_id]
    assert then["assignments"][0]["valid_to"] is not None
    assert [each["member_id"] for each in now["assignments"]] == [second.member_id]
    assert [each["offset"] for each in now["offsets"]] == [5]


def as_of(group: Group, at: datetime) -> Json:
    answer = listed(group, "assignments", f"?at={quote(at.isoformat())}")
    assert datetime.fromisoformat(answer["at"]) == at
    return answer


def test_a_moment_may_come_with_any_offset_and_its_plus_as_it_is(group: Group) -> None:
    group.stable()

    moments = [
        listed(group, "assignments", f"?at={at}")["at"]
        for at in ("2026-11-21T02:13:00Z", "2026-11-21T03:13:00+01:00", "2026-11-21T03:13:00%2B01:00")
    ]

    assert {datetime.fromisoformat(at) for at in moments} == {datetime.fromisoformat("2026-11-21T02:13:00Z")}


# -- stays --------------------------------------------------------------------------------------------------


def test_a_stay_is_told_with_how_it_ended_and_when_its_client_was_back(group: Group) -> None:
    member = group.stable()
    member.ask("heartbeat")
    group.post("leave", {"members": [{"member_id": member.member_id}]})
    again = group.stable()
    group.post("leave", {"members": [{"member_id": again.member_id}]})

    newest, first = listed(group, "stays")["stays"]

    assert (first["member_id"], first["end_reason"], first["client_id"]) == (member.member_id, "left", "agent-1")
    assert first["heartbeat_count"] >= sum(first["heartbeat_gap_histogram"]) > 0
    assert first["ended_at"] <= first["back_at"] == newest["joined_at"]
    assert newest["back_at"] is None
    ended = quote(newest["ended_at"])
    assert listed(group, "stays", f"?from={ended}")["stays"] == [newest]
    assert listed(group, "stays", f"?to={ended}")["stays"] == [first]
    assert listed(group, "stays", "?end_reason=admin&end_reason=session_expired")["stays"] == []


def test_an_evicted_member_has_a_cause_and_its_client_a_finding(group: Group, rows: PsycopgConnection) -> None:
    member = group.stable()
    member.ask("heartbeat")
    group.post("leave", {"members": [{"member_id": member.member_id}]})
    with rows.cursor() as cursor:
        cursor.execute(
            "UPDATE member_sessions SET end_reason = 'rebalance_timeout', heartbeat_gap_ms_max = 3000"
            " WHERE group_id = %s",
            (group.group_id,),
        )

    (evicted,) = listed(group, "stays")["stays"]
    (finding,) = listed(group, "diagnosis")["findings"]

    assert (evicted["cause"], evicted["late_by_ms"]) == ("late_join", None)
    assert finding.pop("text").startswith("agent-1 at 127.0.0.1 was evicted once although it was alive")
    assert finding == {
        "kind": "late_join",
        "group_instance_id": None,
        "client_id": "agent-1",
        "client_host": "127.0.0.1",
        "setting": "rebalance_timeout_ms",
        "value": None,
    }


def test_a_stay_has_the_columns_of_its_table(group: Group, rows: PsycopgConnection) -> None:
    rebalanced(group, 1)
    with rows.cursor() as cursor:
        cursor.execute(
            "SELECT attname FROM pg_attribute WHERE attrelid = 'member_sessions'::regclass AND attnum > 0"
            " ORDER BY attnum"
        )
        columns = [name for (name,) in cursor.fetchall()]
    assert list(listed(group, "stays")["stays"][0]) == [*columns, "back_at", "successor_at", "cause", "late_by_ms"]


# -- who is known, and who may answer -----------------------------------------------------------------------


@pytest.mark.parametrize("what", ["rebalances", "transitions", "assignments", "stays"])
def test_a_group_that_nobody_saw_has_no_history(group: Group, what: str) -> None:
    answer = group.client.call("GET", f"{group.path}/{what}")

    assert (answer.status, answer.code) == (404, "GROUP_ID_NOT_FOUND")


def test_a_group_that_is_gone_has_its_history(client: Client, group: Group) -> None:
    rebalanced(group, 1)
    client.ok("DELETE", f"{group.path}?reason=test")

    assert len(listed(group, "rebalances")["rebalances"]) == 2
    assert listed(group, "assignments")["assignments"] == []


def test_a_group_that_never_rebalanced_is_known_all_the_same(group: Group) -> None:
    assert group.post("offsets", {**NOBODY, "offsets": [position(3)]}).status == 200

    assert listed(group, "rebalances") == {"rebalances": [], "next_cursor": None}
    assert [each["member_id"] for each in listed(group, "assignments")["offsets"]] == [""]


def test_any_node_answers_alike(database_url: str) -> None:
    with running_node(database_url, group_initial_rebalance_delay_ms=0) as one, closing(Client(one.url)) as client:
        group = client.group("g")
        group.stable().commit(position(5))
        with running_node(database_url) as two, closing(Client(two.url)) as elsewhere:
            for what in ("rebalances", "transitions", "assignments"):
                assert listed(elsewhere.group("g"), what) == listed(group, what)


# -- what will not do ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "query",
    [
        "assignments?at=yesterday",
        "assignments?at=2026-11-21",
        "assignments?at=2026-11-21T02:13:00",
        "assignments?at=1763691180",
        "assignments?at=2026-02-30T00:00:00Z",
        "assignments?at=99999-01-01T00:00:00Z",
        "assignments?at=0001-01-01T00:00:00%2B14:00",
        "assignments?at=9999-12-31T23:59:59-14:00",
        "assignments?partition=-1",
        "assignments?partition=x",
        "assignments?topic=",
        "assignments?when=now",
        "rebalances?limit=0",
        "rebalances?limit=1001",
        "rebalances?limit=many",
        "rebalances?cursor=!",
        "rebalances?cursor=YQ",
        "rebalances?cursor=OTk5OTk5OTk5OTk5OTk5IDAwMDAwMDAwLTAwMDAtMDAwMC0wMDAwLTAwMDAwMDAwMDAwMA",
        "transitions?cursor=_",
        "transitions?cursor=MSAyIDM",
        "transitions?limit=-1",
        "transitions?page=2",
        "stays?cursor=!",
        "stays?cursor=OTk5OTk5OTk5OTk5OTk5IGE",
        "stays?cursor=MSAA",
        "stays?end_reason=%00",
        "stays?from=yesterday",
        "stays?from=0001-01-01T00:00:00%2B14:00",
        "stays?from=2026-11-21T03:00:00Z&to=2026-11-21T02:00:00Z",
    ],
)
def test_what_cannot_be_read_is_refused_in_a_sentence(group: Group, query: str) -> None:
    group.handshake()

    answer = group.client.call("GET", f"{group.path}/{query}")

    assert (answer.status, answer.code) == (400, "INVALID_REQUEST"), answer
    assert answer.json["detail"]


def test_the_first_and_the_last_moment_there_are_can_be_asked_for(group: Group) -> None:
    group.stable()

    for at, count in (("0001-01-01T00:00:00Z", 0), ("9999-12-31T23:59:59.999999Z", 1)):
        assert len(listed(group, "assignments", f"?at={at}")["assignments"]) == count


def test_a_name_that_no_group_has_is_told_before_history_is_asked(client: Client) -> None:
    assert client.call("GET", f"/v1/groups/{'g' * 256}/rebalances").code == "INVALID_GROUP_ID"
    assert client.call("GET", "/v1/groups/~/transitions").code == "INVALID_GROUP_ID"
    assert client.call("GET", f"/v1/groups/{fresh_id('no%2Fgroup')}/assignments").code == "GROUP_ID_NOT_FOUND"
