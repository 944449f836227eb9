"""Creates random tokens and their digests for the tokens file."""

from __future__ import annotations

import datetime as dt
import secrets
from pathlib import Path
from typing import Final

import msgspec

from api.http.limits import ACTOR_MAX_CHARS
from api.http.tokens import ALL_GROUPS, Role, TokensFileBody, TokensFileError, read_tokens_file, token_entry
from muster.atomic_write import replace_file
from muster.commands.http_client import checked_actor
from muster.commands.output import print_json
from muster.errors import FAILURE_EXIT_CODE, USAGE_EXIT_CODE, UserError

TOKEN_BYTES: Final = 32
TOKEN_BEGINS: Final = "muster_"
"""Identifies a token that is found in a log or a repository."""


def create_token(
    actor: str,
    role: str,
    prefixes: tuple[str, ...],
    topics: tuple[str, ...],
    days: int | None,
    add_to: Path | None,
    *,
    as_json: bool,
) -> None:
    """Make a token and print it, with its entry, or with the file that the entry was added to.

    Raises:
        UserError: the actor's name will not do, or the file will not.
    """
    if not 0 < len(actor) <= ACTOR_MAX_CHARS:
        raise UserError(f"--actor: a name has 1 to {ACTOR_MAX_CHARS} characters.", USAGE_EXIT_CODE)
    checked_actor(actor)
    token = TOKEN_BEGINS + secrets.token_urlsafe(TOKEN_BYTES)
    expires_at = None if days is None else dt.datetime.now(dt.UTC) + dt.timedelta(days=days)
    entry = token_entry(token, actor, Role(role), prefixes or ALL_GROUPS, topics, expires_at)
    if add_to is not None:
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


def _body_of(path: Path) -> TokensFileBody:
    """Return what is in a tokens file; one that is not there is empty."""
    if not path.exists():
        return TokensFileBody([])
    if not path.is_file():
        raise UserError(f"{path} is no file; nothing was added.", FAILURE_EXIT_CODE)
    try:
        read_tokens_file(path)
    except TokensFileError as refusal:
        raise UserError(f"{refusal}; nothing was added.", FAILURE_EXIT_CODE) from None
    return msgspec.json.decode(path.read_bytes(), type=TokensFileBody)
