"""`muster config`: effective settings of a group or the cluster, and live changes."""

# ruff: noqa: PLC0415 - a command loads only what it needs, and has a parameter for each of its flags

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

app = command_group("Show and change settings of a group or of the cluster.")


@app.command("get")
def get_settings(
    group_id: GroupArgument = None,
    group: GroupOption = None,
    key: Annotated[list[str] | None, typer.Option("--key", help="Only this setting; repeatable.")] = None,
    url: UrlOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show effective settings and their sources.

    Without a group they are those of groups that have none of their own, and those of the whole cluster.
    """
    from muster.commands.config_values import print_settings
    from muster.commands.group_selection import optional_group
    from muster.commands.http_client import NodeClient

    print_settings(NodeClient(url), optional_group(group_id, group), key or [], as_json=as_json)


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

    KEY= (no value) resets the setting to its default. The change causes no rebalance. It is effective when the command
    ends, except on nodes that the command names.
    """
    from muster.commands.config_values import change_settings, read_words
    from muster.commands.group_selection import optional_group
    from muster.commands.http_client import NodeClient

    named, values = read_words(words)
    change_settings(NodeClient(url, actor), optional_group(named, group), values, reason, as_json=as_json)


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
    """Undo a change of settings: the given one, or the newest.

    Without a change, undoes the newest of the group, or without --group the newest of the cluster.
    """
    from muster.commands.change_undo import undo
    from muster.commands.config_values import newest_change
    from muster.commands.http_client import NodeClient

    node = NodeClient(url, actor)
    undo(node, change_id or newest_change(node, group), reason, as_json=as_json)
