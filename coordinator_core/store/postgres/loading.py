"""A take-over reads all groups of its shards with their members; tens of thousands of rows should be quick.

So rows are made from plain tuples, in the order in which the rows' attributes stand, and arrays stay as the driver
reads them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import Any

from sqlalchemy import ARRAY, ColumnElement, Table, select, type_coerce
from sqlalchemy.types import NullType

from coordinator_core.protocol.requests import Offer
from coordinator_core.store.postgres.connections import Transaction
from coordinator_core.store.postgres.instants import columns_of
from coordinator_core.store.rows import GroupRow, MemberRow, StoredGroup
from coordinator_core.store.tables import groups, members


def load_shards(transaction: Transaction, shard_ids: Iterable[int]) -> list[StoredGroup]:
    """Return every group of the shards, by id, with its members."""
    shards = list(shard_ids)
    members_by_group = _load_members(transaction, shards)
    of_shards = select(*_GROUP_COLUMNS).where(groups.c.shard_id.in_(shards)).order_by(groups.c.group_id)
    return [_stored_group(row, members_by_group) for row in transaction.execute(of_shards)]


def _load_members(transaction: Transaction, shards: Sequence[int]) -> dict[str, list[MemberRow]]:
    of_shards = (
        select(*_MEMBER_COLUMNS)
        .where(members.c.shard_id.in_(shards))
        .order_by(members.c.group_id, members.c.position, members.c.member_id)
    )
    by_group: dict[str, list[MemberRow]] = {}
    for row in transaction.execute(of_shards):
        by_group.setdefault(row[0], []).append(_member(row))
    return by_group


def _stored_group(row: Sequence[Any], members_by_group: dict[str, list[MemberRow]]) -> StoredGroup:
    topics = row[_TOPICS]
    values = (*row[:_TOPICS], None if topics is None else tuple(topics), *row[_TOPICS + 1 :])
    return StoredGroup(GroupRow(*values), tuple(members_by_group.get(row[0], ())))


def _member(row: Sequence[Any]) -> MemberRow:
    names, metadata, assignment = row[_PROTOCOLS : _PROTOCOLS + 3]
    protocols = tuple(map(Offer, names, map(bytes, metadata)))
    values = (*row[:_PROTOCOLS], protocols, bytes(assignment), *row[_PROTOCOLS + 3 :])
    return MemberRow(*values)


# -- columns, in the order of the rows' attributes --------------------------------------------------------------


def _plain(table: Table, names: Iterable[str]) -> list[ColumnElement[Any]]:
    return [
        type_coerce(column, NullType()) if isinstance(column.type, ARRAY) else column
        for column in columns_of(table, names)
    ]


_GROUP_NAMES = [field.name for field in fields(GroupRow)]
_TOPICS = _GROUP_NAMES.index("subscribed_topics")
_GROUP_COLUMNS = _plain(groups, _GROUP_NAMES)

_STORED_AS = {
    "protocols": ("protocol_names", "protocol_metadata"),
    "assignment": ("assignment_bytes",),
    "subscription_json": ("subscription",),
    "assignment_json": ("assignment",),
}
_MEMBER_NAMES = [field.name for field in fields(MemberRow)]
_PROTOCOLS = _MEMBER_NAMES.index("protocols")
_MEMBER_COLUMNS = _plain(members, (stored for name in _MEMBER_NAMES for stored in _STORED_AS.get(name, (name,))))
