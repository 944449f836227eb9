"""How evenly every group's partitions and lag are spread now, and whether its subscriptions allow better, is told.

Run by spark-submit; `spark_jobs.submit` makes the command line. Whatever interval it runs for, it tells of the moment
at which it reads; running it again for the same interval replaces the rows.
"""

import sys
from collections.abc import Sequence

from pyspark import StorageLevel
from pyspark.sql import DataFrame

from spark_jobs.jdbc import read_by_shard, read_table
from spark_jobs.proposing import Reading
from spark_jobs.publish import ReportTable
from spark_jobs.report_relations import AUDITED_LAGS, AUDITED_LOSSES, AUDITED_MEMBERS, scores_before
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


def find(reading: Reading, arguments: ReportArguments) -> Sequence[DataFrame]:
    """Read what stands and what was, judge it once, and tell of groups and of topics."""
    relations = {
        AUDITED_MEMBERS: MEMBER_COLUMNS,
        AUDITED_LAGS: LAG_COLUMNS,
        AUDITED_LOSSES: LOSS_COLUMNS,
        scores_before(arguments.interval_end): SCORE_COLUMNS,
    }
    members, lags, losses, scores = (
        read_by_shard(reading.spark, reading.database, relation, columns, reading.predicates)
        for relation, columns in relations.items()
    )
    catalogue = read_table(reading.spark, reading.database, "topics", CATALOGUE_COLUMNS)
    found = judged(members, lags, losses, catalogue, scores).persist(StorageLevel.MEMORY_AND_DISK)
    return audits_of(found), topics_of(found)


JOB = ReportingJob(
    kind="assignment_balance_audit",
    find=find,
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
