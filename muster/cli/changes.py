"""`muster changes`: the audit log, and undo."""

# ruff: noqa: PLC0415 - the database is loaded by the one command that reads it

from __future__ import annotations

import json
from contextlib import closing
from typing import Annotated, Final

import typer

from coordinator_core.state_store.change_actions import ChangeAction
from muster import display
from muster.cli.command_tree import command_group
from muster.cli.group_selection import known_values, optional_group
from muster.cli.options import (
    REASON,
    ActorOption,
    DataDirOption,
    GroupArgument,
    GroupOption,
    JsonOption,
    ReasonOption,
    UrlOption,
    WideOption,
)
from muster.display import counted, moment
from muster.errors import FAILURE_EXIT_CODE, UserError
from muster.node_client import Json, NodeClient, segment
from muster.output import Table, print_json

app = command_group("Show and export the audit log; undo changes.")

ChangeArgument = Annotated[str, typer.Argument(metavar="CHANGE", help="The change's id.", show_default=False)]


EXPORT: Final = """
SELECT (to_jsonb(changes) || jsonb_build_object('seal', change_seals.seal))::text
FROM changes LEFT JOIN change_seals ON change_seals.minute = changes.sealed_minute
ORDER BY changes.sealed_minute NULLS LAST, changes.at, changes.change_id
"""

DONE: Final = frozenset({"restored", "removed"})


@app.command("list")
def list_changes(
    group_id: GroupArgument = None,
    group: GroupOption = None,
    actor: Annotated[
        str, typer.Option("--actor", help="Only changes whose actor contains this text.", metavar="TEXT")
    ] = "",
    actions: Annotated[
        list[str] | None,
        typer.Option(
            "--action", help="Only changes with these actions: reset_offsets,...; repeatable.", metavar="ACTIONS"
        ),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Maximum number of entries.")] = 20,
    wide: WideOption = False,
    url: UrlOption = None,
    as_json: JsonOption = False,
) -> None:
    """List changes, the newest first, of one group or of all."""
    wanted = list(known_values("--action", ChangeAction, actions))
    found = NodeClient(url).pages(
        "/v1/changes", "changes", limit, group_id=optional_group(group_id, group), actor=actor, action=wanted
    )
    if as_json:
        print_json({"changes": found})
        return
    if not found:
        print("No matching changes." if actor or wanted else "No changes.")
        return
    topics = list(map(_topic, found))
    has_topics = any(topics)
    about = ("GROUP", *(["TOPIC"] if has_topics else []))
    table = Table("AT", "ACTOR", "ACTION", *about, "REASON", "UNDONE", "CHANGE", wide_only={"UNDONE"})
    for each, topic in zip(found, topics, strict=True):
        what = (each["actor"], each["action"], each["group_id"], *([topic] if has_topics else []), each["reason"])
        table.add(moment(each["at"]), *what, moment(each["undone_at"]), each["change_id"])
    table.print(is_wide=wide)


def _topic(change: Json) -> str | None:
    """Return the topic that a change names, if it names one."""
    topic = (change["after"] or change["before"] or {}).get("topic")
    return topic if isinstance(topic, str) else None


@app.command()
def show(change_id: ChangeArgument, url: UrlOption = None, as_json: JsonOption = False) -> None:
    """Show one change, with the values before and after."""
    change: Json = NodeClient(url).get(f"/v1/changes/{segment(change_id)}")
    if as_json:
        print_json(change)
        return
    for name, value in change.items():
        if value is None:
            continue
        # A text is one line, so that none adds lines to the change.
        lines = [value] if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False).split("\n")
        print(f"{name}: {chr(10).join(map(display.printable, lines))}")


@app.command()
def export(data_dir: DataDirOption = None) -> None:
    """Print the audit log as JSON lines, with its seals.

    Reads the database as the reader's role. Changes that are not sealed yet have no seal.
    """
    from muster.cli.crash import command_settings
    from muster.cli.sql import connect, reporting_refusals
    from muster.local.database import urls_in_use
    from muster.settings import psql_url

    url = psql_url(urls_in_use(command_settings(data_dir=data_dir)).reader)
    with closing(connect(url, "muster-export")) as connection, reporting_refusals():
        connection.set_session(readonly=True)
        with connection.cursor("export") as cursor:
            cursor.execute(EXPORT)
            for (line,) in cursor:
                print(display.printable_json(line))


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
    undo_change(NodeClient(url, actor), change_id, reason, as_json=as_json)


def undo_change(node: NodeClient, change_id: str, reason: str, *, as_json: bool) -> None:
    """Undo a change, and print the outcome of each part of it.

    Raises:
        UserError: no part of it could be restored.
    """
    answer = node.post(f"/v1/changes/{segment(change_id)}/undo", {"reason": reason})
    parts = _parts(answer)
    kept = sum(outcome not in DONE for _, outcome, _ in parts)
    if as_json:
        print_json(answer)
    else:
        _print_undo(answer, parts, kept)
    if parts and kept == len(parts) and not answer["run_id"]:
        raise UserError("Nothing was restored; OUTCOME says why.", FAILURE_EXIT_CODE)


def _print_undo(answer: Json, parts: list[tuple[str, str, str | None]], kept: int) -> None:
    table = Table("WHAT", "OUTCOME", "NOW")
    for what, outcome, now in parts:
        table.add(what, outcome, now)
    if parts:
        table.print()
    if answer["offset_count"] > len(answer["offsets"]):
        print(f"... and {answer['offset_count'] - len(answer['offsets'])} more.")
    if answer["run_id"]:
        print(
            f"Run {answer['run_id']} restores {counted(answer['candidates'], 'offset')};"
            f" muster runs show {answer['run_id']} shows its progress."
        )
    if not parts and not answer["run_id"]:
        print("The change removed nothing, so there is nothing to restore.")
        return
    print_unconfirmed(answer)
    if kept < len(parts) or answer["run_id"]:
        print(f"The change is undone{f', except for {kept}; OUTCOME says why' if kept else ''}.")


def print_unconfirmed(answer: Json) -> None:
    """Print the nodes that have not confirmed the cluster's settings, if the answer lists any."""
    nodes = answer.get("unconfirmed_nodes")
    if nodes:
        print(
            f"Not confirmed by {', '.join(map(display.printable, nodes))}: a node applies the change when it renews its"
            " leases, or loses its shards. muster config get lists the nodes that have not confirmed."
        )


def _parts(answer: Json) -> list[tuple[str, str, str | None]]:
    offsets = [
        (f"{each['topic']} {each['partition']}", each["outcome"], _text(each["offset"])) for each in answer["offsets"]
    ]
    settings = [(each["key"], each["outcome"], each["value"]) for each in answer["settings"]]
    topic = answer["topic"]
    return [*offsets, *settings, *([(topic["topic"], topic["outcome"], None)] if topic else [])]


def _text(offset: int | None) -> str | None:
    return None if offset is None else str(offset)
