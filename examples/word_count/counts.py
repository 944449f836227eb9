"""Word counts of one partition and the offset up to which they count, saved in one file that is replaced atomically.

A consumer that is killed between saving and committing has saved more than it has committed. The next owner continues
from the offset saved here, so each line is counted exactly once.
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
    """The number of occurrences of each word before `offset`."""

    path: Path
    offset: int = 0
    words: Counter[str] = field(default_factory=Counter)

    @classmethod
    def load(cls, log: Path) -> Self:
        """Return the counts saved for a partition's file; empty counts if there are none.

        Raises:
            UserError: the saved file cannot be read.
        """
        path = log.with_suffix(".counts.json")
        try:
            saved = json.loads(path.read_bytes())
            return cls(path, int(saved["offset"]), Counter(saved["words"]))
        except FileNotFoundError:
            return cls(path)
        except (ValueError, KeyError, TypeError):
            raise UserError(f"{path} cannot be read; delete it to count {log.name} from its start") from None

    def add(self, batch: Batch) -> None:
        """Count a batch, and save the counts together with its end offset."""
        for line in batch.lines:
            self.words.update(line.split())
        self.offset = batch.end
        unfinished = self.path.with_suffix(f".{os.getpid()}")
        unfinished.write_text(json.dumps({"offset": self.offset, "words": self.words}))
        unfinished.replace(self.path)
