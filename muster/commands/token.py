"""`muster token`: a token is printed once, and its entry for the tokens file beside it."""

# ruff: noqa: PLC0415 - a command loads only what it needs, so that each answers at once

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from muster.commands.options import JsonOption
from muster.commands.tree import command_group

app = command_group("Make a token for agents, viewers or operators.")


class RoleName(StrEnum):
    """What a token is for."""

    AGENT = "agent"
    VIEWER = "viewer"
    OPERATOR = "operator"


@app.command()
def new(
    actor: Annotated[str, typer.Option("--actor", help="Whose it is; changes are kept under this name.")],
    role: Annotated[RoleName, typer.Option("--role", help="What it is for.")],
    prefix: Annotated[
        list[str] | None,
        typer.Option("--prefix", help="Only groups whose id begins so; repeatable.", show_default="all groups"),
    ] = None,
    topic: Annotated[
        list[str] | None,
        typer.Option(
            "--topic",
            help="Its log ends count for every group in topics that begin so; repeatable.",
            show_default="only for its own groups",
        ),
    ] = None,
    days: Annotated[
        int | None,
        typer.Option("--days", min=1, max=36_500, help="Refuse it after so many days.", show_default="for ever"),
    ] = None,
    add_to: Annotated[
        Path | None,
        typer.Option("--add-to", help="Add the entry to this tokens file, which need not exist.", metavar="FILE"),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Make a token, print it once, and the entry for MUSTER_TOKENS_FILE.

    The file holds a digest of the token and not the token itself; nodes read it anew within a second of a change.
    """
    from muster.commands.token_making import make_token

    make_token(actor, role.value, tuple(prefix or ()), tuple(topic or ()), days, add_to, as_json=as_json)
