"""History over HTTP: rebalances, transitions, member sessions and ownership, page by page."""

from contextlib import closing
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote

import pytest
from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name

from tests.support.http_client import Answer, Client, Group, fresh_id, gives, join_body, position
from tests.support.nodes import running_node
from tests.support.offset_log import wait_for_checkpoint
from tests.support.waiting import PATIENCE_S, poll_until

Json = Any
SIMPLE_CONSUMER = {"generation": -1, "member_id": ""}


def listed(group: Group, what: str, query: str = "") -> Json:
    return group.client.ok("GET", f"{group.path}/{what.replace('_', '-')}{query}")


def rebalanced(group: Group, times: int) -> None:
    """Let a group of one rebalance so often; every member leaves after it."""
    for _ in range(times):
        member = group.stable()
        group.post("leave", {"members": [{"member_id": member.member_id}]})


# -- rebalances -------------------------------------------------------------------------------------------


def test_every_rebalance_is_logged_with_reason_and_outcome(group: Group) -> None:
    member = group.stable(reason="a new one")
    group.post("leave", {"members": [{"member_id": member.member_id, "reason": "going home"}]})

    emptied, completed = listed(group, "rebalances")["rebalances"]

    assert (completed["trigger"], completed["outcome"], completed["generation"]) == ("member_joined", "completed", 1)
    assert (completed["member_count_before"], completed["member_count_after"]) == (0, 1)
    assert completed["started_at"] <= completed["joined_at"] <= completed["completed_at"]
    assert (emptied["trigger"], emptied["trigger_member_id"]) == ("member_left", member.member_id)
    assert (emptied["outcome"], emptied["client_reason"]) == ("emptied", "going home")


def test_slowest_member_of_a_rebalance_is_returned(client: Client, group: Group) -> None:
    member = group.stable()
    parked = client.later(group, "join", join_body(member_id=group.handshake()))
    poll_until(lambda: member.post("heartbeat").status != 200)
    group.post("leave", {"members": [{"member_id": member.member_id}]})
    new_member = group.member(parked.result(PATIENCE_S)).member_id
    assert group.member(parked.result()).sync(gives(new_member, 0)).status == 200

    newest = listed(group, "rebalances")["rebalances"][0]["rebalance_id"]
    reported = listed(group, f"rebalances/{newest}/members")

    left, joined = sorted(reported["members"], key=lambda part: part["member_id"] == new_member)
    assert (reported["group_id"], reported["rebalance_id"]) == (group.group_id, newest)
    assert (left["member_id"], left["outcome"], left["joined_after_ms"]) == (member.member_id, "left", None)
    assert (joined["member_id"], joined["outcome"], joined["joined_after_ms"]) == (new_member, "joined", 0)
    (waited,) = reported["waited_for"]  # Both have one client id, on one host.
    assert (waited["client_id"], waited["client_host"]) == (left["client_id"], left["client_host"])
    assert waited["waited_for_ms"] == left["waited_for_ms"] + joined["waited_for_ms"]
    assert waited["member_count"] == sum(part["waited_for_ms"] > 0 for part in (left, joined))
    assert [part["waited_for_ms"] for part in reported["members"]] == sorted(
        (left["waited_for_ms"], joined["waited_for_ms"]), reverse=True
    )


def test_unfinished_or_unknown_rebalance_has_no_members(client: Client, group: Group) -> None:
    group.stable()
    unknown_id = "00000000-0000-4000-8000-000000000000"
    assert listed(group, f"rebalances/{unknown_id}/members")["members"] == []
    assert client.call("GET", f"{group.path}/rebalances/first/members").code == "INVALID_REQUEST"
    unheard = client.call("GET", f"/v1/groups/unheard-of/rebalances/{unknown_id}/members")
    assert unheard.code == "GROUP_ID_NOT_FOUND"


def test_the_rebalance_under_way_comes_first_and_has_no_end(client: Client, group: Group) -> None:
    member = group.stable()
    parked = client.later(group, "join", join_body(member_id=group.handshake()))
    while len(found := listed(group, "rebalances")["rebalances"]) < 2:
        member.post("heartbeat")

    in_progress, over = found
    assert [in_progress[key] for key in ("completed_at", "outcome", "member_count_after", "partitions_moved")] == [
        None
    ] * 4
    assert (in_progress["trigger"], in_progress["generation"], over["outcome"]) == ("member_joined", 1, "completed")
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


@pytest.mark.parametrize("what", ["rebalances", "transitions", "member_sessions"])
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


def test_transitions_distinguish_lifetimes(client: Client, group: Group) -> None:
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


# -- ownership and committed offsets -----------------------------------------------------------------------


def test_ownership_query_returns_owner_and_committed_offset(group: Group, topic: str) -> None:
    first = group.join(topic=topic)
    assert first.sync(gives(first.member_id, 0, 7, topic=topic)).status == 200
    first.commit(position(5, partition=7, topic=topic, log_end_offset=9), position(1, topic=topic))

    answer = listed(group, "ownership", f"?topic={topic}&partition=7")

    (owned,), (committed,) = answer["ownership"], answer["offsets"]
    assert (answer["group_id"], answer["at"]) == (group.group_id, None)
    assert (owned["member_id"], owned["topic"], owned["partitions"]) == (first.member_id, topic, [7])
    assert (owned["generation"], owned["valid_to"]) == (1, None)
    assert (committed["partition"], committed["offset"], committed["log_end_offset"]) == (7, 5, 9)
    assert committed["member_id"] == first.member_id
    assert committed["committed_at"] >= owned["valid_from"]


def test_past_state_is_returned_for_a_time(group: Group) -> None:
    first = group.stable()
    first.commit(position(5))
    (held,) = listed(group, "ownership")["ownership"]
    group.post("leave", {"members": [{"member_id": first.member_id}]})
    second = group.stable()
    since = datetime.fromisoformat(held["valid_from"])

    before = as_of(group, since - timedelta(milliseconds=1))
    then = as_of(group, since)
    now = as_of(group, since + timedelta(days=1))

    assert (before["ownership"], before["offsets"]) == ([], [])
    assert [each["member_id"] for each in then["ownership"]] == [first.member_id]
    assert then["ownership"][0]["valid_to"] is not None
    assert [each["member_id"] for each in now["ownership"]] == [second.member_id]
    assert [each["offset"] for each in now["offsets"]] == [5]


def as_of(group: Group, at: datetime) -> Json:
    answer = listed(group, "ownership", f"?at={quote(at.isoformat())}")
    assert datetime.fromisoformat(answer["at"]) == at
    return answer


def test_time_with_utc_offset_and_unencoded_plus_is_read(group: Group) -> None:
    group.stable()

    moments = [
        listed(group, "ownership", f"?at={at}")["at"]
        for at in ("2026-11-21T02:13:00Z", "2026-11-21T03:13:00+01:00", "2026-11-21T03:13:00%2B01:00")
    ]

    assert {datetime.fromisoformat(at) for at in moments} == {datetime.fromisoformat("2026-11-21T02:13:00Z")}


# -- member sessions ----------------------------------------------------------------------------------------


def test_session_is_listed_with_end_reason_and_rejoin_time(group: Group) -> None:
    member = group.stable()
    member.post("heartbeat")
    group.post("leave", {"members": [{"member_id": member.member_id}]})
    again = group.stable()
    group.post("leave", {"members": [{"member_id": again.member_id}]})

    newest, first = listed(group, "member_sessions")["member_sessions"]

    assert (first["member_id"], first["end_reason"], first["client_id"]) == (member.member_id, "left", "agent-1")
    assert first["heartbeat_count"] >= sum(first["heartbeat_gap_histogram"]) > 0
    assert first["ended_at"] <= first["reconnected_at"] == newest["joined_at"]
    assert newest["reconnected_at"] is None
    ended = quote(newest["ended_at"])
    assert listed(group, "member_sessions", f"?from={ended}")["member_sessions"] == [newest]
    assert listed(group, "member_sessions", f"?to={ended}")["member_sessions"] == [first]
    assert listed(group, "member_sessions", "?end_reason=admin&end_reason=session_expired")["member_sessions"] == []


def test_an_evicted_member_has_a_cause_and_its_client_a_finding(group: Group, rows: PsycopgConnection) -> None:
    member = group.stable()
    member.post("heartbeat")
    group.post("leave", {"members": [{"member_id": member.member_id}]})
    with rows.cursor() as cursor:
        cursor.execute(
            "UPDATE member_sessions SET end_reason = 'rebalance_timeout', heartbeat_gap_ms_max = 3000"
            " WHERE group_id = %s",
            (group.group_id,),
        )

    (evicted,) = listed(group, "member_sessions")["member_sessions"]
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


def test_session_has_the_columns_of_its_table(group: Group, rows: PsycopgConnection) -> None:
    rebalanced(group, 1)
    with rows.cursor() as cursor:
        cursor.execute(
            "SELECT attname FROM pg_attribute WHERE attrelid = 'member_sessions'::regclass AND attnum > 0"
            " ORDER BY attnum"
        )
        columns = [name for (name,) in cursor.fetchall()]
    assert list(listed(group, "member_sessions")["member_sessions"][0]) == [
        *columns,
        "reconnected_at",
        "successor_at",
        "cause",
        "late_by_ms",
    ]


# -- unknown groups and other nodes -------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["rebalances", "transitions", "ownership", "member-sessions"])
def test_never_seen_group_has_no_history(group: Group, what: str) -> None:
    answer = group.client.call("GET", f"{group.path}/{what}")

    assert (answer.status, answer.code) == (404, "GROUP_ID_NOT_FOUND")


def test_deleted_group_has_its_history(client: Client, group: Group) -> None:
    rebalanced(group, 1)
    client.ok("DELETE", f"{group.path}?reason=test")

    assert len(listed(group, "rebalances")["rebalances"]) == 2
    assert listed(group, "ownership")["ownership"] == []


def test_group_without_rebalances_has_an_empty_history(group: Group) -> None:
    assert group.post("offsets", {**SIMPLE_CONSUMER, "offsets": [position(3)]}).status == 200

    assert listed(group, "rebalances") == {"rebalances": [], "next_cursor": None}
    assert [each["member_id"] for each in listed(group, "ownership")["offsets"]] == [""]


def test_history_is_equal_on_every_node(database_url: str, sql_connection: PsycopgConnection) -> None:
    with running_node(database_url, group_initial_rebalance_delay_ms=0) as one, closing(Client(one.url)) as client:
        group = client.group("g")
        group.stable().commit(position(5))
        with running_node(database_url) as two, closing(Client(two.url)) as elsewhere:
            wait_for_checkpoint(sql_connection)
            for what in ("rebalances", "transitions", "ownership"):
                assert listed(elsewhere.group("g"), what) == listed(group, what)


# -- what will not do ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "query",
    [
        "ownership?at=yesterday",
        "ownership?at=2026-11-21",
        "ownership?at=2026-11-21T02:13:00",
        "ownership?at=1763691180",
        "ownership?at=2026-02-30T00:00:00Z",
        "ownership?at=99999-01-01T00:00:00Z",
        "ownership?at=0001-01-01T00:00:00%2B14:00",
        "ownership?at=9999-12-31T23:59:59-14:00",
        "ownership?partition=-1",
        "ownership?partition=x",
        "ownership?topic=",
        "ownership?when=now",
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
        "member-sessions?cursor=!",
        "member-sessions?cursor=OTk5OTk5OTk5OTk5OTk5IGE",
        "member-sessions?cursor=MSAA",
        "member-sessions?end_reason=%00",
        "member-sessions?from=yesterday",
        "member-sessions?from=0001-01-01T00:00:00%2B14:00",
        "member-sessions?from=2026-11-21T03:00:00Z&to=2026-11-21T02:00:00Z",
    ],
)
def test_invalid_history_query_is_rejected_in_one_sentence(group: Group, query: str) -> None:
    group.handshake()

    answer = group.client.call("GET", f"{group.path}/{query}")

    assert (answer.status, answer.code) == (400, "INVALID_REQUEST"), answer
    assert answer.json["detail"]


def test_first_and_last_representable_times_are_accepted(group: Group) -> None:
    group.stable()

    for at, count in (("0001-01-01T00:00:00Z", 0), ("9999-12-31T23:59:59.999999Z", 1)):
        assert len(listed(group, "ownership", f"?at={at}")["ownership"]) == count


def test_unknown_group_name_is_reported_before_history_is_read(client: Client) -> None:
    assert client.call("GET", f"/v1/groups/{'g' * 256}/rebalances").code == "INVALID_GROUP_ID"
    assert client.call("GET", f"/v1/groups/{fresh_id('no%2Fgroup')}/ownership").code == "GROUP_ID_NOT_FOUND"


def test_rewinds_and_commits_without_a_member_name_the_client_s_address(client: Client, group: Group) -> None:
    def address_after(answer: Answer) -> str | None:
        assert answer.status == 200
        (found,) = client.ok("GET", f"{group.path}/ownership")["offsets"]
        address: str | None = found["client_address"]
        return address

    simple = {"generation": -1, "member_id": ""}
    assert address_after(group.post("offsets", {**simple, "offsets": [position(5)]})) == "127.0.0.1"
    member = group.stable()
    assert address_after(member.commit(position(6))) is None
    assert address_after(member.commit(position(3))) == "127.0.0.1"
    assert address_after(member.commit(position(4))) is None
