"""`muster changes`: who changed what and why, and the way back."""

# ruff: noqa: PLC0415 - a command loads only what it needs, so that each answers at once

from typing import Annotated

import typer

from muster.commands.options import (
    REASON,
    ActorOption,
    GroupArgument,
    GroupOption,
    JsonOption,
    ReasonOption,
    UrlOption,
)
from muster.commands.tree import command_group

app = command_group("Who changed what, from what to what, and why; undo.")

ChangeArgument = Annotated[str, typer.Argument(metavar="CHANGE", help="The change's id.", show_default=False)]


@app.command("list")
def list_changes(
    group_id: GroupArgument = None,
    group: GroupOption = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="So many at most.")] = 20,
    url: UrlOption = None,
    as_json: JsonOption = False,
) -> None:
    """List changes, the newest first, of one group or of all."""
    from muster.commands.asking import Node
    from muster.commands.changing import print_changes
    from muster.commands.choosing import optional_group

    print_changes(Node(url), optional_group(group_id, group), limit, as_json=as_json)


@app.command()
def show(change_id: ChangeArgument, url: UrlOption = None, as_json: JsonOption = False) -> None:
    """Show one change, with what stood there before and after."""
    from muster.commands.asking import Node
    from muster.commands.changing import print_change

    print_change(Node(url), change_id, as_json=as_json)


@app.command()
def undo(
    change_id: ChangeArgument,
    reason: ReasonOption = REASON,
    url: UrlOption = None,
    actor: ActorOption = None,
    as_json: JsonOption = False,
) -> None:
    """Take a change back at once, as far as nothing newer stands there.

    muster changes show tells what the change was, and so what comes back.
    """
    from muster.commands.asking import Node
    from muster.commands.undoing import undo as take_back

    take_back(Node(url, actor), change_id, reason, as_json=as_json)
