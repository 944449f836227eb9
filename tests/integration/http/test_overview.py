"""The overview of groups over HTTP, and a run's candidates: pages, filters, and what a token may see of them."""

import re
from contextlib import closing
from hashlib import sha256
from json import dumps
from pathlib import Path
from urllib.parse import quote

import psycopg2
import pytest
from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name

from muster.settings import psql_url
from tests.integration.http.openapi import answer_fits
from tests.support.databases import Databases
from tests.support.http_client import Client, Group, Json, fresh_id, position
from tests.support.nodes import CLUSTER_SECRET, running_node
from tests.support.offset_log import wait_for_checkpoint
from tests.support.waiting import poll_until

SIMPLE_CONSUMER = {"generation": -1, "member_id": ""}


def overview(client: Client, **query: str) -> Json:
    return client.ok(
        "GET", "/v1/overview/groups?" + "&".join(f"{name}={quote(value)}" for name, value in query.items())
    )


def test_summary_includes_members_lag_and_rebalances(
    client: Client, group: Group, topic: str, rows: PsycopgConnection
) -> None:
    member = group.stable(topic)
    member.commit(position(5, topic=topic, log_end_offset=9))
    wait_for_checkpoint(rows)

    found = overview(client, q=group.group_id)
    (glance,) = [each for each in found["groups"] if each["group_id"] == group.group_id]

    assert (glance["state"], glance["generation"], glance["member_count"]) == ("Stable", 1, 1)
    assert (glance["lag"], glance["rebalances_last_hour"]) == (4, 1)
    assert (glance["last_rebalance_trigger"], glance["rebalance_trigger"]) == ("member_joined", None)
    assert glance["last_rebalance_at"] >= glance["state_since"][:16]
    assert found["counts"]["Stable"] >= 1
    answer_fits(client.ok("GET", "/openapi.json"), "get", "/v1/overview/groups", found)


def test_activity_has_the_last_24_hours(client: Client, group: Group) -> None:
    group.stable()
    found = client.ok("GET", "/v1/overview/activity")
    assert (len(found["hours"]), found["forecast"]) == (24, None)
    assert sum(each["rebalances"] for each in found["hours"][-2:]) >= 1
    assert found["flapping_groups"] >= 0
    answer_fits(client.ok("GET", "/openapi.json"), "get", "/v1/overview/activity", found)


@pytest.mark.parametrize("sort", ["attention", "group_id", "since", "members", "lag", "rebalances"])
def test_pages_join_in_every_order(client: Client, sort: str) -> None:
    prefix = fresh_id("paged")
    for number in range(5):
        offsets = [position(0, topic=f"{prefix}-{number}", log_end_offset=number % 2)]
        client.ok("POST", f"/v1/groups/{prefix}-{number}/offsets", {**SIMPLE_CONSUMER, "offsets": offsets})
        client.ok("GET", f"/v1/groups/{prefix}-{number}/offsets")  # a fetch checkpoints: the lag changes no more
    whole = [each["group_id"] for each in overview(client, q=prefix, sort=sort)["groups"]]
    pages: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        page = overview(client, q=prefix, sort=sort, limit="2", cursor=cursor)
        assert page["counts"] == {"Empty": 5}
        pages += [each["group_id"] for each in page["groups"]]
        cursor = page["next_cursor"]
    assert pages == whole
    assert len(whole) == 5


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("sort=size", "sort must be one of attention, group_id, since, members, lag, rebalances"),
        ("cursor=x", "the cursor was not issued by this list"),
        ("cursor=MQ", "the cursor was not issued by this list"),
        (f"q={'x' * 256}", "q: expected `str` of length <= 255"),
        ("limit=0", "limit: "),
        ("name=x", "the query has an unknown parameter name"),
    ],
)
def test_invalid_parameters_are_refused_in_a_sentence(client: Client, query: str, said: str) -> None:
    answer = client.call("GET", f"/v1/overview/groups?{query}")
    assert answer.code == "INVALID_REQUEST"
    assert answer.json["detail"].startswith(said.replace("`", ""))


def test_state_filter_ignores_case_and_unknown_states_match_no_group(client: Client, group: Group) -> None:
    group.stable()
    assert overview(client, q=group.group_id, state="stable")["groups"] != []
    assert overview(client, q=group.group_id, state="Sleeping")["groups"] == []


def test_candidates_are_listed_with_recorded_state_and_outcome(client: Client, group: Group, run_id: str) -> None:
    path = f"/v1/maintenance/runs/{run_id}"
    answer = client.ok("GET", f"{path}/candidates")
    (one,) = answer["candidates"]
    assert (one["group_id"], one["topic"], one["partition"]) == (group.group_id, "orders", 0)
    assert (one["reason"], one["outcome"], one["generation"]) == ("retention", None, None)
    assert re.match(r"\d{4}-", one["committed_at"])
    assert (answer["run_id"], answer["next_cursor"]) == (run_id, None)
    answer_fits(client.ok("GET", "/openapi.json"), "get", "/v1/maintenance/runs/{run_id}/candidates", answer)

    client.ok("POST", f"{path}/apply", {"reason": "reviewed"})
    poll_until(lambda: client.ok("GET", path)["status"] == "applied")
    assert client.ok("GET", f"{path}/candidates")["candidates"][0]["outcome"] == "not_due"


def test_pages_of_candidates_join(client: Client, rows: PsycopgConnection, run_id: str) -> None:
    with rows.cursor() as cursor:
        cursor.execute(
            "INSERT INTO expiry_candidates (run_id, group_id, shard_id, topic, partition, commit_version, committed_at,"
            " reason) SELECT %s, 'ü/' || n, 0, 'tö\"pic', n, 0, now(), 'retention' FROM generate_series(1, 5) AS n",
            (run_id,),
        )
    path = f"/v1/maintenance/runs/{run_id}/candidates"
    whole = client.ok("GET", path)["candidates"]
    pages: list[Json] = []
    at: str | None = ""
    while at is not None:
        page = client.ok("GET", f"{path}?limit=2&cursor={at}")
        pages += page["candidates"]
        at = page["next_cursor"]
    assert pages == whole
    assert len(whole) == 6


@pytest.mark.parametrize("cursor", ["x", "bm90IGpzb24", "WzEsMiwzXQ", "WyJcdTAwMDAiLCIiLDBd", "WyJhIiwiYiIsLTld"])
def test_cursor_of_another_list_is_rejected(client: Client, run_id: str, cursor: str) -> None:
    answer = client.call("GET", f"/v1/maintenance/runs/{run_id}/candidates?cursor={cursor}")
    assert answer.json["detail"] == "the cursor was not issued by this list"


@pytest.mark.parametrize("name", ["no-uuid", "00000000-0000-4000-8000-000000000000"])
def test_candidates_of_an_unknown_run_are_not_found(client: Client, name: str) -> None:
    answer = client.call("GET", f"/v1/maintenance/runs/{name}/candidates")
    assert (answer.status, answer.code) == (404, "RESOURCE_NOT_FOUND")


def test_archived_days_are_listed_once_with_path_and_outcome(
    client: Client, rows: PsycopgConnection, run_id: str
) -> None:
    with rows.cursor() as cursor:
        cursor.execute(
            "INSERT INTO archive_candidates (run_id, table_name, day, source, path, row_count, checksum, verified_at,"
            " outcome) SELECT %s, 'rebalances', day::date, '', 'file:///a/' || n, n, '1-' || n,"
            " '2026-11-21 12:00:00.5+00', nullif('dropped', CASE n WHEN 1 THEN 'dropped' END)"
            " FROM (VALUES (1, '2026-10-02'), (2, '2026-10-01')) AS days (n, day)",
            (run_id,),
        )
        cursor.execute(
            "INSERT INTO expiry_candidates (run_id, group_id, shard_id, topic, partition, commit_version, committed_at,"
            " reason) SELECT %s, 'g', 0, 't', n, 0, now(), 'retention' FROM generate_series(1, 2) AS n",
            (run_id,),
        )
    path = f"/v1/maintenance/runs/{run_id}/candidates?limit=2"
    answer = client.ok("GET", path)
    (older, newer) = answer["days"]
    assert older == {
        "table": "rebalances",
        "day": "2026-10-01",
        "row_count": 2,
        "path": "file:///a/2",
        "checksum": "1-2",
        "verified_at": "2026-11-21T12:00:00.500000Z",
        "outcome": "dropped",
    }
    assert (newer["day"], newer["outcome"]) == ("2026-10-02", None)
    answer_fits(client.ok("GET", "/openapi.json"), "get", "/v1/maintenance/runs/{run_id}/candidates", answer)
    assert client.ok("GET", f"{path}&cursor={answer['next_cursor']}")["days"] == []


# -- permissions ------------------------------------------------------------------------------------------


def test_a_token_for_some_groups_sees_its_own_and_counts_no_others(databases: Databases, tmp_path: Path) -> None:
    operator = {"sha256": sha256(b"all").hexdigest(), "actor": "olga", "role": "operator"}
    viewer = {"sha256": sha256(b"some").hexdigest(), "actor": "vera", "role": "viewer", "prefixes": ["mine-"]}
    tokens = tmp_path / "tokens.json"
    tokens.write_text(dumps({"tokens": [operator, viewer]}))
    url = databases.create()
    with (
        running_node(url, tokens_file=str(tokens), cluster_secret=CLUSTER_SECRET) as node,
        closing(Client(node.url)) as client,
    ):
        for name in ("mine-1", "theirs-1"):
            offsets = {**SIMPLE_CONSUMER, "offsets": [position(1)]}
            client.ok("POST", f"/v1/groups/{name}/offsets", offsets, {"Authorization": "Bearer all"})
        found = client.ok("GET", "/v1/overview/groups", headers={"Authorization": "Bearer some"})
        assert [each["group_id"] for each in found["groups"]] == ["mine-1"]
        assert found["counts"] == {"Empty": 1}
        assert days_seen(client, url) == {"all": 1, "some": 0}
        assert client.send("GET", "/v1/overview/groups").status == 401
        assert client.send("GET", "/").status == 200
    databases.drop(url)


def days_seen(client: Client, url: str) -> dict[str, int]:
    """Return the number of archived days that each token sees of a run with one day."""
    run_id = "0b5f4f8e-57a5-5dd8-a2f3-6a5f0c9a0b1d"
    with closing(psycopg2.connect(psql_url(url))) as connection, connection, connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO maintenance_runs (run_id, kind, as_of, status)"
            " VALUES (%s, 'history_archive', now(), 'applied');"
            " INSERT INTO archive_candidates (run_id, table_name, day, source, path, row_count, checksum, verified_at)"
            " VALUES (%s, 'rebalances', '2026-10-01', '', 'file:///a', 1, '1-1', now())",
            (run_id, run_id),
        )
    path = f"/v1/maintenance/runs/{run_id}/candidates"
    answers = {token: client.ok("GET", path, headers={"Authorization": f"Bearer {token}"}) for token in ("all", "some")}
    return {token: len(answer["days"]) for token, answer in answers.items()}
