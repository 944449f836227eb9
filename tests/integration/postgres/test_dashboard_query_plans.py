"""Query plans of the dashboards, and of the list of topics, with 10,000 groups and a month of history."""

import json
import re
from typing import cast

import psycopg2
import pytest
from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name

from coordinator_core.queries.topics import TopicOverviewFilter, read_topic_overview
from coordinator_core.state_store.postgres.connections import Transaction
from muster.settings import psql_url
from tests.support.databases import MIGRATED, Databases
from tests.support.repository import ROOT

FILL = """
DO $$
DECLARE
    kept record;
    day date;
BEGIN
    FOR kept IN SELECT * FROM (VALUES ('rebalances', 'completed_at'), ('rebalance_members', 'completed_at'),
        ('offset_history', 'at'), ('log_end_history', 'at'), ('member_sessions', 'ended_at'),
        ('partition_ownership', 'valid_to')) AS kept (name, at) LOOP
        FOR day IN SELECT generate_series(current_date - 30, current_date - 1, interval '1 day') LOOP
            EXECUTE format('CREATE TABLE %I PARTITION OF %I FOR VALUES FROM (%L) TO (%L)',
                kept.name || '_p' || to_char(day, 'YYYYMMDD'), kept.name, day, day + 1);
        END LOOP;
    END LOOP;
END
$$;
INSERT INTO groups (group_id, shard_id, state, state_since, generation, member_count)
SELECT 'g' || number, number % 50, CASE WHEN number % 1000 = 0 THEN 'PreparingRebalance' ELSE 'Stable' END, now(), 1, 1
FROM generate_series(1, 10000) AS number;
INSERT INTO members (group_id, shard_id, member_id, client_id, client_host, session_timeout_ms, rebalance_timeout_ms,
    ownership)
SELECT group_id, shard_id, 'm', 'c', 'h', 45000, 300000, '[{"topic": "t", "partitions": [0, 1]}]' FROM groups;
INSERT INTO offsets (group_id, shard_id, topic, partition, committed_offset, log_end_offset, committed_at)
SELECT group_id, shard_id, 't', partition, 10, 20, now() FROM groups CROSS JOIN generate_series(0, 1) AS partition;
CREATE TEMPORARY TABLE moments AS
SELECT 'g' || (number * 7919 % 10000 + 1) AS group_id, number % 50 AS shard_id, gen_random_uuid() AS id,
    current_date - (number + 1) * interval '130 s' AS at
FROM generate_series(0, 19899) AS number;
INSERT INTO rebalances SELECT id, group_id, shard_id, at, 1, 'admin', NULL, NULL, at, at, at, 'completed', 0, 1, 1, 1
FROM moments;
INSERT INTO rebalance_members SELECT id, group_id, shard_id, at, at, 'm', NULL, 'c', 'h', 1, 1, 1, 'joined'
FROM moments;
INSERT INTO offset_history SELECT group_id, shard_id, 't', 0, at, 10, 20, 'm' FROM moments;
INSERT INTO log_end_offsets SELECT topic, partition, 20, now(), current_date - 30
FROM unnest(ARRAY['t', 'u', 'v', 'w']) AS topic CROSS JOIN generate_series(0, 9) AS partition;
INSERT INTO log_end_history SELECT topic, partition, at, 1000000 - extract(epoch FROM now() - at) / 130
FROM (SELECT DISTINCT at FROM moments) AS moment
CROSS JOIN unnest(ARRAY['t', 'u', 'v', 'w']) AS topic CROSS JOIN generate_series(0, 1) AS partition;
INSERT INTO member_sessions SELECT group_id, shard_id, at, 'm', NULL, 'c', 'h', 1, 1, at, at, at, 'session_expired', at,
    1, 1, '{1}' FROM moments;
INSERT INTO partition_ownership SELECT group_id, shard_id, at, id, 1, 'm', 't', '{1}',
    at - interval '1 h', at FROM moments;
INSERT INTO changes SELECT id, at, 'ada', 'put', group_id, NULL, NULL, NULL FROM moments WHERE id::text < '1';
ANALYZE;
"""

DAY = re.compile(r"(Seq Scan|Index Scan|Index Only Scan|Bitmap Heap Scan)\b.* on (\w+)_p(\d{8})")
HISTORY = {
    "rebalances",
    "rebalance_members",
    "offset_history",
    "log_end_history",
    "member_sessions",
    "partition_ownership",
}

ALL_GROUPS = {
    "SELECT * FROM dashboards.group_overview ORDER BY lag_records DESC NULLS LAST LIMIT 100": set[str](),
    "SELECT * FROM dashboards.rebalancing_groups": set[str](),
    "SELECT * FROM dashboards.slowest_members WHERE group_id IN ('g1', 'g2')": set[str](),
    "SELECT * FROM dashboards.idle_members": set[str](),
    "SELECT hour, trigger, sum(rebalances) FROM dashboards.rebalances_per_hour GROUP BY hour, trigger": {"rebalances"},
}
"""Queries over all groups → the history tables that they read: some days, never all."""

OF_ONE_GROUP = (
    "SELECT * FROM dashboards.group_overview WHERE group_id = 'g7'",
    "SELECT * FROM dashboards.ownership WHERE group_id = 'g7'",
    "SELECT * FROM dashboards.slowest_members WHERE group_id = 'g7'",
    "SELECT * FROM dashboards.partition_lag WHERE group_id = 'g7'",
    "SELECT * FROM dashboards.lag_history WHERE group_id = 'g7' AND at > now() - interval '2 days'",
    "SELECT * FROM dashboards.rebalances_per_hour WHERE group_id = 'g7'",
    "SELECT * FROM dashboards.spurious_evictions WHERE group_id = 'g7'",
    "SELECT * FROM dashboards.idle_members WHERE group_id = 'g7'",
    "SELECT * FROM dashboards.rebalancing_groups WHERE group_id = 'g7'",
)

PARALLEL_WORKERS = 2
"""By Postgres' default of max_parallel_workers_per_gather."""

DASHBOARDS = ROOT / "docker" / "grafana" / "dashboards"
PANELS_OF_ONE_GROUP = {
    f"{name}: {panel['title']}": target["rawSql"]
    for name in ("group", "member")
    for panel in json.loads((DASHBOARDS / f"{name}.json").read_text())["panels"]
    for target in panel["targets"]
    if "rawSql" in target
}


@pytest.fixture(scope="module")
def filled(databases: Databases) -> object:
    """Return a connection to a database with 10,000 groups and thirty days of history."""
    url = databases.create(MIGRATED)
    connection = psycopg2.connect(psql_url(url))
    connection.autocommit = True
    with connection.cursor() as cursor:
        cursor.execute(FILL)
    yield connection
    connection.close()
    databases.drop(url)


def plan_of(connection: PsycopgConnection, question: str) -> str:
    """Return how the server goes about it, scans that it never began left out."""
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (ANALYZE, TIMING OFF, COSTS OFF, SUMMARY OFF) {question}")
        lines = [line for (line,) in cursor.fetchall()]
    return "\n".join(line for line in lines if "never executed" not in line)


def history_read(plan: str) -> dict[str, set[str]]:
    """Return of which history table which days were read from end to end."""
    found: dict[str, set[str]] = {}
    for how, table, day in DAY.findall(plan):
        if how == "Seq Scan":
            found.setdefault(table, set()).add(day)
    return found


@pytest.mark.parametrize("question", ALL_GROUPS)
def test_queries_over_all_groups_read_nine_days_of_history_at_most(filled: PsycopgConnection, question: str) -> None:
    read = history_read(plan_of(filled, question))
    assert read.keys() <= ALL_GROUPS[question]
    assert all(len(days) <= 9 for days in read.values())


@pytest.mark.parametrize("question", OF_ONE_GROUP)
def test_queries_of_one_group_use_an_index(filled: PsycopgConnection, question: str) -> None:
    plan = plan_of(filled, question)
    assert history_read(plan) == {}
    assert not re.search(r"Seq Scan on (groups|members|offsets)\b", plan)


@pytest.mark.parametrize("panel", PANELS_OF_ONE_GROUP)
def test_panel_queries_of_one_group_use_an_index(filled: PsycopgConnection, panel: str) -> None:
    first, last = "current_date - 7", "current_date"
    question = PANELS_OF_ONE_GROUP[panel].replace("${group:sqlstring}", "'g1'").replace("${member:sqlstring}", "'m'")
    question = re.sub(r"\$__timeFilter\((\w+)\)", rf"\1 BETWEEN {first} AND {last}", question)
    question = question.replace("$__timeFrom()", f"({first})").replace("$__timeTo()", f"({last})")
    plan = plan_of(filled, question)
    assert history_read(plan) == {}
    assert not re.search(r"Seq Scan on (groups|members|offsets)\b", plan)


def test_list_of_topics_reads_every_offset_once(filled: PsycopgConnection) -> None:
    class Explained:
        """A transaction that plans a statement instead of running it."""

        plan = ""

        def execute(self, statement: str, values: dict[str, object]) -> list[tuple[int, None]]:
            with filled.cursor() as cursor:
                self.plan = plan_of(filled, cursor.mogrify(statement, values).decode())
            return [(0, None)]

    explained = Explained()
    read_topic_overview(cast(Transaction, explained), TopicOverviewFilter())
    ((loops,),) = [re.findall(r"loops=(\d+)", line) for line in explained.plan.splitlines() if " on offsets " in line]
    assert int(loops) <= 1 + PARALLEL_WORKERS
    assert history_read(explained.plan) == {}


def test_rebalances_of_an_hour_are_read_from_its_week_only(filled: PsycopgConnection) -> None:
    plan = plan_of(filled, "SELECT * FROM dashboards.rebalances_per_hour")
    days = {day for _, table, day in DAY.findall(plan) if table == "rebalances"}
    assert 1 <= len(days) <= 9


def test_reconnects_are_searched_in_the_following_hours_only(filled: PsycopgConnection) -> None:
    day = "current_date - 20"
    plan = plan_of(
        filled,
        f"SELECT * FROM dashboards.spurious_evictions WHERE evicted_at >= {day} AND evicted_at < {day} + 1",  # noqa: S608
    )
    with filled.cursor() as cursor:
        cursor.execute(f"SELECT to_char({day} + number, 'YYYYMMDD') FROM generate_series(-1, 1) AS number")  # noqa: S608
        around = {name for (name,) in cursor.fetchall()}
    assert {day for _, table, day in DAY.findall(plan) if table == "member_sessions"} <= around


def test_checked_history_tables_are_all_that_views_read(filled: PsycopgConnection) -> None:
    with filled.cursor() as cursor:
        cursor.execute("SELECT string_agg(definition, ' ') FROM pg_views WHERE schemaname = 'dashboards'")
        ((definitions,),) = cursor.fetchall()
        cursor.execute("SELECT partrelid::regclass::text FROM pg_partitioned_table")
        partitioned = {name for (name,) in cursor.fetchall()}
    assert {table for table in partitioned if re.search(rf"\b{table}\b", definitions)} <= HISTORY
