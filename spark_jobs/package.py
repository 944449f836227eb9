"""Build the zip with the jobs and the protocol's rules for `spark-submit --py-files`.

The build is reproducible. Run: python -m spark_jobs.package FILE
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

ROOT: Final = Path(__file__).resolve().parent.parent
PACKAGES: Final = (
    "spark_jobs",
    "coordinator_core/analytics",
    "coordinator_core/assignors",
    "coordinator_core/protocol",
)
SINGLE_FILES: Final = ("coordinator_core/__init__.py", "coordinator_core/jobs.py")
EPOCH: Final = (1980, 1, 1, 0, 0, 0)
"""The earliest time that a zip file can store."""


def build(file: Path) -> int:
    """Write the zip and return its number of modules."""
    file.parent.mkdir(parents=True, exist_ok=True)
    sources = sorted(_static_files())
    with ZipFile(file, "w", ZIP_DEFLATED) as archive:
        for source in sources:
            entry = ZipInfo(source.relative_to(ROOT).as_posix(), EPOCH)
            entry.compress_type = ZIP_DEFLATED
            archive.writestr(entry, source.read_bytes())
    return len(sources)


def _static_files() -> Iterator[Path]:
    for package in PACKAGES:
        yield from (ROOT / package).rglob("*.py")
    for name in SINGLE_FILES:
        yield ROOT / name


if __name__ == "__main__":
    print(f"{sys.argv[1]}: {build(Path(sys.argv[1]))} modules")
