"""What a node shows at `/metrics`: its sums, how it stands, and the positions of its groups, as Prometheus reads them.

Whatever is here stands in docs/metrics.md, and a test compares the two. A group is named only where consumer-group
exporters name it, under their names; how deep that goes is for whoever scrapes to say.

Source: docs/metrics.md: `muster_`, Kafka's name in snake case, base units, `_total` for counters.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, chain
from math import inf
from typing import Final, Literal, NamedTuple, TypeVar

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import Metric

from api.http.connection_gate import ConnectionCounts
from api.http.forward_mark import MARK_FAULTS
from api.http.reply import NO_ERROR
from coordinator_core.protocol.errors import FencedInstanceId, IllegalGeneration, UnknownMemberId
from coordinator_core.runtime.counters import PARKED_S, Counters, Counts, Distribution, GroupCounts
from coordinator_core.runtime.restless import RestlessGroup
from coordinator_core.runtime.unsettled import UnsettledGroup
from coordinator_core.store.history import ExpiryForecast, GroupPosition

CONTENT_TYPE: Final = "text/plain; version=0.0.4"
"""As the framework wants it, which adds the charset."""

Detail = Literal["node", "group", "topic", "partition"]
DETAILS: Final[Sequence[Detail]] = ("node", "group", "topic", "partition")
"""How deep a scrape goes; each holds the one before."""

Labels = tuple[str, ...]
K = TypeVar("K", bound=Labels)
EXPIRED: Final = "expired"
TOO_LATE: Final = (UnknownMemberId.code, IllegalGeneration.code, FencedInstanceId.code)
"""Refusals of commits that are shown before there is one: Prometheus sees no rise in a series that was not there."""
OF_TOPIC: Final = ("consumergroup", "topic")
OF_PARTITION: Final = (*OF_TOPIC, "partition")


class Metrics:
    """What a node counts of its requests."""

    def __init__(self) -> None:
        self.times_s: dict[str, Distribution] = {}
        """Request → how long it took, every one that was answered."""
        self.errors: Counter[tuple[str, str]] = Counter({("OffsetCommit", code): 0 for code in TOO_LATE})
        """(request, Kafka's name of the error) → refusals."""
        self.connections = ConnectionCounts()
        self.marks_refused: Counter[str] = Counter(dict.fromkeys(MARK_FAULTS, 0))
        """What was wrong with a forwarding mark → refusals."""

    def count(self, request: str, code: str, took_s: float) -> None:
        """Count an answer; `code` is NONE or the error's name."""
        times_s = self.times_s.get(request)
        if times_s is None:
            times_s = self.times_s[request] = Distribution(PARKED_S)
        times_s.add(took_s)
        if code != NO_ERROR:
            self.errors[request, code] += 1


class Stored(NamedTuple):
    """What the database says; each is None where it was not asked, or did not answer in time."""

    positions: tuple[GroupPosition, ...] | None
    behind_ms: Mapping[tuple[str, str, int], int] | None
    """For how long partitions are behind, of those that are."""
    forecast: ExpiryForecast | None
    newest_runs: Mapping[str, int] | None
    """Job → as of when it last ran, in milliseconds."""


class Scrape:
    """One look at a node, as the library collects it."""

    def __init__(
        self,
        metrics: Metrics,
        counts: Counts,
        detail: Detail,
        stored: Stored | None = None,
    ) -> None:
        """Prepare.

        Args:
            metrics: what was counted of requests.
            counts: what the coordinator says of itself.
            detail: how deep it goes.
            stored: what the database says; None: not asked for.
        """
        self._metrics = metrics
        self._counts = counts
        self._detail = detail
        self._stored = stored

    def text(self) -> bytes:
        """Return everything; this takes some time where there are many groups."""
        registry = CollectorRegistry()
        registry.register(self)
        ProcessCollector(registry=registry)
        return generate_latest(registry)

    def collect(self) -> Iterator[Metric]:
        """Return every family. Source: prometheus_client, custom collectors."""
        counts = self._counts
        yield from _requests(self._metrics)
        yield from _connections(self._metrics)
        yield from _groups(counts.groups, counts.deadlines_armed, counts.quarantined_groups)
        yield from _unsettled(counts)
        yield from _rebalances(counts.sums)
        yield from _members(counts.sums)
        yield from _offsets(counts.sums)
        yield from _writes(counts)
        yield from _shards(counts)
        yield from _node(counts)
        if self._detail != "node":
            sizes = {(group_id,): size for group_id, size in counts.members_of_group}
            yield _gauge("kafka_consumergroup_members", "Members of a group.", sizes, ["consumergroup"])
            yield from _unsettled_groups(counts.unsettled)
            yield _restless_groups(counts.restless)
        if self._stored is not None:
            yield from _of_the_database(self._stored, by_partition=self._detail == "partition")


# -- families, by what they tell of ---------------------------------------------------------------------------


def _requests(metrics: Metrics) -> Iterator[Metric]:
    times = {(request,): times_s for request, times_s in list(metrics.times_s.items())}
    answered = {labels: sum(times_s.counts) for labels, times_s in times.items()}
    yield _counter("muster_requests", "Requests answered.", answered, ["request"])
    yield _counter("muster_errors", "Requests refused, by Kafka's name of the error.", metrics.errors, OF_ERROR)
    yield _histogram(
        "muster_request_total_time_seconds", "Time from reading a request to its answer.", times, "request"
    )


OF_ERROR: Final = ("request", "error")


def _connections(metrics: Metrics) -> Iterator[Metric]:
    counts = metrics.connections
    yield _plain("muster_connections", "Open connections of clients.", counts.open)
    yield _plain("muster_max_connections", "Connections of clients that there may be.", counts.limit)
    closed = _labelled(counts.closed)
    yield _counter("muster_connections_closed", "Connections closed for a limit.", closed, ["reason"])
    refused = _labelled(metrics.marks_refused)
    yield _counter("muster_forward_marks_refused", "Forwarding marks refused.", refused, ["reason"])


def _groups(groups: GroupCounts, deadlines_armed: int, quarantined: int) -> Iterator[Metric]:
    states = {(str(state),): count for state, count in groups.by_state.items()}
    yield _gauge("muster_num_groups", "Groups of this node's shards.", states, ["state"])
    yield _plain("muster_num_members", "Members of all groups.", groups.members)
    yield _plain("muster_num_static_members", "Members with an instance id.", groups.static_members)
    yield _plain("muster_num_pending_members", "Member ids handed out and not used yet.", groups.pending_member_ids)
    parked = {("JoinGroup",): groups.parked_joins, ("SyncGroup",): groups.parked_syncs}
    yield _gauge("muster_parked_requests", "Requests that wait for others of their group.", parked, ["request"])
    yield _plain("muster_quarantined_groups", "Groups whose rows cannot be loaded.", quarantined)
    yield _plain("muster_deadlines_armed", "Sessions, join and sync limits that run.", deadlines_armed)


def _unsettled(counts: Counts) -> Iterator[Metric]:
    over = {(str(state), str(over_s)): number for (state, over_s), number in counts.groups.unsettled.items()}
    labels = ("state", "longer_than_seconds")
    yield _gauge("muster_num_unsettled_groups", "Groups that rebalance for long.", over, labels)
    longest_s = {(): counts.longest_rebalance_s}
    yield _gauge("muster_longest_rebalance_seconds", "How long a rebalance is under way.", longest_s, [])


def _rebalances(sums: Counters) -> Iterator[Metric]:
    started, failed = _labelled(sums.phases_started), _labelled(sums.phases_failed)
    yield _counter("muster_group_started_rebalance", "Join phases that began.", started, ["trigger"])
    yield _counter("muster_group_failed_rebalance", "Join phases that had to begin again.", failed, ["trigger"])
    over = ("trigger", "outcome")
    yield _counter("muster_group_completed_rebalance", "Rebalances that are over.", sums.rebalances, over)
    took = {(phase,): distribution for phase, distribution in sums.rebalance_s.items()}
    yield _histogram("muster_group_rebalance_time_seconds", "How long completed rebalances took.", took, "phase")
    yield _total("muster_group_moved_partitions", "Partitions that went to another member.", sums.partitions_moved)


def _members(sums: Counters) -> Iterator[Metric]:
    yield _total("muster_members_joined", "Members that came.", sums.members_joined)
    yield _total("muster_static_members_replaced", "Static members that came back.", sums.members_replaced)
    removed = _labelled(sums.members_removed)
    yield _counter("muster_members_removed", "Members that went, or were put out.", removed, ["reason"])
    yield _total("muster_member_ids_issued", "Member ids handed out.", sums.member_ids_issued)
    yield _total("muster_member_ids_expired", "Member ids that nobody used in time.", sums.member_ids_expired)
    yield _total("muster_groups_created", "Groups whose life began.", sums.groups_created)
    yield _total("muster_groups_removed", "Groups whose life ended.", sums.groups_died)


def _offsets(sums: Counters) -> Iterator[Metric]:
    yield _total("muster_offset_commit", "Partitions committed.", sums.offsets_committed)
    yield _total("muster_offset_expiration", "Offsets that expired.", sums.offsets_removed[EXPIRED])
    taken = {(cause,): count for cause, count in list(sums.offsets_removed.items()) if cause != EXPIRED}
    yield _counter("muster_offset_deletion", "Offsets taken away by somebody.", taken, ["cause"])


def _writes(counts: Counts) -> Iterator[Metric]:
    sums = counts.sums
    yield _histogram("muster_batch_flush_time_seconds", "Time of a write transaction.", {(): sums.batch_s})
    yield _histogram("muster_batch_size_rows", "Rows of a write transaction.", {(): sums.batch_rows})
    yield _total("muster_batches_failed", "Write transactions that failed.", sums.batches_failed)
    yield _plain("muster_write_queue_rows", "Rows that wait for the next transaction.", counts.queued_rows)
    yield _plain("muster_write_queue_max_rows", "Rows that may wait.", counts.max_queued_rows)
    yield _plain("muster_store_is_reached", "1 while the database answers, else 0.", int(counts.is_store_reached))
    if counts.incarnation is not None:
        number, started_s = counts.incarnation.number, counts.incarnation.started_at_ms / 1000
        yield _plain("muster_database_incarnation", "Number of the database's incarnation.", number)
        yield _plain("muster_database_incarnation_started_timestamp_seconds", "When it started.", started_s)


def _shards(counts: Counts) -> Iterator[Metric]:
    sums = counts.sums
    states = {("active",): counts.shards_active, ("loading",): counts.shards_loading}
    yield _gauge("muster_num_shards", "Shards that this node owns.", states, ["state"])
    yield _plain("muster_shard_count", "Shards that there are, on all nodes.", counts.shard_count)
    yield _total("muster_shards_taken", "Shards taken, each under a new epoch.", sums.shards_taken)
    lost = {("failed",): sums.shards_failed, ("given_up",): sums.shards_given_up}
    yield _counter("muster_shards_lost", "Shards lost.", lost, ["reason"])
    yield _total("muster_shard_loads_failed", "Shards that could not be loaded.", sums.loads_failed)
    yield _histogram("muster_shard_load_time_seconds", "Time to load the shards of one take-over.", {(): sums.load_s})
    yield _plain("muster_lease_left_seconds", "How long the lease runs that ends first.", counts.lease_left_s)
    renewals = {("renewed",): sums.renewals, ("failed",): sums.renewals_failed}
    yield _counter("muster_lease_renewals", "Renewals of all leases at once.", renewals, ["outcome"])


def _node(counts: Counts) -> Iterator[Metric]:
    yield _histogram("muster_loop_gap_seconds", "Pauses in which the node did nothing.", {(): counts.sums.loop_gap_s})
    names = {(counts.node_id, counts.version): 1}
    yield _plain("muster_node_time_seconds", "What the node takes the time to be.", counts.wall_ms / 1000)
    yield _gauge("muster_node_info", "Who this is.", names, ["node_id", "version"])


def _unsettled_groups(unsettled: Sequence[UnsettledGroup]) -> Iterator[Metric]:
    took_s = {(each.group_id, str(each.state)): each.rebalancing_s for each in unsettled}
    yield _gauge("muster_unsettled_group_seconds", "How long a group has rebalanced.", took_s, OF_UNSETTLED)
    awaited = {(each.group_id,): each.awaited_count for each in unsettled}
    yield _gauge("muster_awaited_members", "Members that a group waits for.", awaited, ["consumergroup"])
    named = {(each.group_id, one.member_id, one.client_id or ""): 1 for each in unsettled for one in each.awaited}
    yield _gauge("muster_awaited_member_info", "A member that a group waits for.", named, OF_AWAITED)


def _restless_groups(restless: Sequence[RestlessGroup]) -> Metric:
    begun = {(each.group_id,): each.phase_count for each in restless}
    return _gauge("muster_restless_group_rebalances", "Join phases that began of late.", begun, ["consumergroup"])


OF_UNSETTLED: Final = ("consumergroup", "state")
OF_AWAITED: Final = ("consumergroup", "member_id", "client_id")


def _of_the_database(stored: Stored, *, by_partition: bool) -> Iterator[Metric]:
    if stored.positions is not None:
        yield from _lag(stored.positions, by_partition=by_partition)
        if by_partition and stored.behind_ms is not None:
            yield _lag_seconds(stored.positions, stored.behind_ms)
    yield from _expiring(stored.forecast)
    runs = {(job,): as_of_ms / 1000 for job, as_of_ms in (stored.newest_runs or {}).items()}
    yield _gauge("muster_newest_run_timestamp_seconds", "As of when a job last ran.", runs, ["job_name"])


def _lag_seconds(positions: Iterable[GroupPosition], behind_ms: Mapping[tuple[str, str, int], int]) -> Metric:
    """Return the lag of every partition whose log's end is known; of one that fell behind just now nothing yet."""
    found: dict[Labels, float] = {}
    for each in positions:
        known = None if each.partition is None else behind_ms.get((each.group_id, each.topic, each.partition))
        if each.lag_records == 0 or (known is not None and each.lag_records is not None):
            found[each.group_id, each.topic, str(each.partition)] = (known or 0) / 1000 if each.lag_records else 0
    return _gauge("kafka_consumergroup_lag_seconds", "Since when it is behind.", found, OF_PARTITION)


def _lag(positions: tuple[GroupPosition, ...], *, by_partition: bool) -> Iterator[Metric]:
    offsets: Counter[Labels] = Counter()
    lags: Counter[Labels] = Counter()
    unknown: set[Labels] = set()
    committed_at_s: dict[Labels, float] = {}
    log_end_at_s: dict[Labels, float] = {}
    for each in positions:
        of_topic = (each.group_id, each.topic)
        offsets[of_topic] += each.offset
        committed_at_s[of_topic] = max(committed_at_s.get(of_topic, 0), each.last_committed_at_ms / 1000)
        if each.lag_records is not None:
            lags[of_topic] += each.lag_records
        if each.log_end_at_ms is not None:
            log_end_at_s[of_topic] = min(log_end_at_s.get(of_topic, inf), each.log_end_at_ms / 1000)
            unknown |= {of_topic} if each.lag_records is None else set()
    lags = Counter({of: lag for of, lag in lags.items() if lag or of not in unknown})  # "At least 0" says nothing.
    yield _plain("muster_num_offsets", "Committed offsets.", sum(each.partition_count for each in positions))
    yield _gauge("kafka_consumergroup_current_offset_sum", "Committed offsets, added up.", offsets, OF_TOPIC)
    yield _gauge("kafka_consumergroup_lag_sum", "Records behind, added up.", lags, OF_TOPIC)
    last = "muster_consumergroup_last_commit_timestamp_seconds"
    yield _gauge(last, "When the group last committed.", committed_at_s, OF_TOPIC)
    reported = "muster_consumergroup_log_end_timestamp_seconds"
    yield _gauge(reported, "When the log end was last reported, oldest partition.", log_end_at_s, OF_TOPIC)
    if by_partition:
        named = {(each.group_id, each.topic, str(each.partition)): each for each in positions}
        offset_of = {labels: each.offset for labels, each in named.items()}
        yield _gauge("kafka_consumergroup_current_offset", "The committed offset.", offset_of, OF_PARTITION)
        lag_of = {labels: each.lag_records for labels, each in named.items() if each.lag_records is not None}
        yield _gauge("kafka_consumergroup_lag", "Records behind.", lag_of, OF_PARTITION)


def _expiring(forecast: ExpiryForecast | None) -> Iterator[Metric]:
    """Return what the newest forecast says; without one the families have no samples."""
    counts: dict[Labels, int] = {}
    made_at_s: dict[Labels, float] = {}
    if forecast is not None:
        counts = {("1d",): forecast.within_a_day, ("7d",): forecast.within_a_week}
        made_at_s = {(): forecast.as_of_ms / 1000}
    yield _gauge("muster_offsets_expiring", "Offsets that will expire.", counts, ["within"])
    yield _gauge("muster_offsets_forecast_timestamp_seconds", "When the forecast was made.", made_at_s, [])


# -- families, by kind ----------------------------------------------------------------------------------------


def _labelled(counter: Mapping[str, int]) -> dict[Labels, int]:
    return {(label,): count for label, count in list(counter.items())}


def _plain(name: str, meaning: str, value: float) -> Metric:
    return GaugeMetricFamily(name, meaning, value=value)


def _total(name: str, meaning: str, value: float) -> Metric:
    return CounterMetricFamily(name, meaning, value=value)


def _gauge(name: str, meaning: str, values: Mapping[K, float], labels: Sequence[str]) -> Metric:
    family = GaugeMetricFamily(name, meaning, labels=labels)
    for of, value in list(values.items()):
        family.add_metric(of, value)
    return family


def _counter(name: str, meaning: str, values: Mapping[K, float], labels: Sequence[str]) -> Metric:
    family = CounterMetricFamily(name, meaning, labels=labels)
    for of, value in list(values.items()):
        family.add_metric(of, value)
    return family


def _histogram(name: str, meaning: str, values: Mapping[K, Distribution], *labels: str) -> Metric:
    family = HistogramMetricFamily(name, meaning, labels=labels)
    for of, distribution in values.items():
        bounds = chain(map(str, distribution.bounds), ["+Inf"])
        family.add_metric(of, list(zip(bounds, _cumulative(distribution), strict=True)), distribution.total)
    return family


def _cumulative(distribution: Distribution) -> Iterable[int]:
    return accumulate(list(distribution.counts))
