"""Commands that run Muster: up, serve, migrate, job and others."""

# ruff: noqa: PLC0415 - a command loads only what it needs, so that each answers at once

import getpass
import importlib.metadata
import signal
import sys
from enum import StrEnum
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from muster.commands.command_tree import command_group
from muster.commands.options import REASON, ActorOption, DataDirOption, ExecuteOption, ReasonOption
from muster.crash import set_crash_folder
from muster.errors import USAGE_EXIT_CODE, UserError

if TYPE_CHECKING:
    from muster.settings import Settings


class DatabaseRole(StrEnum):
    """The roles whose URLs `muster database-url` prints; fields of `DatabaseUrls`."""

    OWNER = "owner"
    JOBS = "jobs"
    READER = "reader"


NODES_MAX = 16
"""How many nodes the local platform may be asked for."""

app = command_group("Run Muster.")

PortOption = Annotated[
    int | None, typer.Option("--port", min=1, max=65_535, help="The node's port.", show_default="8080")
]


@app.command()
def up(
    port: PortOption = None,
    airflow_port: Annotated[
        int | None,
        typer.Option("--airflow-port", min=1, max=65_535, help="Airflow's port.", show_default="8081"),
    ] = None,
    data_dir: DataDirOption = None,
    nodes: Annotated[
        int, typer.Option("--nodes", min=1, max=NODES_MAX, help="Number of nodes, on consecutive ports.")
    ] = 1,
    airflow: Annotated[bool, typer.Option(help="Run Airflow with the maintenance DAGs.")] = True,
    demo: Annotated[bool, typer.Option(help="Run demo consumers.")] = True,
) -> None:
    """Run the local platform with demo consumers.

    Starts Postgres, a node, Airflow and some consumers, and shows each step, then the groups as they change.
    Ctrl-C stops everything; the data is kept.
    """
    from muster.up import run_up

    settings = _settings(http_port=port, airflow_port=airflow_port, data_dir=data_dir)
    run_up(settings, node_count=nodes, with_airflow=airflow, with_demo=demo)


@app.command()
def serve(
    port: PortOption = None,
    host: Annotated[str | None, typer.Option(help="The address to listen on.", show_default="127.0.0.1")] = None,
    data_dir: DataDirOption = None,
) -> None:
    """Run one node.

    Uses the database of MUSTER_DATABASE_URL, or else an embedded Postgres. Creates the tables in an empty database;
    refuses an older schema until muster migrate has run.
    """
    from muster.database import command_database
    from muster.node import run_node
    from muster.ports import require_free_port
    from muster.schema import require_newest

    settings = _settings(http_port=port, http_host=host, data_dir=data_dir)
    signal.signal(signal.SIGTERM, _leave)
    with command_database(
        settings,
        "serve",
        lambda: require_free_port(settings.http_host, settings.http_port, "--port"),
        settings.node_url,
    ) as urls:
        require_newest(urls.owner, settings.shards)
        run_node(_settings(http_port=port, http_host=host, data_dir=data_dir, database_url=urls.owner))


@app.command()
def migrate(data_dir: DataDirOption = None) -> None:
    """Migrate the database to the newest schema.

    Does nothing if the schema is already the newest.
    """
    from muster.database import shared_database
    from muster.schema import newest, upgrade

    settings = _settings(data_dir=data_dir)
    with shared_database(settings, "migrate") as urls:
        before = upgrade(urls.owner, settings.shards)
    after = newest()
    print(
        f"The schema is {after} already."
        if before == after
        else f"The schema is {after} now (was {before or 'empty'})."
    )


@app.command("database-url")
def database_url(
    role: Annotated[
        DatabaseRole, typer.Option("--role", help="Database role: owner for nodes, jobs for Spark, reader for queries.")
    ] = DatabaseRole.OWNER,
    data_dir: DataDirOption = None,
) -> None:
    """Print the URL of the database in use, password included.

    In the form that psql, MUSTER_DATABASE_URL (owner) and MUSTER_JOBS_DATABASE_URL (jobs) accept.
    """
    from muster.database import urls_in_use
    from muster.settings import psql_url

    print(psql_url(getattr(urls_in_use(_settings(data_dir=data_dir)), role)))


@app.command("database-restored")
def database_restored(
    incarnation: Annotated[
        int | None,
        typer.Option("--incarnation", min=1, help="Incarnation to end, as printed by this command.", metavar="N"),
    ] = None,
    execute: ExecuteOption = False,
    reason: ReasonOption = REASON,
    actor: ActorOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Start a new incarnation of a restored database.

    For restores that nodes cannot detect: a disk snapshot restored while every node was stopped. Run it
    before the nodes start. The generations of all groups jump, and every group with members rebalances. Running it
    again does nothing.
    """
    from muster.commands.http_client import checked_actor
    from muster.commands.incarnation import start_incarnation
    from muster.database import shared_database
    from muster.schema import require_newest

    if execute != (incarnation is not None):
        raise UserError("--execute and --incarnation go together; without both, nothing is changed.", USAGE_EXIT_CODE)
    settings = _settings(data_dir=data_dir)
    with shared_database(settings, "database-restored") as urls:
        require_newest(urls.owner, settings.shards)
        start_incarnation(urls.owner, incarnation, checked_actor(actor or getpass.getuser()), reason)


@app.command()
def job(
    name: Annotated[str, typer.Argument(help="Name of the job, such as offset_retention.")],
    as_of: Annotated[
        str | None,
        typer.Option("--as-of", help="Evaluate as of this time; UTC if it has no zone (default: now).", metavar="TIME"),
    ] = None,
    interval: Annotated[
        str | None,
        typer.Option("--interval", help="Interval of a report: a day or START/END (default: the last whole day)."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Propose without applying; count rows of a report without writing them.")
    ] = False,
    table: Annotated[
        str | None, typer.Option("--table", help="history_restore: only this table (default: all tables).")
    ] = None,
    execute: Annotated[
        bool, typer.Option("--execute", help="history_restore: restore the days. Without it, only list them.")
    ] = False,
    data_dir: DataDirOption = None,
) -> None:
    """Run a Spark job once, without Airflow.

    Works with or without a running node. history_restore restores the days of its interval from the archive.
    """
    from muster.commands.argument_parsing import instant
    from muster.jobs import restore_history, run_job
    from spark_jobs.submit import HISTORY_RESTORE

    if name == HISTORY_RESTORE:
        restore_history(interval, table, _settings(data_dir=data_dir), execute=execute and not dry_run)
        return
    if table or execute:
        raise UserError(f"{name} knows neither --table nor --execute.", USAGE_EXIT_CODE)
    moment = None if as_of is None else instant(as_of, "--as-of")
    run_job(name, moment, dry_run, _settings(data_dir=data_dir), interval)


@app.command()
def version() -> None:
    """Print the version."""
    print(importlib.metadata.version("muster"))


def _settings(**overrides: str | int | Path | None) -> "Settings":
    from muster.settings import load_settings

    settings = load_settings(**overrides)
    set_crash_folder(settings.data_dir)
    return settings


def _leave(number: int, frame: FrameType | None) -> NoReturn:
    """Stop what was started, and exit normally."""
    sys.exit(0)
