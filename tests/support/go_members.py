"""Members of Kafka groups in Go: the programs of `tests/support/kafka_go`, one for each client library."""

import shutil
import subprocess
from pathlib import Path
from typing import Final

GO_LIBRARIES: Final = ("franz-go", "kafka-go", "sarama")
SOURCES: Final = Path(__file__).with_name("kafka_go")
BUILD_TIMEOUT_S: Final = 600.0


class GoUnavailable(Exception):
    """There is no Go, or the modules of the client libraries cannot be had; the sentence says which."""


def go_member(directory: Path, library: str) -> Path:
    """Return the program of a library, which is built unless the directory has it.

    Raises:
        GoUnavailable: it cannot be built.
    """
    go, program = shutil.which("go"), directory / library
    if program.exists():
        return program
    if go is None:
        raise GoUnavailable("members in Go need the program go, and there is none")
    argv = [go, "build", "-o", str(program), f"./{library}"]
    try:
        subprocess.run(argv, cwd=SOURCES, check=True, capture_output=True, text=True, timeout=BUILD_TIMEOUT_S)
    except subprocess.CalledProcessError as failure:
        raise GoUnavailable(f"go build ./{library} has failed: {failure.stderr.strip()[-500:]}") from failure
    return program
