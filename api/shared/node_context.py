"""Node context: the dependencies that the listeners of one node share."""

from api.shared.body_budget import BodyBudget
from api.shared.deadlines import Deadlines
from api.shared.limits import GROUP_ID_MAX_CHARS, MIRRORED_GROUP_ID_MAX_CHARS, ListenerLimits
from api.shared.quotas import Quotas
from api.shared.request_metrics import RequestMetrics
from api.shared.tls import NodeTls, TlsFiles
from api.shared.tokens import Tokens
from api.shared.topic_ids import TopicIds
from api.shared.turns import LargeRequestTurns, LongPollTurns, QueryTurns
from coordinator_core.queries.runner import QueryRunner
from coordinator_core.runtime.coordinator import Coordinator


class NodeContext:
    """The coordinator of a node, its tokens, and what limits and counts the requests of all its listeners."""

    __slots__ = (
        "body_budget",
        "cluster_id",
        "coordinator",
        "deadlines",
        "group_id_max_chars",
        "large_request_turns",
        "limits",
        "long_poll_turns",
        "metrics",
        "queries",
        "query_turns",
        "quotas",
        "tls",
        "tokens",
        "topic_ids",
    )

    def __init__(
        self,
        coordinator: Coordinator,
        queries: QueryRunner,
        limits: ListenerLimits,
        tokens: Tokens | None = None,
        tls: NodeTls | None = None,
    ) -> None:
        """Start without requests.

        Args:
            coordinator: the coordinator of this node.
            queries: runs queries of the database.
            limits: the limits of the node.
            tokens: the tokens; None: every request is allowed.
            tls: the certificate of the node, and how other nodes are verified; None: it has none, and as by default.
        """
        self.coordinator = coordinator
        self.queries = queries
        self.limits = limits
        self.tokens = tokens
        self.tls = tls or NodeTls(TlsFiles())
        self.cluster_id: str | None = None
        """The id of the cluster for Kafka clients, once their listener has started."""
        self.topic_ids = TopicIds()
        self.deadlines = Deadlines(limits.request_timeout_ms)
        self.long_poll_turns = LongPollTurns()
        self.large_request_turns = LargeRequestTurns(limits.max_large_bodies_bytes_per_s)
        self.query_turns = QueryTurns(queries.limits.max_queries)
        self.body_budget = BodyBudget(limits.max_large_bodies_bytes)
        self.metrics = RequestMetrics()
        self.quotas = Quotas(limits.quotas, self.metrics.throttled)
        self.group_id_max_chars = MIRRORED_GROUP_ID_MAX_CHARS if coordinator.is_mirror else GROUP_ID_MAX_CHARS
