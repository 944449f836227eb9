"""The history API and the SQL views agree, and queries of history read only the days that they need."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from datetime import datetime
from typing import Any, NoReturn

import pytest
from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name
from sqlalchemy import ClauseElement, Executable
from sqlalchemy.dialects.postgresql.psycopg2 import PGDialect_psycopg2

from coordinator_core.queries.ownership import Moment, read_offsets_at, read_ownership
from coordinator_core.queries.rebalances import RebalanceCursor, read_rebalances
from coordinator_core.queries.transitions import TransitionCursor, read_transitions
from coordinator_core.state_store.postgres.connections import Transaction
from tests.support.http_client import Client, Group, gives, position
from tests.support.nodes import running_node
from tests.support.offset_log import wait_for_checkpoint
from tests.support.store_rows import uuid_of

DAY_MS = 86_400_000
DIALECT = PGDialect_psycopg2()  # type: ignore[no-untyped-call]  # the library has no annotation here

# -- API and views ----------------------------------------------------------------------------------------


@pytest.fixture
def group(database_url: str) -> Iterator[Group]:
    with (
        running_node(database_url, group_initial_rebalance_delay_ms=0) as node,
        closing(Client(node.url)) as client,
    ):
        yield client.group("g")


def run_sql(connection: PsycopgConnection, question: str) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(question)
        return cursor.fetchall()


def lived(group: Group) -> str:
    """Let a first member come, commit and go, and a second one follow; return the second's id."""
    first = group.join()
    first.sync(gives(first.member_id, 0, 1))
    first.commit(position(5, log_end_offset=9))
    group.post("leave", {"members": [{"member_id": first.member_id, "reason": "done"}]})
    second = group.stable()
    second.commit(position(6, log_end_offset=9))
    return second.member_id


def test_ownership_view_agrees_with_the_api_at_every_time(group: Group, sql_connection: PsycopgConnection) -> None:
    lived(group)
    spans = run_sql(
        sql_connection,
        "SELECT member_id, topic, partitions, generation, rebalance_id::text, valid_from, valid_to"
        " FROM dashboards.ownership",
    )
    moments = sorted({moment for span in spans for moment in span[5:] if moment is not None})
    assert (len(spans), len(moments)) == (2, 3)

    for moment in moments:
        answer = group.client.ok("GET", f"{group.path}/ownership?at={moment.isoformat()}")
        reported = [tuple(parsed(value) for value in each.values()) for each in answer["ownership"]]
        assert reported == [span for span in spans if span[5] <= moment and (span[6] is None or span[6] > moment)]


def parsed(value: object) -> object:
    """Read what JSON has as a text, if it is a moment."""
    return datetime.fromisoformat(value) if isinstance(value, str) and re.match(r"\d{4}-\d\d-\d\dT", value) else value


def test_overview_view_agrees_with_the_api_on_the_newest_rebalance(
    group: Group, sql_connection: PsycopgConnection
) -> None:
    second = lived(group)
    wait_for_checkpoint(sql_connection)
    (overview,) = run_sql(
        sql_connection,
        "SELECT last_rebalance_at, last_rebalance_trigger, last_rebalance_trigger_member_id,"
        " last_rebalance_client_reason, last_rebalance_outcome, state, generation, member_count, lag_records"
        " FROM dashboards.group_overview WHERE group_id = 'g'",
    )

    newest = group.client.ok("GET", f"{group.path}/rebalances?limit=1")["rebalances"][0]
    keys = ("started_at", "trigger", "trigger_member_id", "client_reason", "outcome")
    described = group.describe()

    assert overview[:5] == tuple(parsed(newest[key]) for key in keys)
    assert overview[5:] == (described["state"], described["generation"], len(described["members"]), 3)
    assert (newest["trigger_member_id"], described["members"][0]["member_id"]) == (second, second)


# -- no more days than it must ------------------------------------------------------------------------------

ROWS = """
DO $$
DECLARE
    kept record;
    day date;
BEGIN
    FOR kept IN SELECT * FROM (VALUES ('group_transitions', 'at'), ('rebalances', 'completed_at'),
        ('partition_ownership', 'valid_to'), ('offset_history', 'at')) AS kept (name, at) LOOP
        FOR day IN SELECT generate_series(date '2026-01-01', date '2026-01-10', interval '1 day') LOOP
            EXECUTE format('CREATE TABLE %I PARTITION OF %I FOR VALUES FROM (%L) TO (%L)',
                kept.name || '_p' || to_char(day, 'YYYYMMDD'), kept.name, day, day + 1);
        END LOOP;
    END LOOP;
END
$$;
CREATE TEMPORARY TABLE moments AS
SELECT number, 'g' || number % 100 AS group_id, timestamptz '2026-01-01 00:00Z' + number * interval '86.4 s' AS at
FROM generate_series(0, 9999) AS number;
INSERT INTO group_transitions SELECT group_id, 1, at, at, number, 'Empty', 'Stable', 'x', NULL FROM moments;
INSERT INTO rebalances SELECT gen_random_uuid(), group_id, 1, at, number, 'admin', NULL, NULL, at, at, at, 'completed',
    0, 1, 1, 1 FROM moments;
INSERT INTO partition_ownership SELECT group_id, 1, at, gen_random_uuid(), number, 'm', 't', '{1}',
    at - interval '1 h', at
    FROM moments;
INSERT INTO offset_history SELECT group_id, 1, 't', number % 7, at, number, NULL, 'm' FROM moments;
INSERT INTO offsets SELECT DISTINCT group_id, 1, 't', number % 7, 1, -1, '', NULL::bigint, now() FROM moments;
ANALYZE;
"""
JANUARY_5_MS = 1_767_571_200_000
PLACE = RebalanceCursor(JANUARY_5_MS, uuid_of("any"))

Ask = Callable[[Transaction], object]
QUESTIONS: dict[str, tuple[Ask, Iterable[int]]] = {
    "all rebalances": (lambda it: read_rebalances(it, "g1", None, 10), range(1, 11)),
    "older rebalances": (lambda it: read_rebalances(it, "g1", PLACE, 10), range(1, 6)),
    "all transitions": (lambda it: read_transitions(it, "g1", None, 10), range(1, 11)),
    "older transitions": (
        lambda it: read_transitions(it, "g1", TransitionCursor(JANUARY_5_MS, 0, 0, 0), 10),
        range(1, 6),
    ),
    "ownership now": (lambda it: read_ownership(it, Moment("g1")), ()),
    "ownership then": (lambda it: read_ownership(it, Moment("g1", JANUARY_5_MS + 4 * DAY_MS)), (9, 10)),
    "positions then": (lambda it: read_offsets_at(it, Moment("g1", JANUARY_5_MS)), range(1, 6)),
}
"""Queries, and the days of January that they may read."""


class Explained(Exception):
    """How the server would go about it."""


class Explaining(Transaction):
    """A transaction that ends at its first statement, with the server's plan for it."""

    def __init__(self, connection: PsycopgConnection) -> None:
        self._cursor = connection.cursor()

    def execute(self, statement: str | Executable, parameters: Mapping[str, Any] | None = None) -> NoReturn:
        if not isinstance(statement, str):
            assert isinstance(statement, ClauseElement)
            compiled = statement.compile(dialect=DIALECT)
            statement, parameters = str(compiled), compiled.params
        self._cursor.execute("EXPLAIN " + statement, parameters)
        raise Explained("\n".join(line for (line,) in self._cursor.fetchall()))


def test_history_queries_read_relevant_days_only_and_by_index(sql_connection: PsycopgConnection) -> None:
    with sql_connection.cursor() as cursor:
        cursor.execute(ROWS)
    partitions = r"(?:rebalances|group_transitions|partition_ownership|offset_history)_p202601(\d\d)"

    for name, (run_query, days) in QUESTIONS.items():
        with pytest.raises(Explained) as explained:
            run_query(Explaining(sql_connection))
        plan = str(explained.value)
        assert {int(day) for day in re.findall(rf" on {partitions}", plan)} == set(days), name
        assert not re.findall(rf"Seq Scan on {partitions}", plan), name
