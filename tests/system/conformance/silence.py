"""Silences the logs of nodes in this process while a command prints."""

import contextlib
import logging
from collections.abc import Iterator

import structlog


@contextlib.contextmanager
def silenced() -> Iterator[None]:
    """Drop the log events of every node in this process for the time of the block."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        yield
    finally:
        structlog.configure(**before)
