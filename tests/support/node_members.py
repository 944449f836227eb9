"""Members of Kafka groups in JavaScript: the program of `tests/support/kafka_js`, of the library kafkajs."""

import shutil
import subprocess
from functools import partial
from pathlib import Path
from typing import Final

from tests.support.fetched import TOOLS, fetch_once

KAFKAJS: Final = "kafkajs@2.2.4"
PROGRAM: Final = Path(__file__).with_name("kafka_js") / "member.js"
FETCH_TIMEOUT_S: Final = 300.0


class NodeUnavailable(Exception):
    """There is no Node.js, or the library cannot be had; the sentence says which."""


def fetch_kafkajs() -> list[str]:
    """Return the command of a member; npm gets the library once, into a folder of `.tools`.

    Raises:
        NodeUnavailable: it cannot be had.
    """
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        raise NodeUnavailable("members of kafkajs need the programs node and npm, and one is missing")
    install = [npm, "install", "--silent", "--no-audit", KAFKAJS]
    run = partial(subprocess.run, check=True, capture_output=True, timeout=FETCH_TIMEOUT_S)
    try:
        directory = fetch_once(TOOLS / KAFKAJS, lambda draft: run([*install, "--prefix", str(draft)]))
    except subprocess.SubprocessError as failure:
        raise NodeUnavailable(f"npm cannot install {KAFKAJS}: {failure}") from failure
    return [node, str(PROGRAM), str(directory / "node_modules" / "kafkajs")]
