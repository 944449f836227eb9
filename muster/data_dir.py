"""The data directory of the local platform: locked by one run at a time, readable by its owner only."""

import contextlib
import fcntl
import json
import os
import secrets
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO

from muster import process_table
from muster.errors import USAGE_EXIT_CODE, UserError, disk_error
from muster.process_table import ProcessKey

DEFAULT_DATA_DIR = Path(".muster")
PRIVATE_DIRECTORY = 0o700
PRIVATE_FILE = 0o600
SECRET_BYTES = 24


@dataclass(frozen=True, slots=True)
class DatabaseUrls:
    """The URLs of one database for the roles that log in to it."""

    owner: str
    jobs: str
    reader: str


@dataclass(frozen=True, slots=True)
class Holder:
    """The run that is using the directory; `database_urls` is None while its database is still starting.

    `node_url` is where its first node answers, or will, and `airflow_url` where Airflow does; None for a run without.
    `airflow_database_url` is Airflow's own database.
    """

    process: ProcessKey
    command: str
    database_urls: DatabaseUrls | None = None
    node_url: str | None = None
    airflow_url: str | None = None
    airflow_database_url: str | None = None

    def __str__(self) -> str:
        return f"muster {self.command} (pid {self.process.pid})"


class RunLock:
    """Proof that no other run uses the directory; it ends with the process at the latest."""

    def __init__(self, file: IO[str], path: Path, command: str) -> None:
        self._file = file
        self._path = path
        self._holder = Holder(process_table.this_process(), command)
        self._publish()

    def publish_database_urls(self, urls: DatabaseUrls) -> None:
        """Let other commands find the database of this run."""
        self._holder = replace(self._holder, database_urls=urls)
        self._publish()

    def publish_node_url(self, url: str) -> None:
        """Let other commands find the node of this run."""
        self._holder = replace(self._holder, node_url=url)
        self._publish()

    def publish_airflow(self, url: str, database_url: str) -> None:
        """Let other commands find the Airflow of this run."""
        self._holder = replace(self._holder, airflow_url=url, airflow_database_url=database_url)
        self._publish()

    def _publish(self) -> None:
        state = json.dumps({**asdict(self._holder), "inode": _inode(self._file)}).encode()
        with _naming(self._path):  # Nothing waits in a buffer that could not be written when the file is closed either.
            os.pwrite(self._file.fileno(), state, 0)  # Before it is shortened: other commands read it at any time.
            os.ftruncate(self._file.fileno(), len(state))


class DataDir:
    """The places in the directory, by name."""

    def __init__(self, path: Path) -> None:
        """Name the directory, which need not exist before `create`."""
        self.path = path
        self.postgres = path / "postgres"
        self.airflow = path / "airflow"
        self.logs = path / "logs"
        self.children_file = path / "children.json"
        self.demo_data_file = path / "demo-data-inserted"
        self.cluster_secret = path / "cluster-secret"
        self._lock_file = path / "lock"

    def create(self, min_free_disk_mb: int = 0) -> None:
        """Create the directory and its folders, readable by their owner only.

        Raises:
            UserError: it cannot be made or written to, or its disk has less room than that.
        """
        try:
            for folder in (self.path, self.logs):
                folder.mkdir(mode=PRIVATE_DIRECTORY, parents=True, exist_ok=True)
            self._open_lock_file().close()
            free_mb = shutil.disk_usage(self.path).free // 2**20
        except OSError as failure:
            sentence = f"The data directory {self.path} cannot be created ({failure.strerror})"
            raise disk_error(failure) or UserError(f"{sentence}; choose another one with --data-dir.") from failure
        if free_mb < min_free_disk_mb:
            raise UserError(
                f"The disk of {self.path} has {free_mb} MB left and Muster wants {min_free_disk_mb} MB; make room, or "
                "choose another directory with --data-dir."
            )

    @contextlib.contextmanager
    def locked(self, command: str) -> Iterator[RunLock]:
        """Lock the directory against other runs while the block runs.

        Raises:
            UserError: another run is using it; the sentence names its pid.
        """
        with self._open_lock_file() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = _read_holder(file) or "Another muster"
                raise UserError(
                    f"{holder} is using {self.path}; stop it, or choose another directory with --data-dir."
                ) from None
            try:
                yield RunLock(file, self._lock_file, command)
            finally:
                file.truncate(0)

    def holder(self) -> Holder | None:
        """Return the run that is using the directory, or None."""
        try:
            file = self._lock_file.open("r")
        except FileNotFoundError:
            return None
        except OSError as failure:
            raise disk_error(failure) or failure from failure
        with file:
            holder = _read_holder(file)
        # A killed run leaves its name behind. The lock is not tested: a run that starts now would find it held.
        return holder if holder is not None and process_table.is_alive(holder.process) else None

    def log_file(self, name: str) -> Path:
        """Return the log file of a child process."""
        return self.logs / f"{name}.log"

    def _open_lock_file(self) -> IO[str]:
        return os.fdopen(os.open(self._lock_file, os.O_RDWR | os.O_CREAT, PRIVATE_FILE), "r+")


def data_dir_of_environment() -> Path:
    """Return the directory that the environment names, for commands that need no other setting."""
    return absolute(Path(os.environ.get("MUSTER_DATA_DIR", "").strip() or DEFAULT_DATA_DIR))


def absolute(path: Path) -> Path:
    """Return the absolute path of a data directory.

    Raises:
        UserError: it begins with `~` and the name of no user, or the working directory was deleted.
    """
    try:
        return path.expanduser().absolute()
    except (RuntimeError, FileNotFoundError) as failure:
        advice = "name another one in MUSTER_DATA_DIR, or change to another directory"
        raise UserError(f"The data directory {path} is unknown ({failure}); {advice}.", USAGE_EXIT_CODE) from failure


def keep_secret(path: Path) -> str:
    """Return the secret in the file; create one that only the owner may read if there is none.

    A crash of the machine may leave a file without its content, so it is on the disk before the secret is used.
    """
    if not path.exists() or not path.read_text().strip("\0"):
        write_private(path, secrets.token_urlsafe(SECRET_BYTES))
        with path.open("rb") as file:
            os.fsync(file.fileno())
    return path.read_text()


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner may read, in one step."""
    draft = path.with_name(path.name + ".new")
    draft.unlink(missing_ok=True)
    with _naming(path), os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_FILE), "wb") as file:
        file.write(text.encode())
    draft.replace(path)


@contextlib.contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Add the path to the error of a failed write, which has none."""
    try:
        yield
    except OSError as failure:
        failure.filename = failure.filename or str(path)
        raise


def _read_holder(file: IO[str]) -> Holder | None:
    try:
        state = json.loads(file.read())
    except ValueError:  # Empty, or being written at this moment.
        return None
    inode = _inode(file)
    if state.get("inode", inode) != inode:
        return None  # The file was copied.
    process, urls = ProcessKey(**state["process"]), state.get("database_urls")
    found = None if urls is None else DatabaseUrls(**urls)
    addresses = (state.get(name) for name in ("node_url", "airflow_url", "airflow_database_url"))
    return Holder(process, state["command"], found, *addresses)


def _inode(file: IO[str]) -> int:
    return os.fstat(file.fileno()).st_ino
