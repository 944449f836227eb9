"""After this script has run, .venv holds exactly what requirements.lock says, and Muster and its provider, editable.

Rules:

* Nothing is done when the stamp in .venv shows that it was done: the stamp names the lock, the projects, this script,
  the place and the Python. It is removed before the first change and written after the last one, so an interrupted
  setup never counts.
* Whatever is installed is in the lock with its hash: uv, which installs the rest; the build backends; the packages.
* Only the standard library is here, since nothing else is installed yet.
"""

import fcntl
import hashlib
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, TracebackType
from typing import IO, NoReturn, Self

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
VENV_PYTHON = VENV / "bin" / "python"
VENV_UV = VENV / "bin" / "uv"
LOCK = ROOT / "requirements.lock"
PROVIDER = ROOT / "airflow_provider"
STAMP = VENV / "setup.stamp"
LOG = VENV / "setup.log"
EXTRACT = VENV / "setup-first.txt"

# pyspark comes as source only, and is built with what is installed already, never with something unlocked.
BUILD_BACKENDS = ("setuptools",)
NEEDED_MODULES = ("ctypes", "sqlite3", "ssl", "venv")
# The environment takes 1.0 GB; while it is made, the installer's cache and one build take as much again.
NEEDED_DISK_BYTES = 3_000_000_000
TICK_S = 0.5
LOG_TAIL_LINES = 15
# These would send packages elsewhere than into the environment, or load modules from elsewhere.
MISLEADING_VARIABLES = ("PIP_PREFIX", "PIP_TARGET", "PIP_USER", "PYTHONHOME", "PYTHONPATH", "VIRTUAL_ENV")
FLAGS_OF_PIP = ("--no-deps", "--no-build-isolation", "--no-input", "--disable-pip-version-check")
FLAGS_OF_UV = ("--no-build-isolation", "--python", str(VENV_PYTHON))


class SetupError(Exception):
    """The environment cannot be made; the message is one sentence for the terminal of `make setup`."""


class CommandFailed(SetupError):
    """A command of a step ended with an error; its output is in the log."""


def main() -> int:
    """Make the environment, or do nothing when it stands; return the exit status."""
    signal.signal(signal.SIGTERM, exit_on_signal)
    signal.signal(signal.SIGHUP, exit_on_signal)
    try:
        with one_setup_at_a_time():
            if not is_up_to_date():
                make_environment()
    except SetupError as error:
        print(f"setup: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"setup: {error.filename or ROOT}: {error.strerror}.", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nsetup: interrupted; `make setup` goes on from here.", file=sys.stderr)
        return 130
    return 0


def make_environment() -> None:
    """Bring .venv to what the lock says, in steps that each print their time in seconds."""
    refuse_what_cannot_work()
    STAMP.unlink(missing_ok=True)
    started_s = time.monotonic()
    print("setup: the environment is made once, and brought up to date when requirements.lock changes", flush=True)
    if not is_environment():
        with Step(f"an environment in .venv, Python {sys.version.split()[0]}") as step:
            create_environment(step)
    with Step("the installer") as step:
        install_installer(step)
    with Step("what builds the packages that come as source") as step:
        install(step, "--requirement", str(write_extract(BUILD_BACKENDS)))
    with Step("the packages of requirements.lock (600 MB when none is cached)") as step:
        install_packages(step)
    with Step("Muster and its Airflow provider, editable") as step:
        install(step, "--editable", str(ROOT), "--editable", str(PROVIDER))
    EXTRACT.unlink(missing_ok=True)
    write_stamp()
    print(f"setup: done in {time.monotonic() - started_s:.1f} s", flush=True)


def refuse_what_cannot_work() -> None:
    """Raise SetupError, with what to do about it, on a machine where no step can succeed."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    missing = [name for name in NEEDED_MODULES if not has_module(name)]
    if missing:
        raise SetupError(f"{sys.executable} lacks {', '.join(missing)}; name another one: make setup PYTHON=...")
    if not has_module("ensurepip") and not has_module("pip"):
        raise SetupError(f"Python {version} comes without pip; on Debian and Ubuntu: apt install python{version}-venv")
    if not os.access(ROOT, os.W_OK):
        raise SetupError(f"this user may not write in {ROOT}, where the environment goes.")
    free_bytes = shutil.disk_usage(ROOT).free
    if not VENV.exists() and free_bytes < NEEDED_DISK_BYTES:
        raise SetupError(f"{free_bytes / 1e9:.1f} GB are free at {ROOT}; it takes {NEEDED_DISK_BYTES / 1e9:.0f} GB.")


def create_environment(step: "Step") -> None:
    """Make an empty .venv, with a pip in it when this Python can."""
    shutil.rmtree(VENV, ignore_errors=True)
    VENV.mkdir(exist_ok=True)
    step.run(sys.executable, "-m", "venv", *([] if has_module("ensurepip") else ["--without-pip"]), str(VENV))


def install_installer(step: "Step") -> None:
    """Put the lock's uv into .venv by pip; where it does not run, pip has to do for all the rest."""
    if is_sound(VENV_UV):
        return
    try:
        step.run(*pip(), "install", *FLAGS_OF_PIP, "--requirement", str(write_extract(["uv"])))
    except CommandFailed:
        step.note("no uv for this machine: pip installs the rest, which takes longer")


def install_packages(step: "Step") -> None:
    """Install every package of the lock and, where uv works, remove what the lock does not name."""
    if is_sound(VENV_UV):
        try:
            return step.run(str(VENV_UV), "pip", "sync", *FLAGS_OF_UV, "--require-hashes", str(LOCK))
        except CommandFailed:
            step.note("uv could not: pip tries, which takes longer")
    return step.run(*pip(), "install", *FLAGS_OF_PIP, "--requirement", str(LOCK))


def install(step: "Step", *what: str) -> None:
    """Install `what` without its requirements, by uv where it works and by pip otherwise."""
    if is_sound(VENV_UV):
        try:
            return step.run(str(VENV_UV), "pip", "install", *FLAGS_OF_UV, "--no-deps", *what)
        except CommandFailed:
            step.note("uv could not: pip tries")
    return step.run(*pip(), "install", *FLAGS_OF_PIP, *what)


def is_up_to_date() -> bool:
    """Tell whether .venv was completed for the present lock, project, place and Python."""
    return STAMP.is_file() and VENV_PYTHON.exists() and STAMP.read_text() == fingerprint()


def write_stamp() -> None:
    """Say in .venv what it was made for, in one step."""
    unfinished = STAMP.with_suffix(".new")
    unfinished.write_text(fingerprint())
    unfinished.replace(STAMP)


def fingerprint() -> str:
    """Return one line for each thing that .venv depends on."""
    projects = [folder / "pyproject.toml" for folder in (ROOT, PROVIDER)]
    files = [LOCK, *projects, Path(__file__).resolve(), VENV / "pyvenv.cfg"]
    lines = [f"{hashlib.sha256(file.read_bytes()).hexdigest()} {file.name}" for file in files]
    return "\n".join([*lines, f"at {ROOT}", f"python {VENV_PYTHON.resolve()}", ""])


def write_extract(names: Sequence[str]) -> Path:
    """Write the requirements of the lock that pin `names`, with their hashes, to a file of their own and return it."""
    found = [entry for entry in lock_entries(LOCK.read_text()) if entry.split("==")[0] in names]
    if len(found) != len(names):
        raise SetupError(f"requirements.lock does not pin each of {', '.join(names)} once; `make lock` writes it anew.")
    EXTRACT.write_text("".join(found))
    return EXTRACT


def lock_entries(text: str) -> Iterator[str]:
    """Yield each requirement of a lock's text, together with the lines of hashes that continue it."""
    entry = ""
    for line in text.splitlines(keepends=True):
        if entry and not line.startswith(" "):
            yield entry
            entry = ""
        entry += line
    if entry:
        yield entry


class Step:
    """One step of the setup: its title and its time are shown, its commands' output goes to the log."""

    def __init__(self, title: str) -> None:
        """Name the step."""
        self.title = title
        self.started_s = time.monotonic()

    def __enter__(self) -> Self:
        """Show that the step has begun."""
        self.show_running()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Show how long the step took, or that it failed."""
        outcome = "failed" if isinstance(error, Exception) else "stopped"
        if error is None:
            outcome = f"{time.monotonic() - self.started_s:.1f} s"
        print(f"{REWRITE}  {self.title}: {outcome}", flush=True)

    def run(self, *command: str) -> None:
        """Run a command; on failure show the end of its output and raise CommandFailed."""
        with LOG.open("a+") as log:
            print(f"$ {' '.join(command)}", file=log, flush=True)
            begins_at = log.tell()
            with own_process_group(command, log) as process:
                self.wait(process)
            if process.returncode != 0:
                log.seek(begins_at)
                self.note("".join(log.readlines()[-LOG_TAIL_LINES:]).rstrip())
                raise CommandFailed(
                    f"`{Path(command[0]).name} {' '.join(command[1:3])}` failed; {LOG} has all it said."
                )

    def wait(self, process: subprocess.Popen[bytes]) -> None:
        """Wait for a process to end, showing the seconds that pass."""
        while True:
            try:
                process.wait(TICK_S)
            except subprocess.TimeoutExpired:
                self.show_running()
            else:
                return

    def note(self, text: str) -> None:
        """Show a text among the steps."""
        print(f"{REWRITE}{text}", flush=True)

    def show_running(self) -> None:
        """Show the step and its seconds so far, where a line can be written over."""
        if REWRITE:
            print(f"{REWRITE}  {self.title}: {time.monotonic() - self.started_s:.0f} s ...", end="", flush=True)


# On a terminal a step's line is written over as its seconds pass; elsewhere there is one line a step.
REWRITE = "\r\x1b[K" if sys.stdout.isatty() else ""


def pip() -> list[str]:
    """Return the command of a pip that installs into .venv: its own, or else that of the Python running this."""
    own = VENV / "bin" / "pip"
    return (
        [str(VENV_PYTHON), "-m", "pip"] if own.exists() else [sys.executable, "-m", "pip", "--python", str(VENV_PYTHON)]
    )


def is_environment() -> bool:
    """Tell whether .venv can be built on: its Python runs, and something in it can install, if that could be had."""
    has_installer = is_sound(VENV_UV) or (VENV / "bin" / "pip").exists()
    return is_sound(VENV_PYTHON) and (has_installer or not has_module("ensurepip"))


def is_sound(program: Path) -> bool:
    """Tell whether a program of .venv runs, and for its Python whether its packages are where it looks for them."""
    looks = "import os, sysconfig, sys; sys.exit(not os.path.isdir(sysconfig.get_path('purelib')))"
    arguments = ["-c", looks] if program == VENV_PYTHON else ["--version"]
    try:
        return subprocess.run([program, *arguments], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


@contextmanager
def own_process_group(command: Sequence[str], log: IO[str]) -> Iterator[subprocess.Popen[bytes]]:
    """Start a command, and end it together with what it started when the caller does not wait for its end."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        env=child_environment(),
        cwd=ROOT,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait()


def child_environment() -> dict[str, str]:
    """Return the environment for the installers: nothing that misleads them, and no cache where none can be written."""
    environment = {name: value for name, value in os.environ.items() if name not in MISLEADING_VARIABLES}
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    existing = next(folder for folder in [cache, *cache.parents] if folder.exists())
    if not os.access(existing, os.W_OK):
        environment |= {"UV_NO_CACHE": "1", "PIP_NO_CACHE_DIR": "1"}
    return environment


def has_module(name: str) -> bool:
    """Tell whether the Python that runs this has a module."""
    return importlib.util.find_spec(name) is not None


@contextmanager
def one_setup_at_a_time() -> Iterator[None]:
    """Hold the lock of this work tree, waiting for another setup under way."""
    with LOCK.open() as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("setup: another one is under way; waiting for it", flush=True)
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def exit_on_signal(number: int, _frame: FrameType | None) -> NoReturn:
    """Unwind, so that the command under way is ended too."""
    sys.exit(128 + number)


if __name__ == "__main__":
    sys.exit(main())
