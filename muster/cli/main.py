"""The `muster` command: errors are one sentence on stderr and an exit code, never a traceback."""

import errno
import os
import platform
import sys
from typing import Annotated, Final, NoReturn

import typer
from typer.exceptions import TyperException

from muster.cli.command_tree import Commands, show_help
from muster.cli.crash import crash
from muster.errors import FAILURE_EXIT_CODE, USAGE_EXIT_CODE, UserError, disk_error

WRITE_ERRORS: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
"""Errors of a write that failed; one without a file name is an error of standard output."""

app = typer.Typer(
    name="muster",
    cls=Commands,
    help="Coordinate and operate consumer groups on Postgres.",
    epilog="Settings are environment variables: MUSTER_ and the name in capitals.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def show(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """Print the version, or the help if there is no command."""
    if version:
        import importlib.metadata  # noqa: PLC0415 - only the option needs it

        print(importlib.metadata.version("muster"))
        raise typer.Exit
    show_help(context)


def main() -> NoReturn:
    """Run the command line and exit: 0 done, 1 refused or failed, 2 wrong usage, 3 no answer, 130 Ctrl-C."""
    _replace_closed_streams()
    if platform.system() != "Linux":
        sys.exit(_print_error("Only Linux can run muster; its agents run anywhere."))
    if not all(map(_is_utf8, sys.argv)):
        sys.exit(_print_error("An argument is not UTF-8.", USAGE_EXIT_CODE))
    sys.exit(_flush_output(_run()))


def _run() -> int | None:
    try:
        exit_code: int | None = app(standalone_mode=False)
    except UserError as failure:
        return _print_error(failure.sentence, failure.exit_code)
    except TyperException as failure:
        sentence = " ".join(failure.format_message().split())
        return _print_error(sentence.replace(": Value error, ", ": "), failure.exit_code)
    except typer.Abort:
        return _print_error("Stopped.")
    except BrokenPipeError:
        return _discard_output()
    except OSError as failure:
        if failure.filename is None and failure.errno in WRITE_ERRORS:
            return _report_output_error(failure)
        explained = disk_error(failure)
        return _print_error(explained.sentence if explained else crash(failure))
    except Exception as failure:  # noqa: BLE001 - the last one to hear of it writes it down, and says where
        return _print_error(crash(failure))
    return exit_code


def _print_error(sentence: str, exit_code: int = FAILURE_EXIT_CODE) -> int:
    if sentence:  # There is none when the help was shown instead.
        print(f"muster: {sentence}", file=sys.stderr)
    return exit_code


def _flush_output(exit_code: int | None) -> int | None:
    """Flush the output, so that an error is reported in one sentence."""
    if sys.stdout is None:
        return exit_code
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        return _discard_output()
    except OSError as failure:
        return _report_output_error(failure)
    return exit_code


def _report_output_error(failure: OSError) -> int:
    sys.stdout = None  # else Python would try to write the rest when it ends
    return _print_error(f"The output cannot be written ({failure.strerror}).")


def _discard_output() -> int:
    """Discard further output, because its reader, such as `head`, has closed the pipe."""
    sys.stdout = None  # likewise
    return FAILURE_EXIT_CODE


def _is_utf8(argument: str) -> bool:
    """Return whether an argument is valid UTF-8; Python decodes other bytes to surrogates."""
    return not any("\ud800" <= letter <= "\udfff" for letter in argument)


def _replace_closed_streams() -> None:
    """Discard further output after the reader closed the pipe."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115, PTH123 - open until the process ends
