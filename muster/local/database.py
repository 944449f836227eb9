"""Finds the database of a command: the one named in settings, that of the running platform, or an embedded one.

It takes the URL of the role that does for it: the owner's for nodes and migrations, the jobs' for Spark, the reader's
for questions.
"""

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator

from muster.data_dir import DatabaseUrls, DataDir, Holder
from muster.errors import UNREACHABLE_EXIT_CODE, UserError
from muster.local.embedded_postgres import EmbeddedPostgres
from muster.settings import Settings

CHECK_INTERVAL_S = 1.0
"""How often a node's embedded Postgres is looked for."""


@contextlib.contextmanager
def command_database(
    settings: Settings, command: str, before_start: Callable[[], None] = lambda: None, node_url: str | None = None
) -> Iterator[DatabaseUrls]:
    """Yield the URLs of the named database, or of an embedded Postgres that runs during the block.

    `before_start` may refuse to go on while nothing has been started yet; `node_url` is where this run will answer.

    Raises:
        UserError: another run uses the data directory, Postgres cannot start, or a node's Postgres has ended.
    """
    named = _configured_urls(settings)
    if named is not None:
        before_start()
        yield named
        return
    data_dir = DataDir(settings.data_dir)
    data_dir.create(settings.min_free_disk_mb)
    with data_dir.locked(command) as lock:
        before_start()
        with embedded_postgres(settings) as postgres:
            urls = database_urls(postgres)
            lock.publish_database_urls(urls)
            if node_url is None:
                yield urls
                return
            lock.publish_node_url(node_url)
            with _ending_with(postgres):
                yield urls


@contextlib.contextmanager
def _ending_with(postgres: EmbeddedPostgres) -> Iterator[None]:
    """Stop this process's node, by SIGTERM, if Postgres ends during the block, since nothing else would start it again.

    Raises:
        UserError: Postgres has ended.
    """
    is_over = threading.Event()

    def watch() -> None:
        while not is_over.wait(CHECK_INTERVAL_S):
            if not postgres.is_alive():
                os.kill(os.getpid(), signal.SIGTERM)
                return

    threading.Thread(target=watch, name="muster-postgres-watch", daemon=True).start()
    try:
        yield
    finally:
        is_over.set()
        if not postgres.is_alive():
            raise UserError(f"Postgres ended, and the node with it; see {postgres.log_file}, and start again.")


@contextlib.contextmanager
def shared_database(settings: Settings, command: str) -> Iterator[DatabaseUrls]:
    """Yield the URLs of the database of a running platform, or else those of `command_database`."""
    holder = None if settings.database_url else DataDir(settings.data_dir).holder()
    if holder is not None:
        yield _urls_of(holder)
        return
    with command_database(settings, command) as urls:
        yield urls


def urls_in_use(settings: Settings) -> DatabaseUrls:
    """Return the URLs of the database in use.

    Raises:
        UserError: none is named and no run uses the data directory.
    """
    named = _configured_urls(settings)
    if named is not None:
        return named
    holder = DataDir(settings.data_dir).holder()
    if holder is None:
        raise UserError(f"Nothing runs in {settings.data_dir}; start muster up, or name its --data-dir.")
    return _urls_of(holder)


def database_urls(postgres: EmbeddedPostgres) -> DatabaseUrls:
    """Return the URLs of Muster's database in a running embedded Postgres."""
    return DatabaseUrls(postgres.database_url(), postgres.jobs_url(), postgres.reader_url())


def embedded_postgres(settings: Settings) -> EmbeddedPostgres:
    """Return the Postgres of the data directory, not yet started."""
    return EmbeddedPostgres(
        settings.data_dir, port=settings.postgres_port, max_connections=settings.postgres_max_connections
    )


def _configured_urls(settings: Settings) -> DatabaseUrls | None:
    """Return the URLs of the settings; MUSTER_DATABASE_URL is that of each role without a URL of its own."""
    if settings.database_url is None:
        return None
    url = settings.database_url.get_secret_value()
    jobs = settings.jobs_database_url
    return DatabaseUrls(owner=url, jobs=url if jobs is None else jobs.get_secret_value(), reader=url)


def _urls_of(holder: Holder) -> DatabaseUrls:
    if holder.database_urls is None:
        raise UserError(f"{holder} is still starting its database; try again in a moment.", UNREACHABLE_EXIT_CODE)
    return holder.database_urls
