"""Advice on a group: the diagnosis of its last hour, and `muster groups tuning` with other timeouts tried."""

from __future__ import annotations

import datetime as dt
from itertools import groupby
from typing import Annotated, Final

import typer

from muster import display
from muster.cli.group_selection import one_group
from muster.cli.options import (
    GroupArgument,
    GroupOption,
    JsonOption,
    UrlOption,
)
from muster.display import counted, moment
from muster.node_client import Json, NodeClient, group_path
from muster.output import Table, print_json

CHANGE = "change"
DIFFERENCES: Final = {
    "session_timeout_ms": ("added_at_most", "failures"),
    "rebalance_timeout_ms": ("added", "waiting_added_ms"),
}
"""Setting → the fields of a what-if, beside `avoided`, that are not empty if the timeout makes a difference."""
FUTURE: Final = {
    "session_timeout_ms": "a dead member is detected after this time",
    "rebalance_timeout_ms": "a rebalance waits at most this long for a member that does not join",
}
"""Setting → when a timeout has an effect that had none in the past."""


def tuning(
    group_id: GroupArgument = None,
    group: GroupOption = None,
    session_timeout_ms: Annotated[
        int | None, typer.Option("--session-timeout-ms", help="Report what this timeout would have changed.")
    ] = None,
    rebalance_timeout_ms: Annotated[
        int | None, typer.Option("--rebalance-timeout-ms", help="Report what this timeout would have changed.")
    ] = None,
    url: UrlOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show timeout advice for a group, from its history.

    With a timeout to try, it reports which evictions it would have avoided, and how much later real failures would
    have been detected. muster config set changes it.
    """
    tried = {"session_timeout_ms": session_timeout_ms, "rebalance_timeout_ms": rebalance_timeout_ms}
    print_tuning(NodeClient(url), one_group(group_id, group), tried, as_json=as_json)


def findings(node: NodeClient, group_id: str) -> list[Json]:
    """Return the findings of a group's diagnosis."""
    found: list[Json] = node.get(group_path(group_id, "/diagnosis"))["findings"]
    return found


def print_findings(group_id: str, found: list[Json]) -> None:
    """Print findings, a paragraph each, with the command that changes the suggested setting."""
    for each in found:
        print(f"* {display.printable(each['text'])}")
        if each["value"] is not None:
            print(f"  muster config set {display.group_option(group_id)} {each['setting']}={each['value']}")


def print_tuning(node: NodeClient, group_id: str, tried: dict[str, int | None], *, as_json: bool) -> None:
    """Print the advice, and the effect that the timeouts to try would have had."""
    answer = node.get(group_path(group_id, "/tuning"), **tried)
    if as_json:
        print_json(answer)
        return
    window = answer["window"]
    print(
        f"{display.printable(group_id)}, by what happened from {moment(window['from'])} to {moment(window['to'])} UTC:"
    )
    table = Table("SETTING", "EFFECTIVE", "ADVICE", "VERDICT", "CONFIDENCE", "REASON")
    for key, advice in answer["advice"].items():
        words = (advice["verdict"].replace("_", " "), advice["confidence"], advice["because"])
        table.add(key, answer["effective"].get(key), advice["value"], *words)
    table.print()
    for key, advice in answer["advice"].items():
        if advice["verdict"] == CHANGE:
            print(f"  muster config set {display.group_option(group_id)} {key}={advice['value']}")
    for each in answer["recommendations"]:
        print(f"  {each['name']}: {each['because']}")
    what_if = answer["what_if"] or {}
    for key, print_difference in (("session_timeout_ms", _print_session), ("rebalance_timeout_ms", _print_rebalance)):
        if found := what_if.get(key):
            timeout = f"\nA {key.removesuffix('_ms').replace('_', ' ')} of {found['value']} ms"
            if _changes_nothing(key, found):
                print(f"{timeout} would have changed nothing over the last {_nothing(key, found, what_if['window'])}")
                continue
            print(timeout)
            print_difference(found)
            print(f"  muster config set {display.group_option(group_id)} {key}={found['value']}")


def _changes_nothing(key: str, found: Json) -> bool:
    """Return whether a timeout would have made no difference to any eviction or wait."""
    return not any(found[name] for name in ("avoided", *DIFFERENCES[key]))


def _nothing(key: str, found: Json, window: Json) -> str:
    """Return the text about a timeout without effect: the window, its evictions, and the effect in future."""
    begins, ends = (dt.datetime.fromisoformat(window[name]) for name in ("from", "to"))
    remaining = len(found["remaining"])
    evicted = "no member was evicted, and none would have been"
    if remaining:
        evictions = counted(remaining, "eviction of a live member", "evictions of live members")
        evicted = f"{evictions} would have happened all the same"
    span = display.duration((ends - begins).total_seconds())
    return f"{span}: {evicted}. Only a failure in the future would differ: {FUTURE[key]}."


def _print_session(found: Json) -> None:
    _print_cost(found)
    _print_avoided_evictions(found)
    if found["added_at_most"]:
        print(f"  would have evicted {found['added_at_least']} to {found['added_at_most']} more live members;")
    if not found["failures"]:
        print("  and no real failure would have been detected later.")
        return
    added = display.precise(abs(found["detection_added_ms"]) / 1000)
    direction = "later" if found["detection_added_ms"] >= 0 else "sooner"
    print(f"  would have detected {counted(len(found['failures']), 'real failure')} {added} {direction} in all.")


def _print_rebalance(found: Json) -> None:
    _print_cost(found)
    _print_avoided_evictions(found)
    if found["added"]:
        print(f"  would have evicted {counted(found['added'], 'member')} that joined in time;")
    added = display.precise(abs(found["waiting_added_ms"]) / 1000)
    direction = "longer" if found["waiting_added_ms"] >= 0 else "shorter"
    no_shows = counted(len(found["no_shows"]), "member")
    print(f"  would have waited {added} {direction} in all for {no_shows} that never joined.")


def _print_cost(found: Json) -> None:
    """Print the cost of the timeout over the window, and that of the effective one."""
    for name, cost in (("would have cost", found["cost"]), ("instead of", found["present_cost"])):
        if cost is not None:
            rebalances, evictions = counted(cost["rebalances"], "rebalance"), counted(cost["evictions"], "eviction")
            still, repeated = (display.precise(cost[key] / 1000) for key in ("stood_still_ms", "repeated_work_ms"))
            lost = f"{still} of stopped consumption and {repeated} of repeated work"
            print(f"  {name} {rebalances}, {evictions} of live members, {lost}")


def _print_avoided_evictions(found: Json) -> None:
    avoided = found["avoided"]
    evicted = counted(len(avoided) + len(found["remaining"]), "member")
    print(f"  would have kept {len(avoided)} of {evicted} that were evicted and rejoined soon;")
    for (client_id, host), same in groupby(sorted(avoided, key=_client), key=_client):
        moments = sorted(each["at"] for each in same)
        how_often = "" if len(moments) == 1 else f"{len(moments)} times, last "
        print(f"    {display.printable(client_id)} at {display.printable(host)}, {how_often}{moment(moments[-1])} UTC")


def _client(eviction: Json) -> tuple[str, str]:
    return eviction["client_id"], eviction["client_host"]
