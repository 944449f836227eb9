"""`muster airflow`: Airflow's own command line, on the Airflow of the running platform."""

from __future__ import annotations

import os
from typing import Annotated, NoReturn

import typer

from muster.cli.command_tree import command_group
from muster.cli.crash import command_settings

app = command_group("Run Airflow's command line.")


@app.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
def airflow(
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="ARGUMENT", help="What Airflow gets, unchanged; none: its help.", show_default=False),
    ] = None,
) -> NoReturn:
    """Run Airflow's command line on that of muster up.

    Such as muster airflow dags list, or muster airflow backfill create. It has the AIRFLOW_HOME, the configuration, the
    database and the DAGs of the muster up that uses MUSTER_DATA_DIR (./.muster), and Airflow's exit code. The MUSTER_
    variables of that muster up, such as schedules, apply if they are set here too.
    """
    from muster.local.airflow import airflow_in_use  # noqa: PLC0415 - a command loads only what it needs

    program, environment = airflow_in_use(command_settings())
    os.execve(program, [program, *(arguments or [])], environment)
