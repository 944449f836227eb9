"""The command `muster`: whatever goes wrong is one sentence on stderr and an exit code, never a traceback."""

import platform
import sys
from typing import NoReturn

import typer
from typer.exceptions import TyperException

from muster.commands.tree import Commands, show_help
from muster.crash import crash
from muster.errors import FAILURE_EXIT_CODE, UserError, disk_error

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
    """Run the command line and exit: 0 done, 1 refused or failed, 2 wrong usage, 3 nobody answered."""
    if platform.system() != "Linux":
        _fail("Only Linux can run muster; its agents run anywhere.", FAILURE_EXIT_CODE)
    try:
        sys.exit(app(standalone_mode=False))
    except UserError as failure:
        _fail(failure.sentence, failure.exit_code)
    except TyperException as failure:
        _fail(failure.format_message(), failure.exit_code)
    except typer.Abort:
        _fail("Stopped.", FAILURE_EXIT_CODE)
    except BrokenPipeError:
        _leave_quietly()
    except OSError as failure:
        explained = disk_error(failure)
        _fail(explained.sentence if explained else crash(failure), FAILURE_EXIT_CODE)
    except Exception as failure:  # noqa: BLE001 - the last one to hear of it writes it down, and says where
        _fail(crash(failure), FAILURE_EXIT_CODE)


def _fail(sentence: str, exit_code: int) -> NoReturn:
    if sentence:  # There is none when the help was shown instead.
        print(f"muster: {sentence}", file=sys.stderr)
    sys.exit(exit_code)


def _leave_quietly() -> NoReturn:
    """Exit as a program does whose reader, such as `head`, has read enough."""
    sys.stdout = None  # else Python would try to write the rest when it ends
    sys.exit(FAILURE_EXIT_CODE)
