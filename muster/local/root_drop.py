"""Ways for root to run Postgres, which refuses root: in a user namespace, or as the account `nobody`."""

import os
import pwd
import signal
import subprocess
from pathlib import Path

from muster.errors import UserError
from muster.local.child_entry import ACCOUNT
from muster.local.processes import RootDrop, tied_command

PROBE_TIMEOUT_S = 30.0


def choose_root_drop(home: Path, program: str) -> RootDrop:
    """Return how `program` drops root on this machine; change the owner of `home` if necessary.

    A user namespace is preferred: there the files remain root's. Containers and chroots often forbid it.

    Raises:
        UserError: `program` cannot run here.
    """
    if os.geteuid() != 0 and _has_account():
        return RootDrop.KEEP
    if home.stat().st_uid == os.geteuid() and can_run(RootDrop.NAMESPACE, program):
        return RootDrop.NAMESPACE
    if os.geteuid() == 0 and can_run(RootDrop.ACCOUNT, program):
        chown_recursively(home)
        return RootDrop.ACCOUNT
    raise UserError(
        f"Postgres refuses to run as root, and this machine allows neither user namespaces nor the account `{ACCOUNT}` "
        "with the capabilities CAP_DAC_OVERRIDE and CAP_SETPCAP; start muster as an ordinary user, or set "
        "MUSTER_DATABASE_URL."
    )


def can_run(root_drop: RootDrop, program: str) -> bool:
    """Return whether `program --version` succeeds after it has dropped root in this way."""
    command = tied_command((program, "--version"), signal.SIGKILL, root_drop)
    try:
        probe = subprocess.run(command, capture_output=True, check=False, timeout=PROBE_TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return probe.returncode == 0


def chown_recursively(home: Path) -> None:
    """Change the owner of `home` and of all in it to `nobody`."""
    account = pwd.getpwnam(ACCOUNT)
    for path in (home, *home.rglob("*")):
        os.chown(path, account.pw_uid, account.pw_gid)


def _has_account() -> bool:
    try:
        pwd.getpwuid(os.geteuid())
    except KeyError:
        return False
    return True
