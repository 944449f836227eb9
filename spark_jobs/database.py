"""The database address of a job, for JDBC and psycopg2, read from the environment.

It is `MUSTER_JOBS_DATABASE_URL` (a member of the role `muster_jobs`), else `MUSTER_DATABASE_URL`, as libpq reads it:
`postgresql://user:password@host:port/database?sslmode=…`, with several hosts and `target_session_attrs` if need be;
several options `host` are read as nodes do.
`history_restore` writes history, so it uses only the owner's, `MUSTER_DATABASE_URL`. The password appears on no command
line.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from urllib.parse import parse_qsl, quote, urlencode

import psycopg2
import psycopg2.extensions as pg
from psycopg2.extensions import make_dsn

from spark_jobs.errors import JobError

OWNER_VARIABLE = "MUSTER_DATABASE_URL"
URL_VARIABLES = ("MUSTER_JOBS_DATABASE_URL", OWNER_VARIABLE)
SCHEMES = ("postgresql", "postgresql+psycopg2", "postgres")
URL_FORM = "postgresql://user:password@host:port/database"
# Options with the same name in libpq and JDBC.
SHARED_OPTIONS = ("sslmode", "sslrootcert", "sslcert", "sslkey")
CONNECT_TIMEOUT_S = 10
DEFAULT_PORT = "5432"
SERVER_TYPES = {
    "any": "any",
    "read-write": "primary",
    "primary": "primary",
    "read-only": "secondary",
    "standby": "secondary",
    "prefer-standby": "preferSecondary",
}
"""`target_session_attrs` of libpq → `targetServerType` of JDBC."""


@dataclass(frozen=True, slots=True)
class Database:
    """A Postgres database and a role; its repr omits the password."""

    hosts: tuple[tuple[str, str], ...]
    """The hosts with their ports, in the order in which they are tried."""
    name: str
    user: str
    password: str = field(repr=False)
    options: tuple[tuple[str, str], ...] = ()
    target_session_attrs: str = "any"
    snapshot: str = ""
    """The exported snapshot that Spark reads; if empty, each read has its own."""

    @property
    def jdbc_url(self) -> str:
        """Return the JDBC URL, without user and password."""
        hosts = ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in self.hosts)
        address = f"jdbc:postgresql://{hosts}/{quote(self.name, safe='')}"
        options = dict(self.options)
        if self.target_session_attrs != "any":
            options["targetServerType"] = SERVER_TYPES[self.target_session_attrs]
        return address + (f"?{urlencode(options)}" if options else "")

    def jdbc_properties(self) -> dict[str, str]:
        """Return the JDBC driver's properties, with user and password; without one it reads that of `.pgpass`."""
        named = {"user": self.user, "password": self.password}
        return {
            **{name: value for name, value in named.items() if value},
            "driver": "org.postgresql.Driver",
            "tcpKeepAlive": "true",
        }

    def connect(self) -> pg.connection:
        """Open a connection; the caller closes it.

        Raises:
            JobError: The server does not answer, or refuses the role.
        """
        try:
            return psycopg2.connect(self._dsn())
        except psycopg2.OperationalError as failure:
            where = f"{','.join(map(':'.join, self.hosts))}/{self.name}"
            raise JobError(f"Cannot connect to Postgres at {where}: {' '.join(str(failure).split())}") from failure

    def _dsn(self) -> str:
        hosts, ports = zip(*self.hosts, strict=True)
        return make_dsn(
            host=",".join(hosts),
            port=",".join(ports),
            target_session_attrs=self.target_session_attrs,
            dbname=self.name,
            user=self.user,
            password=self.password,
            connect_timeout=CONNECT_TIMEOUT_S,
            application_name="muster-jobs",
            # A connection whose host is gone ends within a minute; those of JDBC have the kernel's times.
            keepalives_idle=30,
            keepalives_interval=10,
            keepalives_count=3,
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
    """Parse an address as libpq does; error messages show `source` and never the address.

    Raises:
        JobError: It is not a TCP address of a Postgres database.
    """
    scheme, _, address = url.partition("://")
    if scheme not in SCHEMES:
        raise JobError(f"{source} must have the form {URL_FORM}.")
    try:
        given = pg.parse_dsn(f"postgresql://{address}")
    except psycopg2.ProgrammingError:
        raise JobError(f"{source} is not a valid URL.") from None
    if not given.get("dbname"):
        raise JobError(f"{source} must have the form {URL_FORM}.")
    named = [value.partition(":") for name, value in parse_qsl(address.partition("?")[2]) if name == "host"]
    if len(named) > 1:  # As SQLAlchemy, and so a node, reads it; libpq takes the last one.
        given |= {"host": ",".join(host for host, *_ in named), "port": ",".join(port for *_, port in named)}
    target = given.get("target_session_attrs", "any")
    if target not in SERVER_TYPES:
        raise JobError(f"{source} has a target_session_attrs that is none of {', '.join(SERVER_TYPES)}.")
    options = tuple((key, given[key]) for key in SHARED_OPTIONS if key in given)
    hosts = _hosts(given.get("host", ""), given.get("port", ""), source)
    return Database(hosts, given["dbname"], given.get("user", ""), given.get("password", ""), options, target)


def _hosts(host: str, port: str, source: str) -> tuple[tuple[str, str], ...]:
    """Return the hosts with their ports; one port stands for all hosts, and none for the default."""
    hosts, ports = host.split(","), port.split(",")
    if not all(hosts) or any(each.startswith(("/", "@")) for each in hosts):
        raise JobError(f"{source} names no host; Spark reaches Postgres by TCP only.")
    if len(ports) == 1:
        ports *= len(hosts)
    if len(ports) != len(hosts) or not all(each.isdecimal() for each in ports if each):
        raise JobError(f"{source} is not a valid URL.")
    return tuple((host, port or DEFAULT_PORT) for host, port in zip(hosts, ports, strict=True))


@contextmanager
def one_snapshot(database: Database) -> Iterator[Database]:
    """Yield the database as it is now: what Spark reads of it until the block ends is of this instant."""
    with closing(database.connect()) as connection, transaction(connection) as cursor:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        cursor.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
        cursor.execute("SELECT pg_export_snapshot()")
        (snapshot,) = cursor.fetchone() or ("",)
        yield replace(database, snapshot=snapshot)


@contextmanager
def transaction(connection: pg.connection) -> Iterator[pg.cursor]:
    """Commit the block's statements, or roll them back on an error."""
    with connection, connection.cursor() as cursor:
        yield cursor
