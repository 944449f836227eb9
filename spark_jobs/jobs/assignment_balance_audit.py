"""How evenly every group's partitions and lag are spread now, and whether its subscriptions allow better, is told.

Run by spark-submit; `spark_jobs.submit` makes the command line. Whatever interval it runs for, it tells of the moment
at which it reads, so one that is long over is refused; running it again for the same interval replaces the rows.
"""

import sys
from collections.abc import Sequence
from datetime import UTC, datetime

from pyspark import StorageLevel
from pyspark.sql import DataFrame

from spark_jobs.history import History
from spark_jobs.jdbc import read_by_shard, read_table
from spark_jobs.publish import ReportTable
from spark_jobs.report_relations import (
    AUDITED_LAGS,
    AUDITED_MEMBERS,
    AUDITED_SINCE,
    losses_since,
    scores_before,
)
from spark_jobs.reporting import ReportArguments, ReportingJob, run
from spark_jobs.transforms.assignment_balance import (
    AUDIT_COLUMNS,
    CATALOGUE_COLUMNS,
    LAG_COLUMNS,
    LOSS_COLUMNS,
    MEMBER_COLUMNS,
    SCORE_COLUMNS,
    TOPIC_COLUMNS,
    audits_of,
    judged,
    topics_of,
)


def find(history: History, arguments: ReportArguments) -> Sequence[DataFrame]:
    """Read what stands and what was, judge it once, and tell of groups and of topics."""
    relations = {
        AUDITED_MEMBERS: MEMBER_COLUMNS,
        AUDITED_LAGS: LAG_COLUMNS,
        scores_before(arguments.interval_end): SCORE_COLUMNS,
    }
    members, lags, scores = (
        read_by_shard(history.spark, history.database, relation, columns, history.predicates)
        for relation, columns in relations.items()
    )
    losses = history.read(losses_since(_oldest_that_matters(history)), LOSS_COLUMNS)
    catalogue = read_table(history.spark, history.database, "topics", CATALOGUE_COLUMNS)
    found = judged(members, lags, losses, catalogue, scores).persist(StorageLevel.MEMORY_AND_DISK)
    return audits_of(found), topics_of(found)


def _oldest_that_matters(history: History) -> datetime:
    """Return since when history is looked at: a group that stands for long has changed hands long ago."""
    with history.connection, history.connection.cursor() as cursor:
        cursor.execute(AUDITED_SINCE)
        (since,) = cursor.fetchone() or (None,)
    return since or datetime.now(UTC)


JOB = ReportingJob(
    kind="assignment_balance_audit",
    find=find,
    is_of_now=True,
    tables=(
        ReportTable("assignment_balance_audits", AUDIT_COLUMNS),
        ReportTable("assignment_balance_topics", TOPIC_COLUMNS),
    ),
)


def main(command_line: Sequence[str] | None = None) -> int:
    """Tell how evenly partitions are spread; return the exit status."""
    return run(JOB, command_line)


if __name__ == "__main__":
    sys.exit(main())
