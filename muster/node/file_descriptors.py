"""File descriptor limits: a node raises its limit and admits no more connections than leave a reserve.

A connection of a client takes one descriptor, and a second one while its request is forwarded. The reserve is for
Postgres, health, logs and files: without it a flood of connections would cut the node off from its database.
"""

import resource
from typing import Final

import structlog

from api.http.limits import HEALTH_CONNECTIONS
from muster.errors import UserError
from muster.settings import OTHER_DATABASE_CONNECTIONS, Settings

log = structlog.get_logger("muster.node")

OTHER_DESCRIPTORS: Final = 128
"""The reserve of descriptors for logs, libraries and name look-ups."""
MIN_CONNECTIONS: Final = 16
"""With fewer connections than this a node does not start."""


def raise_descriptor_limit(settings: Settings) -> None:
    """Raise the soft limit of open files to what a node needs, as far as the hard limit allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = _reserve(settings) + settings.max_connections * _per_connection(settings)
    if hard != resource.RLIM_INFINITY:
        needed = min(needed, hard)
    if soft != resource.RLIM_INFINITY and soft < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


def connection_limit(settings: Settings) -> int:
    """Return how many client connections the limits of open files and of the settings allow.

    Raises:
        UserError: they are too few for a node.
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return settings.max_connections
    affordable = (soft - _reserve(settings)) // _per_connection(settings)
    if affordable < min(MIN_CONNECTIONS, settings.max_connections):
        least = _reserve(settings) + MIN_CONNECTIONS * _per_connection(settings)
        raise UserError(f"A process may open {soft} files here, and a node needs {least} at least; raise `ulimit -n`.")
    if affordable < settings.max_connections:
        log.warning("connection_limit_lowered", wanted=settings.max_connections, allowed=affordable, open_files=soft)
        return affordable
    return settings.max_connections


def _reserve(settings: Settings) -> int:
    database_connections = settings.max_reads + settings.max_queries + OTHER_DATABASE_CONNECTIONS
    return OTHER_DESCRIPTORS + HEALTH_CONNECTIONS + database_connections


def _per_connection(settings: Settings) -> int:
    return (2 if settings.forward else 1) + (settings.kafka_port is not None)
