"""`muster changes`: the audit log, and undo."""

# ruff: noqa: PLC0415 - a command loads only what it needs, so that each answers at once

from typing import Annotated

import typer

from muster.commands.command_tree import command_group
from muster.commands.options import (
    REASON,
    ActorOption,
    GroupArgument,
    GroupOption,
    JsonOption,
    ReasonOption,
    UrlOption,
)

app = command_group("Show the audit log; undo changes.")

ChangeArgument = Annotated[str, typer.Argument(metavar="CHANGE", help="The change's id.", show_default=False)]


@app.command("list")
def list_changes(
    group_id: GroupArgument = None,
    group: GroupOption = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Maximum number of entries.")] = 20,
    url: UrlOption = None,
    as_json: JsonOption = False,
) -> None:
    """List changes, the newest first, of one group or of all."""
    from muster.commands.change_list import print_changes
    from muster.commands.group_selection import optional_group
    from muster.commands.http_client import NodeClient

    print_changes(NodeClient(url), optional_group(group_id, group), limit, as_json=as_json)


@app.command()
def show(change_id: ChangeArgument, url: UrlOption = None, as_json: JsonOption = False) -> None:
    """Show one change, with the values before and after."""
    from muster.commands.change_list import print_change
    from muster.commands.http_client import NodeClient

    print_change(NodeClient(url), change_id, as_json=as_json)


@app.command()
def undo(
    change_id: ChangeArgument,
    reason: ReasonOption = REASON,
    url: UrlOption = None,
    actor: ActorOption = None,
    as_json: JsonOption = False,
) -> None:
    """Undo a change at once; newer values are kept.

    muster changes show prints the change and what undoing it restores.
    """
    from muster.commands.change_undo import undo as take_back
    from muster.commands.http_client import NodeClient

    take_back(NodeClient(url, actor), change_id, reason, as_json=as_json)
