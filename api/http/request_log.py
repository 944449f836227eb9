"""Request log: one wide event for each operator change and each error; other requests are only counted.

The runtime logs the effects of agents' requests. Refusals that are part of the protocol are not logged. An event never
contains a body, metadata or a token.
"""

from typing import Final

import structlog

from api.http.request_context import RequestContext
from api.http.response import HttpResponse
from api.shared.errors import NO_ERROR

log = structlog.get_logger("muster.http")

UNLOGGED_CODES: Final = frozenset({NO_ERROR, "MEMBER_ID_REQUIRED", "REBALANCE_IN_PROGRESS"})


def log_request(context: RequestContext, response: HttpResponse, took_ms: float) -> None:
    """Log an answered request, if it is a change or an error."""
    if context.change_id is None and response.code in UNLOGGED_CODES:
        return
    write = log.warning if response.status >= 500 else log.info
    write(
        "change_recorded" if response.code == NO_ERROR else "request_refused",
        request=context.request,
        request_id=context.request_id.decode(),
        group=context.group_id,
        status=response.status,
        code=response.code,
        actor=context.actor,
        change_id=context.change_id,
        token_id=context.token_id,
        client=context.client_host,
        took_ms=round(took_ms, 1),
    )
