"""Child subreaper: descendants of ended children become our children, so that they can be found and stopped."""

import contextlib
import ctypes
import os
from collections.abc import Collection

from muster import process_table

PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> None:
    """Make this process a child subreaper: the parent of the processes that its children leave behind."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def reap_orphans(own_pids: Collection[int]) -> None:
    """Reap adopted processes, which would remain zombies otherwise.

    Skips `own_pids` and the processes of this process's session, which are waited for elsewhere.
    """
    own_session = os.getsid(0)
    for row in process_table.all_processes():
        is_adopted = row.parent_pid == os.getpid() and row.session_id != own_session
        if row.is_zombie and is_adopted and row.key.pid not in own_pids:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(row.key.pid, os.WNOHANG)


def kill_strays() -> None:
    """Kill and reap every descendant of this process; call it when no child is waited for any more."""
    rows = process_table.all_processes()
    process_table.kill_all(process_table.descendants_of(process_table.this_process(), rows))
    reap_orphans(own_pids=())
