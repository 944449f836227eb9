"""Types of request fields and query parameters, with their bounds.

Source: http-api.md "Limits", for lengths and ranges.
"""

from collections.abc import Iterable
from typing import Annotated, Final, TypeAlias

from litestar.params import FromPath, QueryParameter
from msgspec import Meta

from api.http.limits import LONG_PAGE_MAX, PAGE_MAX
from api.shared.limits import (
    CLIENT_ID_MAX_CHARS,
    INSTANCE_ID_MAX_CHARS,
    MEMBER_ID_MAX_CHARS,
    PARTITION_COUNT_MAX,
    PROTOCOL_NAME_MAX_CHARS,
    REASON_MAX_CHARS,
    TOPIC_MAX_CHARS,
)
from coordinator_core.protocol.setting_rules import INT32_MAX
from coordinator_core.protocol.states import GroupState

INT64_MAX: Final = 2**63 - 1

GroupId: TypeAlias = FromPath[str]
"""Decoded by `paths` from the raw path."""

MemberId = Annotated[str, Meta(max_length=MEMBER_ID_MAX_CHARS, description='"": no member id yet')]
InstanceId = Annotated[str, Meta(min_length=1, max_length=INSTANCE_ID_MAX_CHARS)]
ClientId = Annotated[str, Meta(max_length=CLIENT_ID_MAX_CHARS)]
ProtocolName = Annotated[str, Meta(max_length=PROTOCOL_NAME_MAX_CHARS)]
Topic = Annotated[str, Meta(min_length=1, max_length=TOPIC_MAX_CHARS)]
Reason = Annotated[str, Meta(max_length=REASON_MAX_CHARS)]
RequiredReason = Annotated[str, Meta(min_length=1, max_length=REASON_MAX_CHARS)]

Partition = Annotated[int, Meta(ge=0, le=INT32_MAX)]
CandidateCount = Annotated[int, Meta(ge=0, le=INT64_MAX, description="the number of candidates that was reviewed")]
PartitionCount = Annotated[int, Meta(ge=1, le=PARTITION_COUNT_MAX)]
Offset = Annotated[int, Meta(ge=0, le=INT64_MAX)]
LeaderEpoch = Annotated[int, Meta(ge=-1, le=INT32_MAX, description="-1: unknown")]
Generation = Annotated[int, Meta(ge=-1, le=INT32_MAX, description="-1: outside a generation")]

SessionTimeoutMs = Annotated[int, Meta(ge=-INT64_MAX, le=INT64_MAX)]
"""Checked against the group's bounds, so that the error is Kafka's."""
RebalanceTimeoutMs = Annotated[int, Meta(ge=0, le=INT32_MAX)]
WaitMs = Annotated[int, Meta(ge=0, le=INT32_MAX, description="beyond it the response is 409 with action retry")]
RetentionMs = Annotated[int, Meta(ge=-1, le=INT64_MAX // 2, description="-1: the configured retention")]

# For query parameters Litestar applies only its own constraints.
PageLimit: TypeAlias = Annotated[int, QueryParameter(ge=1, le=PAGE_MAX)]
LongPageLimit: TypeAlias = Annotated[int, QueryParameter(ge=1, le=LONG_PAGE_MAX)]
TopicParam: TypeAlias = Annotated[str, QueryParameter(name="topic", min_length=1, max_length=TOPIC_MAX_CHARS)]
TopicsParam: TypeAlias = Annotated[list[str] | None, QueryParameter(name="topic")]
PartitionParam: TypeAlias = Annotated[
    int | None, QueryParameter(name="partition", ge=0, le=INT32_MAX, schema_extra={"minimum": 0})
]
"""Litestar omits a bound of 0 from the OpenAPI document."""
StatesParam: TypeAlias = Annotated[list[str] | None, QueryParameter(name="state")]
ReasonParam: TypeAlias = Annotated[str | None, QueryParameter(name="reason", max_length=REASON_MAX_CHARS)]
RequiredReasonParam: TypeAlias = Annotated[
    str, QueryParameter(name="reason", min_length=1, max_length=REASON_MAX_CHARS)
]


def state_names(states: Iterable[str] | None) -> frozenset[str]:
    """Return states by their names in the protocol; those of a parameter may be in any case.

    An unknown state matches no group, as in Kafka's ListGroups.
    """
    return frozenset(_STATE_NAMES.get(name.lower(), name) for name in states or () if name)


_STATE_NAMES: Final = {state.lower(): str(state) for state in GroupState}
