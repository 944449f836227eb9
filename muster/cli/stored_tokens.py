"""`muster tokens`: issues, lists, expires and revokes the tokens in the database."""

# ruff: noqa: PLR0913, PLR0917 - a command has a parameter for each of its flags

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar
from uuid import uuid4

import msgspec
import typer

from api.shared.access_control import AccessControlEntry, Operation, PatternType, PermissionType, ResourceType
from api.shared.identity import ALL_GROUPS, Role
from api.shared.tokens import TOKEN_ID_CHARS, TokenEntry, known_token, token_entry
from coordinator_core.admin.changes import Change
from coordinator_core.state_store.change_actions import ChangeAction
from coordinator_core.state_store.interface import StoreError
from coordinator_core.state_store.postgres.connections import ConnectionPool, Limits, Transaction
from coordinator_core.state_store.postgres.tokens import (
    EXPIRY_NOTICE_DAYS,
    StoredToken,
    end_token,
    find_token,
    issue_token,
    read_tokens,
)
from coordinator_core.state_store.rows import ChangeRow, Json
from muster.cli.command_tree import command_group
from muster.cli.crash import command_settings
from muster.cli.options import REASON, DataDirOption, JsonOption, ReasonOption
from muster.cli.tokens import new_token
from muster.display import counted, moment
from muster.errors import FAILURE_EXIT_CODE, USAGE_EXIT_CODE, UserError
from muster.local.database import shared_database
from muster.node.schema import require_schema
from muster.node_client import checked_actor, os_user
from muster.output import Table, print_json

app = command_group("Issue, list, expire and revoke tokens.")

T = TypeVar("T")

DAY_MS: Final = 86_400_000
LIMITS: Final = Limits(
    statement_timeout_ms=10_000, lock_timeout_ms=5_000, idle_in_transaction_timeout_ms=10_000, connect_timeout_s=10
)
ENTRY_FORM: Final = "OPERATIONS:RESOURCE:PATTERN:NAME, such as JOIN,COMMIT:GROUP:PREFIXED:billing-"
EFFECT: Final = "Nodes know it within three seconds."

TokenArgument = Annotated[
    str, typer.Argument(metavar="TOKEN-ID", help="The token's id, as listed.", show_default=False)
]
ByOption = Annotated[
    str | None,
    typer.Option("--by", help="Name recorded with the change.", show_default="the OS user", metavar="NAME"),
]


@app.command()
def issue(
    actor: Annotated[str, typer.Option("--actor", help="Name recorded with changes made with this token.")],
    role: Annotated[
        Role | None, typer.Option("--role", help="Bundle of operations on groups and all topics.", show_default="none")
    ] = None,
    prefix: Annotated[
        list[str] | None,
        typer.Option(
            "--prefix", help="The role covers only groups that start with this text; repeatable.", metavar="TEXT"
        ),
    ] = None,
    allow: Annotated[
        list[str] | None, typer.Option("--allow", help=f"Allow {ENTRY_FORM}; repeatable.", metavar="ENTRY")
    ] = None,
    deny: Annotated[
        list[str] | None, typer.Option("--deny", help="Deny in the same form; repeatable.", metavar="ENTRY")
    ] = None,
    topic: Annotated[
        list[str] | None,
        typer.Option(
            "--topic",
            help="Trust its log ends of topics that start with this text; repeatable.",
            metavar="TEXT",
        ),
    ] = None,
    days: Annotated[
        int | None, typer.Option("--days", min=1, max=36_500, help="Days until it expires.", show_default="unlimited")
    ] = None,
    by: ByOption = None,
    reason: ReasonOption = REASON,
    data_dir: DataDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Issue a token, and print it this once.

    The database has its SHA-256 only, so it cannot be shown again.
    """
    token = new_token(actor)
    acls = (*_entries(PermissionType.ALLOW, allow), *_entries(PermissionType.DENY, deny))
    expires_at = None if days is None else dt.datetime.now(dt.UTC) + dt.timedelta(days=days)
    entry = token_entry(token, actor, role, tuple(prefix or ALL_GROUPS), tuple(topic or ()), expires_at, acls)
    try:
        known_token(entry)
    except ValueError as refusal:
        raise UserError(f"The token {refusal}; give --role or --allow.", USAGE_EXIT_CODE) from None
    stored = _to_store(entry)
    shown = {name: getattr(stored, name) for name in ("token_id", "actor", "permissions", "expires_at_ms")}
    change = _change(ChangeAction.ISSUE_TOKEN, by, reason, before=None, after=shown)
    with _database(data_dir) as transact:
        transact(partial(issue_token, token=stored, change=change))
    if as_json:
        print_json({"token": token, "token_id": stored.token_id})
        return
    print(f"The token, which cannot be shown again:\n\n  {token}\n\nIts id is {stored.token_id}. {EFFECT}")


@app.command("list")
def list_tokens(data_dir: DataDirOption = None, as_json: JsonOption = False) -> None:
    """List the issued tokens by id, the oldest first."""
    with _database(data_dir) as transact:
        found = transact(read_tokens)
    if as_json:
        print_json({"tokens": list(map(_shown, found))})
        return
    if not found:
        print("No tokens.")
        return
    table = Table("TOKEN-ID", "ACTOR", "ROLE", "ENTRIES", "ISSUED", "EXPIRES", "REVOKED")
    for each in found:
        shown, entries = _shown(each), len(each.permissions.get("acls", ()))
        times = (moment(shown["issued_at"]), _expiry(each, _now_ms()), moment(shown["revoked_at"]))
        table.add(each.token_id, each.actor, each.permissions.get("role"), str(entries), *times)
    table.print()


@app.command()
def expire(
    token_id: TokenArgument,
    days: Annotated[int, typer.Option("--days", min=0, max=36_500, help="Days until it expires.")] = 0,
    by: ByOption = None,
    reason: ReasonOption = REASON,
    data_dir: DataDirOption = None,
) -> None:
    """Let a token expire, at once or in some days."""
    at_ms = _now_ms() + days * DAY_MS
    _end(token_id, ChangeAction.EXPIRE_TOKEN, by, reason, data_dir, expires_at_ms=at_ms)
    print(f"{token_id} expires at {moment(_time(at_ms))}. {EFFECT}")


@app.command()
def revoke(
    token_id: TokenArgument, by: ByOption = None, reason: ReasonOption = REASON, data_dir: DataDirOption = None
) -> None:
    """Revoke a token for good."""
    _end(token_id, ChangeAction.REVOKE_TOKEN, by, reason, data_dir, revoked_at_ms=_now_ms())
    print(f"{token_id} is revoked. {EFFECT}")


# -- parts ---------------------------------------------------------------------------------------------------


def _entries(permission: PermissionType, given: list[str] | None) -> Iterator[AccessControlEntry]:
    """Yield the access control entries of options."""
    for text in given or ():
        operations, resource, pattern, name = [*text.split(":", 3), "", "", ""][:4]
        try:
            if not name:
                raise ValueError("it names nothing; LITERAL:* stands for all")
            yield AccessControlEntry(
                permission,
                tuple(Operation(operation.upper()) for operation in operations.split(",")),
                ResourceType(resource.upper()),
                PatternType(pattern.upper()),
                name,
            )
        except ValueError as refusal:
            raise UserError(f"{text!r} is no entry {ENTRY_FORM}: {refusal}.", USAGE_EXIT_CODE) from None


def _to_store(entry: TokenEntry) -> StoredToken:
    fields: dict[str, Any] = msgspec.to_builtins(entry)
    permissions = {name: fields[name] for name in ("role", "prefixes", "topics", "acls") if name in fields}
    expires_at_ms = None if entry.expires_at is None else int(entry.expires_at.timestamp() * 1000)
    assert entry.sha256 is not None, "the database has tokens only"
    token_id = entry.sha256[:TOKEN_ID_CHARS]
    return StoredToken(token_id, entry.sha256, entry.actor, permissions, _now_ms(), expires_at_ms)


def _end(token_id: str, action: ChangeAction, by: str | None, reason: str, data_dir: Path | None, **times: int) -> None:
    """Set the expiry of a token, or revoke it; neither makes a token valid again."""

    def work(transaction: Transaction) -> None:
        found = find_token(transaction, token_id)
        if found is None:
            raise UserError(
                f"The token {token_id} does not exist; muster tokens list shows the ids.", FAILURE_EXIT_CODE
            )
        if found.revoked_at_ms is not None:
            raise UserError(f"The token {token_id} was revoked already.", FAILURE_EXIT_CODE)
        if action == ChangeAction.EXPIRE_TOKEN and found.expires_at_ms is not None and found.expires_at_ms <= _now_ms():
            raise UserError(f"The token {token_id} has expired already; issue a new one.", FAILURE_EXIT_CODE)
        before = {"token_id": token_id, "actor": found.actor, "expires_at_ms": found.expires_at_ms}
        change = _change(action, by, reason, before=before, after={"token_id": token_id, **times})
        end_token(transaction, token_id, change, **times)

    with _database(data_dir) as transact:
        transact(work)


def _change(action: ChangeAction, by: str | None, reason: str, *, before: Json, after: Json) -> ChangeRow:
    change = Change(checked_actor(by or os_user()), reason, str(uuid4()))
    return replace(change.row(action, None, _now_ms()), before=before, after=after)


@contextmanager
def _database(data_dir: Path | None) -> Iterator[Callable[[Callable[[Transaction], T]], T]]:
    """Return a function that runs transactions on the database in use.

    Raises:
        UserError: the database refuses, or cannot be reached.
    """
    settings = command_settings(data_dir=data_dir)
    with shared_database(settings, "tokens") as urls:
        require_schema(urls.owner, settings.shards)
        with closing(ConnectionPool(urls.owner, "tokens", 1, LIMITS)) as pool:
            try:
                yield pool.transact
            except StoreError as failure:
                raise UserError(f"The database refuses: {failure}.", FAILURE_EXIT_CODE) from failure


def _shown(token: StoredToken) -> Json:
    """Return the fields and times of a token, without its digest."""
    times = {name: _time(getattr(token, f"{name}_ms")) for name in ("issued_at", "expires_at", "revoked_at")}
    return {"token_id": token.token_id, "actor": token.actor, **token.permissions, **times}


def _expiry(token: StoredToken, now_ms: int) -> str | None:
    """Return when a token expires, with a note if it has expired or will soon."""
    at_ms = token.expires_at_ms
    if at_ms is None or token.revoked_at_ms is not None or at_ms > now_ms + EXPIRY_NOTICE_DAYS * DAY_MS:
        return moment(_time(at_ms))
    days = (at_ms - now_ms) // DAY_MS
    note = "expired" if at_ms <= now_ms else f"in {counted(days, 'day')}"
    return f"{moment(_time(at_ms))} ({note})"


def _time(at_ms: int | None) -> str | None:
    return None if at_ms is None else dt.datetime.fromtimestamp(at_ms / 1000, dt.UTC).isoformat()


def _now_ms() -> int:
    return int(time.time() * 1000)
