"""Prometheus metrics of a node: its counters and state, and the members, offsets and lag of its groups.

docs/metrics.md lists every metric, and a test compares the two. Metrics with a group label follow the names of
consumer-group exporters; the parameter `detail` of the scrape selects how many of them there are.

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

from api.http.forward_signature import SIGNATURE_FAULTS
from api.shared.connection_gate import ConnectionCounts
from api.shared.handshake_server import HANDSHAKE_FAILED
from api.shared.request_metrics import ListenerMetrics, RequestMetrics
from api.shared.tls import NodeTls
from coordinator_core.queries.offset_totals import OffsetTotal
from coordinator_core.queries.runs import ExpiryForecast
from coordinator_core.runtime.counters import Counters, Distribution, GroupCounts, MirrorCounts, NodeCounts
from coordinator_core.runtime.rebalance_rate import GroupRebalanceRate
from coordinator_core.runtime.stuck_groups import RebalancingGroup

CONTENT_TYPE: Final = "text/plain; version=0.0.4"
"""Litestar adds the charset."""

Detail = Literal["node", "group", "topic", "partition"]
DETAILS: Final[Sequence[Detail]] = ("node", "group", "topic", "partition")
"""Levels of detail of a scrape; each contains the one before."""

Labels = tuple[str, ...]
K = TypeVar("K", bound=Labels)
EXPIRED: Final = "expired"
CLOSE_REASONS: Final = ("head_timeout", "body_timeout", HANDSHAKE_FAILED)
"""Reasons, beside the limits of all listeners, for which HTTP closes a connection."""
ERROR_LABELS: Final = ("request", "error")
TOPIC_LABELS: Final = ("consumergroup", "topic")
PARTITION_LABELS: Final = (*TOPIC_LABELS, "partition")
REBALANCING_LABELS: Final = ("consumergroup", "state")
AWAITED_MEMBER_LABELS: Final = ("consumergroup", "member_id", "client_id")


class Metrics:
    """Counters of the requests of a node, and of its HTTP connections."""

    def __init__(self, requests: RequestMetrics, tls: NodeTls) -> None:
        self.requests = requests
        self.tls = tls
        self.connections = ConnectionCounts(CLOSE_REASONS)
        self.signatures_refused: Counter[str] = Counter(dict.fromkeys(SIGNATURE_FAULTS, 0))
        """Fault of a forward signature → refused requests."""


class DatabaseMetrics(NamedTuple):
    """Values read from the database; a value is None if it was not read, or not in time."""

    offset_totals: tuple[OffsetTotal, ...] | None
    time_lag_ms: Mapping[tuple[str, str, int], int] | None
    """(group id, topic, partition) → time lag, of partitions that lag."""
    forecast: ExpiryForecast | None
    newest_runs: Mapping[str, int] | None
    """Job → the time of its last run, in milliseconds since the epoch."""


class Scrape:
    """One scrape of a node, as a collector of prometheus_client."""

    def __init__(
        self,
        metrics: Metrics,
        counts: NodeCounts,
        detail: Detail,
        max_group_series: int,
        stored: DatabaseMetrics | None = None,
    ) -> None:
        """Collect from these values.

        Args:
            metrics: the counters of requests and connections.
            counts: the counters and the state of the coordinator.
            detail: the level of detail.
            max_group_series: how many series a per-group metric has at most, without that of the rest.
            stored: values read from the database; None: not read.
        """
        self._metrics = metrics
        self._counts = counts
        self._detail = detail
        self._max_group_series = max_group_series
        self._stored = stored

    def text(self) -> bytes:
        """Return the exposition text; run it in a thread, since it takes long with many groups."""
        registry = CollectorRegistry()
        registry.register(self)
        ProcessCollector(registry=registry)
        return generate_latest(registry)

    def collect(self) -> Iterator[Metric]:
        """Yield every metric family. Source: prometheus_client, custom collectors."""
        counts = self._counts
        yield from _requests(self._metrics.requests)
        yield _throttled(self._metrics.requests)
        yield from _connections(self._metrics)
        yield from _listeners(self._metrics.requests.listeners)
        yield from _groups(counts.groups, counts.active_timers, counts.quarantined_groups)
        yield from _rebalances_in_progress(counts)
        yield from _rebalances(counts.sums)
        yield from _members(counts.sums)
        yield from _offsets(counts.sums)
        yield from _writes(counts)
        yield from _checkpoints(counts)
        yield from _shards(counts)
        yield from _node(counts)
        if counts.mirror is not None:
            yield from _mirror(counts.mirror)
        if self._detail != "node":
            sizes: Counter[Labels] = Counter()
            for group_id, size in sorted(counts.members_of_group):
                sizes[_labels_within(sizes, self._max_group_series, group_id)] += size
            yield _gauge("kafka_consumergroup_members", "Members of a group.", sizes, ["consumergroup"])
            yield from _rebalancing_groups(counts.rebalancing)
            yield _recent_rebalances(counts.rebalance_rates)
        if self._stored is not None:
            yield from _database_metrics(self._stored, self._max_group_series, by_partition=self._detail == "partition")


# -- families, by subject -------------------------------------------------------------------------------------


def _requests(metrics: RequestMetrics) -> Iterator[Metric]:
    times = {(request,): times_s for request, times_s in list(metrics.times_s.items())}
    answered = {labels: sum(times_s.counts) for labels, times_s in times.items()}
    yield _counter("muster_requests", "Requests answered.", answered, ["request"])
    yield _counter(
        "muster_errors", "Requests answered with an error, by Kafka's error name.", metrics.errors, ERROR_LABELS
    )
    yield _histogram(
        "muster_request_total_time_seconds", "Time from reading a request to sending its response.", times, "request"
    )


def _throttled(metrics: RequestMetrics) -> Metric:
    refused = _labelled(metrics.throttled)
    return _counter(
        "muster_requests_throttled", "Requests refused by a limit of their client or group.", refused, ["limit"]
    )


def _connections(metrics: Metrics) -> Iterator[Metric]:
    counts = metrics.connections
    yield _single_gauge("muster_connections", "Open client connections.", counts.open)
    yield _single_gauge("muster_max_connections", "Limit of open client connections.", counts.limit)
    closed = _labelled(counts.closed)
    yield _counter(
        "muster_connections_closed",
        "Client connections closed because of a limit or a failed handshake.",
        closed,
        ["reason"],
    )
    expiry: dict[Labels, float] = {} if metrics.tls.expires_at_s is None else {(): metrics.tls.expires_at_s}
    yield _gauge(
        "muster_tls_certificate_expiry_timestamp_seconds",
        "When the certificate of the node expires, in seconds since the epoch.",
        expiry,
        (),
    )
    refused = _labelled(metrics.signatures_refused)
    yield _counter(
        "muster_forward_signatures_refused",
        "Forwarded requests refused because their signature is invalid.",
        refused,
        ["reason"],
    )


def _listeners(listeners: Mapping[str, ListenerMetrics]) -> Iterator[Metric]:
    """Yield the metrics of listeners beside that of HTTP."""
    named = ["listener"]
    connections = {name: each.connections for name, each in listeners.items()}
    yield _gauge(
        "muster_listener_connections",
        "Open client connections of a listener beside HTTP.",
        {(name,): counts.open for name, counts in connections.items()},
        named,
    )
    yield _gauge(
        "muster_listener_max_connections",
        "Limit of open client connections of the listener.",
        {(name,): counts.limit for name, counts in connections.items()},
        named,
    )
    closed = {
        (name, reason): number for name, counts in connections.items() for reason, number in counts.closed.items()
    }
    yield _counter(
        "muster_listener_connections_closed",
        "Client connections of the listener closed because of a limit.",
        closed,
        (*named, "reason"),
    )
    requests = {(name, *of): number for name, each in listeners.items() for of, number in list(each.requests.items())}
    yield _counter(
        "muster_listener_requests",
        "Requests that the listener answered, by Kafka's error name.",
        requests,
        (*named, *ERROR_LABELS),
    )
    size_bytes = {
        (name, direction): number
        for name, each in listeners.items()
        for direction, number in (("received", each.received_bytes), ("sent", each.sent_bytes))
    }
    yield _counter(
        "muster_listener_bytes", "Bytes that the listener received and sent.", size_bytes, (*named, "direction")
    )


def _groups(groups: GroupCounts, active_timers: int, quarantined: int) -> Iterator[Metric]:
    states = {(str(state),): count for state, count in groups.by_state.items()}
    yield _gauge("muster_num_groups", "Groups in the shards of this node, by state.", states, ["state"])
    yield _single_gauge("muster_num_members", "Members of all groups of this node.", groups.members)
    yield _single_gauge(
        "muster_num_static_members", "Static members (members with a group instance id).", groups.static_members
    )
    yield _single_gauge(
        "muster_num_pending_members", "Pending member ids: issued, and not used to join yet.", groups.pending_member_ids
    )
    parked = {("JoinGroup",): groups.parked_joins, ("SyncGroup",): groups.parked_syncs}
    yield _gauge(
        "muster_parked_requests", "JoinGroup and SyncGroup requests that wait for other members.", parked, ["request"]
    )
    yield _single_gauge(
        "muster_num_quarantined_groups",
        "Groups that are not served: their stored rows cannot be loaded, or they made their shard fail.",
        quarantined,
    )
    yield _single_gauge("muster_active_timers", "Active session, join and sync timers.", active_timers)


def _rebalances_in_progress(counts: NodeCounts) -> Iterator[Metric]:
    over = {(str(state), str(over_s)): number for (state, over_s), number in counts.groups.rebalancing.items()}
    labels = ("state", "longer_than_seconds")
    yield _gauge(
        "muster_num_rebalancing_groups",
        "Groups that have been rebalancing for longer than the given seconds.",
        over,
        labels,
    )
    longest_s = {(): counts.longest_rebalance_s}
    yield _gauge("muster_longest_rebalance_seconds", "Duration of the longest rebalance in progress.", longest_s, [])


def _rebalances(sums: Counters) -> Iterator[Metric]:
    started, failed = _labelled(sums.phases_started), _labelled(sums.phases_failed)
    yield _counter("muster_group_started_rebalance", "Join phases started, restarts included.", started, ["trigger"])
    yield _counter(
        "muster_group_failed_rebalance", "Join phases restarted before the group became Stable.", failed, ["trigger"]
    )
    over = ("trigger", "outcome")
    yield _counter("muster_group_completed_rebalance", "Rebalances ended, by outcome.", sums.rebalances, over)
    took = {(phase,): distribution for phase, distribution in sums.rebalance_s.items()}
    yield _histogram(
        "muster_group_rebalance_time_seconds", "Duration of completed rebalances, by phase.", took, "phase"
    )
    yield _total("muster_group_moved_partitions", "Partitions moved from one member to another.", sums.partitions_moved)


def _members(sums: Counters) -> Iterator[Metric]:
    yield _total("muster_members_joined", "Members joined.", sums.members_joined)
    yield _total(
        "muster_static_members_replaced", "Static members that rejoined with a new member id.", sums.members_replaced
    )
    removed = _labelled(sums.members_removed)
    yield _counter(
        "muster_members_removed", "Members that left, were evicted or were removed, by reason.", removed, ["reason"]
    )
    yield _total("muster_pending_member_ids_issued", "Pending member ids issued.", sums.pending_member_ids_issued)
    yield _total(
        "muster_pending_member_ids_expired", "Pending member ids that expired unused.", sums.pending_member_ids_expired
    )
    yield _total("muster_groups_created", "Groups created.", sums.groups_created)
    yield _total("muster_groups_deleted", "Groups deleted or retired.", sums.groups_died)


def _offsets(sums: Counters) -> Iterator[Metric]:
    yield _total("muster_offset_commit", "Committed offsets stored.", sums.offsets_committed)
    yield _total("muster_offset_expiration", "Offsets expired by maintenance.", sums.offsets_removed[EXPIRED])
    deleted = {(cause,): count for cause, count in list(sums.offsets_removed.items()) if cause != EXPIRED}
    yield _counter(
        "muster_offset_deletion", "Offsets deleted by an operator or a client, by cause.", deleted, ["cause"]
    )


def _writes(counts: NodeCounts) -> Iterator[Metric]:
    sums = counts.sums
    yield _histogram("muster_batch_flush_time_seconds", "Duration of a write transaction.", {(): sums.batch_s})
    yield _histogram("muster_batch_size_rows", "Rows written in a write transaction.", {(): sums.batch_rows})
    yield _total("muster_batches_failed", "Failed write transactions.", sums.batches_failed)
    yield _single_gauge("muster_write_queue_rows", "Rows waiting for the next write transaction.", counts.queued_rows)
    yield _single_gauge(
        "muster_write_queue_bytes", "Bytes of metadata and assignments waiting to be written.", counts.queued_bytes
    )
    yield _single_gauge(
        "muster_write_queue_max_bytes", "Limit of these bytes waiting to be written.", counts.max_queued_bytes
    )
    refused = _labelled(sums.requests_refused)
    yield _counter(
        "muster_requests_refused", "Requests refused because a limit is reached, by its setting.", refused, ["limit"]
    )
    shares = {(limit,): share for limit, share in counts.largest_shares.items()}
    yield _gauge("muster_largest_client_ratio", "Part of a limit that the client with the most has.", shares, ["limit"])
    yield _single_gauge("muster_write_queue_max_rows", "Limit of rows waiting to be written.", counts.max_queued_rows)
    yield _single_gauge(
        "muster_database_up",
        "1 if the last lease renewal reached the database, else 0.",
        int(counts.is_store_reachable),
    )
    if counts.incarnation is not None:
        number, started_s = counts.incarnation.number, counts.incarnation.started_at_ms / 1000
        yield _single_gauge("muster_database_incarnation", "Number of the current database incarnation.", number)
        yield _single_gauge(
            "muster_database_incarnation_started_timestamp_seconds",
            "Unix time at which the current database incarnation started.",
            started_s,
        )


def _mirror(counts: MirrorCounts) -> Iterator[Metric]:
    yield _single_gauge(
        "muster_mirror_up", "1 if the mirrored Kafka cluster is followed, else 0.", int(counts.failure is None)
    )
    lag = sum(counts.lag.values())
    yield _single_gauge("muster_mirror_lag_records", "Offsets of __consumer_offsets that are not applied yet.", lag)
    yield _total("muster_mirror_records", "Records of __consumer_offsets read.", counts.records)
    yield _total(
        "muster_mirror_undecodable_records", "Records of __consumer_offsets that cannot be decoded.", counts.undecodable
    )
    yield _gauge(
        "muster_mirror_other_groups",
        "Share and streams groups of the mirrored Kafka cluster, by state.",
        {("share", "Stable"): 0, ("streams", "Stable"): 0} | counts.other_groups,
        ["protocol_type", "state"],
    )
    failed = {(what,): number for what, number in counts.polls_failed.items()}
    yield _counter("muster_mirror_polls_failed", "Failed polls of the mirrored Kafka cluster.", failed, ["polled"])


def _checkpoints(counts: NodeCounts) -> Iterator[Metric]:
    sums = counts.sums
    yield _histogram("muster_checkpoint_time_seconds", "Duration of a checkpoint transaction.", {(): sums.checkpoint_s})
    yield _total("muster_checkpoints_failed", "Failed checkpoint transactions.", sums.checkpoints_failed)
    yield _total("muster_offsets_checkpointed", "Offsets that checkpoints stored.", sums.offsets_checkpointed)
    yield _total("muster_offsets_quarantined", "Offsets rejected at a checkpoint.", sums.offsets_quarantined)
    yield _single_gauge("muster_dirty_offsets", "Committed offsets that wait for a checkpoint.", counts.dirty_offsets)
    yield _single_gauge(
        "muster_oldest_dirty_offset_seconds",
        "Age of the oldest commit that is in the offset log only.",
        counts.oldest_dirty_offset_s,
    )


def _shards(counts: NodeCounts) -> Iterator[Metric]:
    sums = counts.sums
    states = {("active",): counts.shards_active, ("loading",): counts.shards_loading}
    yield _gauge("muster_num_shards", "Shards owned by this node, by state.", states, ["state"])
    yield _single_gauge("muster_configured_shards", "Number of shards in the cluster.", counts.shard_count)
    yield _total("muster_shards_acquired", "Shards acquired, each under a new epoch.", sums.shards_acquired)
    lost = {("failed",): sums.shards_failed, ("released",): sums.shards_released}
    yield _counter("muster_shards_lost", "Shards this node no longer owns, by reason.", lost, ["reason"])
    yield _total("muster_shard_loads_failed", "Failed attempts to load a shard.", sums.loads_failed)
    yield _histogram("muster_shard_load_time_seconds", "Time to load the shards acquired at once.", {(): sums.load_s})
    yield _single_gauge(
        "muster_lease_remaining_seconds", "Remaining time of the shard lease that expires first.", counts.lease_left_s
    )
    renewals = {("renewed",): sums.renewals, ("failed",): sums.renewals_failed}
    yield _counter("muster_lease_renewals", "Lease renewals, by outcome.", renewals, ["outcome"])


def _node(counts: NodeCounts) -> Iterator[Metric]:
    yield _histogram(
        "muster_event_loop_pause_seconds",
        "Pauses of the event loop longer than MUSTER_PAUSE_MS.",
        {(): counts.sums.loop_gap_s},
    )
    names = {(counts.node_id, counts.version): 1}
    yield _single_gauge("muster_node_time_seconds", "Unix time by the clock of this node.", counts.wall_ms / 1000)
    yield _gauge("muster_node_info", "Node id and version of this node; always 1.", names, ["node_id", "version"])


def _rebalancing_groups(groups: Sequence[RebalancingGroup]) -> Iterator[Metric]:
    took_s = {(each.group_id, str(each.state)): each.rebalancing_s for each in groups}
    yield _gauge(
        "muster_group_rebalancing_seconds", "How long a group has been rebalancing.", took_s, REBALANCING_LABELS
    )
    awaited = {(each.group_id,): each.awaited_count for each in groups}
    yield _gauge("muster_group_awaited_members", "Members a rebalancing group waits for.", awaited, ["consumergroup"])
    named = {(each.group_id, one.member_id, one.client_id or ""): 1 for each in groups for one in each.awaited}
    yield _gauge(
        "muster_group_awaited_member_info",
        "A member a rebalancing group waits for; always 1.",
        named,
        AWAITED_MEMBER_LABELS,
    )


def _recent_rebalances(rates: Sequence[GroupRebalanceRate]) -> Metric:
    started = {(each.group_id,): each.phase_count for each in rates}
    return _gauge(
        "muster_group_recent_rebalances",
        "Join phases of a group started within the last ten minutes.",
        started,
        ["consumergroup"],
    )


def _labels_within(known: Mapping[Labels, float], max_series: int, *labels: str) -> Labels:
    """Return the labels of a series, or empty ones, for the sum of the rest, if there are as many others."""
    return labels if labels in known or len(known) < max_series else ("",) * len(labels)


def _database_metrics(stored: DatabaseMetrics, max_series: int, *, by_partition: bool) -> Iterator[Metric]:
    if stored.offset_totals is not None:
        yield from _lag(stored.offset_totals, max_series)
        if by_partition:
            partitions = stored.offset_totals[:max_series]
            yield from _partitions(partitions)
            if stored.time_lag_ms is not None:
                yield _lag_seconds(partitions, stored.time_lag_ms)
    yield from _expiring(stored.forecast)
    runs = {(job,): as_of_ms / 1000 for job, as_of_ms in (stored.newest_runs or {}).items()}
    yield _gauge(
        "muster_job_last_run_timestamp_seconds", "Unix time of the last run of a maintenance job.", runs, ["job_name"]
    )


def _lag_seconds(totals: Iterable[OffsetTotal], time_lag_ms: Mapping[tuple[str, str, int], int]) -> Metric:
    """Return the time lag of every partition whose log end is known, except those that have lag but no time lag yet."""
    found: dict[Labels, float] = {}
    for each in totals:
        known = None if each.partition is None else time_lag_ms.get((each.group_id, each.topic, each.partition))
        if each.lag_records == 0 or (known is not None and each.lag_records is not None):
            found[each.group_id, each.topic, str(each.partition)] = (known or 0) / 1000 if each.lag_records else 0
    return _gauge("kafka_consumergroup_lag_seconds", "Time lag of a partition.", found, PARTITION_LABELS)


def _lag(totals: tuple[OffsetTotal, ...], max_series: int) -> Iterator[Metric]:
    offsets: Counter[Labels] = Counter()
    lags: Counter[Labels] = Counter()
    unknown: set[Labels] = set()
    committed_at_s: dict[Labels, float] = {}
    log_end_at_s: dict[Labels, float] = {}
    for each in totals:
        of_topic = _labels_within(offsets, max_series, each.group_id, each.topic)
        offsets[of_topic] += each.offset
        committed_at_s[of_topic] = max(committed_at_s.get(of_topic, 0), each.last_committed_at_ms / 1000)
        if each.lag_records is not None:
            lags[of_topic] += each.lag_records
        if each.log_end_at_ms is not None:
            log_end_at_s[of_topic] = min(log_end_at_s.get(of_topic, inf), each.log_end_at_ms / 1000)
            unknown |= {of_topic} if each.lag_records is None else set()
    lags = Counter(
        {of: lag for of, lag in lags.items() if lag or of not in unknown}
    )  # a lower bound of 0 is no information
    yield _single_gauge(
        "muster_num_offsets",
        "Committed offsets of this node's groups.",
        sum(each.partition_count for each in totals),
    )
    yield _gauge(
        "kafka_consumergroup_current_offset_sum", "Sum of the committed offsets of a topic.", offsets, TOPIC_LABELS
    )
    yield _gauge("kafka_consumergroup_lag_sum", "Sum of the lag of a topic, in records.", lags, TOPIC_LABELS)
    last = "muster_consumergroup_last_commit_timestamp_seconds"
    yield _gauge(last, "Unix time of the last commit of a group to a topic.", committed_at_s, TOPIC_LABELS)
    reported = "muster_consumergroup_log_end_timestamp_seconds"
    yield _gauge(
        reported, "Unix time of the oldest log end report among the partitions of a topic.", log_end_at_s, TOPIC_LABELS
    )


def _partitions(totals: Iterable[OffsetTotal]) -> Iterator[Metric]:
    named = {(each.group_id, each.topic, str(each.partition)): each for each in totals}
    offset_of = {labels: each.offset for labels, each in named.items()}
    yield _gauge("kafka_consumergroup_current_offset", "Committed offset of a partition.", offset_of, PARTITION_LABELS)
    lag_of = {labels: each.lag_records for labels, each in named.items() if each.lag_records is not None}
    yield _gauge("kafka_consumergroup_lag", "Lag of a partition, in records.", lag_of, PARTITION_LABELS)


def _expiring(forecast: ExpiryForecast | None) -> Iterator[Metric]:
    """Yield the newest expiry forecast; without one the families have no samples."""
    counts: dict[Labels, int] = {}
    made_at_s: dict[Labels, float] = {}
    if forecast is not None:
        counts = {("1d",): forecast.within_a_day, ("7d",): forecast.within_a_week}
        made_at_s = {(): forecast.as_of_ms / 1000}
    yield _gauge("muster_offsets_expiring", "Offsets that will expire within the given time.", counts, ["within"])
    yield _gauge("muster_offsets_forecast_timestamp_seconds", "Unix time of the newest expiry forecast.", made_at_s, [])


# -- families, by type ----------------------------------------------------------------------------------------


def _labelled(counter: Mapping[str, int]) -> dict[Labels, int]:
    return {(label,): count for label, count in list(counter.items())}


def _single_gauge(name: str, meaning: str, value: float) -> Metric:
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
