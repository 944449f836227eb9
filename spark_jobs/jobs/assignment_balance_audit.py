"""Report how evenly each group's partitions and lag are spread, and whether a better assignment exists.

Run by spark-submit; `spark_jobs.submit` builds the command line. The report describes the time of its read, so an
interval that ended long ago is refused. Running it again for the same interval replaces the rows.
"""

import sys
from collections.abc import Sequence
from datetime import UTC, datetime

from pyspark import StorageLevel
from pyspark.sql import DataFrame

from coordinator_core.jobs import JOBS
from spark_jobs.history import History
from spark_jobs.jdbc import read_by_shard, read_table
from spark_jobs.report_job import ReportArguments, ReportingJob, run
from spark_jobs.report_relations import (
    AUDITED_LAGS,
    AUDITED_MEMBERS,
    AUDITED_SINCE,
    losses_since,
    scores_before,
)
from spark_jobs.transforms.assignment_balance import (
    LAG_COLUMNS,
    LOSS_COLUMNS,
    MEMBER_COLUMNS,
    SCORE_COLUMNS,
    TOPIC_METADATA_COLUMNS,
    audits_of,
    judged,
    topics_of,
)


def find(history: History, arguments: ReportArguments) -> Sequence[DataFrame]:
    """Read the current assignments and their history, and return the rows of groups and of topics."""
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
    topic_partitions = read_table(history.spark, history.database, "topics", TOPIC_METADATA_COLUMNS)
    found = judged(members, lags, losses, topic_partitions, scores).persist(StorageLevel.MEMORY_AND_DISK)
    return audits_of(found), topics_of(found)


def _oldest_that_matters(history: History) -> datetime:
    """Return the start of the history to read: long-stable groups were assigned long ago."""
    ((since_s,),) = read_table(history.spark, history.database, AUDITED_SINCE, ["since_s"]).collect()
    return datetime.now(UTC) if since_s is None else datetime.fromtimestamp(since_s, UTC)


JOB = ReportingJob(JOBS["assignment_balance_audit"], find, "no group of consumers is Stable")

if __name__ == "__main__":
    sys.exit(run(JOB))
