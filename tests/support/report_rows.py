"""Rows of reports, as jobs write them."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

import psycopg2.extras
from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name

from coordinator_core.queries.reports import REPORT_PARTS, REPORTS, Report
from coordinator_core.state_store.report_tables import column_types
from tests.support.store_rows import SHARD, uuid_of

DAY = datetime(2026, 11, 20, tzinfo=UTC)

SPREAD = {
    **dict.fromkeys(("members", "idle_members", "partitions", "unassigned", "partitions_max", "score"), 3),
    **dict.fromkeys(("best_partitions_max", "misplaced", "moved", "moves_needed"), 2),
    "partitions_mean": 1.5,
    "lag_max": None,
    "lag_mean": 0.25,
    "has_better": True,
}

AUDIT = {**SPREAD, "generation": 4, "topics": 1, "score_before": None, "trend": "first"}

FREQUENCY = {
    **dict.fromkeys(
        ("rebalances", "completed", "emptied", "abandoned", "restarts", "churn_periods", "churn_rebalances"), 1
    ),
    **dict.fromkeys(("took_p50_ms", "took_p95_ms", "took_max_ms", "took_total_ms", "rebalancing_ms", "existed_ms"), 7),
    **dict.fromkeys(("waited_for_client_host", "waited_for_members")),
    **dict.fromkeys(("waited_for_member_id", "waited_for_instance_id", "waited_for_client_id", "waited_for_ms")),
    "by_trigger": {"admin": 1},
    "rebalancing_share": 0.5,
    "evicted": 2,
    "spuriously_evicted": 1,
    "rebalancing_since": DAY,
    "is_churning": False,
}


VALUES: dict[type, object] = {
    bool: True,
    int: 7,
    float: 0.5,
    str: "text",
    datetime: DAY,
    dict: {"admin": 2},
    list: [{"name": "static_membership"}],
}


def report(group_id: str, day: int = 0, of: dict[str, Any] = AUDIT, **columns: object) -> dict[str, Any]:
    start = DAY + timedelta(days=day)
    key = {"interval_start": start, "interval_end": start + timedelta(days=1), "group_id": group_id, "shard_id": SHARD}
    return {**key, "run_id": uuid_of("run"), "as_of": start, **of, **columns}


def complete_row(table: str, group_id: str, day: int = 0, **columns: object) -> dict[str, Any]:
    """Build a row of any report table, with a value in every column."""
    values = {name: _value(kind) for name, kind in column_types(table).items()}
    return values | report(group_id, day, of=columns)


def _value(kind: Any) -> object:  # noqa: ANN401 - a type
    if get_origin(kind) in {Union, UnionType}:
        return _value(get_args(kind)[0])
    return get_args(kind)[0] if get_origin(kind) is Literal else VALUES[get_origin(kind) or kind]


def insert_reports(
    connection: PsycopgConnection, subject: str, rows: Iterable[Report], parts: Iterable[Report] = ()
) -> None:
    """Store reports, as a Spark job does."""
    _insert(connection, REPORTS[subject].name, rows)
    if subject in REPORT_PARTS:
        _insert(connection, REPORT_PARTS[subject].name, parts)


def _insert(connection: PsycopgConnection, table: str, rows: Iterable[Report]) -> None:
    with connection.cursor() as cursor:
        for row in rows:
            statement = f"INSERT INTO {table} ({', '.join(row)}) VALUES ({', '.join(['%s'] * len(row))})"  # noqa: S608
            values = [
                psycopg2.extras.Json(value) if isinstance(value, dict | list) else value for value in row.values()
            ]
            cursor.execute(statement, values)
