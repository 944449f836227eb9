"""The commands by name and section; a command's module is imported only when the command runs."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command
from typer.models import CommandFunctionType

from muster.errors import USAGE_EXIT_CODE


@dataclass(frozen=True, slots=True)
class Listed:
    """A command as `muster --help` lists it."""

    name: str
    module: str
    """Its module in this package."""
    section: str
    line: str
    """What it does; the command's own help begins with it."""

    def load(self) -> TyperCommand | TyperGroup:
        """Import the command's module, and return the command."""
        loaded = get_command(importlib.import_module(f"muster.cli.{self.module}").app)
        assert isinstance(loaded, TyperGroup), "every file holds a group, be it of single commands"
        found: TyperCommand | TyperGroup = loaded.commands.get(self.name, loaded)  # type: ignore[assignment]  # they are what typer makes
        return found


LOOK: Final = "Groups, offsets, settings"
RUN: Final = "Run Muster"
HELP: Final = "Diagnosis and other tools"

COMMANDS: Final = (
    Listed("groups", "groups", LOOK, "List, describe, watch, reset and delete consumer groups."),
    Listed("offsets", "offsets", LOOK, "Show, export, import and delete committed offsets."),
    Listed("topics", "topics", LOOK, "List, show, set and delete topic metadata."),
    Listed("config", "settings", LOOK, "Show and change settings of a group or of the cluster."),
    Listed("changes", "changes", LOOK, "Show and export the audit log; undo changes."),
    Listed("runs", "runs", LOOK, "Show, apply and reject maintenance runs."),
    Listed("up", "platform", RUN, "Run the local platform, with demo consumers or a mirror."),
    Listed("serve", "platform", RUN, "Run one node."),
    Listed("mirror", "platform", RUN, "Run a node that mirrors a Kafka cluster."),
    Listed("migrate", "databases", RUN, "Migrate the database to the newest schema."),
    Listed("database-restored", "databases", RUN, "Start a new incarnation of a restored database."),
    Listed("tokens", "stored_tokens", RUN, "Issue, list, expire and revoke tokens."),
    Listed("job", "jobs", RUN, "Run a Spark job once, without Airflow."),
    Listed("airflow", "airflow", RUN, "Run Airflow's command line on that of muster up."),
    Listed("doctor", "doctor.command", HELP, "Check the installation and report problems."),
    Listed("offset-log", "offset_log", HELP, "Show the commits that wait for a checkpoint."),
    Listed("sql", "sql", HELP, "Run SQL on the database in use, or open psql."),
    Listed("token", "tokens", HELP, "Create a token for an agent, a viewer or an operator."),
    Listed("database-url", "databases", HELP, "Print the URL of the database in use, password included."),
    Listed("version", "platform", HELP, "Print the version."),
)

BY_NAME: Final = {each.name: each for each in COMMANDS}


class Command(TyperCommand):
    """A command."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - typer's own context, which is private
        """Parse the arguments.

        Raises:
            TyperException: they are invalid, or one that names something is empty.
        """
        params = self.get_params(ctx)
        _import_pydantic_late(params)
        rest = super().parse_args(ctx, args)
        for each in params:
            is_name = each.param_type_name == "argument" or each.name in NAMING_OPTIONS
            is_given = is_name and ctx.get_parameter_source(each.name).name != "DEFAULT"
            if is_given and not ctx.ignore_unknown_options and _has_empty_text(ctx.params[each.name]):
                raise typer.BadParameter("it is empty.", ctx, each)  # type: ignore[arg-type]  # they are what typer makes
        return rest


class Group(TyperGroup):
    """A group of commands."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - typer's own context, which is private
        """Parse the arguments."""
        _import_pydantic_late(self.get_params(ctx))
        return super().parse_args(ctx, args)


NAMING_OPTIONS: Final = frozenset({"group", "member", "prefix"})
"""Options that are the same as an argument, and one whose empty text would choose all groups."""


def _has_empty_text(value: object) -> bool:
    return "" in value if isinstance(value, list) else value == ""


def _import_pydantic_late(params: list[Any]) -> None:
    for each in params:
        each._runtime_param = LazyConversion()  # noqa: SLF001 - typer has no public place for it


WHOLE_NUMBER: Final = re.compile("-?[0-9]{1,18}")
"""A number of 64 bits."""


class LazyConversion:
    """Converts parameters without pydantic, which typer imports for each, and which takes long to load."""

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:  # noqa: ANN401 - whatever type the parameter has
        """Return text and absent values unchanged, and numbers within their range; convert others as typer does."""
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        annotation = param.type_descriptor.annotation
        if isinstance(annotation, type) and isinstance(value, annotation):
            return value
        if annotation is int and WHOLE_NUMBER.fullmatch(value):
            number, of = int(value), param.type_descriptor.parameter_info
            if (of.min is None or number >= of.min) and (of.max is None or number <= of.max):
                return number
        if annotation is Path and value == "":  # It would be the working directory.
            raise typer.BadParameter("it is empty.", ctx, param)
        if annotation == list[str] and isinstance(value, tuple | list):
            return list(value)
        param._runtime_param = None  # noqa: SLF001 - likewise; typer makes its own
        return param.get_runtime_param().coerce(value, param=param, ctx=ctx)


class Commands(Group):
    """All commands; each is imported when it is used."""

    def __init__(self, **options: Any) -> None:  # noqa: ANN401 - typer's own
        """List the names, from which typer suggests one for a misspelled command."""
        super().__init__(**options)
        self.commands = dict.fromkeys(BY_NAME)  # type: ignore[assignment]  # get_command loads them

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ANN401 - typer's own context, which is private
        """Return all names, in the order of the help."""
        return list(BY_NAME)

    def get_command(self, ctx: Any, cmd_name: str) -> TyperCommand | TyperGroup | None:  # noqa: ANN401 - likewise
        """Load a command; None if no command has this name."""
        listed = BY_NAME.get(cmd_name)
        return None if listed is None else listed.load()

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 - likewise
        """Write one line a command, under its section."""
        for section, members in groupby(COMMANDS, key=lambda each: each.section):
            with formatter.section(section):
                formatter.write_dl([(each.name, each.line) for each in members])


class App(typer.Typer):
    """A group of commands, each a `Command`."""

    def command(self, name: str | None = None, **options: Any) -> Callable[[CommandFunctionType], CommandFunctionType]:  # noqa: ANN401 - typer's
        """Add a command."""
        return super().command(name, cls=Command, **options)


def command_group(about: str) -> typer.Typer:
    """Return an empty group of commands; its help is plain text, which loads faster."""
    group = App(cls=Group, help=about, add_completion=False, rich_markup_mode=None)
    group.callback(invoke_without_command=True)(show_help)
    return group


def show_help(context: typer.Context) -> None:
    """Print the help of a group that is called without a command; typer calls this before every command, too."""
    if context.invoked_subcommand is None:
        print(context.get_help())
        raise typer.Exit(USAGE_EXIT_CODE)
