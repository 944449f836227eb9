"""The words of one partition up to an offset: both in one file that is replaced as a whole, so they always agree.

A consumer that is killed between saving and committing has saved more than it has committed. Whoever comes after it
goes on from the offset saved here, so that no line is counted twice and none is left out.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from examples.word_count.errors import UserError
from examples.word_count.topic import Batch


@dataclass(slots=True)
class Counts:
    """How often each word occurs before `offset`."""

    path: Path
    offset: int = 0
    words: Counter[str] = field(default_factory=Counter)

    @classmethod
    def load(cls, log: Path) -> Self:
        """Return what was saved for a partition's file; nothing counted when nothing was.

        Raises:
            UserError: what is there is no file of counts.
        """
        path = log.with_suffix(".counts.json")
        try:
            saved = json.loads(path.read_bytes())
            return cls(path, int(saved["offset"]), Counter(saved["words"]))
        except FileNotFoundError:
            return cls(path)
        except (ValueError, KeyError, TypeError):
            raise UserError(f"{path} cannot be read; delete it to count {log.name} anew") from None

    def add(self, batch: Batch) -> None:
        """Count a batch, and save the outcome together with the offset behind it."""
        for line in batch.lines:
            self.words.update(line.split())
        self.offset = batch.end
        unfinished = self.path.with_suffix(f".{os.getpid()}")
        unfinished.write_text(json.dumps({"offset": self.offset, "words": self.words}))
        unfinished.replace(self.path)
