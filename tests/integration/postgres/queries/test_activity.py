"""Rebalances and evictions are counted by hour, and offsets that expire are summed up, of the groups of a token."""

from typing import cast

from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name

from coordinator_core.queries.activity import FLAPPING_REBALANCES, HOURS, Activity, read_activity
from coordinator_core.queries.group_patterns import GroupPatterns
from coordinator_core.state_store.postgres.connections import Transaction
from tests.support.store_rows import NOW_MS, group_row, rebalance_row, session_row, write
from tests.support.store_worlds import Owner, Query

HOUR_MS = 3_600_000
FORECASTS = """
INSERT INTO maintenance_runs (run_id, kind, as_of, status)
VALUES ('0b5f4f8e-57a5-5dd8-a2f3-6a5f0c9a0b1d', 'offset_retention', now() - interval '1 min', 'applied');
INSERT INTO offset_expiry_forecasts (group_id, shard_id, interval_start, interval_end, run_id, as_of, within_a_day,
    within_a_week, next_expiry_at)
SELECT group_id, 1, as_of, as_of, run_id, as_of, 2, 5, timestamptz '2026-12-01 00:00Z' + number * interval '1 day'
FROM maintenance_runs, (VALUES ('orders', 0), ('views', 1)) AS each (group_id, number)
"""


def now_ms(connection: PsycopgConnection) -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint")
        ((found,),) = cursor.fetchall()
        return int(found)


def test_a_day_is_counted_by_hour(owner: Owner, query: Query, sql_connection: PsycopgConnection) -> None:
    at_ms = now_ms(sql_connection)
    ends = {"now": at_ms, "late": at_ms - 3 * HOUR_MS, "later": at_ms - 3 * HOUR_MS, "old": at_ms - HOURS * HOUR_MS}
    past = [rebalance_row(name, started_at_ms=NOW_MS, completed_at_ms=end_ms) for name, end_ms in ends.items()]
    sessions = [
        session_row("a", end_reason="session_expired", ended_at_ms=at_ms),
        session_row("b", end_reason="rebalance_timeout", ended_at_ms=at_ms),
        session_row("c", end_reason="left", ended_at_ms=at_ms),
        session_row("d", "views", end_reason="sync_timeout", ended_at_ms=at_ms),
        session_row("e", end_reason="new_member_timeout", ended_at_ms=at_ms),
        session_row("f", end_reason="admin", ended_at_ms=at_ms),
    ]
    owner.write(write(rebalances=tuple(past), sessions=tuple(sessions)))

    found = query(read_activity, None)
    assert [hour.hour_ms for hour in found.hours] == [
        found.hours[0].hour_ms + HOUR_MS * number for number in range(HOURS)
    ]
    rebalances = {hour.hour_ms: hour.rebalances for hour in found.hours if hour.rebalances}
    assert rebalances == {end_ms - end_ms % HOUR_MS: number for end_ms, number in ((at_ms, 1), (ends["late"], 2))}
    assert sum(hour.evictions for hour in found.hours) == 4
    assert found.forecast is None
    assert sum(hour.evictions for hour in query(read_activity, GroupPatterns(("vi%",))).hours) == 1
    assert sum(hour.rebalances for hour in query(read_activity, GroupPatterns(())).hours) == 0


def test_stable_groups_that_rebalance_again_and_again_are_flapping(
    owner: Owner, query: Query, sql_connection: PsycopgConnection
) -> None:
    at_ms = now_ms(sql_connection)
    worlds = (
        ("orders", "Stable", FLAPPING_REBALANCES),
        ("views", "Stable", FLAPPING_REBALANCES - 1),
        ("idle", "Empty", FLAPPING_REBALANCES),
    )
    for group_id, state, count in worlds:
        past = [rebalance_row(f"{group_id} {number}", group_id, completed_at_ms=at_ms) for number in range(count)]
        past.append(
            rebalance_row(f"former {group_id}", group_id, completed_at_ms=at_ms, group_created_at_ms=NOW_MS - 1)
        )
        owner.write(write(group_id, group=group_row(group_id, state=state), rebalances=tuple(past)))
    assert query(read_activity, None).flapping_groups == 1
    assert query(read_activity, GroupPatterns(("vi%",))).flapping_groups == 0


def test_forecasts_of_a_tokens_groups_are_summed_up(query: Query, sql_connection: PsycopgConnection) -> None:
    with sql_connection.cursor() as cursor:
        cursor.execute(FORECASTS)
    whole, own = query(read_activity, None).forecast, query(read_activity, GroupPatterns(("views",))).forecast
    assert whole is not None
    assert (whole.within_a_day, whole.within_a_week) == (4, 10)
    assert own is not None
    assert (own.within_a_day, own.within_a_week) == (2, 5)
    assert own.next_expiry_at_ms - whole.next_expiry_at_ms == 24 * HOUR_MS
    assert [(each.group_id, each.within_a_week) for each in whole.groups] == [("orders", 5), ("views", 5)]
    assert [each.group_id for each in own.groups] == ["views"]
    others = query(read_activity, GroupPatterns(("%",), ("views%",))).forecast
    assert others is not None
    assert (others.within_a_day, others.within_a_week) == (2, 5)
    assert query(read_activity, GroupPatterns(("nobody",))).forecast is None


def test_a_forecast_and_its_groups_are_of_one_run(query: Query, sql_connection: PsycopgConnection) -> None:
    """The next run of the job may replace them at any time."""

    def read(transaction: Transaction) -> Activity:
        class ReplacedMeanwhile:
            def execute(self, statement: str, parameters: dict[str, object]) -> object:
                result = transaction.execute(statement, parameters)
                if "offsets_expiring" in statement:
                    with sql_connection.cursor() as cursor:
                        cursor.execute("DELETE FROM offset_expiry_forecasts")
                return result

        return read_activity(cast("Transaction", ReplacedMeanwhile()), None)

    with sql_connection.cursor() as cursor:
        cursor.execute(FORECASTS)
    forecast = query(read).forecast
    assert forecast is not None
    assert [each.group_id for each in forecast.groups] == ["orders", "views"]
