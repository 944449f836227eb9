"""Port checks before anything starts; a port in use is reported with the process that uses it."""

import contextlib
import errno
import socket
from collections.abc import Iterable
from itertools import combinations
from pathlib import Path

from muster.display import printable
from muster.errors import USAGE_EXIT_CODE, UserError
from muster.process_table import PROC
from muster.settings import ANY_ADDRESS

LISTENING = "0A"


def require_free_port(host: str, port: int, option: str) -> None:
    """Check that a server can listen on a port.

    Args:
        host: an address of this machine.
        port: the port wanted.
        option: what the person can change, as `--port`.

    Raises:
        UserError: it cannot; the sentence names who listens there, if that can be seen.
    """
    failure = bind_failure(host, port)
    if failure is None:
        return
    if is_wrong_host(failure):
        raise UserError(
            f"No server can listen on {host} ({failure.strerror}); it has to be an address of this machine."
        )
    owner = listener_on(port)
    who = f"taken by {owner}" if owner else f"taken or not allowed (`ss -ltnp 'sport = :{port}'` shows the process)"
    raise UserError(f"Port {port} on {host} is {who}; stop that program, or choose another port with {option}.")


def require_distinct_ports(places: Iterable[tuple[str, int, str]]) -> None:
    """Check that no two servers are to listen on one port.

    Args:
        places: of each server the address of this machine, the port, and what the person can change, as `--port`.

    Raises:
        UserError: two are to; the sentence names both options.
    """
    for (host, port, option), (other_host, other_port, other_option) in combinations(places, 2):
        if port == other_port and (host == other_host or not ANY_ADDRESS.isdisjoint((host, other_host))):
            raise UserError(
                f"Port {port} is that of {option} and of {other_option}; choose another port with one of them.",
                USAGE_EXIT_CODE,
            )


def is_free_port(host: str, port: int) -> bool:
    """Return whether a server can listen on a port now."""
    return bind_failure(host, port) is None


def is_wrong_host(failure: OSError) -> bool:
    """Return whether it is the host, and not the port, on which no server can listen."""
    return isinstance(failure, socket.gaierror) or failure.errno == errno.EADDRNOTAVAIL


def bind_failure(host: str, port: int) -> OSError | None:
    """Return why no server can listen on a port now; None: one can."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        # As servers do: what old connections left behind does not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as failure:
            return failure
        return None


def listener_on(port: int) -> str | None:
    """Return the process that listens on a port; None if it belongs to another user."""
    sockets = {f"socket:[{inode}]" for inode in _listening_inodes(port)}
    for process in PROC.glob("[0-9]*"):
        with contextlib.suppress(OSError):  # It has ended, or is another user's.
            if any(_target(descriptor) in sockets for descriptor in (process / "fd").iterdir()):
                name = (process / "comm").read_text(encoding="utf-8", errors="replace").strip()
                return f"{printable(name)} (pid {process.name})"
    return None


def _target(descriptor: Path) -> str:
    try:
        return str(descriptor.readlink())
    except FileNotFoundError:  # It was closed a moment ago.
        return ""


def _listening_inodes(port: int) -> set[str]:
    inodes = set()
    tables = (PROC / "net" / name for name in ("tcp", "tcp6"))
    for table in filter(Path.exists, tables):  # A kernel without IPv6 has one only.
        for line in table.read_text().splitlines()[1:]:
            _, local, _, state, *rest = line.split()
            if state == LISTENING and int(local.rpartition(":")[2], 16) == port:
                inodes.add(rest[5])
    return inodes
