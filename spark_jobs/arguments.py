"""Parse a job's command line into plain values."""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from coordinator_core.jobs import KEEP_DAYS, Option
from spark_jobs.publish import Proposal
from spark_jobs.submit import OWN_CLUSTER

DEFAULT_READ_PARTITIONS = 8
READ_PARTITIONS_MAX = 256
RETENTION_MAX_MS = (2**31 - 1) * 60_000
DEFAULT_SHARE_FROM = 1_000
SHARE_FROM_MAX = 2**31 - 1
DEFAULT_REPORT_DAYS = 30
REPORT_MAX_DAYS = 3_650


@dataclass(frozen=True, slots=True)
class JobArguments:
    """Arguments of a proposing job; `interval_start` and `interval_end` are None for a manual run."""

    run_id: str
    as_of: datetime
    interval_start: datetime | None
    interval_end: datetime | None
    retention_ms: int
    is_dry_run: bool
    read_partitions: int
    share_from: int = DEFAULT_SHARE_FROM
    report_days: int = DEFAULT_REPORT_DAYS
    keep_days: int = KEEP_DAYS.default
    archive: str = ""
    cluster: str = OWN_CLUSTER

    @property
    def now_ms(self) -> int:
        """Return `as_of` as Unix time in milliseconds."""
        return int(self.as_of.timestamp() * 1000)

    def proposal(self, kind: str) -> Proposal:
        """Return the description of the job's proposal."""
        start, end = (None if at is None else at.isoformat() for at in (self.interval_start, self.interval_end))
        return Proposal(
            self.run_id, kind, self.as_of.isoformat(), start, end, self.is_dry_run, self.share_from, self.report_days
        )


def read_arguments(job: str, command_line: Sequence[str] | None = None) -> JobArguments:
    """Parse the command line of a job; on an error, exit with status 2 and a message."""
    parser = argparse.ArgumentParser(prog=job, allow_abbrev=False)
    add_common_arguments(parser)
    parser.add_argument(
        "--retention-ms",
        default=-1,
        type=_whole_number(-1, RETENTION_MAX_MS),
        help="retention where neither cluster nor group sets one",
    )
    parser.add_argument(
        "--share-from",
        default=DEFAULT_SHARE_FROM,
        type=_whole_number(0, SHARE_FROM_MAX),
        help="candidates from which a group's share is computed",
    )
    parser.add_argument(
        "--report-days",
        default=DEFAULT_REPORT_DAYS,
        type=_whole_number(1, REPORT_MAX_DAYS),
        help="days for which reports are kept",
    )
    add_options(parser, [KEEP_DAYS])
    parser.add_argument("--archive", default="", help="the archive's directory, reachable by every worker")
    found = parser.parse_args(command_line)
    return JobArguments(**vars(found))


def add_common_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that all jobs share."""
    parser.add_argument("--run-id", required=True, type=_uuid, help="the run's id (UUID)")
    parser.add_argument("--as-of", required=True, type=_instant, help="the instant to evaluate (RFC 3339)")
    parser.add_argument("--interval-start", type=_instant_or_none, help="start of the data interval, empty for none")
    parser.add_argument("--interval-end", type=_instant_or_none, help="end of the data interval, empty for none")
    kept = "true: do not apply or keep the result"
    parser.add_argument("--dry-run", dest="is_dry_run", metavar="DRY_RUN", default=False, type=_boolean, help=kept)
    parser.add_argument("--cluster", default=OWN_CLUSTER, help="the cluster whose database a variable names")
    partitions = _whole_number(1, READ_PARTITIONS_MAX)
    parser.add_argument("--read-partitions", default=DEFAULT_READ_PARTITIONS, type=partitions, help="parallel reads")


def add_options(parser: argparse.ArgumentParser, options: Sequence[Option]) -> None:
    """Add a job's options."""
    for option in options:
        number = _whole_number(option.least, option.most)
        parser.add_argument(option.flag, default=option.default, type=number, help=option.meaning)


def _uuid(text: str) -> str:
    try:
        return str(UUID(text))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a UUID") from None


def _instant(text: str) -> datetime:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not an instant such as 2026-01-31T06:00:00+00:00") from None
    if at.tzinfo is None:
        raise argparse.ArgumentTypeError(f"{text!r} has no offset from UTC")
    return at.astimezone(UTC)


def _instant_or_none(text: str) -> datetime | None:
    return _instant(text) if text else None


def _boolean(text: str) -> bool:
    if text.lower() not in {"true", "false"}:
        raise argparse.ArgumentTypeError(f"{text!r} is neither true nor false")
    return text.lower() == "true"


def _whole_number(least: int, most: int) -> Callable[[str], int]:
    """Return what parses a whole number within bounds."""

    def parse(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = least - 1
        if not least <= number <= most:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {least} to {most}")
        return number

    return parse
