"""A node that works beside what is printed logs nothing meanwhile, and as before afterwards."""

import contextlib
import logging
from collections.abc import Iterator

import structlog


@contextlib.contextmanager
def silenced() -> Iterator[None]:
    """Let every node of this process log nothing for the time of the block."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        yield
    finally:
        structlog.configure(**before)
