"""What a benchmark measures beside another process of it needs that process until the end."""

import multiprocessing

import pytest

from bench.bench_servers import HOST, free_port
from bench.closed_loop import Sender
from bench.http_load import is_complete
from bench.tenants import _sending
from tests.support.waiting import poll_until


def test_a_hostile_tenant_that_stops_sending_fails_the_benchmark() -> None:
    nothing_listens = [Sender(f"http://{HOST}:{free_port()}", [b"request"], is_complete)]
    with pytest.raises(AssertionError, match="stopped sending"), _sending(nothing_listens):
        poll_until(lambda: not multiprocessing.active_children())
