"""Operations on one group: force a rebalance, remove a member, delete offsets."""

from __future__ import annotations

from collections.abc import Iterator

from muster import display
from muster.commands.argument_parsing import topic_and_partitions
from muster.commands.group_description import owned_count, owned_list
from muster.commands.http_client import Json, NodeClient, group_path, segment
from muster.commands.output import Table, counted, print_json
from muster.errors import FAILURE_EXIT_CODE, UserError

DONE = "NONE"
"""The code of a partition whose offset went."""
DELETED = "deleted"
WOULD_BE_DELETED = "would be deleted"
DRY_RUN_NOTE = "Dry run; use --execute to apply."


def force_rebalance(node: NodeClient, group_id: str, reason: str, *, as_json: bool) -> None:
    """Force a rebalance of a group."""
    node.post(group_path(group_id, "/rebalance"), {"reason": reason})
    if as_json:
        print_json({"group_id": group_id, "change_id": node.change_id})
        return
    print(f"{display.printable(group_id)} rebalances; see muster groups watch.")


def remove_member(node: NodeClient, group_id: str, named: str, reason: str, *, is_dry_run: bool, as_json: bool) -> None:
    """Remove a member, or say what that would do.

    Raises:
        UserError: no member, or more than one, has that name.
    """
    described = node.get(group_path(group_id))
    member = _member(described, named)
    count = owned_count(member)
    who = display.printable(f"{member['client_id']} at {member['client_host']} ({member['member_id']})")
    if not is_dry_run:
        node.delete(group_path(group_id, f"/members/{segment(member['member_id'])}"), reason)
    if as_json:
        change_id = None if is_dry_run else node.change_id
        what = {"member_id": member["member_id"], "partition_count": count, "change_id": change_id}
        print_json({"dry_run": is_dry_run, "group_id": group_id, **what})
    elif is_dry_run:
        print(f"{who} would be removed. {_reassignment_text(described, member)} {DRY_RUN_NOTE}")
    else:
        print(f"{who} was removed. {_reassignment_text(described, member)}")


def _reassignment_text(described: Json, member: Json) -> str:
    """Say how many partitions a member owns, which, and where they go."""
    count = owned_count(member)
    if count is None:
        return "Its partitions are not known, as its assignment cannot be read."
    if not count:
        return "It owns no partition."
    owned = f"Its {counted(count, 'partition')} ({display.printable(owned_list(member))})"
    if len(described["members"]) == 1:
        return f"{owned} have no owner until another member joins."
    return f"{owned} go to the other members."


def _member(described: Json, named: str) -> Json:
    found = [each for each in described["members"] if named in {each["member_id"], each["client_id"]}]
    if len(found) == 1:
        return found[0]
    group_id = display.printable(described["group_id"])
    if not found:
        raise UserError(f"{group_id} has no member {display.printable(named)}.", FAILURE_EXIT_CODE)
    raise UserError(f"{group_id} has {len(found)} members of that client id; name one by its member id.")


def delete_offsets(
    node: NodeClient, group_id: str, topics: list[str], reason: str, *, is_dry_run: bool, as_json: bool
) -> None:
    """Delete what is committed in topics or partitions, or report what would be deleted.

    Raises:
        UserError: a partition was refused, or would be.
    """
    named = [topic_and_partitions(each) for each in topics]
    committed = node.get(group_path(group_id, "/offsets"), topic=[each["topic"] for each in named])["offsets"]
    offsets = {(each["topic"], each["partition"]): each["offset"] for each in committed}
    codes: dict[tuple[str, int], str] = {}
    change_ids = []
    for topic, query in partition_queries(named, is_dry_run=is_dry_run):
        answer = node.delete(group_path(group_id, "/offsets"), reason, topic=topic, **query)
        answered = {(one["topic"], one["partition"]): one["code"] for one in answer["offsets"]}
        codes |= answered
        has_deleted = any(code == DONE and place in offsets for place, code in answered.items())
        change_ids += [node.change_id] if node.change_id and has_deleted else []
    outcomes = _outcomes(offsets, codes, is_dry_run=is_dry_run)
    _print_outcomes(group_id, outcomes, change_ids, is_dry_run=is_dry_run, as_json=as_json)
    if any(code != DONE for code in codes.values()):
        raise UserError(f"Some offsets {'would be' if is_dry_run else 'were'} refused.", FAILURE_EXIT_CODE)


def partition_queries(named: list[Json], *, is_dry_run: bool) -> Iterator[tuple[str, dict[str, str | int]]]:
    """Return the topic and the query of each call that deletes what is named: a whole topic, or one partition."""
    query: dict[str, str | int] = {"dry_run": "true"} if is_dry_run else {}
    for each in named:
        for partition in each.get("partitions", [None]):
            yield each["topic"], query if partition is None else {**query, "partition": partition}


def _outcomes(
    offsets: dict[tuple[str, int], int], codes: dict[tuple[str, int], str], *, is_dry_run: bool
) -> list[Json]:
    """Return what became of each partition that has an offset, or is refused."""
    done = WOULD_BE_DELETED if is_dry_run else DELETED
    return [
        {
            "topic": topic,
            "partition": partition,
            "offset": offsets.get((topic, partition)),
            "outcome": done if code == DONE else code,
        }
        for (topic, partition), code in codes.items()
        if code != DONE or (topic, partition) in offsets
    ]


def _print_outcomes(
    group_id: str, outcomes: list[Json], change_ids: list[str], *, is_dry_run: bool, as_json: bool
) -> None:
    if as_json:
        print_json({"dry_run": is_dry_run, "group_id": group_id, "offsets": outcomes, "change_ids": change_ids})
        return
    table = Table("TOPIC", "PARTITION", "OFFSET", "OUTCOME")
    for each in outcomes:
        table.add(*each.values())
    if outcomes:
        table.print()
    print(_summary(outcomes, is_dry_run=is_dry_run))
    for change_id in change_ids:
        print(f"  muster changes undo {change_id} undoes it.")


def _summary(outcomes: list[Json], *, is_dry_run: bool) -> str:
    """Say how many go, how many are refused, and, of a dry run, how it is done if there is anything to do."""
    done = WOULD_BE_DELETED if is_dry_run else DELETED
    gone = sum(each["outcome"] == done for each in outcomes)
    refused = f", {len(outcomes) - gone} refused" if len(outcomes) > gone else ""
    rest = (f" {DRY_RUN_NOTE}" if gone else " Nothing was changed.") if is_dry_run else ""
    return f"{counted(gone, 'offset')} {done}{refused}.{rest}"
