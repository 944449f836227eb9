"""A tokens file that a test writes."""

import json
from hashlib import sha256
from pathlib import Path
from typing import Self

from api.shared.tokens import Tokens
from tests.support.http_client import Json

ADA = {"sha256": sha256(b"ada's").hexdigest(), "actor": "ada", "role": "operator"}
DAN = {"sha256": sha256(b"dan's").hexdigest(), "actor": "dan", "role": "operator"}
DAN_ELSEWHERE = {**DAN, "prefixes": ["elsewhere-"]}
BOB = {"sha256": sha256(b"bob's").hexdigest(), "actor": "bob", "role": "viewer", "prefixes": ["billing-", "x"]}


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


class TokensFile:
    """A tokens file, read as by a node after each write."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.clock = Clock()

    @classmethod
    def written(cls, directory: Path, *tokens: Json) -> Self:
        """Write a file of these tokens into a directory."""
        file = cls(directory / "tokens.json")
        file.write(*tokens)
        return file

    def write(self, *tokens: Json) -> None:
        self.write_text(json.dumps({"tokens": list(tokens)}))

    def write_text(self, text: str) -> None:
        draft = self.path.with_suffix(".new")
        draft.write_text(text)
        draft.replace(self.path)

    def read(self) -> Tokens:
        return Tokens(self.path, self.clock)
