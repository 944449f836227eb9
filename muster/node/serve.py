"""One node: store, coordinator and HTTP server, from a bound socket to a graceful stop.

The socket is bound first, since the address is the node's identity: no two nodes can have one, and a node that
starts again takes its own leases back at once.
"""

import asyncio
import contextlib
import gc
import importlib.metadata
import logging
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from functools import partial
from typing import Final, NoReturn, TextIO, cast
from urllib.parse import urlsplit

import structlog
import uvloop
from pydantic import SecretStr

from api.http import LISTENER
from api.http.app import make_app
from api.http.asgi import AsgiApp
from api.http.hosts import AllowedHosts
from api.http.limits import HttpLimits
from api.http.server import BACKLOG, HttpServer
from api.shared.node_context import NodeContext
from api.shared.tokens import Tokens, TokensFileError
from api.shared.trusted_proxies import TrustedProxies
from coordinator_core.protocol.errors import CoordinatorNotAvailable
from coordinator_core.queries.limits import QueryLimits
from coordinator_core.queries.runner import Queries, QueryRunner
from coordinator_core.runtime.background_tasks import restart_on_error
from coordinator_core.runtime.config import NodeConfig
from coordinator_core.runtime.coordinator import Coordinator
from coordinator_core.state_store.interface import Store, StoreError
from coordinator_core.state_store.postgres import PostgresStore
from muster import display
from muster.errors import UNREACHABLE_EXIT_CODE, USAGE_EXIT_CODE, UserError, database_advice
from muster.misspelled_settings import misspelled
from muster.node import kafka, mirror
from muster.node.change_sealing import seal_changes
from muster.node.file_descriptors import raise_descriptor_limit
from muster.node.limits import from_settings, http_limits
from muster.node.schema import newest
from muster.node.stored_tokens import StoredTokens
from muster.node.tls import read_tls, warn_of_unencrypted
from muster.settings import Settings

SHARD_RELEASE_TIMEOUT_S: Final = 2.5
"""The timeout of releasing the shards; the leases of the others expire."""
QUERY_CLOSE_TIMEOUT_S: Final = 1.0
"""How long a stopping node waits for its running queries."""
STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
GC_THRESHOLDS: Final = (20_000, 200, 100)
"""The thresholds of the garbage collector: above the number of rows of a batch, so that it runs rarely. A pass over the
youngest generation takes 15 to 30 ms, over the next one 120 (DECISIONS.md, 107)."""
SWITCH_INTERVAL_S: Final = 0.0005
"""The switch interval of threads, a tenth of Python's default: the event loop takes the interpreter back after each
system call, several of which every request makes."""

log = structlog.get_logger("muster.node")


def run_node(settings: Settings) -> None:
    """Serve one node until SIGTERM or SIGINT; then release its shards, within five seconds.

    Where the database hangs, or a query runs on, the process ends here, with code 0: threads wait for it that nothing
    could call back.

    Raises:
        UserError: the address is taken, or the database cannot be reached.
    """
    with contextlib.ExitStack() as sockets:
        listener = sockets.enter_context(bound_listener(settings.http_host, settings.http_port))
        kafka_listener = None
        if settings.kafka_port is not None:
            bound = bound_listener(settings.kafka_host, settings.kafka_port, "MUSTER_KAFKA_PORT")
            kafka_listener = sockets.enter_context(bound)
        write_log()
        raise_descriptor_limit(settings)
        with (
            open_database(settings) as (store, queries),
            asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
        ):
            is_handed_over = runner.run(_serve_until_signalled(settings, store, queries, listener, kafka_listener))
            if not is_handed_over:
                _exit_without_threads()


async def serve_node(
    settings: Settings,
    store: Store,
    queries: QueryRunner,
    listener: socket.socket,
    stopping: asyncio.Event,
    on_serving: Callable[[], None],
    kafka_listener: socket.socket | None = None,
) -> bool:
    """Serve until `stopping` is set.

    Args:
        settings: the node's, with the address that the listener is bound to.
        store: where groups are stored; the caller closes it.
        queries: what runs queries; it is closed at the end.
        listener: bound, and closed at the end.
        stopping: set to end; before the node serves too.
        on_serving: called once, when requests are answered.
        kafka_listener: bound to the settings' port for Kafka clients, and closed at the end; None: there is none.

    Returns:
        Whether everything was handed over. If not, threads may still wait for the database, and a caller that joins
        them waits with them; no answer contained anything that is not stored.

    Raises:
        UserError: the database cannot be reached, the tokens file is invalid, or too few files may be open.
    """
    tokens = read_tokens(settings)
    tls = read_tls(settings)
    limits = http_limits(settings)
    version = importlib.metadata.version("muster")
    try:
        cluster_id = await mirror.check_database(settings, store)
        decide = None if cluster_id is None else mirror.decisions()
        coordinator = Coordinator(store, _node_config(settings, version), mirror=decide)
        # All that takes long is made before the node owns shards, whose members would wait for it.
        context = NodeContext(coordinator, queries, limits, tokens, tls)
        app = _make_app(context, settings, limits, version)
        kafka_server = None if kafka_listener is None else kafka.make_server(context, settings, kafka_listener)
        is_started = await _wait_until_stopping(stopping, coordinator.start())
    except StoreError as failure:
        raise _unreachable("The database cannot be reached", _first_line(failure)) from failure
    if not is_started:
        return await _release_shards(coordinator)
    async with _releasing_on_failure(coordinator):
        if cluster_id is not None:
            mirror.follow(coordinator, settings, cluster_id)
        stored_tokens = None if tokens is None else await _follow_stored_tokens(tokens, queries)
        sealing = asyncio.create_task(restart_on_error("sealing", partial(seal_changes, store)), name="muster-sealing")
        warn_of_unencrypted(settings)
        warn_of_misspelled_settings()
        tls_files = asyncio.create_task(restart_on_error("tls", tls.keep_fresh), name="muster-tls")
        server = HttpServer(app, listener, limits, app.connections, tls, app)
        await server.start()
        with _reporting("The cluster id in the database cannot be read"):
            await kafka.start(kafka_server)
        log.info("node_started", node=coordinator.node_id, url=settings.node_url, version=version)
        on_serving()
        await stopping.wait()
    log.info("node_stopping", node=coordinator.node_id)
    for task in filter(None, (sealing, stored_tokens, tls_files)):
        task.cancel()
    server.reject_requests()
    is_handed_over = await _release_shards(coordinator)
    if kafka_server is not None:
        await kafka_server.stop()
    await server.stop()
    is_handed_over = await _close_queries(queries) and is_handed_over
    log.info("node_stopped", node=coordinator.node_id)
    return is_handed_over


@contextlib.contextmanager
def bound_listener(host: str, port: int, setting: str = "--port") -> Iterator[socket.socket]:
    """Return a bound listening socket; connections wait in its backlog. Port 0 takes a free port.

    Raises:
        UserError: it cannot be bound.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
            listener.listen(BACKLOG)  # An address that is bound and does not listen, two processes can have.
        except OSError as failure:
            reason = failure.strerror or failure
            advice = f"choose another {setting}, or an address of this machine"
            raise UserError(f"The node cannot listen on {host}:{port} ({reason}); {advice}.") from failure
        yield listener


@contextlib.contextmanager
def open_database(settings: Settings) -> Iterator[tuple[PostgresStore, Queries]]:
    """Return store and queries of the database of the settings, whose connections are replaced in a new incarnation."""
    with (
        contextlib.closing(open_queries(settings)) as queries,
        contextlib.closing(open_store(settings, queries.disconnect)) as store,
    ):
        yield store, queries


def open_store(settings: Settings, on_new_incarnation: Callable[[], None] = lambda: None) -> PostgresStore:
    """Return the store of the database of the settings; it connects with its first call."""
    assert settings.database_url is not None
    return PostgresStore(
        settings.database_url.get_secret_value(),
        lease_ttl_ms=settings.lease_ttl_ms,
        read_timeout_ms=settings.read_timeout_ms,
        readers=settings.max_reads,
        on_new_incarnation=on_new_incarnation,
    )


def open_queries(settings: Settings) -> Queries:
    """Return the query runner of the database of the settings; it connects with its first query."""
    assert settings.database_url is not None
    return Queries(
        settings.database_url.get_secret_value(),
        from_settings(QueryLimits, settings),
    )


def read_tokens(settings: Settings) -> Tokens | None:
    """Return the tokens; None: the node requires none.

    Raises:
        UserError: the file is invalid, or there is no cluster secret.
    """
    if not settings.has_tokens:
        return None
    secret = settings.cluster_secret
    if secret is None or not secret.get_secret_value():
        name = "MUSTER_REQUIRE_TOKENS" if settings.tokens_file is None else "MUSTER_TOKENS_FILE"
        needed = "MUSTER_CLUSTER_SECRET, with which nodes sign the requests that they forward"
        raise UserError(f"{name} requires {needed}.", USAGE_EXIT_CODE)
    try:
        return Tokens(settings.tokens_file)
    except TokensFileError as refusal:
        raise UserError(f"MUSTER_TOKENS_FILE: {refusal}.", USAGE_EXIT_CODE) from None


async def _follow_stored_tokens(tokens: Tokens, queries: QueryRunner) -> asyncio.Task[None]:
    """Read the tokens in the database, and return the task that keeps them up to date.

    Raises:
        UserError: the database cannot be reached.
    """
    stored = StoredTokens(tokens, queries)
    with _reporting("The tokens in the database cannot be read"):
        await stored.refresh()
    return asyncio.create_task(restart_on_error("tokens", stored.keep_fresh), name="muster-tokens")


class _LossyStderr:
    """The standard error, whose lines are lost while it takes none: on a full disk, no request and no loop fails."""

    def __init__(self) -> None:
        self._stream = sys.stderr

    def write(self, text: str) -> None:
        with contextlib.suppress(OSError):
            self._stream.write(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            self._stream.flush()


def write_log() -> None:
    """Log each event as one line on stderr, warnings of libraries included; as JSON, except on a terminal."""
    shared: list[structlog.typing.Processor] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    renderer: structlog.typing.Processor
    if sys.stderr.isatty():
        renderer = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
        shared.append(_without_control_characters)
    else:
        renderer = structlog.processors.JSONRenderer()
        shared.append(structlog.processors.format_exc_info)
    structlog.configure(
        processors=[*shared, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.WriteLoggerFactory(cast("TextIO", _LossyStderr())),
        cache_logger_on_first_use=True,
    )
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter)
    logging.basicConfig(handlers=[handler], level=logging.WARNING)


def warn_of_misspelled_settings() -> None:
    """Log each variable that nothing reads and whose name resembles a setting's."""
    for name, meant in misspelled(os.environ):
        log.warning("setting_unknown", setting=name, reason=f"it has no effect; there is {meant}")


def _without_control_characters(
    _logger: structlog.typing.WrappedLogger, _method: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    """Escape control characters of values, which may be names that a client chose."""
    return {key: display.printable(value) if isinstance(value, str) else value for key, value in event.items()}


# -- the node's own ------------------------------------------------------------------------------------


async def _serve_until_signalled(
    settings: Settings,
    store: Store,
    queries: QueryRunner,
    listener: socket.socket,
    kafka_listener: socket.socket | None,
) -> bool:
    def announce() -> None:
        _configure_interpreter()
        with contextlib.suppress(OSError):  # A full disk; the log says it, too.
            print(f"Muster serves on {settings.node_url}", flush=True)

    stopping = asyncio.Event()
    with _set_by_signals(stopping):
        return await serve_node(settings, store, queries, listener, stopping, announce, kafka_listener)


def _configure_interpreter() -> None:
    """Let the event loop wait less for the garbage collector and for other threads (DECISIONS.md, 22 and 107)."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)


@contextlib.contextmanager
def _set_by_signals(event: asyncio.Event) -> Iterator[None]:
    """Set the event on stop signals; restore their former handlers afterwards."""
    loop = asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    for number in STOP_SIGNALS:
        loop.add_signal_handler(number, event.set)
    try:
        yield
    finally:
        for number, handler in before.items():
            loop.remove_signal_handler(number)
            signal.signal(number, handler)


async def _wait_until_stopping(stopping: asyncio.Event, work: Coroutine[None, None, None]) -> bool:
    """Return whether work finished before the stop was requested; otherwise it is cancelled."""
    working, asked = asyncio.ensure_future(work), asyncio.ensure_future(stopping.wait())
    await asyncio.wait({working, asked}, return_when=asyncio.FIRST_COMPLETED)
    asked.cancel()
    if working.done():
        await working
        return True
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)
    return False


@contextlib.asynccontextmanager
async def _releasing_on_failure(coordinator: Coordinator) -> AsyncIterator[None]:
    """Release the shards if the block fails: their members would wait for the end of the leases."""
    try:
        yield
    except BaseException:
        await _release_shards(coordinator)
        raise


async def _release_shards(coordinator: Coordinator) -> bool:
    try:
        async with asyncio.timeout(SHARD_RELEASE_TIMEOUT_S):
            await coordinator.stop()
    except TimeoutError:
        log.warning("shard_release_timed_out", after_s=SHARD_RELEASE_TIMEOUT_S)
        return False
    return True


async def _close_queries(queries: QueryRunner) -> bool:
    """Close the queries; return whether every running one has ended."""
    try:
        async with asyncio.timeout(QUERY_CLOSE_TIMEOUT_S):
            await asyncio.to_thread(queries.close)
    except TimeoutError:
        log.warning("query_close_timed_out", after_s=QUERY_CLOSE_TIMEOUT_S)
        return False
    return True


def _exit_without_threads() -> NoReturn:
    """Flush the output, and end the process without waiting for its threads."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):
            stream.flush()
    os._exit(0)


def _node_config(settings: Settings, version: str) -> NodeConfig:
    return from_settings(
        NodeConfig,
        settings,
        node_id=urlsplit(settings.node_url).netloc,
        listeners={LISTENER: settings.node_url, **kafka.addresses(settings)},
        version=version,
        schema=newest() or "",
        defaults=settings.group_settings(),
        environment_keys=settings.group_settings_from_environment(),
        archive_uri=settings.archive_uri or str(settings.data_dir / "archive"),
    )


def _make_app(context: NodeContext, settings: Settings, limits: HttpLimits, version: str) -> AsgiApp:
    return make_app(
        context,
        limits,
        version,
        forward=settings.forward,
        cluster_secret=_text(settings.cluster_secret),
        accepted_cluster_secret=_text(settings.cluster_secret_accepted),
        trusted_proxies=TrustedProxies(settings.trusted_proxies),
        hosts=AllowedHosts(settings.http_host, settings.node_url, settings.allowed_hosts),
    )


def _text(secret: SecretStr | None) -> str:
    return "" if secret is None else secret.get_secret_value()


@contextlib.contextmanager
def _reporting(what: str) -> Iterator[None]:
    """Raise a UserError that begins with `what` if the block cannot reach the database."""
    try:
        yield
    except CoordinatorNotAvailable as error:
        raise _unreachable(what, error.detail) from error


def _unreachable(what: str, why: str) -> UserError:
    return UserError(f"{what} ({why}); {database_advice(why)}.", UNREACHABLE_EXIT_CODE)


def _first_line(failure: Exception) -> str:
    return str(failure).strip().partition("\n")[0]
