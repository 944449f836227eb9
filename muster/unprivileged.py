"""Postgres refuses to run as root, so root's server runs as nobody, and no account is made for it."""

import os
import pwd
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from muster.errors import UserError
from muster.processes import RootDrop

ACCOUNT = "nobody"
PROBE_TIMEOUT_S = 30.0
PASSABLE_DIRECTORY = 0o711


@dataclass(frozen=True, slots=True)
class Identity:
    """As whom a server runs; the fields are those of a `ChildSpec`."""

    root_drop: RootDrop = RootDrop.KEEP
    user: str | None = None


OURS = Identity()
NAMESPACED = Identity(RootDrop.NAMESPACE)
ACCOUNTED = Identity(user=ACCOUNT)


def choose_identity(home: Path, program: str) -> Identity:
    """Find as whom `program` may run here and use `home`, whose owner is changed if that is what it takes.

    A user namespace comes first: there the files stay root's own, wherever they are.

    Raises:
        UserError: nobody fits.
    """
    if os.geteuid() != 0 and _has_account():
        return OURS
    if home.stat().st_uid == os.geteuid() and can_run(NAMESPACED, program):
        return NAMESPACED
    if os.geteuid() == 0:
        give_away(home)
        if can_run(ACCOUNTED, program):
            return ACCOUNTED
    raise UserError(
        "Postgres refuses to run as root, and this machine neither allows user namespaces nor lets "
        f"`{ACCOUNT}` reach {program}; start muster as an ordinary user, or set MUSTER_DATABASE_URL."
    )


def can_run(identity: Identity, program: str) -> bool:
    """Try whether `program --version` succeeds as this identity."""
    entry = str(Path(__file__).with_name("child_entry.py"))
    contract = [str(os.getpid()), "9", identity.root_drop.value]
    try:
        probe = subprocess.run(
            [sys.executable, "-I", "-S", entry, *contract, program, "--version"],
            capture_output=True,
            check=False,
            timeout=PROBE_TIMEOUT_S,
            user=identity.user,
            extra_groups=None if identity.user is None else [],
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return probe.returncode == 0


def give_away(home: Path) -> None:
    """Make `home` and all in it nobody's, and let nobody pass through the directory above it."""
    home.parent.chmod(PASSABLE_DIRECTORY)
    account = pwd.getpwnam(ACCOUNT)
    for path in (home, *home.rglob("*")):
        os.chown(path, account.pw_uid, account.pw_gid)


def _has_account() -> bool:
    try:
        pwd.getpwuid(os.geteuid())
    except KeyError:
        return False
    return True
