"""Reads and changes settings, and prints values before and after."""

from __future__ import annotations

from coordinator_core.store.change_actions import ChangeAction
from muster import display
from muster.commands.http_client import Json, NodeClient, group_path
from muster.commands.output import Table, print_json
from muster.errors import FAILURE_EXIT_CODE, USAGE_EXIT_CODE, UserError

CLUSTER_CONFIG = "/v1/config"
SEARCHED_CHANGES_MAX = 1_000
"""Among how many changes the newest one of settings is looked for."""

Value = int | str | None


def read_words(words: list[str]) -> tuple[str | None, dict[str, Value]]:
    """Read `[GROUP] KEY=VALUE...`.

    Raises:
        UserError: there is nothing to set, or a word is neither.
    """
    named = words[0] if "=" not in words[0] else None
    pairs = words[1:] if named is not None else words
    if not pairs or any("=" not in pair for pair in pairs):
        raise UserError("Say what to set as KEY=VALUE, such as session_timeout_ms=30000.", USAGE_EXIT_CODE)
    return named, {key.strip(): _value(text.strip()) for key, _, text in (pair.partition("=") for pair in pairs)}


def print_settings(node: NodeClient, group_id: str | None, keys: list[str], *, as_json: bool) -> None:
    """Print effective settings, all or the named ones."""
    effective = _effective_settings(node, group_id)
    values: dict[str, Json] = effective["values"]
    unknown = [key for key in keys if key not in values]
    if unknown:
        raise UserError(f"Unknown setting {unknown[0]}; the settings are: {', '.join(values)}.", USAGE_EXIT_CODE)
    shown = {key: values[key] for key in keys or values}
    if as_json:
        print_json({**effective, "group_id": group_id, "values": shown})
        return
    table = Table("SETTING", "VALUE", "FROM")
    for key, setting in shown.items():
        table.add(key, _value_text(setting["value"]), setting["source"])
    table.print()
    print_unconfirmed(effective)


def change_settings(
    node: NodeClient, group_id: str | None, values: dict[str, Value], reason: str, *, as_json: bool
) -> None:
    """Change settings, and print each as it was and as it is."""
    before = _effective_settings(node, group_id)["values"]
    effective = node.put(_config_path(group_id), {"values": values, "reason": reason})
    after = effective["values"]
    if as_json:
        changed = {key: {"before": before.get(key), "after": after[key]} for key in values}
        print_json({**effective, "group_id": group_id, "change_id": node.change_id, "values": changed})
        return
    table = Table("SETTING", "WAS", "IS", "FROM")
    for key in values:
        table.add(key, _value_text(before[key]["value"]), _value_text(after[key]["value"]), after[key]["source"])
    table.print()
    print_unconfirmed(effective)
    print(f"muster config undo {node.change_id} undoes it.")


def newest_change(node: NodeClient, group_id: str | None) -> str:
    """Return the newest change of settings that was not taken back, of a group or of the cluster.

    Raises:
        UserError: there is none.
    """
    for change in node.pages("/v1/changes", "changes", SEARCHED_CHANGES_MAX, group_id=group_id):
        if change["action"] == ChangeAction.PUT_SETTINGS and change["group_id"] == group_id and not change["undone_at"]:
            return str(change["change_id"])
    whose = "the cluster" if group_id is None else display.printable(group_id)
    raise UserError(f"No change of settings of {whose} can be undone.", FAILURE_EXIT_CODE)


def print_unconfirmed(answer: Json) -> None:
    """Print the nodes that have not confirmed the cluster's settings, if the answer lists any."""
    nodes = answer.get("unconfirmed_nodes")
    if nodes:
        print(
            f"Not confirmed by {', '.join(map(display.printable, nodes))}: a node applies the change when it renews its"
            " leases, or loses its shards. muster config get lists the nodes that have not confirmed."
        )


def _effective_settings(node: NodeClient, group_id: str | None) -> Json:
    return node.get(_config_path(group_id))


def _config_path(group_id: str | None) -> str:
    return CLUSTER_CONFIG if group_id is None else group_path(group_id, "/config")


def _value(text: str) -> Value:
    """Read a value: a whole number, a word, or nothing (the wider level's)."""
    if text in {"", "null", "none", "default"}:
        return None
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdigit() else text


def _value_text(value: Value) -> str:
    return "none" if value is None else str(value)
