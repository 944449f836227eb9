"""`muster config`: effective settings of a group or the cluster, and live changes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import typer

from coordinator_core.state_store.change_actions import ChangeAction
from muster import display
from muster.cli.changes import print_unconfirmed, undo_change
from muster.cli.command_tree import WHOLE_NUMBER, command_group
from muster.cli.group_selection import optional_group
from muster.cli.options import REASON, ActorOption, GroupArgument, GroupOption, JsonOption, ReasonOption, UrlOption
from muster.errors import FAILURE_EXIT_CODE, USAGE_EXIT_CODE, UserError
from muster.node_client import Json, NodeClient, group_path
from muster.output import Table, print_json

app = command_group("Show and change settings of a group or of the cluster.")


CLUSTER_CONFIG = "/v1/config"
Value = int | str | None


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
    chosen = optional_group(group_id, group)
    effective = NodeClient(url).get(_config_path(chosen))
    values: dict[str, Json] = effective["values"]
    _check_known(key or (), values)
    shown = {name: values[name] for name in key or values}
    if as_json:
        print_json({**effective, "group_id": chosen, "values": shown})
        return
    table = Table("SETTING", "VALUE", "FROM")
    for name, setting in shown.items():
        table.add(name, _value_text(setting["value"]), setting["source"])
    table.print()
    print_unconfirmed(effective)


@app.command("set")
def set_settings(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="[GROUP] KEY=VALUE...",
            help="The group (without one: the cluster), and the settings.",
            show_default=False,
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
    named, values = read_words(words)
    node, chosen = NodeClient(url, actor), optional_group(named, group)
    before = node.get(_config_path(chosen))["values"]
    _check_known(values, before)
    effective = node.put(_config_path(chosen), {"values": values, "reason": reason})
    after = effective["values"]
    if as_json:
        changed = {key: {"before": before.get(key), "after": after[key]} for key in values}
        print_json({**effective, "group_id": chosen, "change_id": node.change_id, "values": changed})
        return
    table = Table("SETTING", "WAS", "IS", "FROM")
    for key in values:
        table.add(key, _value_text(before[key]["value"]), _value_text(after[key]["value"]), after[key]["source"])
    table.print()
    print_unconfirmed(effective)
    display.print_undo([node.change_id] if node.change_id else [])


@app.command("undo")
def undo_settings(
    change_id: Annotated[
        str | None, typer.Argument(metavar="CHANGE", help="The change.", show_default="the newest")
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
    node = NodeClient(url, actor)
    undo_change(node, change_id or newest_change(node, group), reason, as_json=as_json)


def read_words(words: list[str]) -> tuple[str | None, dict[str, Value]]:
    """Read `[GROUP] KEY=VALUE...`.

    Raises:
        UserError: there is no setting, or a word is neither a group nor a setting.
    """
    named = words[0] if "=" not in words[0] else None
    pairs = words[1:] if named is not None else words
    if not pairs or any("=" not in pair for pair in pairs):
        raise UserError("Say what to set as KEY=VALUE, such as session_timeout_ms=30000.", USAGE_EXIT_CODE)
    return named, {key.strip(): _value(text.strip()) for key, _, text in (pair.partition("=") for pair in pairs)}


def newest_change(node: NodeClient, group_id: str | None) -> str:
    """Return the newest change of settings, of a group or of the cluster, that was not undone.

    Raises:
        UserError: there is none.
    """
    for change in node.entries("/v1/changes", "changes", group_id=group_id, action=ChangeAction.PUT_SETTINGS):
        if change["group_id"] == group_id and not change["undone_at"]:
            return str(change["change_id"])
    whose = "the cluster" if group_id is None else display.printable(group_id)
    raise UserError(f"No change of settings of {whose} can be undone.", FAILURE_EXIT_CODE)


def _check_known(keys: Iterable[str], settings: Json) -> None:
    unknown = [each for each in keys if each not in settings]
    if unknown:
        raise UserError(f"Unknown setting {unknown[0]}; the settings are: {', '.join(settings)}.", USAGE_EXIT_CODE)


def _config_path(group_id: str | None) -> str:
    return CLUSTER_CONFIG if group_id is None else group_path(group_id, "/config")


def _value(text: str) -> Value:
    """Read a value: a whole number, a word, or none, which resets the setting."""
    if text in {"", "null", "none", "default"}:
        return None
    return int(text) if WHOLE_NUMBER.fullmatch(text) else text


def _value_text(value: Value) -> str:
    return "none" if value is None else str(value)
