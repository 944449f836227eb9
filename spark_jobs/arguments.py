"""A job's command line is read once, into plain values, and what cannot be read is told in one sentence."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from spark_jobs.publish import Proposal
from spark_jobs.submit.archive import DEFAULT_KEEP_DAYS, KEEP_MAX_DAYS

DEFAULT_READ_PARTITIONS = 8
READ_PARTITIONS_MAX = 256
RETENTION_MAX_MS = (2**31 - 1) * 60_000
DEFAULT_SHARE_FROM = 1_000
SHARE_FROM_MAX = 2**31 - 1
DEFAULT_REPORT_DAYS = 30
REPORT_MAX_DAYS = 3_650


@dataclass(frozen=True, slots=True)
class JobArguments:
    """What a job is asked to do; `interval_start` and `interval_end` are None for a run by hand."""

    run_id: str
    as_of: datetime
    interval_start: datetime | None
    interval_end: datetime | None
    retention_ms: int
    is_dry_run: bool
    read_partitions: int
    share_from: int = DEFAULT_SHARE_FROM
    report_days: int = DEFAULT_REPORT_DAYS
    keep_days: int = DEFAULT_KEEP_DAYS
    archive: str = ""

    @property
    def now_ms(self) -> int:
        """Return `as_of` as wall time."""
        return int(self.as_of.timestamp() * 1000)

    def proposal(self, kind: str) -> Proposal:
        """Return what the job's proposal of this kind is called."""
        start, end = (None if at is None else at.isoformat() for at in (self.interval_start, self.interval_end))
        return Proposal(
            self.run_id, kind, self.as_of.isoformat(), start, end, self.is_dry_run, self.share_from, self.report_days
        )


def read_arguments(job: str, command_line: Sequence[str] | None = None) -> JobArguments:
    """Read the command line of a job, or end the process with status 2 and one sentence."""
    parser = argparse.ArgumentParser(prog=job, allow_abbrev=False)
    add_common_arguments(parser)
    parser.add_argument("--retention-ms", default=-1, type=_retention_ms, help="where nothing narrower is set")
    parser.add_argument("--share-from", default=DEFAULT_SHARE_FROM, type=_share_from, help="no share of fewer counts")
    parser.add_argument(
        "--report-days", default=DEFAULT_REPORT_DAYS, type=_report_days, help="how long reports are kept"
    )
    parser.add_argument(
        "--keep-days", default=DEFAULT_KEEP_DAYS, type=_keep_days, help="how long history stays in Postgres"
    )
    parser.add_argument("--archive", default="", help="the directory of the archive, which every worker reaches")
    found = parser.parse_args(command_line)
    return JobArguments(
        found.run_id,
        found.as_of,
        found.interval_start,
        found.interval_end,
        found.retention_ms,
        found.dry_run,
        found.read_partitions,
        found.share_from,
        found.report_days,
        found.keep_days,
        found.archive,
    )


def add_common_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what every job is told, whether it proposes or reports."""
    parser.add_argument("--run-id", required=True, type=_uuid, help="what the run is called (UUID)")
    parser.add_argument("--as-of", required=True, type=_instant, help="the instant by which to judge (RFC 3339)")
    parser.add_argument("--interval-start", type=_instant_or_none, help="the data interval's begin, empty for none")
    parser.add_argument("--interval-end", type=_instant_or_none, help="the data interval's end, empty for none")
    parser.add_argument("--dry-run", default=False, type=_truth, help="true: what is found is only for looking at")
    parser.add_argument("--read-partitions", default=DEFAULT_READ_PARTITIONS, type=_partitions, help="parallel reads")


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


def _retention_ms(text: str) -> int:
    return whole_number(text, -1, RETENTION_MAX_MS)


def _partitions(text: str) -> int:
    return whole_number(text, 1, READ_PARTITIONS_MAX)


def _share_from(text: str) -> int:
    return whole_number(text, 0, SHARE_FROM_MAX)


def _report_days(text: str) -> int:
    return whole_number(text, 1, REPORT_MAX_DAYS)


def _keep_days(text: str) -> int:
    return whole_number(text, 1, KEEP_MAX_DAYS)


def _truth(text: str) -> bool:
    if text.lower() not in {"true", "false"}:
        raise argparse.ArgumentTypeError(f"{text!r} is neither true nor false")
    return text.lower() == "true"


def whole_number(text: str, least: int, most: int) -> int:
    """Read a whole number within bounds, or refuse it as argparse wants it."""
    try:
        number = int(text)
    except ValueError:
        number = least - 1
    if not least <= number <= most:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {least} to {most}")
    return number
