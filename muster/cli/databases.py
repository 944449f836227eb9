"""Commands on the database as a whole: migrate, database-url and database-restored."""

from contextlib import closing
from enum import StrEnum
from typing import Annotated

import typer

from coordinator_core.state_store.interface import StoreError
from coordinator_core.state_store.postgres import PostgresStore
from coordinator_core.state_store.rows import Incarnation
from muster.cli.command_tree import command_group
from muster.cli.crash import command_settings
from muster.cli.options import REASON, ActorOption, DataDirOption, ExecuteOption, ReasonOption
from muster.errors import FAILURE_EXIT_CODE, USAGE_EXIT_CODE, UserError
from muster.local.database import shared_database, urls_in_use
from muster.node.schema import newest, require_schema, upgrade
from muster.node_client import checked_actor, os_user
from muster.settings import psql_url

app = command_group("Migrate the database, print its URL, and start incarnations.")


class DatabaseRole(StrEnum):
    """The roles whose URLs `muster database-url` prints; fields of `DatabaseUrls`."""

    OWNER = "owner"
    JOBS = "jobs"
    READER = "reader"


@app.command()
def migrate(data_dir: DataDirOption = None) -> None:
    """Migrate the database to the newest schema.

    Does nothing if the schema is already the newest.
    """
    settings = command_settings(data_dir=data_dir)
    with shared_database(settings, "migrate") as urls:
        before = upgrade(urls.owner, settings.shards)
    after = newest()
    if (before or "") > (after or ""):
        print(f"The schema is {before}, newer than this program's {after}.")
    elif before == after:
        print(f"The schema is {after} already.")
    else:
        print(f"The schema is {after} now (was {before or 'empty'}).")


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
    print(psql_url(getattr(urls_in_use(command_settings(data_dir=data_dir)), role)))


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
    if execute != (incarnation is not None):
        raise UserError("--execute and --incarnation go together; without both, nothing is changed.", USAGE_EXIT_CODE)
    settings = command_settings(data_dir=data_dir)
    with shared_database(settings, "database-restored") as urls:
        require_schema(urls.owner, settings.shards)
        start_incarnation(urls.owner, incarnation, checked_actor(actor or os_user()), reason)


def start_incarnation(database_url: str, known: int | None, actor: str, reason: str) -> None:
    """Start a new incarnation in place of the known one; without a known one, print what that would do.

    Raises:
        UserError: the database does not answer, or the known incarnation has not started yet.
    """
    with closing(PostgresStore(database_url)) as store:
        try:
            present = store.incarnation()
            if known is None:
                print(_proposal(present))
            elif known > present.number:
                raise UserError(f"The database is at incarnation {present.number}; there is no {known} to end.")
            else:
                print(_outcome(known, present, store.start_incarnation(known, actor, reason)))
        except StoreError as failure:
            raise UserError(f"The database refuses: {failure}.", FAILURE_EXIT_CODE) from failure


def _proposal(present: Incarnation) -> str:
    return (
        f"The database is at incarnation {present.number}. A new one would make the generations of all groups jump, and"
        " every group with members would rebalance.\n"
        f"Nothing was changed; --execute --incarnation {present.number} does it."
    )


def _outcome(known: int, before: Incarnation, after: Incarnation) -> str:
    if before.number != known:
        return f"Incarnation {known} is over already; the database is at {after.number}. Nothing was changed."
    return f"Incarnation {after.number} has started. Every group with members rebalances once a node serves it."
