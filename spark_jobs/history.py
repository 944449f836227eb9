"""Read history from Postgres and the archive as one.

Rules:

* `archived_partitions` lists the days that are only in the archive; a day is dropped from Postgres in the same
  transaction. A day that was copied and not dropped is read from Postgres.
* A query over days that are all in Postgres runs there. Otherwise the same text runs in Spark, over the union of both
  places.
* Reads run in parallel by shard, or by day if there are at least as many days as reads: then each partition is scanned
  once and not by every read.
* The files' rows are counted first; a day that cannot be read is an error, never a day without rows.
* Days may be dropped or restored while a report reads: the caller checks `has_moved` afterwards, and reads again.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Final

import psycopg2.extensions as pg
from psycopg2.sql import SQL, Identifier, Literal
from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # comes without types
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from spark_jobs.archive.days import Copy, HistoryTable, archived_copies, history_table
from spark_jobs.archive.files import read_copies
from spark_jobs.database import Database
from spark_jobs.errors import JobError
from spark_jobs.jdbc import range_predicates, read_by_shard

MICROSECOND: Final = timedelta(microseconds=1)
DAY: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class TablePeriod:
    """Rows of a history table from `start` to before `end`, by its partition column; None is no end."""

    table: str
    start: datetime
    end: datetime | None = None


@dataclass(frozen=True, slots=True)
class Relation:
    """A query that is valid in Postgres and Spark, with table names in braces.

    `periods` are the history tables with the periods that the query needs; `present` are its other tables. `at` is the
    result's column (never NULL) by which the first period's table is partitioned; empty if there is none.
    """

    name: str
    text: str
    periods: tuple[TablePeriod, ...]
    present: tuple[str, ...] = ()
    at: str = ""

    @property
    def in_postgres(self) -> str:
        """Return it as a subquery for Postgres."""
        tables = [*(period.table for period in self.periods), *self.present]
        return f"({self.text.format_map({table: table for table in tables})}) AS {self.name}"


@dataclass(frozen=True, slots=True)
class History:
    """One reading of history.

    `predicates` are SQL conditions, one per parallel read of Postgres, which together cover every shard; `archive` is
    the archive's directory, empty without one.
    """

    spark: SparkSession
    database: Database
    connection: pg.connection
    predicates: Sequence[str] = ("true",)
    archive: str = ""
    _found: dict[TablePeriod, list[Copy]] = field(default_factory=dict, init=False)
    """The copies that were only in the archive, for every period that was read."""

    def read(self, relation: Relation, columns: Sequence[str]) -> DataFrame:
        """Return the columns of a relation's rows.

        Raises:
            JobError: Days of it cannot be read, or there is no such history table; the message names them.
        """
        in_archive = [period.table for period in relation.periods if self._archived(period)]
        if not in_archive:
            predicates = self._predicates(relation.at, relation.periods[0])
            return read_by_shard(self.spark, self.database, relation.in_postgres, columns, predicates)
        tables = {period.table: self.rows(period) for period in relation.periods}
        tables |= {
            name: read_by_shard(self.spark, self.database, name, ["*"], self.predicates) for name in relation.present
        }
        return self.spark.sql(relation.text, None, **tables).select(*columns)

    def rows(self, period: TablePeriod) -> DataFrame:
        """Return all columns of a table's rows, in the table's order; raises as `read` does."""
        table = history_table(self.connection, period.table)
        present, copies = self._present(table, period), self._archived(period)
        if not copies:
            return present
        at = sf.col(table.at)
        archived = self._files(table, copies).where(at >= period.start)
        return present.unionByName(archived if period.end is None else archived.where(at < period.end))

    def has_moved(self) -> bool:
        """Return whether a day that was read was dropped or restored since this reading began."""
        return any(self._ask(period) != copies for period, copies in self._found.items())

    def _archived(self, period: TablePeriod) -> list[Copy]:
        """Return the copies of a period's days that are only in the archive.

        Raises:
            JobError: There are some, and no archive is configured.
        """
        if period not in self._found:
            self._found[period] = self._ask(period)
        copies = self._found[period]
        if copies and not self.archive:
            raise JobError(f"{_days(period.table, copies)} is only in the archive: set MUSTER_ARCHIVE_URI.")
        return copies

    def _ask(self, period: TablePeriod) -> list[Copy]:
        first = period.start.astimezone(UTC).date()
        after = (
            date.max if period.end is None else (period.end.astimezone(UTC) - MICROSECOND).date() + timedelta(days=1)
        )
        return archived_copies(self.connection, period.table, first, after)

    def _present(self, table: HistoryTable, period: TablePeriod) -> DataFrame:
        until = SQL("") if period.end is None else SQL(" AND {} < {}").format(Identifier(table.at), Literal(period.end))
        relation = SQL("(SELECT * FROM {table} WHERE {at} >= {start}{until}) AS present_days").format(
            table=Identifier(table.name), at=Identifier(table.at), start=Literal(period.start), until=until
        )
        columns = [column.name for column in table.columns]
        predicates = self._predicates(table.at, period)
        return read_by_shard(self.spark, self.database, relation.as_string(self.connection), columns, predicates)

    def _predicates(self, at: str, period: TablePeriod) -> Sequence[str]:
        """Return one condition per parallel read of a period: ranges of days, if there are enough days."""
        reads = len(self.predicates)
        if not at or period.end is None or period.end - period.start < reads * DAY:
            return self.predicates
        return day_predicates(at, period.start, period.end, reads)

    def _files(self, table: HistoryTable, copies: Sequence[Copy]) -> DataFrame:
        """Return the rows of copies.

        Raises:
            JobError: The files cannot be read, or have another number of rows than were archived.
        """
        try:
            frame = read_copies(self.spark, table.columns, [copy.path for copy in copies], self.archive)
            found = frame.count()
        except (PySparkException, Py4JError) as failure:
            unread = f"{_days(table.name, copies)} is in the archive and cannot be read"
            raise JobError(f"{unread}; set MUSTER_ARCHIVE_URI to the archive's present place.") from failure
        expected = sum(copy.sum.row_count for copy in copies)
        if found != expected:
            counts = f"and its files have {found} rows where {expected} were archived"
            what_to_do = "restore the files, or set MUSTER_ARCHIVE_URI to their present place"
            raise JobError(f"{_days(table.name, copies)} is in the archive, {counts}; {what_to_do}.")
        return frame


def instant(at: datetime) -> str:
    """Return an instant as an SQL expression for Postgres and Spark."""
    return f"to_timestamp({at.timestamp():.6f})"


def day_predicates(at: str, start: datetime, end: datetime, read_count: int) -> list[str]:
    """Split a period at midnights (UTC) into one SQL condition per read; the first and the last are open-ended."""
    cuts = (start + (end - start) * read / read_count for read in range(1, read_count))
    return range_predicates(at, [instant(_midnight(cut)) for cut in cuts])


def _midnight(at: datetime) -> datetime:
    return at.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def _days(table: str, copies: Sequence[Copy]) -> str:
    first, last = copies[0].day, copies[-1].day
    return f"History of {table} of {first}" + ("" if first == last else f" to {last}")
