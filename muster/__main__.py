"""Entry point of `muster` and `python -m muster`: prints a stored help page, or else runs the command line."""

import io
import sys

from muster.cli.help_pages import stored_page
from muster.errors import INTERRUPTED_EXIT_CODE


def main() -> None:
    """Run the command line; the help of a command is printed without loading it."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # As JSON and CSV are; a locale of another encoding lacks some letters.
            stream.reconfigure(encoding="utf-8", errors=stream.errors)
    page = stored_page(sys.argv[1:])
    if page is not None:
        try:
            print(page, flush=True)
        except OSError:
            pass  # The command line prints the page, too, and reports what prevents it.
        else:
            sys.exit()
    try:
        from muster.cli.main import main as run_command_line  # noqa: PLC0415 - it takes most of the time of a help page
    except KeyboardInterrupt:
        print("muster: Stopped.", file=sys.stderr)
        sys.exit(INTERRUPTED_EXIT_CODE)
    run_command_line()


if __name__ == "__main__":
    main()
