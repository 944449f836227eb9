"""The command `muster`: whatever goes wrong is one sentence on stderr and an exit code, never a traceback."""

# ruff: noqa: PLC0415 - a command loads only what it needs, so that each answers at once

import datetime as dt
import importlib.metadata
import platform
import signal
import sys
import traceback
from contextvars import ContextVar
from pathlib import Path
from types import FrameType
from typing import Annotated, NoReturn

import typer
from typer.exceptions import TyperException

from muster.data_dir import write_private
from muster.errors import FAILURE_EXIT_CODE, UserError, disk_error
from muster.settings import DEFAULT_DATA_DIR, NODES_MAX, Settings, load_settings

CRASH_LOG = "crash.log"

_data_dir: ContextVar[Path] = ContextVar("data_dir", default=DEFAULT_DATA_DIR)

app = typer.Typer(
    name="muster",
    help="Coordinate consumer groups on Postgres, and look after them.",
    epilog="Every setting is also a variable in the environment: MUSTER_ and its name in capitals.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

DataDirOption = Annotated[
    Path | None,
    typer.Option("--data-dir", help="Where the database, the secrets and the logs are kept.", show_default="./.muster"),
]
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
        int, typer.Option("--nodes", min=1, max=NODES_MAX, help="How many nodes; the others take the ports after.")
    ] = 1,
    airflow: Annotated[bool, typer.Option(help="Run Airflow with the maintenance DAGs on.")] = True,
    demo: Annotated[bool, typer.Option(help="Run a small live fleet to look at.")] = True,
) -> None:
    """Run everything on this machine: Postgres, a node, Airflow and a small live fleet.

    The terminal shows each step, then the groups as they change. Ctrl-C stops it all, and the next time finds its data.
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
    """Run one node, on the database that MUSTER_DATABASE_URL names or else on an embedded Postgres.

    An empty database is given its tables; one with an older schema is refused until muster migrate has run.
    """
    from muster.database import own_database
    from muster.node import run_node
    from muster.ports import require_free_port
    from muster.schema import require_newest

    settings = _settings(http_port=port, http_host=host, data_dir=data_dir)
    signal.signal(signal.SIGTERM, _leave)
    with own_database(
        settings, "serve", lambda: require_free_port(settings.http_host, settings.http_port, "--port")
    ) as url:
        require_newest(url, settings.shards)
        run_node(_settings(http_port=port, http_host=host, data_dir=data_dir, database_url=url))


@app.command()
def migrate(data_dir: DataDirOption = None) -> None:
    """Bring the database to this program's schema; harmless when it has it already."""
    from muster.database import shared_database
    from muster.schema import newest, upgrade

    settings = _settings(data_dir=data_dir)
    with shared_database(settings, "migrate") as url:
        before = upgrade(url, settings.shards)
    after = newest()
    print(
        f"The schema is {after} already."
        if before == after
        else f"The schema is {after} now (was {before or 'empty'})."
    )


@app.command("database-url")
def database_url(data_dir: DataDirOption = None) -> None:
    """Print the URL of the database in use, as psql and MUSTER_DATABASE_URL take it. It holds the password."""
    from muster.database import url_in_use

    print(url_in_use(_settings(data_dir=data_dir)))


@app.command()
def job(
    name: Annotated[str, typer.Argument(help="The job, as offset_retention.")],
    as_of: Annotated[
        dt.datetime | None,
        typer.Option("--as-of", formats=["%Y-%m-%dT%H:%M:%S%z", "%Y-%m-%d"], help="Judge as of then (default: now)."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Propose, and apply nothing.")] = False,
    data_dir: DataDirOption = None,
) -> None:
    """Run a Spark job once, without Airflow; beside a running Muster or alone."""
    from muster.jobs import run_job

    run_job(name, as_of, dry_run, _settings(data_dir=data_dir))


@app.command()
def version() -> None:
    """Print the version of this program."""
    print(importlib.metadata.version("muster"))


def main() -> NoReturn:
    """Run the command line and exit: 0 when it did what was asked, 2 for wrong usage, 1 for any other failure."""
    if platform.system() != "Linux":
        _fail("Only Linux can run muster; its agents run anywhere.", FAILURE_EXIT_CODE)
    try:
        sys.exit(app(standalone_mode=False))
    except UserError as failure:
        _fail(failure.sentence, failure.exit_code)
    except TyperException as failure:
        _fail(failure.format_message(), failure.exit_code)
    except typer.Abort:
        _fail("Stopped.", FAILURE_EXIT_CODE)
    except OSError as failure:
        explained = disk_error(failure)
        _fail(explained.sentence if explained else _crash(failure), FAILURE_EXIT_CODE)
    except Exception as failure:  # noqa: BLE001 - the last one to hear of it writes it down, and says where
        _fail(_crash(failure), FAILURE_EXIT_CODE)


def _settings(**overrides: str | int | Path | None) -> Settings:
    settings = load_settings(**overrides)
    _data_dir.set(settings.data_dir)
    return settings


def _fail(sentence: str, exit_code: int) -> NoReturn:
    if sentence:  # There is none when the help was shown instead.
        print(f"muster: {sentence}", file=sys.stderr)
    sys.exit(exit_code)


def _crash(failure: Exception) -> str:
    """Write the whole story to a file, and return one sentence about it."""
    file = _data_dir.get() / CRASH_LOG
    summary = f"{type(failure).__name__}: {failure}".strip().splitlines()[0]
    try:
        write_private(file, "".join(traceback.format_exception(failure)))
    except OSError:
        return f"Something went wrong that should not have ({summary}); {file} could not be written."
    return f"Something went wrong that should not have ({summary}); the details are in {file}."


def _leave(number: int, frame: FrameType | None) -> NoReturn:
    """Unwind what was started, and exit as somebody who was asked to."""
    sys.exit(0)
