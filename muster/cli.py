"""The command `muster`: whatever goes wrong is one sentence on stderr and an exit code, never a traceback."""

import errno
import os
import platform
import sys
from typing import Final, NoReturn

import typer
from typer.exceptions import TyperException

from muster.commands.tree import Commands, show_help
from muster.crash import crash
from muster.errors import FAILURE_EXIT_CODE, USAGE_EXIT_CODE, UserError, disk_error

FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
"""What a write says that finds no room; only the output's does not say where, for files are named."""

app = typer.Typer(
    name="muster",
    cls=Commands,
    help="Coordinate consumer groups on Postgres, and look after them.",
    epilog="Every setting is also a variable in the environment: MUSTER_ and its name in capitals.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


app.callback(invoke_without_command=True)(show_help)


def main() -> NoReturn:
    """Run the command line and exit: 0 done, 1 refused or failed, 2 wrong usage, 3 nobody answered, 130 Ctrl-C."""
    _replace_closed_streams()
    if platform.system() != "Linux":
        sys.exit(_told("Only Linux can run muster; its agents run anywhere."))
    if not all(map(_is_utf8, sys.argv)):
        sys.exit(_told("An argument is not UTF-8.", USAGE_EXIT_CODE))
    sys.exit(_with_output_written(_run()))


def _run() -> int | None:
    try:
        exit_code: int | None = app(standalone_mode=False)
    except UserError as failure:
        return _told(failure.sentence, failure.exit_code)
    except TyperException as failure:
        return _told(failure.format_message(), failure.exit_code)
    except typer.Abort:
        return _told("Stopped.")
    except BrokenPipeError:
        return _leave_quietly()
    except OSError as failure:
        if failure.filename is None and failure.errno in FULL:
            return _tell_of_output(failure)
        explained = disk_error(failure)
        return _told(explained.sentence if explained else crash(failure))
    except Exception as failure:  # noqa: BLE001 - the last one to hear of it writes it down, and says where
        return _told(crash(failure))
    return exit_code


def _told(sentence: str, exit_code: int = FAILURE_EXIT_CODE) -> int:
    if sentence:  # There is none when the help was shown instead.
        print(f"muster: {sentence}", file=sys.stderr)
    return exit_code


def _with_output_written(exit_code: int | None) -> int | None:
    """Write what is left of the output, which Python would do later and could not tell of in a sentence."""
    if sys.stdout is None:
        return exit_code
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        return _leave_quietly()
    except OSError as failure:
        return _tell_of_output(failure)
    return exit_code


def _tell_of_output(failure: OSError) -> int:
    sys.stdout = None  # else Python would try to write the rest when it ends
    return _told(f"The output cannot be written ({failure.strerror}).")


def _leave_quietly() -> int:
    """Give up the output, as a program does whose reader, such as `head`, has read enough."""
    sys.stdout = None  # likewise
    return FAILURE_EXIT_CODE


def _is_utf8(argument: str) -> bool:
    """Tell whether Python could read an argument; bytes that it could not are surrogates."""
    return not any("\ud800" <= letter <= "\udfff" for letter in argument)


def _replace_closed_streams() -> None:
    """Let what would be printed go nowhere, where whoever runs the command closed the way there."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115, PTH123 - open until the process ends
