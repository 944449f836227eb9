"""Each group's own history says which timeouts it should have; what they would have done goes with it.

Run by spark-submit; `spark_jobs.submit` makes the command line. It looks at so many days before the interval's end, and
tests its advice on the last of them.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from pyspark.sql import DataFrame

from coordinator_core.protocol.advice.policy import LATE_GRACE_MS, Policy
from coordinator_core.protocol.setting_rules import RULES
from coordinator_core.protocol.settings import GroupSettings
from spark_jobs.errors import JobError
from spark_jobs.history import History
from spark_jobs.jdbc import read_by_shard, read_table
from spark_jobs.publish import ReportTable
from spark_jobs.report_relations import (
    ASSIGNED,
    evictions_and_exits_within,
    newcomers_within,
    rebalances_over_within,
    rejoins_within,
    returns_within,
    stays_within,
    vain_waits_within,
)
from spark_jobs.reporting import ReportArguments, ReportingJob, run
from spark_jobs.transforms.timeout_advice import (
    ADVICE_COLUMNS,
    ASSIGNED_COLUMNS,
    CLUSTER_COLUMNS,
    END_COLUMNS,
    MEMBER_COLUMNS,
    NEWCOMER_COLUMNS,
    REJOIN_COLUMNS,
    RETURN_COLUMNS,
    SETTING_COLUMNS,
    SETTINGS,
    STAY_COLUMNS,
    TOTAL_COLUMNS,
    WAIT_COLUMNS,
    advice,
    days,
    evictions,
    evidence,
    in_force,
    rejoins,
    startups,
    totals,
)


def find(history: History, arguments: ReportArguments) -> list[DataFrame]:
    """Boil the window down to a row a group, and advise each."""
    options = arguments.options
    policy = Policy(
        spurious_per_week=options["spurious_per_week"],
        held_back_days=options["held_back_days"],
    )
    start, _ = window(arguments)
    return [advice(find_evidence(history, arguments), policy, start_ms=wall_ms(start))]


def find_evidence(history: History, arguments: ReportArguments) -> DataFrame:
    """Read the window: a row a group that was there, as the transform has it."""
    start, end = window(arguments)
    grace_ms, end_ms = arguments.options["grace_ms"], wall_ms(end)
    spark, database = history.spark, history.database
    stays = history.read(stays_within(start, end), STAY_COLUMNS)
    ended = history.read(evictions_and_exits_within(start, end), END_COLUMNS)
    longest_grace = timedelta(milliseconds=max(grace_ms, LATE_GRACE_MS))
    returns = history.read(returns_within(start, end, longest_grace), RETURN_COLUMNS)
    waits = history.read(vain_waits_within(start, end), WAIT_COLUMNS)
    rejoined = history.read(rejoins_within(start, end), REJOIN_COLUMNS)
    newcomers = history.read(newcomers_within(start, end), NEWCOMER_COLUMNS)
    rebalances = history.read(rebalances_over_within(start, end), TOTAL_COLUMNS)
    present = in_force(
        days(stays, end_ms=end_ms),
        read_by_shard(spark, database, "members", MEMBER_COLUMNS, history.predicates),
        read_by_shard(spark, database, ASSIGNED, ASSIGNED_COLUMNS, history.predicates),
        read_table(spark, database, "cluster_config", CLUSTER_COLUMNS),
        read_table(spark, database, "group_configs", SETTING_COLUMNS),
        defaults(os.environ),
    )
    put_out = evictions(ended, returns, waits, end_ms=end_ms, grace_ms=grace_ms)
    return evidence(present, put_out, rejoins(rejoined), totals(rebalances), startups(newcomers))


def window(arguments: ReportArguments) -> tuple[datetime, datetime]:
    """Return from when to when history is looked at, in whole milliseconds."""
    end = arguments.interval_end.replace(microsecond=arguments.interval_end.microsecond // 1000 * 1000)
    return end - timedelta(days=arguments.options["window_days"]), end


def wall_ms(at: datetime) -> int:
    """Return an instant of whole milliseconds as wall time."""
    return round(at.timestamp() * 1000)


def defaults(environment: Mapping[str, str]) -> dict[str, int | None]:
    """Return what holds where neither the cluster nor a group sets anything, as the nodes are told it.

    Raises:
        JobError: A setting of the environment is one that no node would take.
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


JOB = ReportingJob(kind="timeout_advice", find=find, tables=(ReportTable("timeout_advice", ADVICE_COLUMNS),))


def main(command_line: Sequence[str] | None = None) -> int:
    """Advise each group on its timeouts; return the exit status."""
    return run(JOB, command_line)


if __name__ == "__main__":
    sys.exit(main())
