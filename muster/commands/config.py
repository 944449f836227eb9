"""`muster config`: settings of a group or of the cluster, as they are in force, and changed while everything runs."""

# ruff: noqa: PLC0415 - a command loads only what it needs, and has a parameter for each of its flags

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

app = command_group("Show and change settings of a group or the cluster, live.")


@app.command("get")
def get_settings(
    group_id: GroupArgument = None,
    group: GroupOption = None,
    key: Annotated[list[str] | None, typer.Option("--key", help="Only this setting; repeatable.")] = None,
    url: UrlOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show settings in force, and where each comes from.

    Without a group they are those of groups that have none of their own, and those of the whole cluster.
    """
    from muster.commands.asking import Node
    from muster.commands.choosing import optional_group
    from muster.commands.tuning import print_settings

    print_settings(Node(url), optional_group(group_id, group), key or [], as_json=as_json)


@app.command("set")
def set_settings(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="[GROUP] KEY=VALUE...", help="The group, if it is one's, and what to set.", show_default=False
        ),
    ],
    group: GroupOption = None,
    reason: ReasonOption = REASON,
    url: UrlOption = None,
    actor: ActorOption = None,
    as_json: JsonOption = False,
) -> None:
    """Change settings of a group, or of the cluster where none is named.

    KEY= (nothing) goes back to the wider level. The change is in force within seconds, without a rebalance.
    """
    from muster.commands.asking import Node
    from muster.commands.choosing import optional_group
    from muster.commands.tuning import change_settings, read_words

    named, values = read_words(words)
    change_settings(Node(url, actor), optional_group(named, group), values, reason, as_json=as_json)


@app.command("undo")
def undo_settings(
    change_id: Annotated[
        str | None, typer.Argument(metavar="[CHANGE]", help="The change.", show_default="the newest")
    ] = None,
    group: GroupOption = None,
    reason: ReasonOption = REASON,
    url: UrlOption = None,
    actor: ActorOption = None,
    as_json: JsonOption = False,
) -> None:
    """Take a change of settings back: the one named, or the newest.

    With --group it is the newest of that group, otherwise the newest of the cluster.
    """
    from muster.commands.asking import Node
    from muster.commands.tuning import newest_change
    from muster.commands.undoing import undo

    node = Node(url, actor)
    undo(node, change_id or newest_change(node, group), reason, as_json=as_json)
