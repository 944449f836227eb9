"""`muster sql`: SQL on the database in use, with or without psql."""

# ruff: noqa: PLC0415 - a command loads only what it needs, so that each answers at once

from typing import Annotated

import typer

from muster.commands.command_tree import command_group
from muster.commands.options import DataDirOption, JsonOption

app = command_group("Ask the database.")


@app.command()
def sql(
    query: Annotated[
        str | None, typer.Argument(metavar="[SQL]", help="One read-only statement.", show_default=False)
    ] = None,
    write: Annotated[
        bool, typer.Option("--write", help="Log in as the owner of the database and allow writes.")
    ] = False,
    data_dir: DataDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run SQL on the database in use, or open psql.

    On the database of muster up it logs in as the read-only role. Uses the psql of this machine, or else the one
    of the embedded Postgres.
    """
    from muster.commands.sql_query import open_psql, print_rows
    from muster.database import urls_in_use
    from muster.settings import load_settings, psql_url

    urls = urls_in_use(load_settings(data_dir=data_dir))
    url = psql_url(urls.owner if write else urls.reader)
    if query is None:
        open_psql(url)
    else:
        print_rows(url, query, may_write=write, as_json=as_json)
