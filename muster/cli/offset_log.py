"""`muster offset-log`: shows the commits that are in the offset log and not in the table `offsets` yet."""

# ruff: noqa: PLC0415 - a command loads only what it needs, and has a parameter for each of its flags

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from typing import Annotated, Any, Final

import msgspec
import typer
from msgspec.structs import asdict
from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name

from coordinator_core.protocol.records import OffsetsCommitted
from coordinator_core.protocol.requests import OffsetToCommit
from coordinator_core.state_store.offset_log import LoggedCommits, decode
from muster import display
from muster.cli.command_tree import command_group
from muster.cli.options import DataDirOption, GroupOption
from muster.cli.sql import connect, reporting_refusals
from muster.display import counted
from muster.errors import USAGE_EXIT_CODE, UserError

app = command_group("Show the commits that wait for a checkpoint.")


_LOG: Final = "SELECT seq, written_at, NULL AS reason, data FROM offset_log ORDER BY seq"
_QUARANTINED: Final = "SELECT seq, quarantined_at, reason, data FROM quarantined_offsets ORDER BY quarantine_id"


@app.command()
def dump(
    group: GroupOption = None,
    shard: Annotated[int | None, typer.Option("--shard", min=0, help="Only this shard.", metavar="SHARD")] = None,
    quarantined: Annotated[
        bool, typer.Option("--quarantined", help="Show quarantined_offsets instead, which no checkpoint stores.")
    ] = False,
    data_dir: DataDirOption = None,
) -> None:
    """Print the offset log as lines of JSON.

    The oldest commit comes first. A row that cannot be decoded is printed with its error.
    """
    from muster.cli.crash import command_settings
    from muster.local.database import urls_in_use
    from muster.settings import psql_url

    url = psql_url(urls_in_use(command_settings(data_dir=data_dir)).reader)
    with (
        closing(connect(url, "muster-offset-log")) as connection,
        reporting_refusals(),
        connection,
        connection.cursor("offset_log") as cursor,
    ):
        if shard is not None:
            _require_shard(connection, shard)
        cursor.execute(_QUARANTINED if quarantined else _LOG)
        for seq, written_at, reason, data in cursor:
            row = {"seq": seq, "written_at": written_at.isoformat(), **({"reason": reason} if reason else {})}
            for line in _lines(bytes(data), group, shard):
                print(display.printable_json(json.dumps({**row, **line}, ensure_ascii=False)))


def _require_shard(connection: PsycopgConnection, shard: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*), bool_or(shard_id = %s) FROM shard_leases", (shard,))
        ((count, is_there),) = cursor.fetchall()
    if not is_there:
        raise UserError(f"There is no shard {shard}; the database has {counted(count, 'shard')}.", USAGE_EXIT_CODE)


def _lines(data: bytes, group_id: str | None, shard_id: int | None) -> Iterator[dict[str, Any]]:
    try:
        commits = decode(data)
    except msgspec.DecodeError as failure:
        yield {"error": f"it cannot be decoded: {failure}"}
        return
    for commit in commits:
        if group_id in {None, commit.group_id} and shard_id in {None, commit.shard_id}:
            yield from (_line(commit, record, offset) for record in commit.records for offset in record.offsets)


def _line(commit: LoggedCommits, record: OffsetsCommitted, offset: OffsetToCommit) -> dict[str, Any]:
    return {
        "group_id": commit.group_id,
        "shard_id": commit.shard_id,
        **asdict(offset),
        "member_id": record.member_id,
        "committed_at": _instant(record.at_ms),
        "expires_at": None if record.expires_at_ms is None else _instant(record.expires_at_ms),
    }


def _instant(instant_ms: int) -> str:
    return datetime.fromtimestamp(instant_ms / 1000, UTC).isoformat(timespec="milliseconds")
