"""Which function answers which API."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from api.kafka import brokers, groups, membership, offsets, records
from api.kafka.apis import ApiKey
from api.kafka.request import KafkaRequest
from coordinator_core.protocol.errors import CoordinatorError
from coordinator_core.protocol.responses import Answer

Handler = Callable[[KafkaRequest], Awaitable[bytes | None]]
"""Returns the body of the response; None: there is no response."""


class SubmittedApi(NamedTuple):
    """An API whose requests wait for the coordinator alone, so that nearly none needs a task."""

    submit: Callable[[KafkaRequest], asyncio.Future[Answer] | None]
    """Submits a request; None: its handler has to answer it. Raises CoordinatorError if it is refused."""
    respond: Callable[[KafkaRequest, Answer | CoordinatorError], bytes]
    """Returns the body of the response."""


SUBMITTED: Final[dict[int, SubmittedApi]] = {
    ApiKey.HEARTBEAT: SubmittedApi(membership.submit_heartbeat, membership.respond_to_heartbeat),
    ApiKey.OFFSET_COMMIT: SubmittedApi(offsets.submit_commit, offsets.respond_to_commit),
}
"""The requests that consumers repeat."""


HANDLERS: Final[dict[int, Handler]] = {
    ApiKey.PRODUCE: records.produce,
    ApiKey.FETCH: records.fetch,
    ApiKey.LIST_OFFSETS: records.list_offsets,
    ApiKey.METADATA: brokers.metadata,
    ApiKey.OFFSET_COMMIT: offsets.offset_commit,
    ApiKey.OFFSET_FETCH: offsets.offset_fetch,
    ApiKey.FIND_COORDINATOR: brokers.find_coordinator,
    ApiKey.JOIN_GROUP: membership.join_group,
    ApiKey.HEARTBEAT: membership.heartbeat,
    ApiKey.LEAVE_GROUP: membership.leave_group,
    ApiKey.SYNC_GROUP: membership.sync_group,
    ApiKey.DESCRIBE_GROUPS: groups.describe_groups,
    ApiKey.LIST_GROUPS: groups.list_groups,
    ApiKey.API_VERSIONS: brokers.api_versions,
    ApiKey.DESCRIBE_CONFIGS: brokers.describe_configs,
    ApiKey.DELETE_GROUPS: groups.delete_groups,
    ApiKey.OFFSET_DELETE: offsets.offset_delete,
    ApiKey.DESCRIBE_CLUSTER: brokers.describe_cluster,
}
"""SaslHandshake and SaslAuthenticate are the connection's own: they change what it may ask."""
