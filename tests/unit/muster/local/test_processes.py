"""Child processes end with their run: at SIGTERM, at SIGKILL after a deadline, and when the run is killed."""

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from muster import process_table
from muster.errors import UserError
from muster.local.child_registry import ChildRegistry
from muster.local.ports import listener_on
from muster.local.processes import Child, ChildProcesses, ChildSpec, shorten_log
from muster.process_table import ProcessKey
from tests.support.waiting import PATIENCE_S, poll_until

MakeSpec = Callable[..., ChildSpec]
SLEEP = "import time; print('ready'); time.sleep(1000)"
STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready'); time.sleep(1000)"
WITH_GRANDCHILDREN = """
import subprocess, sys, time
plain = subprocess.Popen(["sleep", "1000"])
runaway = subprocess.Popen(["sleep", "1000"], start_new_session=True)
deeper = "import subprocess, time; print(subprocess.Popen(['sleep', '1000'], start_new_session=True).pid, flush=True)"
parent = subprocess.Popen(
    [sys.executable, "-c", deeper + "; time.sleep(1000)"], start_new_session=True, stdout=subprocess.PIPE, text=True
)
print(plain.pid, runaway.pid, parent.pid, parent.stdout.readline().strip())
time.sleep(1000)
"""
ORPHANING = """
import subprocess
print(subprocess.Popen(["sleep", "1000"]).pid)
"""
PARENT = """
import os, sys
from pathlib import Path
from muster.local.child_registry import ChildRegistry
from muster.local.processes import ChildProcesses, ChildSpec
children = ChildProcesses(ChildRegistry(Path({registry!r})))
spec = ChildSpec("child", (sys.executable, "-c", {script!r}), dict(os.environ, PYTHONUNBUFFERED="1"), Path({log!r}))
print(children.start(spec).pid, flush=True)
sys.stdin.read()
"""

Said = Callable[[str], str]


@pytest.fixture
def registry(tmp_path: Path) -> ChildRegistry:
    return ChildRegistry(tmp_path / "children.json")


@pytest.fixture
def children(registry: ChildRegistry) -> Iterator[ChildProcesses]:
    processes = ChildProcesses(registry)
    yield processes
    processes.stop(timeout_s=0)


@pytest.fixture
def make_spec(tmp_path: Path) -> MakeSpec:
    """Make the spec of a child that runs a few lines of Python."""

    def make(script: str, name: str = "child", **options: object) -> ChildSpec:
        return ChildSpec(
            name=name,
            argv=(sys.executable, "-c", script),
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            log_file=tmp_path / f"{name}.log",
            **options,  # type: ignore[arg-type]  # what a test leaves out has a default
        )

    return make


@pytest.fixture
def said(tmp_path: Path) -> Callable[[str], str]:
    """Wait until a child's log has a complete line, and return the first one."""

    def read(name: str = "child") -> str:
        log = tmp_path / f"{name}.log"
        poll_until(lambda: log.exists() and "\n" in log.read_text())
        return log.read_text().splitlines()[0]

    return read


def key_of(pid: int) -> ProcessKey:
    row = process_table.find_process(pid)
    assert row is not None
    return row.key


def is_gone(key: ProcessKey) -> bool:
    return not process_table.is_alive(key)


def killed_parent_of(script: str, tmp_path: Path, said: Said) -> tuple[ProcessKey, ProcessKey]:
    """Let a process start a child from the script, kill the process, and return both."""
    program = PARENT.format(registry=str(tmp_path / "children.json"), script=script, log=str(tmp_path / "child.log"))
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        child_pid = int(parent.stdout.readline())
        said("child")
        keys = key_of(parent.pid), key_of(child_pid)
        parent.kill()
    return keys


NAMED_IN_LATIN_1 = """
import ctypes, socket, time
ctypes.CDLL(None).prctl(15, b"caf\\xe9")  # PR_SET_NAME
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
time.sleep(1000)
"""


def test_name_of_a_process_need_not_be_utf_8() -> None:
    """The kernel cuts a name after 15 bytes, perhaps in the middle of a letter."""
    command = [sys.executable, "-c", NAMED_IN_LATIN_1]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as named:
        try:
            assert named.stdout is not None, "it has a pipe"
            port = int(named.stdout.readline())
            assert named.pid in {row.key.pid for row in process_table.all_processes()}
            assert listener_on(port) == f"caf� (pid {named.pid})"
        finally:
            named.kill()


def test_a_child_writes_into_its_log(children: ChildProcesses, make_spec: MakeSpec, said: Said) -> None:
    children.start(make_spec("print('hello')"))
    assert said("child") == "hello"


def test_log_of_the_previous_run_is_kept(
    children: ChildProcesses, make_spec: MakeSpec, said: Said, tmp_path: Path
) -> None:
    (tmp_path / "child.log").write_text("before\n")
    children.start(make_spec("print('now')"))
    assert said("child") == "now"
    assert (tmp_path / "child.log.1").read_text() == "before\n"


def test_long_log_is_rotated(registry: ChildRegistry, make_spec: MakeSpec, said: Said, tmp_path: Path) -> None:
    children = ChildProcesses(registry, log_file_max_bytes=10)
    log = tmp_path / "child.log"
    try:
        children.start(make_spec("import time; print('more than ten bytes'); time.sleep(1000)"))
        said("child")
        children.tick()
        assert log.with_name("child.log.1").read_text() == "more than ten bytes\n"
        assert log.read_text() == ""
    finally:
        children.stop(timeout_s=0)


def test_long_log_is_shortened_even_if_there_is_no_space_for_its_copy(tmp_path: Path) -> None:
    log = tmp_path / "child.log"
    log.write_text("more than ten bytes\n")
    log.with_name("child.log.1").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left"):
        shorten_log(log, max_bytes=10)
    assert log.read_text() == ""


def test_child_ends_at_sigterm(children: ChildProcesses, make_spec: MakeSpec, said: Said) -> None:
    child = children.start(make_spec(SLEEP))
    said("child")
    children.stop(timeout_s=PATIENCE_S)
    assert is_gone(child.key)
    assert child.exit_code() == -signal.SIGTERM


def test_child_that_ignores_sigterm_is_killed_at_the_deadline(
    children: ChildProcesses, make_spec: MakeSpec, said: Said
) -> None:
    child = children.start(make_spec(STUBBORN))
    said("child")
    children.stop(timeout_s=0.2)
    assert child.exit_code() == -signal.SIGKILL


def test_stop_waits_for_a_slow_child(children: ChildProcesses, make_spec: MakeSpec, said: Said) -> None:
    script = "import signal, sys, time; signal.signal(signal.SIGTERM, lambda *_: (time.sleep(0.3), sys.exit(5)))"
    child = children.start(make_spec(f"{script}; print('ready'); time.sleep(1000)"))
    said("child")
    children.stop(timeout_s=PATIENCE_S)
    assert child.exit_code() == 5


def test_grandchildren_end_with_the_child_even_in_sessions_of_their_own(
    children: ChildProcesses, make_spec: MakeSpec, said: Said
) -> None:
    children.start(make_spec(WITH_GRANDCHILDREN))
    grandchildren = [key_of(int(pid)) for pid in said("child").split()]
    children.stop(timeout_s=PATIENCE_S)
    assert all(map(is_gone, grandchildren))


def test_remaining_processes_of_a_dead_child_are_stopped(
    children: ChildProcesses, make_spec: MakeSpec, said: Said
) -> None:
    child = children.start(make_spec(ORPHANING))
    orphan = key_of(int(said("child")))
    poll_until(lambda: not child.is_alive())
    children.tick()
    assert is_gone(orphan)


def test_child_death_is_reported_once(children: ChildProcesses, make_spec: MakeSpec) -> None:
    children.start(make_spec("raise SystemExit(3)"))
    (death,) = poll_until(children.tick)
    assert (death.name, death.exit_code, death.restart_in_s) == ("child", 3, None)
    assert children.tick() == []


def test_killed_child_is_restarted(children: ChildProcesses, make_spec: MakeSpec, said: Said) -> None:
    first = children.start(make_spec(SLEEP, restart=True, restart_delay_s=0.01))
    said("child")
    os.kill(first.pid, signal.SIGKILL)
    (death,) = poll_until(children.tick)
    assert "SIGKILL" in str(death)
    assert death.restart_in_s == 0.01
    poll_until(lambda: not children.tick() and children.find("child"))
    second = children.find("child")
    assert second is not None
    assert second.key != first.key


def test_restart_that_finds_no_space_is_tried_again(
    children: ChildProcesses, make_spec: MakeSpec, said: Said, tmp_path: Path
) -> None:
    log_file, go = tmp_path / "child.log", tmp_path / "go"
    program = f"import os, time\nwhile not os.path.exists({str(go)!r}): time.sleep(0.01)\nraise SystemExit(3)"
    children.start(make_spec(program, restart=True, restart_delay_s=0.01))
    log_file.unlink()
    log_file.mkdir()  # So that it cannot be opened, as without space.
    go.touch()
    with pytest.raises(IsADirectoryError):  # The tick that reports the end may start the child again, too.
        poll_until(lambda: children.tick() and False)
    log_file.rmdir()
    poll_until(children.tick)


def test_restarts_of_a_failing_child_back_off(children: ChildProcesses, make_spec: MakeSpec) -> None:
    children.start(make_spec("raise SystemExit(3)", restart=True, restart_delay_s=0.01))
    delays = [poll_until(children.tick)[0].restart_in_s for _ in range(4)]
    assert delays == [0.01, 0.02, 0.04, 0.08]


def test_end_of_a_dismissed_child_is_not_reported(children: ChildProcesses, make_spec: MakeSpec, said: Said) -> None:
    child = children.start(make_spec(SLEEP, restart=True))
    said("child")
    children.dismiss("child")
    poll_until(lambda: not child.is_alive())
    assert children.tick() == []
    assert children.names() == set()


def test_only_the_named_children_are_stopped(children: ChildProcesses, make_spec: MakeSpec) -> None:
    going, staying = children.start(make_spec(SLEEP, "going")), children.start(make_spec(SLEEP, "staying"))
    children.stop(PATIENCE_S, {"going"})
    assert is_gone(going.key)
    assert staying.is_alive()


def test_missing_program_is_logged(children: ChildProcesses, tmp_path: Path, said: Said) -> None:
    children.start(ChildSpec("child", ("no-such-program",), dict(os.environ), tmp_path / "child.log"))
    assert "no-such-program" in said("child")


def test_a_child_ends_when_its_parent_is_killed(tmp_path: Path, said: Said) -> None:
    _, child = killed_parent_of(SLEEP, tmp_path, said)
    poll_until(lambda: is_gone(child))


def test_leftover_processes_are_stopped_by_the_next_run(tmp_path: Path, said: Said, registry: ChildRegistry) -> None:
    parent, child = killed_parent_of(STUBBORN, tmp_path, said)
    poll_until(lambda: is_gone(parent))
    assert process_table.is_alive(child)
    assert registry.stop_leftovers(timeout_s=0.2) == ["child"]
    assert is_gone(child)


def test_children_of_a_leftover_process_are_stopped(tmp_path: Path, said: Said, registry: ChildRegistry) -> None:
    stubborn_family = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN){WITH_GRANDCHILDREN}"
    _, child = killed_parent_of(stubborn_family, tmp_path, said)
    grandchildren = [key_of(int(pid)) for pid in said("child").split()]
    registry.stop_leftovers(timeout_s=0.2)
    assert all(map(is_gone, [child, *grandchildren]))


def test_foreign_process_with_the_pid_is_left_alone(
    children: ChildProcesses, make_spec: MakeSpec, registry: ChildRegistry, tmp_path: Path
) -> None:
    foreign_process = children.start(make_spec(SLEEP))
    written = (tmp_path / "children.json").read_text()
    ticks = f'"started_at_ticks": {foreign_process.key.started_at_ticks}'
    assert ticks in written
    (tmp_path / "children.json").write_text(written.replace(ticks, '"started_at_ticks": 1'))
    assert registry.stop_leftovers(timeout_s=0) == []
    assert foreign_process.is_alive()


def test_registered_pids_of_an_earlier_boot_are_ignored(
    children: ChildProcesses, make_spec: MakeSpec, registry: ChildRegistry, tmp_path: Path
) -> None:
    foreign_process = children.start(make_spec(SLEEP))
    written = (tmp_path / "children.json").read_text()
    (tmp_path / "children.json").write_text(written.replace(process_table.boot_id(), "another-boot"))
    assert registry.stop_leftovers(timeout_s=0) == []
    assert foreign_process.is_alive()


def test_registry_that_finds_no_space_is_named(registry: ChildRegistry, tmp_path: Path) -> None:
    """What is not named would be taken for the output of the command."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        with pytest.raises(OSError, match="too large") as failure:
            registry.write([])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert failure.value.filename == str(tmp_path / "children.json")


def test_children_of_a_running_instance_are_not_leftovers(tmp_path: Path, said: Said, registry: ChildRegistry) -> None:
    program = PARENT.format(registry=str(tmp_path / "children.json"), script=SLEEP, log=str(tmp_path / "child.log"))
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        said("child")
        with pytest.raises(UserError, match=f"pid {parent.pid}"):
            registry.stop_leftovers(timeout_s=0)
        parent.kill()


def test_a_process_that_adopts_orphans_can_kill_them_all(tmp_path: Path) -> None:
    script = """
import subprocess, sys
from muster.local.orphans import adopt_orphans, kill_strays
adopt_orphans()
popen = "subprocess.Popen(['sleep', '1000'], start_new_session=True, stdout=subprocess.DEVNULL)"
runaway = f"import subprocess; print({popen}.pid)"
pid = subprocess.run([sys.executable, "-c", runaway], stdout=subprocess.PIPE, text=True, check=True).stdout
print(pid.strip(), flush=True)
sys.stdin.readline()
kill_strays()
print("killed", flush=True)
sys.stdin.readline()
"""
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        runaway = key_of(int(process.stdout.readline()))
        process.stdin.write("go on\n")
        process.stdin.flush()
        assert process.stdout.readline() == "killed\n"
        assert process_table.find_process(runaway.pid) is None, "not even a zombie is left"
        process.stdin.write("end\n")


LAST_THREAD = """
import ctypes, os, threading, time
from tests.support.waiting import poll_until
def last():
    time.sleep(0.5)
    os._exit(7)
threading.Thread(target=last).start()
ctypes.CDLL(None).syscall(60, 0)  # exit, of this one thread
"""


def test_exit_code_is_known_if_the_main_thread_ends_first(make_spec: MakeSpec) -> None:
    child = Child(make_spec(LAST_THREAD))
    poll_until(lambda: not child.is_alive())
    assert child.exit_code() == 7
