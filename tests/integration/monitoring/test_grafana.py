"""Tests that every dashboard panel returns rows for a read-only role."""

import json
import re
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import psycopg2
import pytest
import yaml
from psycopg2.extensions import QuotedString
from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name

from coordinator_core.jobs import JOBS
from coordinator_core.protocol.records import RemovalReason
from coordinator_core.queries.reports import REPORTS
from coordinator_core.queries.runner import Queries
from coordinator_core.state_store.postgres import PostgresStore
from muster.settings import psql_url
from tests.support.databases import Databases
from tests.support.report_rows import complete_row, insert_reports
from tests.support.repository import ROOT
from tests.support.store_rows import (
    SHARD,
    change_row,
    committed,
    group_row,
    member_row,
    ownership_row,
    part_row,
    rebalance_row,
    removed,
    run_row,
    session_row,
    uuid_of,
    write,
)
from tests.support.store_worlds import MS_FUNCTION, TTL_MS, Owner, PostgresWorld
from tests.support.tools import program

GRAFANA = ROOT / "docker" / "grafana"
DASHBOARDS: dict[str, dict[str, Any]] = {
    file.name: json.loads(file.read_text()) for file in sorted((GRAFANA / "dashboards").glob("*.json"))
}
SOURCES = yaml.safe_load((GRAFANA / "provisioning" / "datasources" / "muster.yaml").read_text())["datasources"]
METRICS: dict[str, set[str]] = {
    name: {label.strip() for label in labels.split(",") if label.strip()}
    for name, labels in re.findall(
        r"^\| `([a-z_]+)` \| [a-z]+ \| ([a-z_, ]*)\|", (ROOT / "docs" / "metrics.md").read_text(), re.MULTILINE
    )
}
OF_PROMETHEUS = {"instance", "job", "le"}
GROUP, MEMBER = 'it\'s "orders"', "m-1"
MINUTE_MS = 60_000
ADVICE = {"timeout_advice": {"session_verdict": "change", "rebalance_verdict": "keep", "initial_delay_verdict": "keep"}}


class Query(NamedTuple):
    """A query of a panel."""

    dashboard: str
    panel: str
    text: str


def queries(kind: str, key: str) -> list[Query]:
    """Return every query of one kind of source."""
    return [
        Query(name, panel["title"], target[key])
        for name, dashboard in DASHBOARDS.items()
        for panel in dashboard["panels"]
        if panel["datasource"]["type"] == kind
        for target in panel["targets"]
    ]


SQL = queries("grafana-postgresql-datasource", "rawSql")
PROMQL = queries("prometheus", "expr")
every_dashboard = pytest.mark.parametrize("name", DASHBOARDS)


# -- dashboards -------------------------------------------------------------------------------------------


def test_dashboards_link_from_overview_to_group_and_member() -> None:
    assert {each["uid"] for each in DASHBOARDS.values()} == {
        "muster-overview",
        "muster-group",
        "muster-member",
        "muster-rebalances",
        "muster-reports",
        "muster-retention",
        "muster-coordinator",
    }
    assert "/d/muster-group?" in json.dumps(DASHBOARDS["overview.json"])
    assert "/d/muster-group?" in json.dumps(DASHBOARDS["reports.json"])
    assert "/d/muster-member?" in json.dumps(DASHBOARDS["group.json"])


@every_dashboard
def test_every_panel_has_a_unique_title_a_position_and_a_provisioned_source(name: str) -> None:
    provisioned = {(source["type"], source["uid"]) for source in SOURCES}
    panels = DASHBOARDS[name]["panels"]
    assert len({panel["title"] for panel in panels}) == len({panel["id"] for panel in panels}) == len(panels) > 0
    for panel in panels:
        sources = [panel["datasource"], *(target["datasource"] for target in panel["targets"])]
        assert {(source["type"], source["uid"]) for source in sources} <= provisioned
        assert panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24


@every_dashboard
def test_panels_do_not_overlap(name: str) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARDS[name]["panels"]:
        x, y, width, height = (panel["gridPos"][key] for key in "xywh")
        cells = {(column, row) for column in range(x, x + width) for row in range(y, y + height)}
        assert not taken & cells
        taken |= cells


@every_dashboard
def test_every_variable_that_is_used_is_declared_and_every_link_leads_to_a_dashboard(name: str) -> None:
    dashboard = DASHBOARDS[name]
    declared = {variable["name"] for variable in dashboard["templating"]["list"]}
    text = "\n".join(json.dumps(panel) for panel in dashboard["panels"])
    used = set(re.findall(r"\$\{?(?!_)(\w+)", text)) | set(re.findall(r'"\$(\w+)\\"', text))
    assert used - {"__url_time_range"} <= declared
    uids = {each["uid"] for each in DASHBOARDS.values()}
    assert set(re.findall(r"/d/([\w-]+)", text)) <= uids
    for variable, column in re.findall(r"var-(\w+)=\$\{__data\.fields\.(\w+)", text):
        assert f"{variable}_id" == column


def test_a_link_takes_its_value_from_a_column_that_the_panel_shows() -> None:
    for dashboard in DASHBOARDS.values():
        for panel in dashboard["panels"]:
            named = [override["matcher"]["options"] for override in panel["fieldConfig"]["overrides"]]
            assert all(re.search(rf"\b{column}\b", panel["targets"][0]["rawSql"]) for column in named), panel["title"]


# -- SQL --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def reader(databases: Databases) -> Iterator[PsycopgConnection]:
    """Connect as a reader to a database in which all kinds of things have happened."""
    url = databases.create()
    connection = psycopg2.connect(psql_url(url))
    connection.autocommit = True
    store, queries = PostgresStore(url), Queries(url)
    with connection.cursor() as cursor:
        cursor.execute(MS_FUNCTION)
    generate_activity(PostgresWorld(store, connection, queries), connection)
    queries.close()
    store.close()
    with connection.cursor() as cursor:
        cursor.execute("SET ROLE muster_reader")
    yield connection
    connection.close()
    databases.drop(url)


def generate_activity(world: PostgresWorld, connection: PsycopgConnection) -> None:
    """Fill what dashboards read: a group that runs, one that does not settle, runs, changes, and one node."""
    owner = Owner(world.store)
    world.store.renew("node", {"http": "http://node"}, "1", owner.epochs, TTL_MS)
    now_ms = world.today_ms()
    begin_ms = now_ms - 30 * MINUTE_MS
    span: dict[str, Any] = {"topic": "clicks", "partitions": [0], "since_ms": begin_ms, "generation": 1}
    held = [{**span, "rebalance_id": uuid_of("first")}]
    members = {"m-1": member_row("m-1", GROUP, ownership=held), "m-2": member_row("m-2", GROUP, ownership=[])}
    members["back"] = member_row("back", GROUP, joined_at_ms=begin_ms + 5, ownership=[])
    over = {"started_at_ms": begin_ms, "completed_at_ms": begin_ms + 3_000}
    part: dict[str, Any] = {"group_id": GROUP, "completed_at_ms": begin_ms + 3_000}
    session = {"started_at_ms": begin_ms - 1, "joined_at_ms": begin_ms - 1, "end_reason": "session_expired"}
    held_before = {"valid_from_ms": begin_ms - 9, "valid_to_ms": begin_ms}
    owner.write(
        write(
            GROUP,
            group=group_row(GROUP, member_count=3),
            members=members,
            rebalances=(rebalance_row("first", GROUP, **over),),
            rebalance_members=(part_row("m-1", **part), part_row("m-2", **part)),
            sessions=(session_row("m-1", GROUP, **session, ended_at_ms=begin_ms),),
            ownerships=(ownership_row(GROUP, **held_before),),
        ),
        write("stuck", group=group_row("stuck", state="PreparingRebalance", rebalance_started_at_ms=begin_ms)),
    )
    for minutes, offset in ((20, 5), (0, 8)):
        record = committed(offset=offset, log_end_offset=20, at_ms=now_ms - minutes * MINUTE_MS)
        owner.write(write(GROUP, committed=(record, committed(partition=1, at_ms=now_ms))))
    gone = next(row for row in world.store.stored_offsets(GROUP) if row.partition == 1)
    owner.write(write(GROUP, removed=(removed(gone, at_ms=now_ms),)))
    change = change_row(at_ms=now_ms, group_id=GROUP)
    world.store.put_settings(GROUP, {"group_max_size": "5"}, change)
    world.propose(run_row(as_of_ms=now_ms), [], [(GROUP, SHARD, 1, 2, now_ms)])  # type: ignore[list-item]  # a row, as it is written
    insert_daily_reports(connection)
    with connection.cursor() as cursor:
        cursor.execute("UPDATE shard_leases SET expires_at = NULL, node_id = NULL WHERE shard_id = 3")


def insert_daily_reports(connection: PsycopgConnection) -> None:
    """Store two reports of each kind: of the day before yesterday and of yesterday, which ended an hour ago."""
    now = datetime.now(UTC)
    for job in JOBS.values():
        if job.is_report:
            table = REPORTS[job.subject].name
            for hours in (25, 1):
                end = now - timedelta(hours=hours)
                row = complete_row(table, GROUP, interval_start=end - timedelta(days=1), interval_end=end, as_of=end)
                insert_reports(connection, job.subject, [{**row, **ADVICE.get(table, {})}])


def filled_in(query: str, start: datetime | None = None, end: datetime | None = None) -> str:
    """Put values in the place of variables and macros, as Grafana does; the range is the last six hours."""
    now = datetime.now(UTC)
    first = f"'{(start or now - timedelta(hours=6)).isoformat()}'"
    last = f"'{(end or now + timedelta(minutes=1)).isoformat()}'"
    query = re.sub(r"\$__timeFilter\((\w+)\)", rf"\1 BETWEEN {first} AND {last}", query)
    query = query.replace("$__timeFrom()", first).replace("$__timeTo()", last)
    for name, value in (("group", GROUP), ("member", MEMBER)):
        quoted = QuotedString(value)
        query = query.replace(f"${{{name}:sqlstring}}", quoted.getquoted().decode())
    query = query.replace("$__searchFilter", "")
    assert "$" not in query, query
    return query


@pytest.mark.parametrize("query", SQL, ids=lambda query: f"{query.dashboard}: {query.panel}")
def test_every_panel_returns_rows_to_a_reader(reader: PsycopgConnection, query: Query) -> None:
    with reader.cursor() as cursor:
        cursor.execute(filled_in(query.text))
        assert cursor.fetchall()


def test_members_with_damaged_ownership_are_listed(reader: PsycopgConnection) -> None:
    (query,) = (each for each in SQL if (each.dashboard, each.panel) == ("group.json", "Members"))
    columns = "group_id, member_id, client_id, client_host, group_instance_id, joined_at, session_timeout_ms"
    for damaged in ("7", "[3]", '[{"topic": "clicks", "partitions": 7}]'):
        members = f"WITH members AS (SELECT {columns}, '{damaged}'::jsonb AS ownership FROM members)"  # noqa: S608
        with reader.cursor() as cursor:
            cursor.execute(f"{members} {filled_in(query.text)}")
            assert cursor.rowcount == 3


def rows_of(reader: PsycopgConnection, title: str, hours: int) -> list[tuple[Any, ...]]:
    """Return the rows of a panel of reports in a range that ends now."""
    (query,) = (each for each in SQL if (each.dashboard, each.panel) == ("reports.json", title))
    with reader.cursor() as cursor:
        cursor.execute(filled_in(query.text, datetime.now(UTC) - timedelta(hours=hours)))
        return cursor.fetchall()


@pytest.mark.parametrize("title", ["Rebalance frequency by group", "Assignment balance by group"])
def test_the_newest_report_of_a_group_is_shown(reader: PsycopgConnection, title: str) -> None:
    ((group_id, interval_end, *_),) = rows_of(reader, title, hours=48)
    assert group_id == GROUP
    assert interval_end > datetime.now(UTC) - timedelta(hours=24)


def test_only_timeouts_to_change_are_shown(reader: PsycopgConnection) -> None:
    ((group_id, _, setting, *_),) = rows_of(reader, "Timeouts to change", hours=48)
    assert (group_id, setting) == (GROUP, "session_timeout_ms")


@pytest.mark.parametrize(
    "title",
    [
        "Share of time spent rebalancing, ten groups",
        "Assignment score, ten groups",
        "Groups with a timeout to change",
    ],
)
def test_reports_are_shown_over_time(reader: PsycopgConnection, title: str) -> None:
    assert len(rows_of(reader, title, hours=48)) == 2


@pytest.mark.parametrize(
    "query", [each for each in SQL if "rebalances_per_hour" in each.text], ids=lambda query: query.panel
)
def test_rebalances_are_seen_in_a_range_that_begins_within_their_hour(reader: PsycopgConnection, query: Query) -> None:
    with reader.cursor() as cursor:
        cursor.execute("SELECT max(completed_at) FROM rebalances")
        ((over,),) = cursor.fetchall()
        cursor.execute(filled_in(query.text, over, over + timedelta(minutes=15)))
        assert cursor.fetchall()


@pytest.mark.parametrize("name", ["group.json", "member.json"])
def test_variables_list_existing_groups_and_members(reader: PsycopgConnection, name: str) -> None:
    offered = {}
    for variable in DASHBOARDS[name]["templating"]["list"]:
        with reader.cursor() as cursor:
            cursor.execute(filled_in(variable["query"]))
            offered[variable["name"]] = {value for (value,) in cursor.fetchall()}
    assert GROUP in offered["group"]
    assert MEMBER in offered.get("member", {MEMBER})


@pytest.mark.parametrize("query", SQL, ids=lambda query: f"{query.dashboard}: {query.panel}")
def test_panel_queries_are_limited_in_rows_or_to_one_group(query: Query) -> None:
    assert re.search(r"\bLIMIT \d+$|\$\{group|GROUP BY|newest_runs|FROM (nodes|shard_leases)\n", query.text), query.text


def test_panels_by_hour_count_whole_hours_in_utc() -> None:
    by_hour = [query for query in SQL if "date_trunc('hour'" in query.text]
    assert len(by_hour) == 4
    for query in by_hour:
        assert "timeFilter" not in query.text, query.panel
        assert query.text.count("date_trunc('hour'") == query.text.count(", 'UTC')"), query.panel


def test_tables_of_lag_say_whether_it_is_a_lower_bound() -> None:
    shown = [query for query in SQL if "lag_records," in query.text]
    assert len(shown) == 4
    assert all("is_lag_lower_bound, log_end_at" in query.text for query in shown)


def test_evictions_are_timeouts() -> None:
    (panel,) = (query for query in PROMQL if query.panel == "Members evicted per hour")
    (reasons,) = re.findall(r'reason=~"([^"]+)"', panel.text)
    counted = {reason for reason in RemovalReason if re.fullmatch(reasons, reason)}
    assert counted == set(RemovalReason) - {RemovalReason.LEFT, RemovalReason.LEFT_OR_EXPIRED, RemovalReason.ADMIN}


def test_reader_role_is_created_with_read_access_only() -> None:
    postgres = next(source for source in SOURCES if source["uid"] == "muster-postgres")
    script = (ROOT / "docker" / "first-start.sh").read_text()
    assert f"CREATE ROLE {postgres['user']} LOGIN PASSWORD :'grafana_password' IN ROLE muster_reader;" in script
    assert f"ALTER ROLE {postgres['user']} SET statement_timeout" in script


# -- PromQL -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("query", PROMQL, ids=lambda query: f"{query.dashboard}: {query.panel}")
def test_panels_use_existing_metrics_and_labels(query: Query) -> None:
    text = query.text.replace("$__rate_interval", "5m")
    named = re.findall(r"\b((?:muster|kafka|process)_[a-z_]+|up)\b(?:\{([^}]*)\})?", text)
    labels = set(OF_PROMETHEUS)
    for name, matchers in named:
        family = name if name in METRICS or name == "up" else re.sub(r"_(bucket|count|sum)$", "", name)
        own = set(OF_PROMETHEUS) if family == "up" else METRICS[family] | OF_PROMETHEUS
        assert set(re.findall(r"(\w+)(?:=~|!=|!~|=)", matchers)) <= own
        labels |= own
    assert named
    for grouped in re.findall(r"\bby \(([^)]*)\)", text):
        assert {label.strip() for label in grouped.split(",")} <= labels


def test_prometheus_accepts_every_query(tmp_path: Path) -> None:
    rules = [
        {"record": f"panel:{number}", "expr": query.text.replace("$__rate_interval", "5m").replace("$group", "g")}
        for number, query in enumerate(PROMQL)
    ]
    file = tmp_path / "panels.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    checked = subprocess.run([program("promtool"), "check", "rules", file], check=False, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert f"{len(PROMQL)} rules found" in checked.stdout
