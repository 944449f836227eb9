"""What a child leaves behind when it ends becomes our own child, so that it can be found, reaped and killed."""

import contextlib
import ctypes
import os
from collections.abc import Collection

from muster import process_table

PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> None:
    """Make this process, for as long as it runs, the parent of whatever its children leave behind."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def reap_orphans(own_pids: Collection[int]) -> None:
    """Take note of the end of adopted processes, which would stay zombies otherwise.

    Leaves alone `own_pids` and whatever is in this process's own session: somebody here waits for those.
    """
    own_session = os.getsid(0)
    for row in process_table.all_processes():
        is_adopted = row.parent_pid == os.getpid() and row.session_id != own_session
        if row.is_zombie and is_adopted and row.key.pid not in own_pids:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(row.key.pid, os.WNOHANG)


def kill_strays() -> None:
    """Kill every descendant of this process and leave not even a zombie; for when nobody waits for one any more."""
    rows = process_table.all_processes()
    process_table.kill_all(process_table.descendants_of(process_table.this_process(), rows))
    reap_orphans(own_pids=())
