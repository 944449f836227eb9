"""The flags that several commands share, and those of a reset; what Kafka's tool has is called the same here."""

from pathlib import Path
from typing import Annotated

import typer

REASON = "asked for on the command line"
"""The reason of a change for which none is given."""

UrlOption = Annotated[
    str | None,
    typer.Option(
        "--url", envvar="MUSTER_URL", help="A node; any will do.", show_default="that of muster up", metavar="URL"
    ),
]
ActorOption = Annotated[
    str | None,
    typer.Option(
        "--actor", envvar="MUSTER_ACTOR", help="Who changes this.", show_default="the OS user", metavar="NAME"
    ),
]
ReasonOption = Annotated[
    str, typer.Option("--reason", help="Why; it is kept with the change.", show_default=False, metavar="TEXT")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
DataDirOption = Annotated[
    Path | None,
    typer.Option("--data-dir", help="Where the database, the secrets and the logs are kept.", show_default="./.muster"),
]

GroupArgument = Annotated[str | None, typer.Argument(metavar="[GROUP]", help="The group.", show_default=False)]
GroupOption = Annotated[
    str | None, typer.Option("--group", help="The group, the other way of saying it.", metavar="GROUP")
]
GroupsArgument = Annotated[
    list[str] | None, typer.Argument(metavar="[GROUP]...", help="One or more groups.", show_default=False)
]
GroupsOption = Annotated[
    list[str] | None, typer.Option("--group", help="A group, the other way of saying it; repeatable.", metavar="GROUP")
]
AllGroupsOption = Annotated[bool, typer.Option("--all-groups", help="Every group.")]
StatesOption = Annotated[
    list[str] | None,
    typer.Option("--state", help="Only groups in these states: Stable,Empty,...; repeatable.", metavar="STATES"),
]
PrefixOption = Annotated[str, typer.Option("--prefix", help="Only groups whose id begins so.", metavar="TEXT")]

ExecuteOption = Annotated[bool, typer.Option("--execute", help="Do it. Without this it is only told what would be.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Only tell what would be; so it is without --execute.")]

_PARTITIONS = typer.Option(
    "--topic", help="A topic, or partitions of it: orders:0,1; repeatable.", metavar="TOPIC[:P,...]"
)
PartitionsOption = Annotated[list[str] | None, _PARTITIONS]
RequiredPartitionsOption = Annotated[list[str], _PARTITIONS]
CreateOption = Annotated[bool, typer.Option("--create", help="Make groups that nobody has ever seen.")]

# -- where a reset goes --------------------------------------------------------------------------------------

AllTopicsOption = Annotated[bool, typer.Option("--all-topics", help="Every topic with committed offsets.")]
ToEarliestOption = Annotated[bool, typer.Option("--to-earliest", help="To where the log begins.")]
ToLatestOption = Annotated[bool, typer.Option("--to-latest", help="To where the log ends.")]
ToCurrentOption = Annotated[bool, typer.Option("--to-current", help="To where it stands, committed anew.")]
ToOffsetOption = Annotated[int | None, typer.Option("--to-offset", min=0, help="To this offset.")]
ShiftByOption = Annotated[int | None, typer.Option("--shift-by", help="So many on, or (-N) back.")]
ToDatetimeOption = Annotated[
    str | None,
    typer.Option("--to-datetime", help="To what was committed then; without a zone it is UTC.", metavar="TIME"),
]
ByDurationOption = Annotated[
    str | None,
    typer.Option("--by-duration", help="To what was committed so long ago: PT1H30M, P2D.", metavar="DURATION"),
]
FromFileOption = Annotated[
    str | None,
    typer.Option("--from-file", help="To what a file says: CSV or JSON; - is the standard input.", metavar="FILE"),
]
