"""A command works on the database that is named, else on that of the run in the data directory, else on its own."""

import contextlib
from collections.abc import Callable, Iterator

from muster.data_dir import DataDir, Holder
from muster.embedded_postgres import EmbeddedPostgres
from muster.errors import UserError
from muster.settings import Settings, psql_url


@contextlib.contextmanager
def own_database(
    settings: Settings, command: str, before_start: Callable[[], None] = lambda: None, node_url: str | None = None
) -> Iterator[str]:
    """Give the URL of the named database, or of an embedded Postgres for the time of the block.

    `before_start` may refuse to go on while nothing has been started yet; `node_url` is where this run will answer.

    Raises:
        UserError: another run uses the data directory, or Postgres cannot start.
    """
    if settings.database_url is not None:
        before_start()
        yield settings.database_url.get_secret_value()
        return
    data_dir = DataDir(settings.data_dir)
    data_dir.create(settings.min_free_disk_mb)
    with data_dir.locked(command) as lock:
        before_start()
        with embedded_postgres(settings) as postgres:
            lock.publish_database_url(postgres.database_url())
            if node_url is not None:
                lock.publish_node_url(node_url)
            yield postgres.database_url()


@contextlib.contextmanager
def shared_database(settings: Settings, command: str) -> Iterator[str]:
    """Give the URL of the database that a run beside us uses, or one of our own as `own_database` does."""
    holder = None if settings.database_url else DataDir(settings.data_dir).holder()
    if holder is not None:
        yield _url_of(holder)
        return
    with own_database(settings, command) as url:
        yield url


def url_in_use(settings: Settings) -> str:
    """Return the URL of the database in use, as psql reads it.

    Raises:
        UserError: none is named and no run uses the data directory.
    """
    if settings.database_url is not None:
        return psql_url(settings.database_url.get_secret_value())
    holder = DataDir(settings.data_dir).holder()
    if holder is None:
        raise UserError(f"Nothing runs in {settings.data_dir}; start muster up, or name its --data-dir.")
    return psql_url(_url_of(holder))


def embedded_postgres(settings: Settings) -> EmbeddedPostgres:
    """Return the Postgres of the data directory, not yet started."""
    return EmbeddedPostgres(
        settings.data_dir, port=settings.postgres_port, max_connections=settings.postgres_max_connections
    )


def _url_of(holder: Holder) -> str:
    if holder.database_url is None:
        raise UserError(f"{holder} is still starting its database; try again in a moment.")
    return holder.database_url
