"""Loading of groups: reads the groups of some shards, or one group, with their members.

Acquiring a shard reads tens of thousands of rows, so rows are created from plain tuples in the order of their fields,
and arrays are used as the driver returns them. Neither the database nor the driver converts values that could fail to
convert, because one such value would fail the whole read. This module decodes them, group by group.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import Any

from sqlalchemy import ARRAY, ColumnElement, Table, Text, case, cast, func, select, type_coerce
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.types import NullType

from coordinator_core.protocol.requests import SupportedProtocol
from coordinator_core.state_store.postgres.connections import Transaction
from coordinator_core.state_store.postgres.timestamps import as_ms
from coordinator_core.state_store.row_checks import UnreadableRow
from coordinator_core.state_store.rows import WITHOUT_GROUP, GroupRow, MemberRow, StoredGroup, UnreadableGroup
from coordinator_core.state_store.tables import groups, members

Loaded = StoredGroup | UnreadableGroup
Columns = Sequence[Any]
"""The column values of one row."""


def load_shards(transaction: Transaction, shard_ids: Iterable[int]) -> list[Loaded]:
    """Return every group of the shards, by id, with its members."""
    shards = list(shard_ids)
    return _load(transaction, groups.c.shard_id.in_(shards), members.c.shard_id.in_(shards))


def load_group(transaction: Transaction, group_id: str) -> Loaded | None:
    """Return one group with its members, or None if it has no rows."""
    found = _load(transaction, groups.c.group_id == group_id, members.c.group_id == group_id)
    return found[0] if found else None


def _load(transaction: Transaction, of_groups: ColumnElement[bool], of_members: ColumnElement[bool]) -> list[Loaded]:
    # Members first: a group that is deleted in between then has neither. No node writes to a shard while it loads.
    members_by_group = _read_members(transaction, of_members)
    found = transaction.execute(select(*_GROUP_COLUMNS).where(of_groups).order_by(groups.c.group_id))
    loaded = [_decoded(row, members_by_group.pop(row[0], ())) for row in found]
    return loaded + [_without_group(rows[0]) for rows in members_by_group.values()]


def _read_members(transaction: Transaction, of_members: ColumnElement[bool]) -> dict[str, list[Columns]]:
    in_order = (members.c.group_id, members.c.join_order, members.c.member_id)
    by_group: dict[str, list[Columns]] = {}
    for row in transaction.execute(select(*_MEMBER_COLUMNS).where(of_members).order_by(*in_order)):
        by_group.setdefault(row[0], []).append(row)
    return by_group


def _decoded(row: Columns, member_rows: Iterable[Columns]) -> Loaded:
    """Return a group; invalid rows make only this group unreadable."""
    try:
        return StoredGroup(_group(row), tuple([_member(each) for each in member_rows]))
    except UnreadableRow as failure:
        return UnreadableGroup(row[0], row[1], str(failure))
    except MemoryError:
        raise
    except Exception as failure:  # noqa: BLE001 - a row that was edited by hand may hold anything
        return UnreadableGroup(row[0], row[1], f"its rows cannot be decoded ({type(failure).__name__}: {failure})")


def _without_group(member: Columns) -> UnreadableGroup:
    return UnreadableGroup(member[0], member[1], WITHOUT_GROUP)


def _group(row: Columns) -> GroupRow:
    values = list(row)
    topics = values[_TOPICS]
    values[_TOPICS] = None if topics is None else tuple(topics)
    _decode_json(values, _GROUP_JSON)
    return GroupRow(*values)


def _member(row: Columns) -> MemberRow:
    names, metadata, assignment = row[_PROTOCOLS : _PROTOCOLS + 3]
    if len(names) != len(metadata):
        lengths = f"{len(names)} elements, and members.protocol_metadata {len(metadata)}"
        raise UnreadableRow(f"members.protocol_names has {lengths}")
    protocols = tuple(map(SupportedProtocol, names, map(bytes, metadata)))
    values = [*row[:_PROTOCOLS], protocols, bytes(assignment), *row[_PROTOCOLS + 3 :]]
    _decode_json(values, _MEMBER_JSON)
    return MemberRow(*values)


def _decode_json(values: list[Any], places: Iterable[int]) -> None:
    for place in places:
        values[place] = None if values[place] is None else json.loads(values[place])


# -- columns, in the order of the rows' fields ------------------------------------------------------------------


def _plain(table: Table, names: Iterable[str]) -> list[ColumnElement[Any]]:
    """Return columns that need no conversion by database or driver: JSON as text, and infinite times as NULL."""
    return [_plain_column(table, name) for name in names]


def _plain_column(table: Table, name: str) -> ColumnElement[Any]:
    if name not in table.c:
        instant = table.c[name.removesuffix("_ms")]
        return case((func.isfinite(instant), as_ms(instant)))
    column = table.c[name]
    if isinstance(column.type, JSONB):
        return cast(column, Text)
    return type_coerce(column, NullType()) if isinstance(column.type, ARRAY) else column


_GROUP_NAMES = [field.name for field in fields(GroupRow)]
_TOPICS = _GROUP_NAMES.index("subscribed_topics")
_GROUP_JSON = [_GROUP_NAMES.index(name) for name in ("rebalance", "awaited_members")]
_GROUP_COLUMNS = _plain(groups, _GROUP_NAMES)

_STORED_AS = {
    "protocols": ("protocol_names", "protocol_metadata"),
    "assignment": ("assignment_bytes",),
    "subscription_json": ("subscription",),
    "assignment_json": ("assignment",),
}
_MEMBER_NAMES = [field.name for field in fields(MemberRow)]
_PROTOCOLS = _MEMBER_NAMES.index("protocols")
_MEMBER_JSON = [_MEMBER_NAMES.index(name) for name in ("subscription_json", "assignment_json", "ownership")]
_MEMBER_COLUMNS = _plain(members, (stored for name in _MEMBER_NAMES for stored in _STORED_AS.get(name, (name,))))
