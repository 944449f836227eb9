"""Entry point of child processes: ties the child's life to its parent's, and may drop root.

Run by path with the bare interpreter, so it imports nothing of ours. It is a program and not a function between fork
and exec, because such a function may deadlock when the parent has threads.

Usage: child_entry.py PARENT_PID DEATH_SIGNAL ROOT_DROP PROGRAM [ARGUMENT…], where ROOT_DROP is `keep`, `namespace` or
`account`.
"""

import ctypes
import os
import pwd
import signal
import struct
import sys
from pathlib import Path

PR_SET_PDEATHSIG = 1
PR_SET_SECUREBITS = 28
SECBIT_NO_SETUID_FIXUP = 1 << 2
PR_CAP_AMBIENT = 47
PR_CAP_AMBIENT_RAISE = 2
CAPABILITY_VERSION_3 = 0x20080522
CAP_DAC_OVERRIDE = 1
CLONE_NEWUSER = 0x10000000
UNPRIVILEGED_ID = 65534
ACCOUNT = "nobody"
COULD_NOT_START = 126


def main(arguments: list[str]) -> int:
    """Replace this process by the program; if that fails, print the reason and return an exit code."""
    parent_pid, death_signal, root_drop, *program = arguments
    try:
        if root_drop == "namespace":
            enter_namespace()
        elif root_drop == "account":
            become_account()
        end_with_parent(int(parent_pid), int(death_signal))
        os.execvp(program[0], program)
    except OSError as failure:
        print(f"{program[0]}: {failure}", file=sys.stderr)
        return COULD_NOT_START


def enter_namespace() -> None:
    """Enter a user namespace in which this process is not root: files stay readable, and no account is needed."""
    uid, gid = os.geteuid(), os.getegid()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWUSER) != 0:
        raise OSError(ctypes.get_errno(), "user namespaces are not allowed here")
    _write("/proc/self/setgroups", "deny")
    _write("/proc/self/uid_map", f"{UNPRIVILEGED_ID} {uid} 1")
    _write("/proc/self/gid_map", f"{UNPRIVILEGED_ID} {gid} 1")


def become_account() -> None:
    """Become `nobody`, but keep the capability of root to read files in any directory.

    The securebit makes access(2) honour the capability, which `initdb` asks for `postgres`.
    """
    account = pwd.getpwnam(ACCOUNT)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "the capability CAP_DAC_OVERRIDE cannot be kept (CAP_SETPCAP is missing)")
    os.setgroups([])
    os.setgid(account.pw_gid)
    os.setuid(account.pw_uid)
    header = struct.pack("Ii", CAPABILITY_VERSION_3, 0)
    effective = permitted = inheritable = 1 << CAP_DAC_OVERRIDE
    kept = struct.pack("6I", effective, permitted, inheritable, 0, 0, 0)
    if libc.capset(header, kept) != 0 or libc.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_DAC_OVERRIDE, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "the capability CAP_DAC_OVERRIDE cannot be kept")


def end_with_parent(parent_pid: int, death_signal: int) -> None:
    """Ask the kernel for `death_signal` when the parent ends; end at once if it has ended already.

    Comes after any change of user, which would make the kernel forget it.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, death_signal, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    if os.getppid() != parent_pid:
        os.kill(os.getpid(), signal.SIGKILL)


def _write(path: str, text: str) -> None:
    Path(path).write_text(text, encoding="ascii")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
