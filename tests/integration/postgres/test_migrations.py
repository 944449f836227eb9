"""Migrations create what `tables.py` declares, run one at a time, are atomic, and can be downgraded."""

from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg2
import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name
from sqlalchemy import Engine, create_engine, make_url, text
from sqlalchemy.exc import ProgrammingError

from coordinator_core.jobs import JOBS
from coordinator_core.state_store.postgres import PostgresStore
from coordinator_core.state_store.tables import HISTORY_TABLES, metadata
from muster.errors import UserError
from muster.local.embedded_postgres import EmbeddedPostgres
from muster.node.schema import require_schema, upgrade
from muster.settings import psql_url
from tests.integration.postgres.alembic_config import MIGRATIONS, config_for
from tests.support.databases import FORGETFUL
from tests.support.waiting import in_background, wait_until_blocked


@pytest.fixture
def engine(empty_database_url: str) -> Iterator[Engine]:
    engine = create_engine(empty_database_url)
    yield engine
    engine.dispose()


@pytest.fixture
def config(empty_database_url: str) -> Config:
    return config_for(empty_database_url)


# -- the same as tables.py ------------------------------------------------------------------------------------

RELATIONS = """
SELECT relname, relkind, relpersistence, reloptions, pg_get_partkeydef(oid)
FROM pg_class
WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition
    AND relname <> 'alembic_version'
"""

COLUMNS = """
SELECT attrelid::regclass::text, attname, format_type(atttypid, atttypmod), attnotnull, collname,
    pg_get_expr(adbin, adrelid)
FROM pg_attribute
LEFT JOIN pg_collation ON pg_collation.oid = attcollation
LEFT JOIN pg_attrdef ON (adrelid, adnum) = (attrelid, attnum)
WHERE attnum > 0 AND NOT attisdropped AND attrelid IN (SELECT relname::regclass FROM relations)
"""

CONSTRAINTS = """
SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid)
FROM pg_constraint WHERE conrelid IN (SELECT relname::regclass FROM relations) AND contype <> 'n'
"""

INDEXES = """
SELECT indrelid::regclass::text, pg_get_indexdef(indexrelid)
FROM pg_index WHERE indrelid IN (SELECT relname::regclass FROM relations)
"""


def describe(engine: Engine) -> dict[str, set[tuple[Any, ...]]]:
    """Return the definitions of the tables from Postgres' catalog."""
    questions = {"relations": RELATIONS, "columns": COLUMNS, "constraints": CONSTRAINTS, "indexes": INDEXES}
    answers: dict[str, set[tuple[Any, ...]]] = {}
    with engine.connect() as connection:
        for name, question in questions.items():
            rows = connection.execute(text(f"WITH relations AS ({RELATIONS}) {question}"))
            answers[name] = {tuple(str(value) for value in row) for row in rows}
    return answers


def test_migrations_create_the_declared_tables(database_url: str, engine: Engine) -> None:
    with engine.begin() as connection:
        connection.execute(text("CREATE SEQUENCE commit_version"))
    metadata.create_all(engine)
    migrated = create_engine(database_url)
    declared, made = describe(engine), describe(migrated)
    migrated.dispose()
    assert len(declared["relations"]) == len(metadata.tables)
    for part in declared:
        assert made[part] == declared[part]


def test_alembic_finds_no_difference(database_url: str) -> None:
    engine = create_engine(database_url)
    with engine.connect() as connection:
        # Comments are applied from migrations/comments and are not part of the declared schema.
        connection.execute(text("DELETE FROM pg_description WHERE classoid = 'pg_class'::regclass"))
        differences = compare_metadata(MigrationContext.configure(connection, opts=COMPARE), metadata)
    engine.dispose()
    assert differences == []


def is_declared(name: str | None, kind: str, _parents: object) -> bool:
    return kind != "table" or name in metadata.tables


COMPARE = {"compare_type": True, "compare_server_default": True, "include_name": is_declared}


def test_every_history_table_has_a_default_partition(database_url: str) -> None:
    engine = create_engine(database_url)
    with engine.connect() as connection:
        partitions = connection.execute(
            text(
                "SELECT inhparent::regclass::text, inhrelid::regclass::text FROM pg_inherits"
                " JOIN pg_class ON oid = inhrelid WHERE relkind = 'r'"
            )
        )
        found = {(table, partition) for table, partition in partitions}
    engine.dispose()
    assert found == {(table, f"{table}_default") for table in HISTORY_TABLES}


def test_versions_of_commits_only_grow(database_url: str) -> None:
    engine = create_engine(database_url)
    with engine.connect() as connection:
        kept = text("SELECT cycle, increment_by FROM pg_sequences WHERE sequencename = 'commit_version'")
        assert connection.execute(kept).all() == [(False, 1)]
    engine.dispose()


# -- up and down ----------------------------------------------------------------------------------------------


def names(engine: Engine) -> set[str]:
    """Return the names of all objects except those of Postgres and Alembic."""
    with engine.connect() as connection:
        rows = connection.execute(
            text(
                "SELECT nspname || '.' || relname FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace"
                " WHERE nspname !~ '^pg_|^information_schema' AND relname !~ '^alembic_version'"
                " UNION ALL SELECT nspname FROM pg_namespace WHERE nspname !~ '^pg_|^information_schema|^public'"
            )
        )
        return {name for (name,) in rows}


def test_up_down_and_up_again(config: Config, engine: Engine) -> None:
    command.upgrade(config, "head")
    first = describe(engine), names(engine)
    command.downgrade(config, "base")
    assert names(engine) == set()
    command.upgrade(config, "head")
    assert (describe(engine), names(engine)) == first


def test_a_second_run_changes_nothing(config: Config, engine: Engine) -> None:
    command.upgrade(config, "head")
    with engine.begin() as connection:
        connection.execute(text("UPDATE shard_leases SET epoch = 7"))
    command.upgrade(config, "head")
    with engine.connect() as connection:
        assert connection.execute(text("SELECT DISTINCT epoch FROM shard_leases")).all() == [(7,)]


def test_failed_migration_is_rolled_back(config: Config, engine: Engine) -> None:
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE changes (whose text)"))
    with pytest.raises(ProgrammingError, match='"changes" already exists'):
        command.upgrade(config, "head")
    assert names(engine) == {"public.changes"}


def test_a_run_waits_for_another_and_then_finds_its_work_done(
    config: Config, engine: Engine, empty_database_url: str
) -> None:
    url = psql_url(empty_database_url)
    with closing(psycopg2.connect(url)) as other, closing(psycopg2.connect(url)) as watch:
        watch.autocommit = True
        execute(other, "CREATE TABLE alembic_version (version_num varchar(32) NOT NULL PRIMARY KEY)")
        other.commit()
        execute(other, "LOCK TABLE alembic_version IN SHARE UPDATE EXCLUSIVE MODE")
        with in_background(lambda: command.upgrade(config, "head"), other.rollback) as run:
            wait_until_blocked(watch, "muster-migrations", call=run)
            assert names(engine) == set()
    assert "public.groups" in names(engine)


def test_migration_that_was_interrupted_while_it_made_an_index_goes_on(
    config: Config, engine: Engine, empty_database_url: str
) -> None:
    """An index that is made CONCURRENTLY waits for older transactions, and what came before it is committed."""
    command.upgrade(config, "0030")
    url = psql_url(empty_database_url)
    with closing(psycopg2.connect(url)) as other, closing(psycopg2.connect(url)) as watch:
        watch.autocommit = True
        execute(other, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1")
        with in_background(lambda: upgrade(empty_database_url), other.rollback) as run:
            wait_until_blocked(watch, "muster-migrations", call=run)
            execute(watch, TERMINATE_INDEX_BUILD)
            with pytest.raises(UserError, match=r"could not be migrated: .*connection"):
                run.result()
    upgrade(empty_database_url)
    with engine.connect() as connection:
        is_valid = text("SELECT indisvalid FROM pg_index WHERE indexrelid = 'changes_unsealed'::regclass")
        assert connection.execute(is_valid).scalar_one()


TERMINATE_INDEX_BUILD = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE application_name = 'muster-migrations' AND datname = current_database() AND wait_event_type = 'Lock'
"""
"""Not the connection that keeps other runs out: Alembic's clean-up fails by itself if that one goes on."""


def test_migration_lock_wait_is_limited(config: Config, engine: Engine) -> None:
    with engine.begin() as connection:
        connection.execute(text(LOOK_AT_TIMEOUTS))
    command.upgrade(config, "head")
    with engine.connect() as connection:
        assert connection.execute(text("SELECT DISTINCT lock_ms, statement_ms FROM timeouts")).all() == [("5s", "5min")]


def test_table_that_is_locked_while_comments_are_set_is_reported_in_one_sentence(database_url: str) -> None:
    with closing(psycopg2.connect(psql_url(database_url))) as other:
        execute(other, "LOCK TABLE members IN SHARE UPDATE EXCLUSIVE MODE")  # As VACUUM does.
        with pytest.raises(UserError, match="could not be migrated: canceling statement due to lock timeout"):
            upgrade(database_url)


LOOK_AT_TIMEOUTS = """
CREATE TABLE timeouts (lock_ms text, statement_ms text);
CREATE FUNCTION look() RETURNS event_trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO timeouts VALUES (current_setting('lock_timeout'), current_setting('statement_timeout'));
END
$$;
CREATE EVENT TRIGGER look ON ddl_command_start EXECUTE FUNCTION look();
"""


# -- databases of other programs ------------------------------------------------------------------------------

FOREIGN_REVISION = """
CREATE TABLE alembic_version (version_num varchar(32) NOT NULL PRIMARY KEY);
INSERT INTO alembic_version VALUES ('1975ea83b712'), ('ae1027a6acf4');
"""


@pytest.mark.parametrize(
    ("made", "table"),
    [("CREATE TABLE customers ()", "customers"), (FOREIGN_REVISION, "alembic_version")],
    ids=["tables", "revision"],
)
@pytest.mark.parametrize("prepare", [upgrade, require_schema])
def test_database_of_another_program_is_refused_and_left_alone(
    empty_database_url: str, engine: Engine, prepare: Callable[[str], object], made: str, table: str
) -> None:
    with engine.begin() as connection:
        connection.execute(text(made))
        name = connection.execute(text("SELECT current_database()")).scalar_one()
    before = names(engine)
    with pytest.raises(UserError) as refused:
        prepare(empty_database_url)
    assert refused.value.sentence == (
        f"The database {name} has tables of another program ({table}): create an empty one for Muster, and name it in"
        " MUSTER_DATABASE_URL."
    )
    assert names(engine) == before


def test_tables_of_extensions_and_of_other_schemas_do_not_matter(empty_database_url: str, engine: Engine) -> None:
    with engine.begin() as connection:
        connection.execute(text("CREATE SCHEMA other; CREATE TABLE other.customers ()"))
        connection.execute(text("CREATE TABLE spatial_ref_sys (); ALTER EXTENSION plpgsql ADD TABLE spatial_ref_sys"))
    require_schema(empty_database_url)
    assert "public.groups" in names(engine)
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE customers ()"))  # Beside Muster's own, as of a tool that watches it.
    require_schema(empty_database_url)


def test_lost_row_of_versions_is_named(database_url: str) -> None:
    with closing(psycopg2.connect(psql_url(database_url))) as connection:
        execute(connection, "DELETE FROM versions")
        connection.commit()
    with pytest.raises(UserError, match=r"^The table versions has no row: restore it from a backup"):
        require_schema(database_url)


# -- encodings ------------------------------------------------------------------------------------------------


def test_encoding_that_a_role_has_for_clients_does_not_matter(empty_database_url: str, engine: Engine) -> None:
    with engine.begin() as connection:
        name = connection.execute(text("SELECT current_database()")).scalar_one()
        connection.execute(text(f"ALTER DATABASE {name} SET client_encoding = latin1"))
    upgrade(empty_database_url)
    assert "public.groups" in names(engine)


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
def test_database_that_is_not_in_utf8_is_refused(empty_database_url: str, encoding: str) -> None:
    with closing(psycopg2.connect(psql_url(empty_database_url))) as admin:
        admin.autocommit = True
        execute(admin, f"CREATE DATABASE other ENCODING {encoding} LOCALE_PROVIDER libc LOCALE 'C' TEMPLATE template0")
        try:
            with pytest.raises(UserError, match=f"has the encoding {encoding}, .* ENCODING 'UTF8' TEMPLATE template0"):
                upgrade(make_url(empty_database_url).set(database="other").render_as_string(hide_password=False))
        finally:
            execute(admin, "DROP DATABASE other")


SCHEMAS = {"public", "dashboards"}


def test_schema_with_the_name_of_the_role_gets_no_tables(empty_database_url: str, engine: Engine) -> None:
    """By default Postgres would create tables there: `search_path` begins with "$user"."""
    with engine.begin() as connection:
        connection.execute(text("CREATE SCHEMA AUTHORIZATION CURRENT_USER"))
    upgrade(empty_database_url)
    with closing(PostgresStore(empty_database_url)) as store:
        store.create_history_partitions(days_ahead=1)
    assert {schema for schema, dot, _ in (name.partition(".") for name in names(engine)) if dot} == SCHEMAS


# -- shards ---------------------------------------------------------------------------------------------------


def shards(engine: Engine) -> tuple[int, list[int]]:
    with engine.connect() as connection:
        rows = connection.execute(text("SELECT shard_id FROM shard_leases ORDER BY shard_id"))
        count = connection.execute(text("SELECT shard_count FROM versions")).scalar_one()
        return count, [shard for (shard,) in rows]


def test_database_has_fifty_shards_by_default(config: Config, engine: Engine) -> None:
    command.upgrade(config, "head")
    assert shards(engine) == (50, list(range(50)))


def test_migration_can_choose_the_number_of_shards(config: Config, engine: Engine) -> None:
    config.attributes["shards"] = 3
    command.upgrade(config, "head")
    assert shards(engine) == (3, [0, 1, 2])


def test_the_number_of_shards_can_be_given_on_alembic_s_command_line(config: Config, engine: Engine) -> None:
    config.cmd_opts = Namespace(x=["shards=4"])
    command.upgrade(config, "head")
    assert shards(engine) == (4, [0, 1, 2, 3])


@pytest.mark.parametrize("count", [-1, 10_001])
def test_invalid_number_of_shards_is_rejected(config: Config, engine: Engine, count: int) -> None:
    config.attributes["shards"] = count
    with pytest.raises(ValueError, match="1 to 10000 shards"):
        command.upgrade(config, "head")
    assert names(engine) == set()


# -- roles ----------------------------------------------------------------------------------------------------

REPORTS = {table for job in JOBS.values() for table in job.reports}
JOBS_WRITE = {
    *("expiry_candidates_staging", "cleanup_candidates_staging"),
    *REPORTS,
    *(f"{table}_staging" for table in REPORTS),
}
VIEWS = {
    "dashboards.group_overview",
    "dashboards.known_log_ends",
    "dashboards.ownership",
    "dashboards.slowest_members",
    "dashboards.spurious_evictions",
    "dashboards.rebalances_per_hour",
    "dashboards.rebalancing_groups",
    "dashboards.offsets_expiring",
    "dashboards.idle_members",
    "dashboards.recent_changes",
    "dashboards.partition_lag",
    "dashboards.lag_history",
    "dashboards.newest_runs",
}


def allowed(url: str, role: str, right: str) -> set[str]:
    """Return the tables and views on which a role has a right."""
    engine = create_engine(url)
    question = text(
        "SELECT CASE nspname WHEN 'public' THEN relname ELSE nspname || '.' || relname END"
        " FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace"
        " WHERE nspname IN ('public', 'dashboards') AND relkind IN ('r', 'p', 'v') AND NOT relispartition"
        " AND relname <> 'alembic_version' AND has_schema_privilege(:role, relnamespace, 'USAGE')"
        " AND has_table_privilege(:role, pg_class.oid, :right)"
    )
    with engine.connect() as connection:
        found = {name for (name,) in connection.execute(question, {"role": role, "right": right})}
    engine.dispose()
    return found


@pytest.mark.parametrize("role", ["muster_jobs", "muster_reader"])
def test_both_roles_read_everything(database_url: str, role: str) -> None:
    assert allowed(database_url, role, "SELECT") == set(metadata.tables) | VIEWS


@pytest.mark.parametrize(
    ("right", "tables"), [("INSERT", JOBS_WRITE), ("DELETE", JOBS_WRITE), ("UPDATE", set()), ("TRUNCATE", set())]
)
def test_jobs_write_staging_tables_and_reports_and_nothing_else(
    database_url: str, right: str, tables: set[str]
) -> None:
    assert allowed(database_url, "muster_jobs", right) == tables
    assert allowed(database_url, "muster_reader", right) == set()


def test_future_partitions_are_readable_by_jobs(database_url: str, postgres_store: PostgresStore) -> None:
    postgres_store.create_history_partitions(days_ahead=1)
    engine = create_engine(database_url)
    with engine.connect() as connection:
        unreadable = connection.execute(
            text(
                "SELECT inhrelid::regclass FROM pg_inherits JOIN pg_class ON oid = inhrelid"
                " WHERE relkind = 'r' AND NOT has_table_privilege('muster_jobs', inhrelid, 'SELECT')"
            )
        ).all()
    engine.dispose()
    assert unreadable == []


def test_migration_without_role_permission_skips_roles(tmp_path: Path) -> None:
    """A cluster of its own: roles belong to the whole of one."""
    with EmbeddedPostgres(tmp_path, max_connections=10, options=FORGETFUL) as postgres:
        with closing(psycopg2.connect(psql_url(postgres.superuser_url("postgres")))) as admin:
            admin.autocommit = True
            execute(admin, "DROP OWNED BY muster_jobs, muster_reader")
            execute(admin, "DROP ROLE muster_jobs_login, muster_reader_login, muster_jobs, muster_reader")
            execute(admin, "CREATE ROLE plain LOGIN PASSWORD 'plain'")
            execute(admin, "CREATE DATABASE plain OWNER plain")
        url = f"postgresql+psycopg2://plain:plain@127.0.0.1:{postgres.port}/plain"
        engine = create_engine(url)
        command.upgrade(config_for(url), "head")
        with engine.connect() as connection:
            assert connection.execute(text("SELECT FROM pg_roles WHERE rolname ~ '^muster_(jobs|reader)$'")).all() == []
        command.downgrade(config_for(url), "base")
        assert names(engine) == set()
        engine.dispose()


def execute(connection: PsycopgConnection, statement: str, *parameters: object) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)


# -- views ----------------------------------------------------------------------------------------------------


def test_every_view_begins_with_a_question() -> None:
    files = list(MIGRATIONS.glob("sql/*/views/*.sql"))
    first_lines = {path.stem: path.read_text().partition("\n")[0] for path in files}
    assert first_lines.keys() >= {"group_overview", "ownership"}
    assert [name for name, line in first_lines.items() if not (line.startswith("-- ") and line.endswith("?"))] == []
