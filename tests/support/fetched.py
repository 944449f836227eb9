"""What tests fetch once from the package registries, into folders of `.tools` that all processes of a run share."""

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

TOOLS: Final = Path(__file__).resolve().parents[2] / ".tools"


def fetch_once(directory: Path, fetch: Callable[[Path], object]) -> Path:
    """Return a folder, which is fetched if it does not exist; other processes that want it wait meanwhile.

    Args:
        directory: the folder, such as one of `TOOLS`.
        fetch: fills another, empty folder, which gets the name when it is complete; what it raises is raised.
    """
    if not directory.is_dir():
        directory.parent.mkdir(parents=True, exist_ok=True)
        with _locked(directory.parent):
            if not directory.is_dir():
                draft = directory.with_name(f"{directory.name}.new")
                shutil.rmtree(draft, ignore_errors=True)  # of a process that was killed
                draft.mkdir()
                try:
                    fetch(draft)
                    draft.rename(directory)
                finally:
                    shutil.rmtree(draft, ignore_errors=True)
    return directory


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
