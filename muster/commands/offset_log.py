"""`muster offset-log`: shows the commits that are in the offset log and not in the table `offsets` yet."""

# ruff: noqa: PLC0415 - a command loads only what it needs, so that each answers at once

from typing import Annotated

import typer

from muster.commands.command_tree import command_group
from muster.commands.options import DataDirOption, GroupOption

app = command_group("Show the commits that wait for a checkpoint.")


@app.command()
def dump(
    group: GroupOption = None,
    shard: Annotated[int | None, typer.Option("--shard", help="Only this shard.", metavar="SHARD")] = None,
    quarantined: Annotated[
        bool, typer.Option("--quarantined", help="Show quarantined_offsets instead, which no checkpoint stores.")
    ] = False,
    data_dir: DataDirOption = None,
) -> None:
    """Print the offset log as lines of JSON.

    The oldest commit comes first. A row that cannot be decoded is printed with its error.
    """
    from muster.commands.offset_log_dump import print_log
    from muster.database import urls_in_use
    from muster.settings import load_settings, psql_url

    url = psql_url(urls_in_use(load_settings(data_dir=data_dir)).reader)
    print_log(url, group, shard, is_quarantined=quarantined)
