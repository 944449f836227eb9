"""`muster sql`: a question in SQL to the database in use, whether or not there is a psql on this machine."""

# ruff: noqa: PLC0415 - a command loads only what it needs, so that each answers at once

from typing import Annotated

import typer

from muster.commands.options import DataDirOption, JsonOption
from muster.commands.tree import command_group

app = command_group("Ask the database.")


@app.command()
def sql(
    query: Annotated[
        str | None, typer.Argument(metavar="[SQL]", help="One statement, that only reads.", show_default=False)
    ] = None,
    write: Annotated[
        bool, typer.Option("--write", help="Log in as the database's owner, and let SQL change something.")
    ] = False,
    data_dir: DataDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Ask the database in use with SQL; without SQL, open psql.

    In the database of muster up it logs in as the role that only reads. psql is that of this machine, or else the one
    that comes with the embedded Postgres.
    """
    from muster.commands.querying import open_psql, print_answer
    from muster.database import urls_in_use
    from muster.settings import load_settings, psql_url

    urls = urls_in_use(load_settings(data_dir=data_dir))
    url = psql_url(urls.owner if write else urls.reader)
    if query is None:
        open_psql(url)
    else:
        print_answer(url, query, may_write=write, as_json=as_json)
