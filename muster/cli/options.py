"""Options shared by several commands, named as in Kafka's tool where it has them."""

from pathlib import Path
from typing import Annotated

import typer

REASON = "no reason given"
"""The default reason of a change."""

UrlOption = Annotated[
    str | None,
    typer.Option(
        "--url", envvar="MUSTER_URL", help="URL of any node.", show_default="the node of muster up", metavar="URL"
    ),
]
ActorOption = Annotated[
    str | None,
    typer.Option(
        "--actor",
        envvar="MUSTER_ACTOR",
        help="Name recorded with the change.",
        show_default="the OS user",
        metavar="NAME",
    ),
]
ReasonOption = Annotated[
    str, typer.Option("--reason", help="Reason recorded with the change.", show_default=False, metavar="TEXT")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
WideOption = Annotated[bool, typer.Option("--wide", help="Print all columns at a terminal; a pipe gets all anyway.")]
DataDirOption = Annotated[
    Path | None,
    typer.Option("--data-dir", help="Directory of the database, secrets and logs.", show_default="./.muster"),
]

GroupArgument = Annotated[str | None, typer.Argument(metavar="GROUP", help="The group.", show_default=False)]
GroupOption = Annotated[str | None, typer.Option("--group", help="Same as the argument GROUP.", metavar="GROUP")]
GroupsArgument = Annotated[
    list[str] | None, typer.Argument(metavar="GROUP", help="One or more groups.", show_default=False)
]
GroupsOption = Annotated[
    list[str] | None, typer.Option("--group", help="Same as the argument GROUP; repeatable.", metavar="GROUP")
]
AllGroupsOption = Annotated[bool, typer.Option("--all-groups", help="All groups.")]
StatesOption = Annotated[
    list[str] | None,
    typer.Option("--state", help="Only groups in these states: Stable,Empty,...; repeatable.", metavar="STATES"),
]
PrefixOption = Annotated[
    str, typer.Option("--prefix", help="Only groups whose id starts with this text.", metavar="TEXT")
]

ExecuteOption = Annotated[
    bool, typer.Option("--execute", help="Make the change. Without it, the command is a dry run.")
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Report the change without making it (the default).")]

_PARTITIONS = typer.Option(
    "--topic", help="A topic, or partitions of it: orders:0,1; repeatable.", metavar="TOPIC[:P,...]"
)
PartitionsOption = Annotated[list[str] | None, _PARTITIONS]
RequiredPartitionsOption = Annotated[list[str], _PARTITIONS]
CreateOption = Annotated[bool, typer.Option("--create", help="Create groups that do not exist.")]

# -- where a reset goes --------------------------------------------------------------------------------------

AllTopicsOption = Annotated[bool, typer.Option("--all-topics", help="Every partition with a committed offset.")]
ToEarliestOption = Annotated[bool, typer.Option("--to-earliest", help="To the log start offset.")]
ToLatestOption = Annotated[bool, typer.Option("--to-latest", help="To the log end offset.")]
ToCurrentOption = Annotated[bool, typer.Option("--to-current", help="To the committed offset, committed again.")]
ToOffsetOption = Annotated[int | None, typer.Option("--to-offset", min=0, help="To this offset.")]
ShiftByOption = Annotated[int | None, typer.Option("--shift-by", help="Forward by N offsets, or back by -N.")]
ToDatetimeOption = Annotated[
    str | None,
    typer.Option("--to-datetime", help="To the offset committed at this time; UTC if it has no zone.", metavar="TIME"),
]
ByDurationOption = Annotated[
    str | None,
    typer.Option(
        "--by-duration", help="To the offset committed this long ago, such as PT1H30M or P2D.", metavar="DURATION"
    ),
]
FromFileOption = Annotated[
    str | None,
    typer.Option("--from-file", help="To the offsets of a CSV or JSON file; - is standard input.", metavar="FILE"),
]
