"""The terminal overview shows what the tables have, with control characters escaped."""

import io
from collections.abc import Iterator
from dataclasses import replace

import pytest
from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name
from rich.console import Console

from muster import display
from muster.demo_data import insert_expired_groups
from muster.demo_fleet import GROUPS
from muster.member_names import client_id_of
from muster.overview import GroupView, MemberView, Overview, OverviewReader, RebalanceView, RunView
from muster.screen import Address, LiveScreen, PlainScreen, group_table
from tests.support.waiting import poll_until

LIVE_GROUP_SQL = """
INSERT INTO groups (group_id, shard_id, state, state_since, state_before_join_phase, generation, protocol_type,
    member_count,
                    subscribed_topics, created_at)
VALUES ('billing', 0, 'Stable', now(), 'Stable', 4, 'consumer', 1, '{orders}', now());
INSERT INTO members (group_id, shard_id, member_id, client_id, client_host, session_timeout_ms, rebalance_timeout_ms,
                     ownership, joined_at, protocol_names, protocol_metadata, assignment_bytes, join_order)
VALUES ('billing', 0, 'a-1', 'a', '127.0.0.1', 6000, 6000, '[{"topic": "orders", "partitions": [0, 1, 2]}]', now(),
        '{range}', '{""}', '', 0);
INSERT INTO offsets (group_id, shard_id, topic, partition, committed_offset, log_end_offset, committed_at)
VALUES ('billing', 0, 'orders', 0, 10, 15, now()), ('billing', 0, 'orders', 1, 20, NULL, now());
INSERT INTO rebalances (rebalance_id, group_id, shard_id, group_created_at, generation, trigger, trigger_member_id,
                        started_at, completed_at, outcome, restarts, member_count_before, member_count_after,
                        partitions_moved)
VALUES (gen_random_uuid(), 'billing', 0, now(), 4, 'session_expired', 'b-0e984725-c51c-4bf4-9960-e1c80e27aba0', now(),
        now(), 'completed', 0, 2, 1, 3);
"""
RUN_SQL = """
INSERT INTO maintenance_runs (run_id, kind, as_of, status)
VALUES ('0e984725-c51c-4bf4-9960-e1c80e27aba0', 'offset_retention', now(), 'applied');
INSERT INTO expiry_candidates (run_id, group_id, shard_id, topic, partition, commit_version, committed_at, reason,
                               outcome)
SELECT '0e984725-c51c-4bf4-9960-e1c80e27aba0', 'old', 0, 'orders', number, 1, now(), 'simple_group',
       CASE WHEN number < 3 THEN 'expired' ELSE 'committed_since' END
FROM generate_series(0, 4) AS number;
"""
BILLING = GroupView(
    "billing", "Stable", 4, (MemberView("a-1", "a", 3),), 30, 5, RebalanceView("session_expired", "b", 0.0)
)


@pytest.fixture
def reader(database_url: str) -> Iterator[OverviewReader]:
    reader = OverviewReader(database_url)
    yield reader
    reader.close()


def run_sql(connection: PsycopgConnection, statements: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statements)


def test_overview_of_an_empty_database_is_empty(reader: OverviewReader) -> None:
    assert reader.refresh()
    assert reader.last == Overview()


def test_a_group_is_shown_with_members_lag_and_the_reason_of_its_last_rebalance(
    reader: OverviewReader, sql_connection: PsycopgConnection
) -> None:
    run_sql(sql_connection, LIVE_GROUP_SQL)
    reader.refresh()
    (group,) = reader.last.groups
    assert group.members == BILLING.members
    assert (group.state, group.generation, group.committed_records, group.lag_records) == ("Stable", 4, 30, 5)
    assert group.rebalance is not None
    assert (group.rebalance.trigger, group.rebalance.client_id) == ("session_expired", "b")


def test_a_rebalance_under_way_is_shown_with_its_reason(
    reader: OverviewReader, sql_connection: PsycopgConnection
) -> None:
    run_sql(sql_connection, LIVE_GROUP_SQL)
    run_sql(sql_connection, "UPDATE groups SET rebalance_started_at = now(), rebalance_trigger = 'member_joined'")
    reader.refresh()
    assert reader.last.groups[0].rebalance == RebalanceView("member_joined", None, None)


def test_simple_groups_are_shown_beside_the_others(reader: OverviewReader, database_url: str) -> None:
    assert insert_expired_groups(database_url, shard_count=50) == 15
    reader.refresh()
    assert [group.group_id for group in reader.last.groups] == ["nightly-export", "orders-replay", "orders-v1"]
    assert reader.last.groups[0].generation is None
    assert reader.last.groups[0].state == "Empty"


def test_demo_history_is_inserted_once(reader: OverviewReader, database_url: str) -> None:
    insert_expired_groups(database_url, shard_count=50)
    insert_expired_groups(database_url, shard_count=50)
    reader.refresh()
    assert reader.last.groups[0].committed_records == 1_000 + 1_010 + 1_020


def test_first_groups_are_shown_and_the_others_counted(
    reader: OverviewReader, sql_connection: PsycopgConnection
) -> None:
    run_sql(
        sql_connection,
        "INSERT INTO offsets (group_id, shard_id, topic, partition, committed_offset, committed_at) "
        "SELECT 'g' || lpad(number::text, 3, '0'), 0, 't', 0, 1, now() FROM generate_series(1, 100) AS number",
    )
    reader.refresh()
    assert [group.group_id for group in reader.last.groups][:2] == ["g001", "g002"]
    assert len(reader.last.groups) + reader.last.hidden_group_count == 100


def test_live_groups_come_before_empty_ones(
    reader: OverviewReader, sql_connection: PsycopgConnection, database_url: str
) -> None:
    insert_expired_groups(database_url, shard_count=50)
    run_sql(sql_connection, LIVE_GROUP_SQL.replace("'billing'", "'z-billing'"))
    reader.refresh()
    assert [group.group_id for group in reader.last.groups][:2] == ["z-billing", "nightly-export"]


def test_run_is_shown_with_counts_of_expired_and_kept_offsets(
    reader: OverviewReader, sql_connection: PsycopgConnection
) -> None:
    run_sql(sql_connection, RUN_SQL)
    reader.refresh()
    (run,) = reader.last.runs
    assert run.is_over
    assert display.run(run) == "offset_retention applied: expired 3 of old; 2 committed_since"


def test_cleanup_run_is_shown_with_the_count_of_retired_groups(
    reader: OverviewReader, sql_connection: PsycopgConnection
) -> None:
    run_sql(sql_connection, CLEANUP_SQL)
    reader.refresh()
    (run,) = reader.last.runs
    assert display.run(run) == "group_cleanup applied: 1 has_offsets, 2 retired"


CLEANUP_SQL = """
INSERT INTO maintenance_runs (run_id, kind, as_of, status)
VALUES ('0e984725-c51c-4bf4-9960-e1c80e27aba0', 'group_cleanup', now(), 'applied');
INSERT INTO cleanup_candidates (run_id, group_id, shard_id, generation, state_since, reason, outcome)
SELECT '0e984725-c51c-4bf4-9960-e1c80e27aba0', group_id, 1, 1, now(), 'empty_without_offsets', outcome
FROM (VALUES ('a', 'retired'), ('b', 'retired'), ('c', 'has_offsets')) AS groups (group_id, outcome);
"""


def test_second_refresh_waits_for_the_interval(reader: OverviewReader) -> None:
    assert reader.refresh()
    assert not reader.refresh()


def test_last_view_remains_without_a_database() -> None:
    reader = OverviewReader("postgresql+psycopg2://muster:secret@127.0.0.1:1/muster")
    assert not reader.refresh()
    assert reader.last == Overview()
    reader.close()


@pytest.mark.parametrize(
    ("member_id", "client_id"),
    [("billing-1-0e984725-c51c-4bf4-9960-e1c80e27aba0", "billing-1"), ("odd", "odd"), (None, None)],
)
def test_a_member_id_begins_with_the_client_id(member_id: str | None, client_id: str | None) -> None:
    assert client_id_of(member_id) == client_id


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.4, "0 s"),
        (59, "59 s"),
        (59.6, "1 min"),
        (90, "2 min"),
        (3_599, "1 h"),
        (7_200, "2 h"),
        (86_399, "1 day"),
        (90_000, "1 day"),
        (172_800, "2 days"),
    ],
)
def test_duration_is_printed_in_one_unit(seconds: float, words: str) -> None:
    assert display.duration(seconds) == words


def test_line_of_a_group_shows_all_fields() -> None:
    assert display.group(BILLING) == (
        "billing: Stable, generation 4, members a (3), committed 30, lag 5, "
        "last rebalance session_expired of b, 0 s ago"
    )


def test_control_characters_in_names_are_escaped() -> None:
    assert display.printable("\x1b[2Jgone\n") == "�[2Jgone�"


def test_plain_output_reports_only_changes() -> None:
    stream = io.StringIO()
    screen = PlainScreen(stream)
    with screen.step("Postgres") as step:
        step.note = "on 127.0.0.1:5432"
    run = RunView("1", "offset_retention", "proposed", 0.0, {}, {})
    for _ in range(2):
        screen.show(Overview((BILLING,), 0, (run,)), [Address("Node", "http://127.0.0.1:8080")])
    first, *others = stream.getvalue().splitlines()
    assert first.startswith("✓ Postgres")
    assert first.endswith("on 127.0.0.1:5432")
    assert others == ["Node     http://127.0.0.1:8080", display.group(BILLING), display.run(run)]


def test_failed_step_prints_no_line() -> None:
    stream = io.StringIO()
    screen = PlainScreen(stream)
    with pytest.raises(ZeroDivisionError), screen.step("Postgres"):
        raise ZeroDivisionError
    assert stream.getvalue() == ""


def test_the_table_shows_groups_steps_events_and_addresses() -> None:
    stream = io.StringIO()
    screen = LiveScreen(Console(file=stream, force_terminal=True, width=160))
    with screen.step("Airflow"):
        screen.event("demo-a was ended by SIGKILL.")
        screen.show(Overview((BILLING,), 7, ()), [Address("Node", "http://127.0.0.1:8080")])
        words = ("Airflow …", "billing", "Stable", "a (3)", "session_expired", "of b", "SIGKILL", "7 more", ":8080")
        poll_until(lambda: all(word in stream.getvalue() for word in words))
    screen.close()
    assert "✓ " in stream.getvalue()


def demo_overview(pid: int, *, is_rebalancing: bool = False) -> Overview:
    """Return the overview of the demonstration with all members, its history groups and two runs."""
    client_ids = {
        group.group_id: [*group.members, *([group.visitor] if group.visitor else [])]
        for group in sorted(GROUPS, key=lambda group: group.group_id)
    }
    live = tuple(
        GroupView(
            group_id,
            "PreparingRebalance" if is_rebalancing else "Stable",
            41,
            tuple(MemberView(name, f"{name}-pid{pid}", 4) for name in names),
            1_234_567,
            12_345,
            RebalanceView("session_expired", f"{names[0]}-pid{pid}", None if is_rebalancing else 59.0),
        )
        for group_id, names in client_ids.items()
    )
    past = tuple(GroupView(name, "Empty", None, (), 30, None, None) for name in ("nightly-export", "orders-replay"))
    expired = {"nightly-export": 12, "orders-replay": 12, "orders-v1": 12}
    run = RunView("1", "offset_retention", "applied", 3_000.0, {"expired": 36, "committed_since": 6}, expired)
    return Overview((*live, *past), 0, (run, run))


ADDRESSES = (
    Address("Console", "http://127.0.0.1:8080/"),
    Address("Node", "http://127.0.0.1:8080/v1/groups (described at http://127.0.0.1:8080/docs)"),
    Address("Postgres", f"psql postgresql://muster:{'x' * 32}@127.0.0.1:54321/muster"),
    Address("Airflow", f"http://127.0.0.1:8081 (user admin, password {'x' * 32})"),
    Address("Stop", f"Ctrl-C (logs are in /home/{'a' * 50}/.muster/logs)"),
)


@pytest.mark.parametrize("pid", [7525, 4_194_304])
@pytest.mark.parametrize("is_rebalancing", [False, True])
def test_pids_are_complete_on_a_small_terminal(pid: int, *, is_rebalancing: bool) -> None:
    overview = demo_overview(pid, is_rebalancing=is_rebalancing)
    stream = io.StringIO()
    screen = LiveScreen(Console(file=stream, force_terminal=True, width=80, height=24))
    screen.show(overview, ADDRESSES)
    poll_until(lambda: "Last rebal" in stream.getvalue())
    screen.close()

    drawn = stream.getvalue()
    missing = [
        f"{member.client_id} ({member.partition_count})"
        for group in overview.groups
        for member in group.members
        if f"{member.client_id} ({member.partition_count})" not in drawn
    ]
    assert not missing
    assert all(group.group_id in drawn for group in overview.groups if group.members)


def test_pid_in_the_reason_is_complete_or_marked_as_cropped() -> None:
    stream = io.StringIO()
    Console(file=stream, width=80, height=24).print(group_table(demo_overview(7525), 80))
    assert "of audit-1-pid7525\n" in stream.getvalue()
    assert "of enrichment-1-p…\n" in stream.getvalue()


def test_first_members_are_named_and_the_others_counted() -> None:
    members = tuple(MemberView(str(number), f"worker-{number}", 1) for number in range(100))
    stream = io.StringIO()
    Console(file=stream, width=80).print(group_table(Overview((replace(BILLING, members=members),)), 80))
    assert "worker-7 (1)" in stream.getvalue()
    assert "and 92 more" in stream.getvalue()


def test_long_names_leave_space_for_other_columns() -> None:
    long = replace(BILLING, group_id="g" * 100, members=(MemberView("1", "c" * 200, 3),))
    stream = io.StringIO()
    Console(file=stream, width=80).print(group_table(Overview((long, demo_overview(7525).groups[0])), 80))
    assert "Stable" in stream.getvalue()
    assert "enrichment-1-pid7525 (4)" in stream.getvalue()
    assert max(map(len, stream.getvalue().splitlines())) <= 80
