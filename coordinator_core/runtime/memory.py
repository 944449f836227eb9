"""What happens when the process gets no memory: a request fails alone, and anything else ends the process.

A part of the node that has stopped in the middle of its work, such as a loop or a decision, cannot be trusted to go on,
and all state is in Postgres. A request whose body is too large for the memory that is left has changed nothing.
"""

import os
import sys
from typing import Final, NoReturn

OUT_OF_MEMORY_EXIT_CODE: Final = 71
"""EX_OSERR of sysexits.h."""
NO_MEMORY: Final = "the node has not enough memory for this request"
_NO_THREAD: Final = "can't start new thread"
_MESSAGE: Final = b'{"event": "memory_exhausted", "level": "critical"}\n'


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error means that the process gets no memory, which a new thread needs for its stack."""
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and str(error) == _NO_THREAD)


def end_if_out_of_memory(error: BaseException) -> None:
    """End the process if the error means that it gets no memory; called first where any error is caught."""
    if is_out_of_memory(error):
        end_process()


def end_process() -> NoReturn:
    """End the process at once, without allocating memory; its supervisor starts it again."""
    os.write(sys.stderr.fileno(), _MESSAGE)
    os._exit(OUT_OF_MEMORY_EXIT_CODE)
