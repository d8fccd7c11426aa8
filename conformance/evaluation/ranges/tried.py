"""What came of adapters that were tried with one release of their library: one line of JSON each, in a file."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from attnspec.core.errors import FileLocation, RecordError
from attnspec.core.paths import write_whole
from attnspec.record.codec import decode, encode

from evaluation import PROGRAM


class Fate(Enum):
    """How an adapter fared with a release."""

    WORKS = "works"
    FAILS = "the library fails"
    UNJUDGED = "cannot be judged with this release"
    REFUSED = "refused"
    NOT_INSTALLED = "could not be installed"
    NOT_TESTED = "not tested"


@dataclass(frozen=True, slots=True)
class Tried:
    """One adapter with one release.

    end: oldest, earlier, later or newest.  recipe: how it was installed; what is known of another recipe is not known
    of this one.
    release: of the library; empty where none was installed.  words: why it fared so, where it did not work.
    effort: at which it was judged; empty where it was put the five inputs of `smoke` alone, as in older records.
    known: the findings of the library that explain what it was seen to do wrong.
    """

    subject: str
    end: str
    recipe: str
    release: str
    python: str
    fate: Fate
    words: str = ""
    effort: str = ""
    known: tuple[str, ...] = ()

    @property
    def library(self) -> str:
        """The folder of its library."""
        return self.subject.partition("/")[0]


def read_tried(path: Path) -> tuple[Tried, ...]:
    """The lines of the file; none if there is no file yet. Raises RecordError."""
    if not path.exists():
        return ()
    lines = path.read_text(encoding="utf-8").splitlines()
    return tuple(_read(line, FileLocation(str(path), number)) for number, line in enumerate(lines, 1))


def _read(line: str, where: FileLocation) -> Tried:
    try:
        return decode(Tried, json.loads(line))
    except (ValueError, RecordError) as cause:
        raise RecordError(f"this line is none that `{PROGRAM} ranges` writes: {cause}", where=where) from None


def write_tried(path: Path, tried: Iterable[Tried]) -> None:
    """Write them all. Raises UsageError where the file cannot be written."""
    lines = [json.dumps(encode(each)) + "\n" for each in sorted(tried, key=lambda each: (each.subject, each.end))]
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, "".join(lines), "the record of ranges")
