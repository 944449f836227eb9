"""The database address of a job, for JDBC and psycopg2, read from the environment.

It is `MUSTER_JOBS_DATABASE_URL` (a member of the role `muster_jobs`), else `MUSTER_DATABASE_URL`, in SQLAlchemy's form:
`postgresql+psycopg2://user:password@host:port/database?sslmode=…`. `history_restore` writes history, so it uses only
the owner's, `MUSTER_DATABASE_URL`. The password appears on no command line.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from urllib.parse import parse_qs, quote, unquote, urlencode, urlsplit

import psycopg2
import psycopg2.extensions as pg
from psycopg2.extensions import make_dsn

from spark_jobs.errors import JobError

OWNER_VARIABLE = "MUSTER_DATABASE_URL"
URL_VARIABLES = ("MUSTER_JOBS_DATABASE_URL", OWNER_VARIABLE)
SCHEMES = ("postgresql", "postgresql+psycopg2", "postgres")
# Options with the same name in libpq and JDBC.
SHARED_OPTIONS = ("sslmode", "sslrootcert", "sslcert", "sslkey")
CONNECT_TIMEOUT_S = 10
DEFAULT_PORT = 5432


@dataclass(frozen=True, slots=True)
class Database:
    """A Postgres database and a role; its repr omits the password."""

    host: str
    port: int
    name: str
    user: str
    password: str = field(repr=False)
    options: tuple[tuple[str, str], ...] = ()

    @property
    def jdbc_url(self) -> str:
        """Return the JDBC URL, without user and password."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        address = f"jdbc:postgresql://{host}:{self.port}/{quote(self.name, safe='')}"
        return address + (f"?{urlencode(self.options)}" if self.options else "")

    def jdbc_properties(self) -> dict[str, str]:
        """Return the JDBC driver's properties, with user and password."""
        return {"user": self.user, "password": self.password, "driver": "org.postgresql.Driver"}

    def connect(self) -> pg.connection:
        """Open a connection; the caller closes it.

        Raises:
            JobError: The server does not answer, or refuses the role.
        """
        try:
            return psycopg2.connect(self._dsn())
        except psycopg2.OperationalError as failure:
            where = f"{self.host}:{self.port}/{self.name}"
            raise JobError(f"Cannot connect to Postgres at {where}: {' '.join(str(failure).split())}") from failure

    def _dsn(self) -> str:
        return make_dsn(
            host=self.host,
            port=self.port,
            dbname=self.name,
            user=self.user,
            password=self.password,
            connect_timeout=CONNECT_TIMEOUT_S,
            application_name="muster-jobs",
            **dict(self.options),
        )


def database_from_environment(variables: Sequence[str] = URL_VARIABLES) -> Database:
    """Read the address from the first of the environment variables that is set.

    Raises:
        JobError: None is set, or its value is not a TCP address of a Postgres database.
    """
    for variable in variables:
        if os.environ.get(variable):
            return parse_url(os.environ[variable], variable)
    raise JobError(f"No database is configured: set {' or '.join(variables)}.")


def parse_url(url: str, source: str = "the database URL") -> Database:
    """Parse an address in SQLAlchemy's form; error messages show `source` and never the address.

    Raises:
        JobError: It is not a TCP address of a Postgres database.
    """
    try:
        parts = urlsplit(url)
        port = parts.port or DEFAULT_PORT
    except ValueError:
        raise JobError(f"{source} is not a valid URL.") from None
    if parts.scheme not in SCHEMES or not parts.path.strip("/"):
        raise JobError(f"{source} must have the form postgresql+psycopg2://user:password@host:port/database.")
    if not parts.hostname:
        raise JobError(f"{source} names no host; Spark reaches Postgres by TCP only.")
    query = parse_qs(parts.query)
    options = tuple((key, query[key][-1]) for key in SHARED_OPTIONS if key in query)
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    return Database(parts.hostname, port, unquote(parts.path[1:]), user, password, options)
