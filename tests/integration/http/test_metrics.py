"""`/metrics` exports the metrics that docs/metrics.md lists, and no others."""

import asyncio
import re
import time
from contextlib import closing

import psycopg2
import pytest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families
from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name

from api.http.limits import HttpLimits
from muster.settings import psql_url
from tests.integration.http.in_process import answer_of, http_server
from tests.support.http_client import Client, Group, gives, join_body, position
from tests.support.nodes import running_node
from tests.support.offset_log import wait_for_checkpoint
from tests.support.repository import ROOT
from tests.support.waiting import poll_until

PAGE = ROOT / "docs" / "metrics.md"
OF_MIRRORS = "muster_mirror_"
"""Their metrics are tested with a mirror of a real Kafka."""
ROW = re.compile(r"\| `(?P<name>[a-z_]+)` \| (?P<kind>[a-z]+) \| (?P<labels>[a-z_, ]*) ?\| (?P<meaning>[^|]+) \|")
SIMPLE_CONSUMER = {"generation": -1, "member_id": ""}
ATTEMPTS = 5
"""Scrapes that a busy machine may be too slow for."""


def scraped(client: Client, query: str = "?detail=partition") -> dict[str, Metric]:
    answer = client.call("GET", f"/metrics{query}")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    return {family.name: family for family in text_string_to_metric_families(answer.body.decode())}


def values(family: Metric, suffix: str = "", **labels: str) -> list[float]:
    return [
        sample.value
        for sample in family.samples
        if sample.name == family.name + suffix and labels.items() <= sample.labels.items()
    ]


def shown(client: Client, name: str, query: str = "?detail=partition", **labels: str) -> Metric:
    """Scrape until a family has a sample with these labels, since database values are cached for a while."""
    while True:
        family = scraped(client, query)[name]
        if values(family, **labels):
            return family


def labels_of(family: Metric) -> set[str]:
    return {name for sample in family.samples for name in sample.labels} - {"le"}


# -- the page ---------------------------------------------------------------------------------------------


def test_metrics_page_names_every_metric(client: Client, group: Group, topic: str) -> None:
    generate_activity(group, topic)
    rows = {row["name"]: row for row in map(ROW.match, PAGE.read_text().splitlines()) if row}
    documented = {name: row for name, row in rows.items() if not name.startswith(OF_MIRRORS)}

    shown = {
        family.name + ("_total" if family.type == "counter" else ""): family for family in scraped(client).values()
    }

    assert documented.keys() == shown.keys()
    assert {name: row["kind"] for name, row in documented.items()} == {name: each.type for name, each in shown.items()}
    for name, row in documented.items():
        named = {label.strip() for label in row["labels"].split(",") if label.strip()}
        assert labels_of(shown[name]) in ([named] if shown[name].samples else [set()]), name


def test_common_queries_use_documented_metrics() -> None:
    queries = "".join(re.findall(r"```promql\n(.*?)```", PAGE.read_text(), re.DOTALL))
    used = {re.sub("_bucket$", "", name) for name in re.findall(r"\b(?:muster|kafka)_[a-z_]+", queries)}

    assert used
    assert used <= {row["name"] for row in map(ROW.match, PAGE.read_text().splitlines()) if row}


def generate_activity(group: Group, topic: str) -> None:
    """Fill every family that has labels."""
    member = group.stable(topic)
    member.commit(position(5, topic=topic, log_end_offset=9))
    group.post("leave", {"members": [{"member_id": member.member_id}]})
    group.client.ok("DELETE", f"{group.path}?reason=test")
    group.post("leave", {"members": [{"member_id": group.stable(topic).member_id}]})
    group.stable(topic).commit(position(5, topic=topic, log_end_offset=9))


# -- what is counted ----------------------------------------------------------------------------------------


def test_group_events_are_counted(database_url: str, topic: str) -> None:
    with running_node(database_url, group_initial_rebalance_delay_ms=0) as node:
        client = Client(node.url)
        group = client.group("g")
        member = group.join(topic=topic)
        member.sync(gives(member.member_id, 0, 1, topic=topic))
        member.commit(position(5, topic=topic, log_end_offset=9), position(7, partition=1, topic=topic))
        member.post("heartbeat")
        member.post("heartbeat")
        group.post("heartbeat", {"generation": 9, "member_id": "nobody"})
        with closing(psycopg2.connect(psql_url(database_url))) as connection:
            wait_for_checkpoint(connection)
        found = scraped(client)
        group.post("leave", {"members": [{"member_id": member.member_id}]})
        after = scraped(client)
        client.close()

    assert values(found["muster_requests"], "_total", request="Heartbeat") == [3]
    assert values(found["muster_errors"], "_total", request="Heartbeat", error="UNKNOWN_MEMBER_ID") == [1]
    assert values(found["muster_request_total_time_seconds"], "_count", request="Heartbeat") == [3]
    assert values(found["muster_num_groups"], state="Stable") == values(found["muster_num_members"]) == [1]
    assert values(found["muster_group_started_rebalance"], "_total", trigger="member_joined") == [1]
    over = found["muster_group_completed_rebalance"]
    assert values(over, "_total", trigger="member_joined", outcome="completed") == [1]
    assert values(found["muster_group_rebalance_time_seconds"], "_count", phase="join") == [1]
    assert values(found["muster_offset_commit"], "_total") == values(found["muster_num_offsets"]) == [2]
    assert values(found["muster_members_joined"], "_total") == [1]
    assert (
        values(found["muster_num_shards"], state="active") == values(found["muster_shards_acquired"], "_total") == [50]
    )
    assert values(found["muster_configured_shards"]) == [50]
    assert values(found["muster_database_up"]) == [1]
    assert values(found["muster_batch_flush_time_seconds"], "_count")[0] >= 4
    assert values(after["muster_members_removed"], "_total", reason="left") == [1]
    assert values(after["muster_group_completed_rebalance"], "_total", outcome="emptied") == [1]
    assert values(after["muster_num_groups"], state="Empty") == [1]


def test_offsets_are_exported_at_the_requested_detail(client: Client, group: Group, topic: str) -> None:
    commits = [
        position(5, topic=topic, log_end_offset=9),
        position(7, partition=1, topic=topic, log_end_offset=8),
        position(1, partition=2, topic=topic),
    ]
    group.post("offsets", {**SIMPLE_CONSUMER, "offsets": commits})

    shown(client, "kafka_consumergroup_lag_sum", "?detail=topic", consumergroup=group.group_id)
    shown(client, "kafka_consumergroup_lag_seconds", consumergroup=group.group_id, partition="1")
    by_detail = {detail: scraped(client, f"?detail={detail}") for detail in ("node", "group", "topic", "partition")}

    of_group = {"consumergroup": group.group_id}
    families = {detail: {name for name in found if "consumergroup" in name} for detail, found in by_detail.items()}
    assert [len(families[detail]) for detail in ("node", "group", "topic", "partition")] == [0, 1, 5, 8]
    assert values(by_detail["group"]["kafka_consumergroup_members"], **of_group) == [0]
    assert values(by_detail["topic"]["kafka_consumergroup_lag_sum"], **of_group, topic=topic) == [5]
    assert values(by_detail["topic"]["kafka_consumergroup_current_offset_sum"], **of_group) == [13]
    lags = by_detail["partition"]["kafka_consumergroup_lag"]
    assert [values(lags, **of_group, partition=partition) for partition in "012"] == [[4], [1], []]
    assert values(by_detail["partition"]["kafka_consumergroup_current_offset"], **of_group, partition="2") == [1]


def test_lag_is_shown_in_seconds_where_it_is_known(
    client: Client, group: Group, rows: PsycopgConnection, topic: str
) -> None:
    with rows.cursor() as cursor:
        cursor.execute(
            "INSERT INTO offset_history SELECT %s, 1, %s, 0, now() - interval '500 s', 5, 5, ''",
            (group.group_id, topic),
        )
    commits = [
        position(5, topic=topic, log_end_offset=9),
        position(8, partition=1, topic=topic, log_end_offset=8),
        position(1, partition=2, topic=topic),
    ]
    group.post("offsets", {**SIMPLE_CONSUMER, "offsets": commits})

    # Committed offsets and lags are read separately, so they may differ in time for a while.
    lags = shown(client, "kafka_consumergroup_lag_seconds", consumergroup=group.group_id, partition="0")

    reported = [values(lags, consumergroup=group.group_id, partition=partition) for partition in "012"]
    assert 500 <= reported[0][0] < 560
    assert reported[1:] == [[0], []]


def test_rebalancing_group_is_exported_with_the_members_it_waits_for(client: Client, group: Group) -> None:
    member = group.stable(rebalance_timeout_ms=60_000)
    parked = client.later(group, "join", join_body(member_id=group.handshake()))
    poll_until(lambda: group.describe()["state"] != "Stable")

    found = scraped(client, "?detail=group")
    group.post("leave", {"members": [{"member_id": member.member_id}]})
    parked.result()

    of_group = {"consumergroup": group.group_id}
    took = values(found["muster_group_rebalancing_seconds"], **of_group, state="PreparingRebalance")
    assert len(took) == 1
    assert 0 <= took[0] < 60
    assert values(found["muster_group_awaited_members"], **of_group) == [1]
    who = {"member_id": member.member_id, "client_id": "agent-1"}
    assert values(found["muster_group_awaited_member_info"], **of_group, **who) == [1]
    assert "muster_group_rebalancing_seconds" not in scraped(client, "?detail=node")


def test_group_with_a_high_rebalance_rate_is_exported(client: Client, group: Group) -> None:
    for _ in range(2):
        member = group.stable()
        group.post("leave", {"members": [{"member_id": member.member_id}]})

    found = scraped(client, "?detail=group")

    assert values(found["muster_group_recent_rebalances"], consumergroup=group.group_id) == [4]
    assert "muster_group_recent_rebalances" not in scraped(client, "?detail=node")


def test_late_commits_are_counted_from_zero(database_url: str) -> None:
    with running_node(database_url) as node, closing(Client(node.url)) as client:
        errors = scraped(client, "?detail=node")["muster_errors"]
    reported = {(sample.labels["request"], sample.labels["error"]): sample.value for sample in errors.samples}
    assert reported == {
        ("OffsetCommit", "UNKNOWN_MEMBER_ID"): 0,
        ("OffsetCommit", "ILLEGAL_GENERATION"): 0,
        ("OffsetCommit", "FENCED_INSTANCE_ID"): 0,
    }


def test_last_run_of_a_job_is_exported(client: Client, rows: PsycopgConnection) -> None:
    with rows.cursor() as cursor:
        cursor.execute(
            "INSERT INTO maintenance_runs (run_id, kind, as_of, status)"
            " VALUES (gen_random_uuid(), 'group_cleanup', to_timestamp(1790000000.5), 'applied')"
        )

    runs = shown(client, "muster_job_last_run_timestamp_seconds", job_name="group_cleanup")

    assert values(runs, job_name="group_cleanup") == [1790000000.5]


def test_node_exports_its_time_and_queue_limit(client: Client) -> None:
    found = scraped(client, "?detail=node")
    assert abs(values(found["muster_node_time_seconds"])[0] - time.time()) < 60
    assert values(found["muster_write_queue_max_rows"]) == [50_000]
    assert values(found["muster_write_queue_max_bytes"]) == [67_108_864]
    assert values(found["muster_write_queue_bytes"])[0] >= 0


def test_default_detail_of_metrics_is_topic(client: Client, group: Group) -> None:
    group.post("offsets", {**SIMPLE_CONSUMER, "offsets": [position(5)]})

    assert scraped(client, "").keys() == scraped(client, "?detail=topic").keys()


def test_unknown_detail_is_refused(client: Client) -> None:
    answer = client.call("GET", "/metrics?detail=member")

    assert (answer.status, answer.code) == (400, "INVALID_REQUEST")
    assert "node, group, topic, partition" in answer.json["detail"]


def test_group_names_are_escaped_in_labels(client: Client) -> None:
    name = 'a "b"\\c\nd é'
    client.group(name).post(
        "offsets", {**SIMPLE_CONSUMER, "offsets": [position(2**63 - 1), position(2**63 - 1, partition=1)]}
    )

    offsets = shown(client, "kafka_consumergroup_current_offset", consumergroup=name)

    assert values(offsets, consumergroup=name, partition="1") == [float(2**63 - 1)]


def test_scrape_names_groups_only_with_detail(client: Client, group: Group) -> None:
    group.stable()

    text = client.call("GET", "/metrics?detail=node").body.decode()

    assert group.group_id not in text
    assert f'node_id="{client.address}"' in text


def test_groups_beyond_the_limit_of_series_are_summed(database_url: str) -> None:
    options = {"max_group_series": 2, "group_initial_rebalance_delay_ms": 0}
    with running_node(database_url, **options) as node, closing(Client(node.url)) as client:
        for group_id, offset in {"c": 1, "b": 100, "d": 1_000, "a": 10}.items():  # awaited: the last
            offsets = [position(offset, topic=topic) for topic in ("t1", "t2")]
            client.ok("POST", f"/v1/groups/{group_id}/offsets", {**SIMPLE_CONSUMER, "offsets": offsets})
            client.group(f"{group_id}-members").stable(session_timeout_ms=60_000)
        sums = shown(client, "kafka_consumergroup_current_offset_sum", consumergroup="a")
        partitions = scraped(client)["kafka_consumergroup_current_offset"]
        members = scraped(client)["kafka_consumergroup_members"]

    assert [(each.labels["consumergroup"], each.labels["topic"], each.value) for each in sums.samples] == [
        ("a", "t1", 10),
        ("a", "t2", 10),
        ("", "", 2 * (100 + 1 + 1_000)),
    ]
    assert [each.labels["topic"] for each in partitions.samples] == ["t1", "t2"]
    sizes = [(each.labels["consumergroup"], each.value) for each in members.samples]
    assert sizes == [("a", 0), ("a-members", 1), ("", 3)]


def test_expiring_offsets_are_exported_from_the_newest_forecast(database_url: str) -> None:
    with closing(psycopg2.connect(psql_url(database_url))) as connection, connection, connection.cursor() as cursor:
        cursor.execute(FORECASTS)
    with running_node(database_url) as node:
        families = scraped(Client(node.url), "?detail=topic")
    assert values(families["muster_offsets_expiring"], within="1d") == [3]
    assert values(families["muster_offsets_expiring"], within="7d") == [12]
    assert values(families["muster_offsets_forecast_timestamp_seconds"]) == [1_795_262_400]


FORECASTS = """
INSERT INTO maintenance_runs (run_id, kind, as_of, status) VALUES
    ('0b5f4f8e-57a5-5dd8-a2f3-6a5f0c9a0b1d', 'offset_retention', '2026-11-21T11:50Z', 'applied'),
    ('1b5f4f8e-57a5-5dd8-a2f3-6a5f0c9a0b1d', 'offset_retention', '2026-11-21T12:00Z', 'proposed'),
    ('2b5f4f8e-57a5-5dd8-a2f3-6a5f0c9a0b1d', 'group_cleanup', '2026-11-21T12:10Z', 'proposed');
INSERT INTO offset_expiry_forecasts
SELECT group_id, 1, as_of, as_of, run_id, as_of, 1 + number, 5 + number, now()
FROM maintenance_runs, (VALUES ('a', 0), ('b', 1)) AS groups (group_id, number) WHERE kind = 'offset_retention';
UPDATE offset_expiry_forecasts SET within_a_week = within_a_week + 1 WHERE group_id = 'a';
"""


# -- a database that hangs ----------------------------------------------------------------------------------


@pytest.mark.parametrize("detail", ["topic", "partition"])
def test_metrics_without_database_values_are_omitted(detail: str) -> None:
    scrapes = (asyncio.run(scraped_while_the_database_hangs(detail)) for _ in range(ATTEMPTS))
    text = next(text for status, text in scrapes if status == 200)

    assert b"muster_num_groups" in text
    assert b"kafka_consumergroup_members" in text
    assert b"kafka_consumergroup_lag_sum" not in text


async def scraped_while_the_database_hangs(detail: str) -> tuple[int, bytes]:
    """Return a scrape that has time for one question, and hardly for two, of which each waits a second."""
    async with http_server(HttpLimits(request_timeout_ms=1_900)) as (app, _):
        return await answer_of(app, "/metrics", f"detail={detail}")
