"""History is read as one, wherever its days lie: in Postgres, in the archive, or some here and some there.

Rules:

* A day is in the archive alone from the moment when `archived_partitions` says so; the same transaction takes it out of
  Postgres. A day that was copied and not yet dropped is read in Postgres.
* A relation over days that are all in Postgres runs there. Otherwise the same text runs in Spark, over tables that are
  put together from both places.
* Reads go in parallel by shard, or, over as many days as there are reads, by day: a day is a partition, which then is
  looked through once and not by every read.
* Files are counted before they are believed, and a day that cannot be read is an error, never a day without rows.
* Days move while a report reads: whoever has read asks afterwards whether all of them are where they were
  (`has_moved`), and reads again if not.
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
class Span:
    """Rows of a history table from `start` to before `end`, by the column that it is partitioned by; None is no end."""

    table: str
    start: datetime
    end: datetime | None = None


@dataclass(frozen=True, slots=True)
class Relation:
    """A query that Postgres and Spark understand alike, with each table's name in braces.

    `spans` name the history tables and all of their rows that matter; `present` are its other tables. `at` is the
    column, never NULL, by which the first span's table is partitioned; empty where a relation has no such column.
    """

    name: str
    text: str
    spans: tuple[Span, ...]
    present: tuple[str, ...] = ()
    at: str = ""

    @property
    def in_postgres(self) -> str:
        """Return it as what Postgres has in place of a table."""
        tables = [*(span.table for span in self.spans), *self.present]
        return f"({self.text.format_map({table: table for table in tables})}) AS {self.name}"


@dataclass(frozen=True, slots=True)
class History:
    """One reading of history.

    `predicates` are one SQL condition a parallel read of Postgres, and together name every shard; `archive` is the
    archive's directory, empty where there is none.
    """

    spark: SparkSession
    database: Database
    connection: pg.connection
    predicates: Sequence[str] = ("true",)
    archive: str = ""
    _found: dict[Span, list[Copy]] = field(default_factory=dict, init=False)
    """What was in the archive alone, of every span that was read."""

    def read(self, relation: Relation, columns: Sequence[str]) -> DataFrame:
        """Return the columns of a relation's rows, a row a row.

        Raises:
            JobError: Days of it cannot be read, or there is no such history table; the sentence says which.
        """
        in_archive = [span.table for span in relation.spans if self._archived(span)]
        if not in_archive:
            predicates = self._predicates(relation.at, relation.spans[0])
            return read_by_shard(self.spark, self.database, relation.in_postgres, columns, predicates)
        tables = {span.table: self.rows(span) for span in relation.spans}
        tables |= {
            name: read_by_shard(self.spark, self.database, name, ["*"], self.predicates) for name in relation.present
        }
        return self.spark.sql(relation.text, None, **tables).select(*columns)

    def rows(self, span: Span) -> DataFrame:
        """Return whole rows of a table, in its columns and their order; raises as `read` does."""
        table = history_table(self.connection, span.table)
        present, copies = self._present(table, span), self._archived(span)
        if not copies:
            return present
        at = sf.col(table.at)
        archived = self._files(table, copies).where(at >= span.start)
        return present.unionByName(archived if span.end is None else archived.where(at < span.end))

    def has_moved(self) -> bool:
        """Tell whether some day that was read went to the archive, or came back, since this reading began."""
        return any(self._ask(span) != copies for span, copies in self._found.items())

    def _archived(self, span: Span) -> list[Copy]:
        """Return what of a span is in the archive alone.

        Raises:
            JobError: Something is, and no archive is named.
        """
        if span not in self._found:
            self._found[span] = self._ask(span)
        copies = self._found[span]
        if copies and not self.archive:
            raise JobError(
                f"{_days(span.table, copies)} is in the archive alone, and no archive is named: set MUSTER_ARCHIVE_URI."
            )
        return copies

    def _ask(self, span: Span) -> list[Copy]:
        first = span.start.astimezone(UTC).date()
        after = date.max if span.end is None else (span.end.astimezone(UTC) - MICROSECOND).date() + timedelta(days=1)
        return archived_copies(self.connection, span.table, first, after)

    def _present(self, table: HistoryTable, span: Span) -> DataFrame:
        until = SQL("") if span.end is None else SQL(" AND {} < {}").format(Identifier(table.at), Literal(span.end))
        relation = SQL("(SELECT * FROM {table} WHERE {at} >= {start}{until}) AS present_days").format(
            table=Identifier(table.name), at=Identifier(table.at), start=Literal(span.start), until=until
        )
        columns = [column.name for column in table.columns]
        predicates = self._predicates(table.at, span)
        return read_by_shard(self.spark, self.database, relation.as_string(self.connection), columns, predicates)

    def _predicates(self, at: str, span: Span) -> Sequence[str]:
        """Return one condition a parallel read of a span: a range of days, where there are days enough."""
        reads = len(self.predicates)
        if not at or span.end is None or span.end - span.start < reads * DAY:
            return self.predicates
        return day_predicates(at, span.start, span.end, reads)

    def _files(self, table: HistoryTable, copies: Sequence[Copy]) -> DataFrame:
        """Return the rows of copies, of which there are as many as were archived.

        Raises:
            JobError: There are not, or the files cannot be read.
        """
        try:
            frame = read_copies(self.spark, table.columns, [copy.path for copy in copies], self.archive)
            found = frame.count()
        except (PySparkException, Py4JError) as failure:
            unread = f"{_days(table.name, copies)} is in the archive, and cannot be read there"
            raise JobError(f"{unread}; set MUSTER_ARCHIVE_URI to where the archive is now.") from failure
        expected = sum(copy.sum.row_count for copy in copies)
        if found != expected:
            counts = f"and its files have {found} rows where {expected} were archived"
            what_to_do = "put them back, or set MUSTER_ARCHIVE_URI to where they are"
            raise JobError(f"{_days(table.name, copies)} is in the archive, {counts}; {what_to_do}.")
        return frame


def instant(at: datetime) -> str:
    """Write an instant as Postgres and Spark both read it, in a relation's text."""
    return f"to_timestamp({at.timestamp():.6f})"


def day_predicates(at: str, start: datetime, end: datetime, read_count: int) -> list[str]:
    """Cut a span of at least so many days at midnights (UTC), one SQL condition a read; the first and last are open."""
    cuts = (start + (end - start) * read / read_count for read in range(1, read_count))
    return range_predicates(at, [instant(_midnight(cut)) for cut in cuts])


def _midnight(at: datetime) -> datetime:
    return at.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def _days(table: str, copies: Sequence[Copy]) -> str:
    first, last = copies[0].day, copies[-1].day
    return f"What {table} had of {first}" + ("" if first == last else f" to {last}")
