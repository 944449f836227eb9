"""Source files of the repository, without environments, caches and builds."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
MADE: Final = frozenset({"__pycache__", "dist", "build", "site"})


def written(*suffixes: str) -> list[Path]:
    """Return the files with these suffixes by path, without those in hidden folders."""
    return sorted(path for path in _below(ROOT) if path.name.endswith(suffixes))


def _below(folder: Path) -> Iterator[Path]:
    for path in folder.iterdir():
        if path.is_dir():
            if not path.name.startswith(".") and path.name not in MADE:
                yield from _below(path)
        else:
            yield path
