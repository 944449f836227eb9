"""Reference pages: writes the generated parts of pages in docs/, and the stored help of the commands.

    make docs

A generated part stands between `<!-- generated: kind name -->` and `<!-- end -->`. Settings come from the fields and
docstrings of `muster.settings`, commands from `muster.cli`, jobs from the entries of `coordinator_core.jobs`,
tables from the comments of a migrated database (`migrations/comments/`). A test compares the pages with what this
module writes.
"""

import ast
import inspect
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import psycopg2
from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name
from typer import Context
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption
from typer.main import get_command

from coordinator_core.jobs import JOBS, JobSpec
from coordinator_core.protocol.setting_rules import CLUSTER_RULES, RULES, ChoiceRule
from coordinator_core.protocol.settings import ClusterSettings
from muster import settings
from muster.cli.command_tree import COMMANDS
from muster.cli.help_pages import FILE as HELP_FILE
from muster.cli.help_pages import WIDTH as HELP_WIDTH
from muster.cli.help_pages import heading
from muster.cli.main import app
from muster.local.embedded_postgres import EmbeddedPostgres
from muster.node.schema import upgrade
from muster.settings import ENVIRONMENT_PREFIX, Settings, psql_url

DOCS: Final = Path(__file__).parents[1] / "docs"
PAGES: Final = tuple(
    DOCS / name for name in ("settings.md", "command-line.md", "tables.md", "maintenance.md", "http-api.md")
)
PART: Final = re.compile(r"(<!-- generated: (\w+) ([\w.]+) -->\n).*?(<!-- end -->)", re.DOTALL)

TABLES: Final = """
SELECT CASE nspname WHEN 'public' THEN relname ELSE nspname || '.' || relname END,
    obj_description(pg_class.oid, 'pg_class'), attname,
    replace(format_type(atttypid, atttypmod), 'timestamp with time zone', 'timestamptz'),
    col_description(pg_class.oid, attnum)
FROM pg_attribute
JOIN pg_class ON pg_class.oid = attrelid
JOIN pg_namespace ON pg_namespace.oid = relnamespace
WHERE nspname IN ('public', 'dashboards') AND relkind IN ('r', 'p', 'v') AND NOT relispartition
    AND relname <> 'alembic_version' AND attnum > 0 AND NOT attisdropped
ORDER BY 1, attnum
"""
"""Tables and views: name, comment, column, type, comment of the column; a row a column."""


def rendered(page: str, connection: PsycopgConnection) -> str:
    """Return a page with its generated parts written again.

    Raises:
        KeyError: a part names a table, a class of settings or a kind that does not exist.
    """
    kinds: dict[str, Callable[[str], Iterator[str]]] = {
        "settings": settings_table,
        "command": command_section,
        "table": lambda name: table_section(tables[name]),
        "reports": lambda _: report_sections(tables),
        "jobs": lambda name: JOB_PARTS[name](),
    }
    tables = read_tables(connection)
    return PART.sub(lambda part: part[1] + "\n".join([*kinds[part[2]](part[3]), part[4]]), page)


# -- settings ---------------------------------------------------------------------------------------------


def settings_table(class_name: str) -> Iterator[str]:
    """Yield the Markdown table of the settings that a class declares itself: variables, or keys of the cluster."""
    of_cluster = class_name == ClusterSettings.__name__
    yield f"| {'setting' if of_cluster else 'variable'} | default | range | meaning |"
    yield "|---|---|---|---|"
    for name, meaning in declared_settings(class_name).items():
        label = name if of_cluster else ENVIRONMENT_PREFIX + name.upper()
        default = getattr(ClusterSettings(), name) if of_cluster else Settings.model_fields[name].default
        yield f"| `{label}` | {_setting_default(default)} | {_range(name)} | {meaning} |"


def declared_settings(class_name: str) -> dict[str, str]:
    """Return the docstring of each setting that a class declares, in the order of the class."""
    declaring = ClusterSettings if class_name == ClusterSettings.__name__ else getattr(settings, class_name)
    body = ast.parse(inspect.getsource(declaring)).body[0]
    assert isinstance(body, ast.ClassDef)
    return {
        line.target.id: " ".join(following.value.value.split())
        for line, following in pairwise(body.body)
        if isinstance(line, ast.AnnAssign)
        and isinstance(line.target, ast.Name)
        and isinstance(following, ast.Expr)
        and isinstance(following.value, ast.Constant)
        and isinstance(following.value.value, str)
    }


def _setting_default(value: object) -> str:
    if value in {None, ()}:
        return "none"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _range(name: str) -> str:
    rule = {**RULES, **CLUSTER_RULES}.get(name)
    if isinstance(rule, ChoiceRule):
        return ", ".join(rule.choices)
    if rule is not None:
        return f"{rule.low} … {rule.high}"
    schema = Settings.model_json_schema()["properties"][name]
    for each in schema.get("anyOf", [schema]):
        if "minimum" in each:
            return f"{each['minimum']} … {each.get('maximum', '')}".strip()
    return ""


# -- commands ---------------------------------------------------------------------------------------------


def commands() -> dict[str, TyperCommand]:
    """Return every command by its full name, in the order of the help."""
    found = {}
    for entry in COMMANDS:
        loaded = entry.load()
        if isinstance(loaded, TyperGroup):
            for name, command in loaded.commands.items():
                assert isinstance(command, TyperCommand), "groups are one level deep"
                found[f"{entry.name} {name}"] = command
        else:
            found[entry.name] = loaded
    return found


def help_pages() -> dict[str, str]:
    """Return what `--help` prints at a terminal of 80 columns, by the full name of the command."""
    root = get_command(app)
    contexts = [Context(root, info_name="muster", terminal_width=HELP_WIDTH - 2, **root.context_settings)]
    for context in contexts:  # It grows by what it finds.
        group = context.command
        if isinstance(group, TyperGroup):
            commands = [(name, group.get_command(context, name)) for name in group.list_commands(context)]
            contexts += [Context(command, info_name=name, parent=context) for name, command in commands if command]
    return {context.command_path.removeprefix("muster").strip(): context.get_help() for context in contexts}


def help_file() -> str:
    """Return the file of `muster.cli.help_pages`."""
    return "".join(heading(name) + page for name, page in help_pages().items()) + "\n"


def command_section(name: str) -> Iterator[str]:
    """Yield the reference of all commands; its only name is `all`."""
    assert name == "all"
    for full_name, command in commands().items():
        yield from ("", f"### muster {full_name}", "", inspect.cleandoc(command.help or ""), "")
        parameters = [each for each in command.params if isinstance(each, TyperArgument | TyperOption)]
        if parameters:
            yield "| option or argument | meaning | default |"
            yield "|---|---|---|"
        for each in parameters:
            yield f"| {_parameter_name(each)} | {each.help or ''} | {_parameter_default(each)} |"
    yield ""


def _parameter_name(parameter: TyperArgument | TyperOption) -> str:
    if isinstance(parameter, TyperArgument):
        name = parameter.metavar or (parameter.name or "").upper()
        several = "..." if parameter.nargs == -1 and not name.endswith("...") else ""
        return f"`{name}`" if parameter.required else f"`[{name}]{several}`"
    flags = "`, `".join([*parameter.opts, *parameter.secondary_opts])
    variable = f", or the variable `{parameter.envvar}`" if parameter.envvar else ""
    return f"`{flags}`{variable}"


def _parameter_default(parameter: TyperArgument | TyperOption) -> str:
    if parameter.required:
        return "required"
    described: Any = parameter.show_default
    if isinstance(described, str):
        return described
    value = parameter.default
    return "" if value in (None, False, "") or callable(value) else ("yes" if value is True else str(value))


# -- tables -----------------------------------------------------------------------------------------------

Table = tuple[str, list[tuple[str, str, str]]]
"""A table's description, and name, type and description of each column."""


def read_tables(connection: PsycopgConnection) -> dict[str, Table]:
    """Return every table and view with its columns in order; a description that is missing is empty."""
    tables: dict[str, Table] = {}
    with connection.cursor() as cursor:
        cursor.execute(TABLES)
        for name, description, column, column_type, meaning in cursor.fetchall():
            tables.setdefault(name, (description or "", []))[1].append((column, column_type, meaning or ""))
    return tables


def table_section(table: Table) -> Iterator[str]:
    """Yield a table's description and the Markdown table of its columns."""
    description, columns = table
    yield from (description, "", "| column | type | meaning |", "|---|---|---|")
    for name, column_type, meaning in columns:
        yield f"| `{name}` | {column_type} | {meaning} |"
    yield ""


def report_sections(tables: Mapping[str, Table]) -> Iterator[str]:
    """Yield the sections of all report tables and their staging tables."""
    yield ""
    for report in (table for job in JOBS.values() for table in job.reports):
        for name in (report, f"{report}_staging"):
            yield from (f"### `{name}`", "", *table_section(tables[name]))


# -- jobs -------------------------------------------------------------------------------------------------


def job_table() -> Iterator[str]:
    """Yield the Markdown table of all jobs."""
    yield "| job | purpose | writes |"
    yield "|---|---|---|"
    for job in JOBS.values():
        tables = [*([job.candidates] if job.candidates else []), *job.reports]
        links = ", ".join(f"[`{table}`](tables.md#{table})" for table in tables)
        yield f"| `{job.name}` | {job.description} | {links} |"


def option_table() -> Iterator[str]:
    """Yield the Markdown table of the options of jobs."""
    yield "| job | option | default | range | meaning |"
    yield "|---|---|---|---|---|"
    for job in JOBS.values():
        for option in job.options:
            variable = f" (`{option.variable}`)" if option.variable else ""
            limits = f"{option.least} … {option.most}"
            yield f"| `{job.name}` | `{option.name}`{variable} | {option.default} | {limits} | {option.meaning} |"


def dag_table() -> Iterator[str]:
    """Yield the Markdown table of all DAGs."""
    yield "| DAG | when | params | updates the Asset |"
    yield "|---|---|---|---|"
    for job in JOBS.values():
        params = ", ".join(f"`{name}`" for name in ("dry_run", *(option.name for option in job.options), *job.limits))
        yield f"| `{job.name}` | {_when(job)} | {params} | `{job.asset}` |"


def _when(job: JobSpec) -> str:
    if job.starts_after is not None:
        return f"when `{JOBS[job.starts_after].asset}` is updated"
    assert job.schedule is not None, "every job has a schedule or starts after another one"
    condition = ", if there is an archive" if job.needs_archive else ""
    catching_up = "; catches up from `MUSTER_REPORTS_SINCE`" if job.catches_up else ""
    return f"`{job.schedule.cron}` (`{job.schedule.variable}`){condition}{catching_up}"


def route_list() -> Iterator[str]:
    """Yield the routes of the reports."""
    for job in (job for job in JOBS.values() if job.is_report):
        table, *parts = job.reports
        also = "".join(f", and in `by_topic` `{part}`" for part in parts)
        yield f"* `GET /v1/reports/{job.subject}`: `{table}`{also}."


JOB_PARTS: Final = {"list": job_table, "options": option_table, "dags": dag_table, "routes": route_list}
"""The generated parts on jobs, by name."""


def main() -> None:
    """Write all pages, with the tables of an embedded Postgres that lives as long as this takes."""
    Path(HELP_FILE).write_text(help_file())
    with tempfile.TemporaryDirectory() as directory, EmbeddedPostgres(Path(directory)) as postgres:
        upgrade(postgres.database_url())
        connection = psycopg2.connect(psql_url(postgres.database_url()))
        for page in PAGES:
            page.write_text(rendered(page.read_text(), connection))
        connection.close()


if __name__ == "__main__":
    main()
