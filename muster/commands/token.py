"""`muster token`: prints a new token once, with its entry for the tokens file."""

# ruff: noqa: PLC0415 - a command loads only what it needs, so that each answers at once

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from muster.commands.command_tree import command_group
from muster.commands.options import JsonOption

app = command_group("Create a token for an agent, a viewer or an operator.")


class RoleName(StrEnum):
    """What a token is for."""

    AGENT = "agent"
    VIEWER = "viewer"
    OPERATOR = "operator"


@app.command()
def new(
    actor: Annotated[str, typer.Option("--actor", help="Name recorded with changes made with this token.")],
    role: Annotated[RoleName, typer.Option("--role", help="Role of the token.")],
    prefix: Annotated[
        list[str] | None,
        typer.Option(
            "--prefix", help="Only groups whose id starts with this text; repeatable.", show_default="all groups"
        ),
    ] = None,
    topic: Annotated[
        list[str] | None,
        typer.Option(
            "--topic",
            help="Trust its log end reports for topics that start with this text; repeatable.",
            show_default="only its own groups",
        ),
    ] = None,
    days: Annotated[
        int | None,
        typer.Option("--days", min=1, max=36_500, help="Days until the token expires.", show_default="unlimited"),
    ] = None,
    add_to: Annotated[
        Path | None,
        typer.Option(
            "--add-to", help="Add the entry to this tokens file; it is created if it does not exist.", metavar="FILE"
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Create a token; print it with its tokens file entry.

    The file contains a digest of the token, not the token itself; nodes reload it within a second of a change.
    """
    from muster.commands.token_creation import create_token

    create_token(actor, role.value, tuple(prefix or ()), tuple(topic or ()), days, add_to, as_json=as_json)
