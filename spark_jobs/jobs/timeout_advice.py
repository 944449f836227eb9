"""Advise timeouts for each group from its history, with their expected effect.

Run by spark-submit; `spark_jobs.submit` builds the command line. The job analyses a window of days before the
interval's end, and tests its advice on the last of them.
"""

import os
import sys
from collections.abc import Mapping
from datetime import datetime, timedelta

from pyspark.sql import DataFrame

from coordinator_core.analytics.advice.policy import LATE_GRACE_MS, Policy
from coordinator_core.jobs import JOBS
from coordinator_core.protocol.setting_rules import RULES
from coordinator_core.protocol.settings import GroupSettings
from spark_jobs.errors import JobError
from spark_jobs.history import History
from spark_jobs.jdbc import read_by_shard, read_table
from spark_jobs.report_job import ReportArguments, ReportingJob, run
from spark_jobs.report_relations import (
    ASSIGNED,
    ended_rebalances_within,
    evictions_and_exits_within,
    missed_waits_within,
    new_member_rebalances_within,
    reconnects_within,
    rejoins_within,
    sessions_within,
)
from spark_jobs.transforms.timeout_advice import (
    ASSIGNED_COLUMNS,
    CLUSTER_COLUMNS,
    END_COLUMNS,
    MEMBER_COLUMNS,
    NEW_MEMBER_COLUMNS,
    RECONNECT_COLUMNS,
    REJOIN_COLUMNS,
    SESSION_COLUMNS,
    SETTING_COLUMNS,
    SETTINGS,
    TOTAL_COLUMNS,
    WAIT_COLUMNS,
    advice,
    days,
    effective,
    evictions,
    evidence,
    rejoins,
    startups,
    totals,
)


def find(history: History, arguments: ReportArguments) -> list[DataFrame]:
    """Reduce the window to one row per group, and return the advice."""
    options = arguments.options
    policy = Policy(
        spurious_per_week=options["spurious_per_week"],
        held_back_days=options["held_back_days"],
    )
    start, _ = window(arguments)
    return [advice(find_evidence(history, arguments), policy, start_ms=wall_ms(start))]


def find_evidence(history: History, arguments: ReportArguments) -> DataFrame:
    """Read the window and return one row of evidence per group."""
    start, end = window(arguments)
    grace_ms, end_ms = arguments.options["grace_ms"], wall_ms(end)
    spark, database = history.spark, history.database
    sessions = history.read(sessions_within(start, end), SESSION_COLUMNS)
    ended = history.read(evictions_and_exits_within(start, end), END_COLUMNS)
    longest_grace = timedelta(milliseconds=max(grace_ms, LATE_GRACE_MS))
    reconnects = history.read(reconnects_within(start, end, longest_grace), RECONNECT_COLUMNS)
    waits = history.read(missed_waits_within(start, end), WAIT_COLUMNS)
    rejoined = history.read(rejoins_within(start, end), REJOIN_COLUMNS)
    new_members = history.read(new_member_rebalances_within(start, end), NEW_MEMBER_COLUMNS)
    rebalances = history.read(ended_rebalances_within(start, end), TOTAL_COLUMNS)
    present = effective(
        days(sessions, end_ms=end_ms),
        read_by_shard(spark, database, "members", MEMBER_COLUMNS, history.predicates),
        read_by_shard(spark, database, ASSIGNED, ASSIGNED_COLUMNS, history.predicates),
        read_table(spark, database, "cluster_configs", CLUSTER_COLUMNS),
        read_table(spark, database, "group_configs", SETTING_COLUMNS),
        defaults(os.environ),
    )
    evicted = evictions(ended, reconnects, waits, end_ms=end_ms, grace_ms=grace_ms)
    return evidence(present, evicted, rejoins(rejoined), totals(rebalances), startups(new_members))


def window(arguments: ReportArguments) -> tuple[datetime, datetime]:
    """Return the start and the end of the window, in whole milliseconds."""
    end = arguments.interval_end.replace(microsecond=arguments.interval_end.microsecond // 1000 * 1000)
    return end - timedelta(days=arguments.options["window_days"]), end


def wall_ms(at: datetime) -> int:
    """Return an instant as Unix time in milliseconds."""
    return round(at.timestamp() * 1000)


def defaults(environment: Mapping[str, str]) -> dict[str, int | None]:
    """Return the settings' defaults from the environment, as nodes read them.

    Raises:
        JobError: An environment variable has a value that nodes would refuse.
    """
    return {key: _default(key, environment.get(f"MUSTER_{key.upper()}", "").strip()) for key in SETTINGS}


def _default(key: str, text: str) -> int | None:
    try:
        value: int | None = int(text) if text else getattr(GroupSettings(), key)
    except ValueError:
        raise JobError(f"MUSTER_{key.upper()} is {text!r}, which is not a whole number.") from None
    problem = None if value is None else RULES[key].check(value)
    if problem is not None:
        raise JobError(f"MUSTER_{key.upper()} {problem}.")
    return value


JOB = ReportingJob(JOBS["timeout_advice"], find, "no member session of the window is recorded")

if __name__ == "__main__":
    sys.exit(run(JOB))
