"""What a run reads, put to mutants: each ends in an error that names file and line, or in a run that works."""

from __future__ import annotations

import enum
import random
import re
import signal
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import FrameType
from typing import Any

from attnspec.core.errors import AttnspecError
from attnspec.spec.yaml_lines import parse_yaml

from helpers.mutants import Mutant, Vocabulary, mutant

LIMIT = 10
"""Seconds of computing that a mutant may take; most take some hundredths."""

PATIENCE = 6
"""So many times that on the clock on the wall: others compute, too."""

LONGEST = 1000  # characters of a message; the longest name all families of values
_PLACE = re.compile(r"[^\n:]+:[1-9]\d*: \S")


class End(enum.Enum):
    """What came of a mutant. Only the first two are allowed."""

    WORKS = "it works"
    ERROR = "an error with file and line"
    NO_PLACE = "an error without file and line"
    LONG = "an error too long to read"
    UNTOLD = "lint says nothing, and a run does not work"
    TRACEBACK = "a traceback"
    HANG = "a hang"


ALLOWED = (End.WORKS, End.ERROR)


@dataclass(frozen=True, slots=True)
class Ended:
    """How it ended, and what was said."""

    end: End
    said: str = ""


class UntoldError(Exception):
    """A run does not work, and `lint` said nothing of it."""


class _Hang(BaseException):
    """The clock ran out: no handler of exceptions may keep it."""


@dataclass(frozen=True, slots=True)
class Document:
    """A file that runs read. `use` does what a run does with what stands there, and raises what that raises."""

    path: Path
    use: Callable[[], None]
    weight: int = 1


def try_use(use: Callable[[], None], *, seconds: int = LIMIT) -> Ended:
    """What comes of it."""
    try:
        with _limit_time(seconds):
            use()
    except AttnspecError as problem:
        return Ended(_judge_message(str(problem)), str(problem))
    except UntoldError as untold:
        return Ended(End.UNTOLD, str(untold))
    except _Hang as hang:
        return Ended(End.HANG, str(hang))
    except BaseException:  # SystemExit and RecursionError as well: whatever escapes would be a traceback
        return Ended(End.TRACEBACK, traceback.format_exc())
    return Ended(End.WORKS)


def _judge_message(message: str) -> End:
    if not _PLACE.match(message):
        return End.NO_PLACE
    return End.ERROR if len(message) <= LONGEST else End.LONG


@contextmanager
def _limit_time(seconds: int) -> Iterator[None]:
    def late(_number: int, frame: FrameType | None) -> None:
        stack = "".join(traceback.format_stack(frame)[-8:])
        raise _Hang(f"over {seconds} s of computing, or {PATIENCE * seconds} s of waiting:\n{stack}")

    before = {number: signal.signal(number, late) for number in (signal.SIGPROF, signal.SIGALRM)}
    signal.setitimer(signal.ITIMER_PROF, seconds, 0.5)  # again and again: what is raised in a callback is swallowed
    signal.setitimer(signal.ITIMER_REAL, PATIENCE * seconds, 0.5)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before.items():
            signal.signal(number, handler)


class Fuzzer:
    """Puts mutants of documents to their use. A mutant follows from seed and number alone."""

    def __init__(self, documents: Sequence[Document], within: Callable[[Sequence[Any]], Vocabulary], seed: int) -> None:
        self.documents = documents
        self.seed = seed
        self._sound = {each.path: each.path.read_text(encoding="utf-8") for each in documents}
        self._parsed = {path: plain(parse_yaml(text.encode(), path.name)) for path, text in self._sound.items()}
        self._within = within

    @cached_property
    def _vocabulary(self) -> Vocabulary:
        return self._within(tuple(self._parsed.values()))

    def mutant(self, number: int) -> tuple[Document, Mutant]:
        """The document that the mutant with this number spoils, and what stands there instead."""
        drawn = random.Random(f"{self.seed} {number}")
        [document] = drawn.choices(self.documents, [each.weight for each in self.documents])
        sound, parsed = self._sound[document.path], self._parsed[document.path]
        return document, mutant(drawn, sound, parsed, self._vocabulary, is_json=document.path.suffix == ".json")

    def try_mutant(self, number: int) -> Ended:
        """What comes of a mutant. The document is sound again afterwards."""
        document, spoilt = self.mutant(number)
        document.path.write_bytes(spoilt.data)
        try:
            return try_use(document.use)
        finally:
            document.path.write_text(self._sound[document.path], encoding="utf-8")

    def describe_mutant(self, number: int, found: Ended) -> str:
        """All that is needed to see it again."""
        document, spoilt = self.mutant(number)
        return (f"\nseed {self.seed}, number {number}: {document.path.parent.name}/{document.path.name}, "
                f"{', '.join(spoilt.how)}: {found.end.value}\n{found.said}\n--- the mutant\n"
                f"{spoilt.data.decode(errors='backslashreplace')}\n---")


def plain(node: Any) -> Any:  # noqa: ANN401  (what YAML can hold)
    """What was read, as dicts and lists that know no places."""
    if isinstance(node, dict):
        return {key: plain(value) for key, value in node.items()}
    return [plain(value) for value in node] if isinstance(node, list) else node
