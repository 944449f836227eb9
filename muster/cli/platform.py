"""Commands that run Muster: up and serve; and its version."""

# ruff: noqa: PLC0415 - a command loads only what it needs, so that each answers at once

import importlib.metadata
import signal
import sys
from types import FrameType
from typing import Annotated, NoReturn

import typer

from muster.cli.command_tree import command_group
from muster.cli.crash import command_settings
from muster.cli.options import DataDirOption
from muster.errors import USAGE_EXIT_CODE, UserError

NODES_MAX = 16
"""The maximum number of nodes of the local platform."""

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
    demo: Annotated[bool, typer.Option(help="Run demo consumers; none in a mirror.")] = True,
    kafka: Annotated[
        bool | None,
        typer.Option(
            "--kafka/--no-kafka",
            help="Accept Kafka clients, on port 9092 or MUSTER_KAFKA_PORT.",
            show_default="if the demo has a Kafka client",
        ),
    ] = None,
    mirror: Annotated[
        str | None,
        typer.Option(
            help="Mirror a Kafka cluster instead: its brokers, host:port.",
            show_default="MUSTER_MIRROR_BOOTSTRAP_SERVERS",
        ),
    ] = None,
) -> None:
    """Run the local platform, with demo consumers or a mirror.

    Starts Postgres, a node, Airflow and some consumers, and shows each step, then the groups as they change. With
    --mirror the node mirrors a Kafka cluster, and shows its groups. Ctrl-C stops everything; the data is kept.
    """
    _exit_on_signals()
    from muster.local.up import run_up

    given = {"http_port": port, "airflow_port": airflow_port, "data_dir": data_dir}
    settings = command_settings(**given, mirror_bootstrap_servers=mirror)
    run_up(settings, node_count=nodes, with_airflow=airflow, with_demo=demo, with_kafka=kafka)


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
    _exit_on_signals()
    from muster.local.database import command_database
    from muster.local.ports import require_free_port
    from muster.node.schema import require_schema
    from muster.node.serve import run_node

    settings = command_settings(http_port=port, http_host=host, data_dir=data_dir)
    with command_database(
        settings,
        "serve",
        lambda: require_free_port(settings.http_host, settings.http_port, "--port"),
        settings.node_url,
    ) as urls:
        require_schema(urls.owner, settings.shards)
        run_node(command_settings(http_port=port, http_host=host, data_dir=data_dir, database_url=urls.owner))


@app.command()
def mirror(
    bootstrap: Annotated[
        str | None,
        typer.Option(help="Brokers of the Kafka cluster, host:port.", show_default="MUSTER_MIRROR_BOOTSTRAP_SERVERS"),
    ] = None,
    port: PortOption = None,
    host: Annotated[str | None, typer.Option(help="The address to listen on.", show_default="127.0.0.1")] = None,
    data_dir: DataDirOption = None,
) -> None:
    """Run a node that mirrors a Kafka cluster.

    Reads __consumer_offsets, and changes nothing in the cluster. API, console and reports show its groups; requests
    that would change them are refused. Needs a database of its own, whose tables it creates. How to authenticate: the
    MUSTER_MIRROR_ settings.
    """
    _exit_on_signals()
    from muster.local.database import command_database
    from muster.local.ports import require_free_port
    from muster.node.mirror import prepare_database
    from muster.node.serve import run_node

    given = {"http_port": port, "http_host": host, "data_dir": data_dir, "mirror_bootstrap_servers": bootstrap}
    settings = command_settings(**given)
    if settings.mirror_bootstrap_servers is None:
        raise UserError("Name the Kafka cluster: --bootstrap host:port.", USAGE_EXIT_CODE)
    with command_database(
        settings,
        "mirror",
        lambda: require_free_port(settings.http_host, settings.http_port, "--port"),
        settings.node_url,
    ) as urls:
        prepare_database(settings, urls.owner)
        run_node(command_settings(**given, database_url=urls.owner))


@app.command()
def version() -> None:
    """Print the version."""
    print(importlib.metadata.version("muster"))


def _exit_on_signals() -> None:
    """Exit with 0 at SIGTERM and at Ctrl-C from now on; what was started is stopped on the way."""

    def leave(number: int, frame: FrameType | None) -> NoReturn:
        sys.exit(0)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, leave)
