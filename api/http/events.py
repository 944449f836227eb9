"""An operator's act, or a refusal, leaves one wide event in the log; all other requests are only counted.

What agents' requests do to a group is the runtime's to tell, and the refusals that are the protocol's ordinary course
are no news. Never in an event: a body, metadata, a token.
"""

from typing import Final

import structlog

from api.http.call import Call
from api.http.reply import NO_ERROR, Reply

log = structlog.get_logger("muster.http")

ORDINARY: Final = frozenset({NO_ERROR, "MEMBER_ID_REQUIRED", "REBALANCE_IN_PROGRESS"})


def note(call: Call, reply: Reply, took_ms: float) -> None:
    """Write the event of an answered request, if it is worth one."""
    if call.change_id is None and reply.code in ORDINARY:
        return
    write = log.warning if reply.status >= 500 else log.info
    write(
        "request_answered" if reply.code == NO_ERROR else "request_refused",
        request=call.request,
        request_id=call.request_id.decode(),
        group=call.group_id,
        status=reply.status,
        code=reply.code,
        actor=call.actor,
        change_id=call.change_id,
        client=call.client_host,
        took_ms=round(took_ms, 1),
    )
