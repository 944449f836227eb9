"""Corrupt rows, written with SQL past every constraint, affect their own group only; on real nodes."""

from contextlib import closing

import pytest
from psycopg2 import sql
from psycopg2.errors import CheckViolation
from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name

from coordinator_core.protocol.hashing import shard_of
from coordinator_core.state_store.postgres import PostgresStore
from coordinator_core.state_store.projection import load_group
from coordinator_core.state_store.row_checks import UnreadableRow
from coordinator_core.state_store.rows import StoredGroup
from coordinator_core.state_store.tables import metadata
from muster.cli.doctor.database import check_leases, check_offsets
from muster.cli.doctor.stored_rows import check_constraints
from tests.support.corrupt_rows import BREAKS, QUICK, SICK, WELL, eventually_quarantined, settle, spoil
from tests.support.http_client import Client
from tests.support.muster_command import Muster
from tests.support.nodes import running_node
from tests.support.offset_log import wait_for_checkpoint
from tests.support.waiting import poll_until

FREE_BREAKS = [
    """UPDATE members SET ownership = '[{"topic": "orders"}]'""",
    'UPDATE groups SET rebalance = \'{"in_progress": {"rebalance_id": 7}, "last_owners": []}\'',
    "UPDATE members SET ownership = (repeat('[', 3000) || repeat(']', 3000))::jsonb",
    "UPDATE groups SET leader_id = NULL",
    "UPDATE groups SET awaited_members = '7'",
    "DELETE FROM members",
    "DELETE FROM groups",
]
"""What violates no constraint."""


@pytest.fixture
def settled(database_url: str, sql_connection: PsycopgConnection) -> str:
    """Give a database with two groups of one shard, each Stable with a member that has committed."""
    with running_node(database_url, **QUICK) as node, closing(Client(node.url)) as client:
        for group_id in (SICK, WELL):
            settle(client.group(group_id))
        wait_for_checkpoint(sql_connection)  # a checkpoint that the stop interrupts leaves them in the log
    return database_url


# -- constraints ------------------------------------------------------------------------------------------------


def test_every_constraint_of_loaded_tables_has_a_test_row() -> None:
    declared = {each.name for table in ("groups", "members") for each in metadata.tables[table].constraints}
    assert BREAKS.keys() == {name for name in declared if isinstance(name, str) and "pkey" not in name}


def test_corrupt_rows_violate_their_constraint(settled: str, sql_connection: PsycopgConnection) -> None:
    assert settled
    for name, statement in BREAKS.items():
        with sql_connection.cursor() as cursor, pytest.raises(CheckViolation, match=name):
            cursor.execute(f"{statement} WHERE group_id = 'sick'")


@pytest.mark.parametrize("column", ["committed_at", "log_end_at", "expires_at"])
def test_an_offset_has_no_infinite_times(settled: str, sql_connection: PsycopgConnection, column: str) -> None:
    assert settled
    with sql_connection.cursor() as cursor, pytest.raises(CheckViolation):
        cursor.execute(sql.SQL("UPDATE offsets SET {} = 'infinity'").format(sql.Identifier(column)))


def test_rows_that_violate_a_constraint_are_not_loaded(
    settled: str, sql_connection: PsycopgConnection, postgres_store: PostgresStore
) -> None:
    assert settled
    with sql_connection.cursor() as cursor:
        cursor.execute("CREATE TABLE kept_groups AS TABLE groups; CREATE TABLE kept_members AS TABLE members")
    # Rows of a shard that does not exist are never read.
    reported = {}
    breaks = [(statement, (name,)) for name, statement in BREAKS.items() if not name.endswith("shard_id")]
    for statement, constraints in [*breaks, *((each, ()) for each in FREE_BREAKS)]:
        spoil(sql_connection, statement, *constraints)
        reported[statement] = {each: why_not(postgres_store, each) for each in (SICK, WELL)}
        with sql_connection.cursor() as cursor:
            cursor.execute("DELETE FROM groups; DELETE FROM members")
            cursor.execute("INSERT INTO groups TABLE kept_groups; INSERT INTO members TABLE kept_members")
    assert [statement for statement, found in reported.items() if found[SICK] is None] == []
    assert [statement for statement, found in reported.items() if found[WELL] is not None] == []


def why_not(store: PostgresStore, group_id: str) -> str | None:
    """Return why a group cannot be loaded, as reported by the load of its shard."""
    (found,) = [each for each in store.load_shards(range(50)) if each.group_id == group_id]
    if not isinstance(found, StoredGroup):
        return found.reason
    try:
        load_group(found, 1)
    except UnreadableRow as failure:
        return str(failure)
    return None


# -- nodes --------------------------------------------------------------------------------------------------------


def test_corrupt_row_quarantines_one_group_on_two_nodes(settled: str, sql_connection: PsycopgConnection) -> None:
    spoil(sql_connection, BREAKS["groups_state"], "groups_state")
    with (
        running_node(settled, **QUICK) as first,
        running_node(settled, **QUICK) as second,
        closing(Client(first.url)) as client,
        closing(Client(second.url)) as other,
    ):
        poll_until(lambda: shards_of_nodes(sql_connection) == [25, 25])
        for asked in (client, other):
            refused = eventually_quarantined(asked)
            assert "groups.state is 'stable'" in refused["detail"]
            assert (refused["action"], refused["status"]) == ("retry", 503)
            assert asked.call("GET", f"/v1/groups/{SICK}").code == "COORDINATOR_NOT_AVAILABLE"
            assert asked.ok("GET", f"/v1/groups/{SICK}/offsets")["offsets"][0]["offset"] == 41
            assert asked.ok("GET", f"/v1/groups/{WELL}")["state"] == "Stable"
            assert {each["group_id"] for each in asked.ok("GET", "/v1/groups")["groups"]} == {SICK, WELL}
            assert asked.ok("GET", "/v1/overview/groups")["counts"] == {"stable": 1, "Stable": 1}
            for page in ("rebalances", "transitions", "ownership", "member-sessions", "lag", "tuning", "config"):
                asked.ok("GET", f"/v1/groups/{SICK}/{page}")
        listed = [asked.ok("GET", "/v1/quarantined-groups")["groups"] for asked in (client, other)]
        assert sorted(map(len, listed)) == [0, 1]
        settle(client.group("new"))


def shards_of_nodes(sql_connection: PsycopgConnection) -> list[int]:
    """Return how many shards each of two nodes owns, when no other node owns any."""
    with sql_connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM shard_leases GROUP BY node_id HAVING node_id IS NOT NULL")
        return [int(owned) for (owned,) in cursor]


def scraped_with_offsets(client: Client) -> str:
    """Return a scrape for which the database answered within its second."""

    def scrape() -> str | None:
        text = client.call("GET", "/metrics?detail=partition").body.decode()
        return text if "kafka_consumergroup_current_offset{" in text else None

    found = poll_until(scrape)
    assert found is not None
    return found


@pytest.mark.parametrize(
    "name", ["groups_times", "groups_rebalance", "members_ownership"], ids=["a time", "a rebalance", "what is held"]
)
def test_lists_pages_and_metrics_work_with_a_quarantined_group(
    settled: str, sql_connection: PsycopgConnection, name: str
) -> None:
    spoil(sql_connection, BREAKS[name], name)
    with running_node(settled, **QUICK) as node, closing(Client(node.url)) as client:
        eventually_quarantined(client)
        for sort in ("attention", "group_id", "since", "members", "lag", "rebalances"):
            assert len(client.ok("GET", f"/v1/overview/groups?sort={sort}")["groups"]) == 2
        for page in ("rebalances", "transitions", "ownership", "member-sessions", "lag", "tuning", "config", "offsets"):
            client.ok("GET", f"/v1/groups/{SICK}/{page}")
        metrics = scraped_with_offsets(client)
    assert "muster_num_quarantined_groups 1.0" in metrics
    assert f'kafka_consumergroup_current_offset{{consumergroup="{WELL}"' in metrics
    with sql_connection.cursor() as cursor:
        for view in ("ownership", "idle_members", "group_overview"):
            cursor.execute(sql.SQL("SELECT count(*) FROM dashboards.{}").format(sql.Identifier(view)))


def test_doctor_names_the_corrupt_row_and_reload_restores_the_group(
    settled: str, sql_connection: PsycopgConnection, bare_muster: Muster, monkeypatch: pytest.MonkeyPatch
) -> None:
    spoil(sql_connection, BREAKS["groups_state"], "groups_state")
    monkeypatch.setenv("MUSTER_DATABASE_URL", settled)
    with running_node(settled, **QUICK) as node, closing(Client(node.url)) as client:
        monkeypatch.setenv("MUSTER_URL", node.url)
        monkeypatch.setenv("MUSTER_ACTOR", "ada")
        eventually_quarantined(client)
        found = doctor(bare_muster)
        listed = bare_muster.ok("groups", "quarantined")
        still = bare_muster("groups", "reload", SICK, WELL)
        still_all = bare_muster("groups", "reload", "--all-groups")
        with sql_connection.cursor() as cursor:
            cursor.execute("UPDATE groups SET state = 'Stable' WHERE group_id = 'sick'")
            cursor.execute("ALTER TABLE groups VALIDATE CONSTRAINT groups_state")
        assert doctor(bare_muster)["groups"] == ("ok", "2 groups can be loaded")
        reloaded = bare_muster.ok("groups", "reload", "--all-groups")
        none_left = bare_muster.ok("groups", "reload", "--all-groups")
        assert client.ok("GET", f"/v1/groups/{SICK}")["state"] == "Stable"
        (change,) = client.ok("GET", f"/v1/changes?group_id={SICK}")["changes"]
        assert doctor(bare_muster)["constraints"][0] == "ok"
    assert found["groups"][0] == "error"
    assert "1 of 2 cannot be loaded: sick (groups.state is 'stable'" in found["groups"][1]
    violated = "groups_state of groups (for new rows only; 1 row violates it, such as group_id = 'sick')"
    assert found["constraints"] == ("warning", f"1 constraint does not hold for all rows: {violated}")
    assert (found["node"][0], "1 group is quarantined" in found["node"][1]) == ("warning", True)
    assert "groups.state is 'stable'" in listed.out
    assert still.exit_code == still_all.exit_code == 1
    assert "the group remains quarantined: groups.state is 'stable'" in still.out
    assert "the group is not quarantined, so there is nothing to reload" in still.out
    assert still.out.endswith("2 groups: 2 refused.\n")
    assert still_all.out.endswith("1 group: 1 refused.\n")
    assert reloaded.out.endswith("1 group: 1 reloaded.\n")
    assert none_left.out == "No group is chosen.\n"
    assert (change["action"], change["actor"]) == ("reload_group", "ada")


OTHER_BREAKS = {
    "offsets_numbers": "UPDATE offsets SET committed_offset = -5",
    "offsets_committed_at": "UPDATE offsets SET committed_at = '20000-01-01'",
    "offsets_times": "UPDATE offsets SET expires_at = 'infinity'",
    "log_end_offsets_times": "INSERT INTO log_end_offsets VALUES ('orders', 0, 1, 'infinity', now())",
    "topics_numbers": "INSERT INTO topics VALUES ('orders', -1)",
    "group_configs_times": "INSERT INTO group_configs VALUES ('sick', 'group_max_size', '3', 'ada', 'infinity')",
    "cluster_configs_times": "INSERT INTO cluster_configs VALUES ('group_max_size', '3', 'ada', '-infinity')",
    "changes_times": "INSERT INTO changes (change_id, at, actor, action)"
    " VALUES (gen_random_uuid(), 'infinity', 'ada', 'undo')",
    "maintenance_runs_counts": "INSERT INTO maintenance_runs (run_id, kind, as_of, status, counts)"
    " VALUES (gen_random_uuid(), 'offset_retention', now(), 'proposed', '[]')",
    "archive_candidates_day": "INSERT INTO archive_candidates VALUES"
    " (gen_random_uuid(), 'rebalances', '0044-03-15 BC', 's', 'p', 0, 'c', now())",
    "versions_shard_count": "UPDATE versions SET shard_count = 0",
}


def test_doctor_names_a_row_that_violates_a_missing_constraint_and_its_remedy_works(
    settled: str, sql_connection: PsycopgConnection
) -> None:
    assert settled
    for name, statement in {**BREAKS, **OTHER_BREAKS}.items():
        (table,) = [table for table in metadata.sorted_tables if name in {each.name for each in table.constraints}]
        with sql_connection.cursor() as cursor:
            cursor.execute(f"CREATE TABLE kept AS TABLE {table.name}; ALTER TABLE {table.name} DROP CONSTRAINT {name}")
            cursor.execute(statement)
        found = check_constraints(sql_connection)
        assert found.status == "error", name
        assert f"1 constraint does not hold for all rows: {name} of {table.name} (missing; " in found.message
        assert f" such as {table.primary_key.columns[0].name} = '" in found.message
        assert found.advice is not None
        remedy = found.advice.removeprefix("repair the rows with SQL, then ")
        with sql_connection.cursor() as cursor:
            with pytest.raises(CheckViolation, match=name):
                cursor.execute(remedy)
            cursor.execute("SET session_replication_role = replica")  # the audit log is append-only by triggers
            cursor.execute(
                sql.SQL("DELETE FROM {0}; INSERT INTO {0} TABLE kept; DROP TABLE kept").format(
                    sql.Identifier(table.name)
                )
            )
            cursor.execute("SET session_replication_role = origin")
            cursor.execute(remedy)
        assert check_constraints(sql_connection).status == "ok", name


def test_doctor_names_offsets_under_another_shard_and_its_remedy_works(
    settled: str, sql_connection: PsycopgConnection
) -> None:
    assert settled
    with sql_connection.cursor() as cursor:
        cursor.execute("UPDATE offsets SET shard_id = (shard_id + 1) % 50 WHERE group_id = 'sick'")
        found = check_offsets(sql_connection)
        cursor.execute(str(found.advice))
    shard_id = shard_of(SICK, 50)
    assert found.status == "error"
    assert found.message == (
        f"1 offset is under another shard: those of sick have shard_id {shard_id + 1}, and the group has {shard_id}"
    )
    assert check_offsets(sql_connection).status == "ok"


def test_doctor_names_a_number_of_shards_that_is_not_the_databases(sql_connection: PsycopgConnection) -> None:
    with sql_connection.cursor() as cursor:
        cursor.execute("UPDATE versions SET shard_count = 49")
    found = check_leases(sql_connection)
    assert (found.status, found.message) == ("error", "versions.shard_count is 49, and shard_leases has 50 rows")


def test_doctor_counts_a_shard_that_is_leased_to_no_living_node(
    settled: str, sql_connection: PsycopgConnection
) -> None:
    with running_node(settled, **QUICK) as node, closing(Client(node.url)) as client:
        settle(client.group("new"))
        assert check_leases(sql_connection).status == "ok"
        with sql_connection.cursor() as cursor:
            cursor.execute("UPDATE shard_leases SET node_id = 'ghost', expires_at = 'infinity' WHERE shard_id < 3")
        found = check_leases(sql_connection)
    assert (found.status, found.message) == ("error", "47 shards of 50 have an owner; 1 node alive")


@pytest.mark.parametrize(("table", "check"), [("versions", "groups"), ("incarnation", "incarnation")])
def test_doctor_names_a_table_that_lost_its_row(
    database_url: str,
    sql_connection: PsycopgConnection,
    bare_muster: Muster,
    monkeypatch: pytest.MonkeyPatch,
    table: str,
    check: str,
) -> None:
    monkeypatch.setenv("MUSTER_DATABASE_URL", database_url)
    with sql_connection.cursor() as cursor:
        cursor.execute(sql.SQL("DELETE FROM {}").format(sql.Identifier(table)))
    assert doctor(bare_muster)[check] == ("error", f"the table {table} has no row, so no node starts")


def doctor(muster: Muster) -> dict[str, tuple[str, str]]:
    findings = muster("doctor", "--json").json["checks"]
    return {each["check"]: (each["status"], each["message"]) for each in findings}
