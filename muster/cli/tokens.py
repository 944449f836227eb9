"""`muster token`: prints a new random token once, with its entry for the tokens file."""

from __future__ import annotations

import datetime as dt
import secrets
from pathlib import Path
from typing import Annotated, Final

import msgspec
import typer

from api.shared.identity import ALL_GROUPS, Role
from api.shared.limits import ACTOR_MAX_CHARS
from api.shared.tokens import TokensFileBody, TokensFileError, read_tokens_file, token_entry
from muster.cli.atomic_write import exclusive, replace_file
from muster.cli.command_tree import command_group
from muster.cli.options import JsonOption
from muster.errors import USAGE_EXIT_CODE, UserError
from muster.node_client import checked_actor
from muster.output import print_json

app = command_group("Create a token for an agent, a viewer or an operator.")


TOKEN_BYTES: Final = 32
TOKEN_BEGINS: Final = "muster_"
"""The prefix of every token, by which scanners of logs and repositories find it."""


@app.command()
def new(
    actor: Annotated[str, typer.Option("--actor", help="Name recorded with changes made with this token.")],
    role: Annotated[Role, typer.Option("--role", help="Role of the token.")],
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
    token = new_token(actor)
    expires_at = None if days is None else dt.datetime.now(dt.UTC) + dt.timedelta(days=days)
    entry = token_entry(token, actor, role, tuple(prefix or ALL_GROUPS), tuple(topic or ()), expires_at)
    if add_to is not None:
        with exclusive(add_to):
            body = _body_of(add_to)
            body.tokens.append(entry)
            replace_file(add_to, msgspec.json.format(msgspec.json.encode(body), indent=2).decode() + "\n")
    shown = msgspec.to_builtins(entry)
    if as_json:
        print_json({"token": token, "entry": shown})
        return
    print(f"The token, which cannot be shown again:\n\n  {token}\n")
    if add_to is None:
        print(f'Its entry, for "tokens" in the tokens file:\n\n  {msgspec.json.encode(shown).decode()}')
    else:
        print(f"{add_to} has its entry; nodes that read that file know it within a second.")


def new_token(actor: str) -> str:
    """Return a new random token.

    Raises:
        UserError: the actor is not a valid name.
    """
    if not 0 < len(actor) <= ACTOR_MAX_CHARS:
        raise UserError(f"--actor: a name has 1 to {ACTOR_MAX_CHARS} characters.", USAGE_EXIT_CODE)
    checked_actor(actor)
    return TOKEN_BEGINS + secrets.token_urlsafe(TOKEN_BYTES)


def _body_of(path: Path) -> TokensFileBody:
    """Return the content of a tokens file; empty if there is none."""
    if not path.exists():
        return TokensFileBody([])
    if not path.is_file():
        raise UserError(f"{path} is no file; nothing was added.", USAGE_EXIT_CODE)
    try:
        read_tokens_file(path)
    except TokensFileError as refusal:
        raise UserError(f"{refusal}; nothing was added.", USAGE_EXIT_CODE) from None
    return msgspec.json.decode(path.read_bytes(), type=TokensFileBody)
