"""A node finds the copy of a day only in its archive, and counts the rows of the files."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from coordinator_core.runtime.archive_files import FILES_MAX, ArchiveFiles, count_rows
from coordinator_core.state_store.partition_drop import ClaimedCopy
from tests.support.waiting import PATIENCE_S

DIRECTORY = Path("offset_history/day=2026-01-02/attempt=1")
VERSION = bytes([0x15, 0x04])
SCHEMA = bytes([0x19, 0x2C, 0x48, 0x05, *b"\x00\xff\xff\xff\x00", 0x00, 0x11, 0x17, *bytes(8), 0x00])
"""Two elements: one with a name; one with a boolean and a floating-point number."""


def footer(row_count: int) -> bytes:
    """Write a footer's first fields in Thrift's compact protocol; `row_count` is below 64."""
    return VERSION + SCHEMA + bytes([0x16, row_count * 2, 0x00])


def write(file: Path, row_count: int, data: bytes = b"PAR1") -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    written = footer(row_count)
    file.write_bytes(data + written + len(written).to_bytes(4, "little") + b"PAR1")


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """An archive with one copy, of seven rows in two files."""
    archive = tmp_path / "the archive"
    write(archive / DIRECTORY / "part-0.parquet", 3)
    write(archive / DIRECTORY / "part-1.parquet", 4)
    return archive


def has(archive: Path | str, copy: Path | str, row_count: int = 7, day: str = "2026-01-02") -> bool:
    files = ArchiveFiles(str(archive), is_checked=True)
    return files.has(ClaimedCopy("offset_history", day, str(copy), row_count))


@pytest.mark.parametrize("write_uri", [str, lambda path: f"file://{path}", lambda path: f"file:{path}", Path.as_uri])
def test_a_copy_is_found_however_its_place_is_written(archive: Path, write_uri: type[str]) -> None:
    assert has(write_uri(archive), write_uri(archive / DIRECTORY))


def test_an_archive_is_found_where_spark_creates_it_after_the_node_started(tmp_path: Path) -> None:
    """Hadoop takes the path of a `file:` URI as it is, so a percent sign in it is one in the name."""
    archive = tmp_path / "the%20archive"
    files = ArchiveFiles(f"file://{archive}", is_checked=True)
    write(archive / DIRECTORY / "part-0.parquet", 7)
    assert files.has(ClaimedCopy("offset_history", "2026-01-02", f"file://{archive / DIRECTORY}", 7))


def test_a_copy_with_another_number_of_rows_is_not_the_one(archive: Path) -> None:
    assert not has(archive, archive / DIRECTORY, row_count=8)


@pytest.mark.parametrize("place", ["nowhere", "offset_history/day=2026-01-03/attempt=1", "rebalances/day=2026-01-02/a"])
def test_a_copy_elsewhere_is_not_the_one(archive: Path, place: str) -> None:
    """Neither a directory that is missing, nor a copy of another day or table with as many rows."""
    if place != "nowhere":
        write(archive / place / "part-0.parquet", 7)
    assert not has(archive, archive / place)


def test_a_copy_outside_the_archive_is_not_looked_at(archive: Path) -> None:
    outside = archive.parent / "outside"
    write(outside / DIRECTORY / "part-0.parquet", 7)
    assert not has(archive, outside / DIRECTORY)
    assert not has(archive, f"{archive}/../outside/{DIRECTORY}")
    (archive / "offset_history" / "day=2026-01-02" / "link").symlink_to(outside / DIRECTORY)
    assert not has(archive, archive / "offset_history" / "day=2026-01-02" / "link")


@pytest.mark.parametrize("place", ["file:///" + "x" * 100_000, "/" + "x" * 100_000, "file:///%00", "/\x1b[2J"])
def test_a_place_that_no_file_can_have_holds_no_copy(archive: Path, place: str) -> None:
    assert not has(archive, place)


def test_a_link_to_a_file_is_no_copy(archive: Path) -> None:
    write(archive.parent / "part-2.parquet", 7)
    for file in (archive / DIRECTORY).iterdir():
        file.unlink()
    (archive / DIRECTORY / "part-0.parquet").symlink_to(archive.parent / "part-2.parquet")
    assert not has(archive, archive / DIRECTORY)


def test_a_pipe_is_not_waited_for(archive: Path) -> None:
    os.mkfifo(archive / DIRECTORY / "part-2.parquet")
    with ThreadPoolExecutor(1) as executor:
        found = executor.submit(has, archive, archive / DIRECTORY)
        try:
            assert not found.result(PATIENCE_S)
        finally:  # what waits for a writer is given one
            os.close(os.open(archive / DIRECTORY / "part-2.parquet", os.O_RDWR | os.O_NONBLOCK))


def test_a_link_to_itself_holds_no_copy(archive: Path) -> None:
    loop = archive / "offset_history" / "day=2026-01-02" / "loop"
    loop.symlink_to(loop)
    assert not has(archive, loop)


def test_a_copy_has_a_limited_number_of_files(archive: Path) -> None:
    for number in range(FILES_MAX):
        write(archive / DIRECTORY / f"empty-{number}.parquet", 0)
    assert not has(archive, archive / DIRECTORY)


def test_rows_below_zero_are_no_copy(archive: Path) -> None:
    footer_of = VERSION + SCHEMA + bytes([0x16, 0x01, 0x00])
    less_than_none = b"PAR1" + footer_of + len(footer_of).to_bytes(4, "little") + b"PAR1"
    (archive / DIRECTORY / "part-2.parquet").write_bytes(less_than_none)
    assert not has(archive, archive / DIRECTORY, row_count=6)


@pytest.mark.parametrize("uri", ["s3a://bucket/archive", "hdfs://host/archive", "", "relative"])
def test_an_archive_that_is_no_directory_of_this_machine_has_nothing(uri: str) -> None:
    assert not has(uri, f"{uri}/{DIRECTORY}", row_count=0)


def test_copies_are_not_checked_if_turned_off() -> None:
    copy = ClaimedCopy("offset_history", "2026-01-02", "s3a://bucket/archive/a", 7)
    assert ArchiveFiles("s3a://bucket/archive", is_checked=False).has(copy)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"PAR1PAR1",
        b"PAR1" + bytes(8),
        b"PAR1" + (2**31).to_bytes(4, "little") + b"PAR1",
        b"PAR1" + VERSION + (2).to_bytes(4, "little") + b"PAR1",
        b"PAR1" + VERSION + b"\x00" + (3).to_bytes(4, "little") + b"PAR1",
        b"PAR1" + b"\x1f" * 50 + (50).to_bytes(4, "little") + b"PAR1",
        b"PAR1" + b"\x19\xf3" + b"\xff" * 8 + b"\x7f" + (11).to_bytes(4, "little") + b"PAR1",  # a list of 2^62 bytes
        b"PAR1" + b"\x19\xf1" + b"\xff" * 8 + b"\x7f" + (11).to_bytes(4, "little") + b"PAR1",  # as many booleans
        b"PAR1" + b"\x1c" * 60_000 + (60_000).to_bytes(4, "little") + b"PAR1",  # structs in structs
        b"PAR1" + b"\x15" + b"\x80" * 60_000 + (60_001).to_bytes(4, "little") + b"PAR1",  # a number without an end
    ],
)
def test_a_file_that_is_damaged_counts_as_no_copy(archive: Path, content: bytes) -> None:
    file = archive / DIRECTORY / "part-1.parquet"
    file.write_bytes(content)
    with pytest.raises(ValueError, match=r"Parquet|footer|field"):
        count_rows(file)
    assert not has(archive, archive / DIRECTORY)
