"""The maintenance jobs: one entry a job, from which everything that lists jobs is derived.

`spark_jobs.submit` derives command lines from the entries, the DAGs their schedules, params and tasks, the HTTP API
the routes of reports, `muster doctor` the tables that jobs may write, `make docs` the tables of docs/maintenance.md.
Airflow loads this module whenever it parses a DAG, so it contains plain values only.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

HOUR_MS: Final = 3_600_000
DAY_MS: Final = 86_400_000


@dataclass(frozen=True, slots=True)
class Option:
    """An option of a job: a whole number with bounds, and a param of its DAG."""

    name: str
    default: int
    least: int
    most: int
    meaning: str
    variable: str | None = None
    """The environment variable of its default; None: `MUSTER_<JOB>_<OPTION>`."""

    @property
    def flag(self) -> str:
        """Return the option's command-line flag."""
        return f"--{self.name.replace('_', '-')}"


@dataclass(frozen=True, slots=True)
class Schedule:
    """When a job runs: a cron expression (UTC), unless an environment variable has another one."""

    cron: str
    variable: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """A job. It writes a proposal if it has `candidates`, else a report."""

    name: str
    """Also the name of its module and its DAG, the kind of its runs, and in capitals the prefix of its variables."""
    description: str
    subject: str
    """The tag of its DAG; of a report also the end of its route, `/v1/reports/<subject>`."""
    asset: str
    """The Airflow Asset that a run updates."""
    schedule: Schedule | None = None
    starts_after: str | None = None
    """The job whose Asset starts this one, instead of a schedule."""
    needs_archive: bool = False
    """Whether it has a schedule only if an archive is configured."""
    catches_up: bool = False
    """Whether missed intervals are run later."""
    candidates: str | None = None
    """The table of its candidates; None for a report."""
    changes_groups: bool = False
    """Whether its candidates are offsets or groups, which those of a mirror cannot be."""
    limits: tuple[str, ...] = ()
    """The limits beyond which its proposal needs approval. Source: spark_jobs/submit/limits.py."""
    effect: str = ""
    """What applying its proposal would do, for the person who approves; names of its counts are in braces."""
    reports: tuple[str, ...] = ()
    """Its report tables: a row per group and interval, in the second one a row per topic. Each has a staging table."""
    options: tuple[Option, ...] = ()
    is_of_now: bool = False
    """Whether a report describes the time of its read, which its rows record whatever the run's interval."""
    is_of_a_day: bool = False
    """Whether a report without an interval is about the last whole day (UTC) before its instant."""

    @property
    def is_report(self) -> bool:
        """Return whether the job writes a report, and proposes nothing."""
        return self.candidates is None

    @property
    def asset_uri(self) -> str:
        """Return the URI of its Asset."""
        return f"muster://reports/{self.subject}" if self.is_report else f"muster://maintenance/{self.name}"

    def variable(self, option: Option) -> str:
        """Return the environment variable of an option's default."""
        return option.variable or f"MUSTER_{self.name}_{option.name}".upper()


KEEP_DAYS: Final = Option(
    "keep_days", 30, 1, 3_650, "Days of history kept in Postgres", variable="MUSTER_HISTORY_KEEP_DAYS"
)
REPORT_DAYS: Final = Option("report_days", 400, 1, 3_650, "Days for which reports are kept")
GRACE_MS: Final = Option(
    "grace_ms", 60_000, 0, HOUR_MS, "Rejoins within this time make an eviction spurious, in milliseconds"
)

RUN_LIMITS: Final = ("max_candidates", "max_share", "share_from")

_ENTRIES: Final = (
    JobSpec(
        name="offset_retention",
        description="Propose offsets that are due, and have the coordinator expire them",
        subject="offsets",
        asset="offsets_expired",
        schedule=Schedule("*/10 * * * *", "MUSTER_RETENTION_SCHEDULE"),
        candidates="expiry_candidates",
        changes_groups=True,
        limits=("max_candidates", "max_share", "max_group_candidates", "max_group_share", "share_from"),
        effect="expire {candidates} of {of} committed offsets, of {groups} groups",
        reports=("offset_expiry_forecasts",),
    ),
    JobSpec(
        name="group_cleanup",
        description="Propose Empty groups without offsets, and have the coordinator retire them",
        subject="groups",
        asset="groups_retired",
        starts_after="offset_retention",
        candidates="cleanup_candidates",
        changes_groups=True,
        limits=RUN_LIMITS,
        effect="retire {candidates} of {of} groups",
    ),
    JobSpec(
        name="history_archive",
        description="Copy old history to the archive, and have the coordinator drop it",
        subject="history",
        asset="history_archived",
        schedule=Schedule("30 3 * * *", "MUSTER_ARCHIVE_SCHEDULE"),
        needs_archive=True,
        candidates="archive_candidates",
        limits=RUN_LIMITS,
        effect="drop {candidates} of {of} days of history tables from Postgres; the archive has them",
        options=(KEEP_DAYS,),
    ),
    JobSpec(
        name="assignment_balance_audit",
        description="Report how evenly groups' partitions are spread, and whether a better assignment exists",
        subject="assignments",
        asset="assignments_audited",
        schedule=Schedule("30 2 * * *", "MUSTER_ASSIGNMENT_AUDIT_SCHEDULE"),
        reports=("assignment_balance_audits", "assignment_balance_topics"),
        options=(REPORT_DAYS,),
        is_of_now=True,
    ),
    JobSpec(
        name="rebalance_frequency_report",
        description="Report how often, how long and why groups rebalanced, and their slowest members",
        subject="rebalances",
        asset="rebalances_reported",
        schedule=Schedule("0 0 * * *", "MUSTER_REBALANCE_REPORT_SCHEDULE"),
        catches_up=True,
        reports=("rebalance_frequency_reports",),
        options=(
            GRACE_MS,
            Option("churn_min_rebalances", 5, 2, 1_000, "Rebalances within the window that count as churn"),
            Option("churn_window_ms", 600_000, 1, DAY_MS, "Window in which rebalances count as churn, in milliseconds"),
            Option("stuck_ms", 600_000, 1, 7 * DAY_MS, "Duration from which a rebalance is stuck, in milliseconds"),
            Option("stuck_restarts", 10, 1, 1_000_000, "Restarts from which a rebalance is stuck"),
            REPORT_DAYS,
        ),
        is_of_a_day=True,
    ),
    JobSpec(
        name="timeout_advice",
        description="Advise timeouts for each group from its history",
        subject="timeouts",
        asset="timeouts_advised",
        schedule=Schedule("0 0 * * *", "MUSTER_TIMEOUT_ADVICE_SCHEDULE"),
        reports=("timeout_advice",),
        options=(
            Option("window_days", 28, 3, 365, "Days to analyse, before the interval's end"),
            Option("held_back_days", 7, 1, 90, "Last days of them reserved for the back-test; at most a quarter"),
            Option("spurious_per_week", 1, 0, 1_000_000, "Accepted spurious evictions per group and week"),
            GRACE_MS,
            REPORT_DAYS,
        ),
    ),
)

JOBS: Final[Mapping[str, JobSpec]] = {job.name: job for job in _ENTRIES}
"""All jobs by name; `history_restore` is none of them: an operator starts it, no DAG does."""
