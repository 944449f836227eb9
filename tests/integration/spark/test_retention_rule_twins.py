"""Property tests that compare the retention rule's column expressions with the pure function."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as sf

from coordinator_core.protocol.retention import (
    NO_EXPIRY,
    NO_GROUP,
    GroupFacts,
    OffsetFacts,
    due_at,
    is_expired,
    retention_ms_from_minutes,
)
from coordinator_core.protocol.states import GroupState
from spark_jobs.rules.retention import RetentionFacts, due_at_ms, expiry_reason, retention_ms_from_setting

NOW_MS = 1_795_000_000_000
WEEK_MS = 604_800_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TOPICS = ("orders", "payments", "Überweisungen")

SCHEMA = (
    "state string, protocol_type string, state_since timestamp, subscribed_topics array<string>, topic string,"
    " committed_at timestamp, expires_at timestamp, retention_ms bigint"
)


@dataclass(frozen=True)
class Case:
    """One offset with its group (None: no row), as stored; times in microseconds."""

    state: GroupState | None
    protocol_type: str | None
    state_since_us: int | None
    subscribed_topics: tuple[str, ...] | None
    topic: str
    committed_at_us: int
    expires_at_us: int | None
    retention_ms: int

    def as_row(self) -> tuple[object, ...]:
        return (
            self.state,
            self.protocol_type,
            _timestamp(self.state_since_us),
            self.subscribed_topics,
            self.topic,
            _timestamp(self.committed_at_us),
            _timestamp(self.expires_at_us),
            self.retention_ms,
        )

    def by_the_pure_rule(self) -> tuple[str | None, str | None, int | None]:
        """Return why it will go, why it goes now, and when its time ends, as the coordinator judges."""
        group, offset = self._facts()
        due_ms, reason = due_at(group, offset, self.retention_ms) or (None, None)
        return reason, is_expired(group, offset, self.retention_ms, NOW_MS), due_ms

    def _facts(self) -> tuple[GroupFacts, OffsetFacts]:
        topics = None if self.subscribed_topics is None else frozenset(self.subscribed_topics)
        since_ms = _ms(self.state_since_us)
        group = NO_GROUP if self.state is None else GroupFacts(self.state, self.protocol_type, since_ms, topics)
        return group, OffsetFacts(self.topic, self.committed_at_us // 1000, _ms(self.expires_at_us))


def _ms(at_us: int | None) -> int | None:
    return None if at_us is None else at_us // 1000


def _timestamp(at_us: int | None) -> datetime | None:
    return None if at_us is None else EPOCH + timedelta(microseconds=at_us)


# Close to the two instants that decide, and far from both.
instants_us = st.builds(
    lambda ms, us: ms * 1000 + us,
    st.sampled_from([NOW_MS, NOW_MS - WEEK_MS, NOW_MS - 10 * WEEK_MS, NOW_MS + WEEK_MS]),
    st.integers(-1500, 1500),
)
cases = st.builds(
    Case,
    state=st.none() | st.sampled_from(GroupState),
    protocol_type=st.sampled_from([None, "consumer", "connect", ""]),
    state_since_us=st.none() | instants_us,
    subscribed_topics=st.none() | st.lists(st.sampled_from(TOPICS), max_size=3).map(tuple),
    topic=st.sampled_from(TOPICS),
    committed_at_us=instants_us,
    expires_at_us=st.none() | instants_us,
    retention_ms=st.sampled_from([NO_EXPIRY, 0, WEEK_MS, 2 * WEEK_MS, retention_ms_from_minutes(2**31 - 1)]),
)


# A failure lists all differing rows, so shrinking an example would cost minutes without benefit.
UNSHRUNK = (Phase.explicit, Phase.reuse, Phase.generate)


@settings(max_examples=12, phases=UNSHRUNK)
@given(st.lists(cases, min_size=40, max_size=80))
def test_column_expressions_equal_the_pure_rule(spark: SparkSession, rows: list[Case]) -> None:
    facts = RetentionFacts(**{name: sf.col(name) for name in RetentionFacts.__slots__})
    retention_ms = sf.col("retention_ms")
    frame = spark.createDataFrame([row.as_row() for row in rows], SCHEMA)
    due = due_at_ms(facts, retention_ms)
    reason = expiry_reason(facts)
    answers = frame.select(
        sf.when(due.isNotNull(), reason).alias("reason"),
        sf.when(due <= NOW_MS, reason).alias("reason_now"),
        due.alias("due_at_ms"),
    ).collect()
    pairs = zip(rows, map(tuple, answers), strict=True)
    assert [(row, answer) for row, answer in pairs if answer != row.by_the_pure_rule()] == []


@settings(max_examples=6, phases=UNSHRUNK)
@given(st.lists(st.integers(-2, 2**31 - 1), min_size=1, max_size=30))
def test_setting_in_minutes_is_converted_as_by_the_pure_rule(spark: SparkSession, minutes: list[int]) -> None:
    frame = spark.createDataFrame([Row(value=str(count)) for count in minutes])
    answers = frame.select(retention_ms_from_setting(sf.col("value")).alias("ms")).collect()
    assert [answer.ms for answer in answers] == [retention_ms_from_minutes(count) for count in minutes]
