"""What attnspec raises on purpose. Exceptions carry strings only.

AttnspecError
├── SpecError       a clause, a word, the bibliography: the law is badly written
├── ManifestError   an implementation's manifest is badly written
├── TargetError     the implementation named cannot be found, imported or called at all
├── RecordError     a record cannot be read
└── UsageError      an option or argument of the command line, or of `gate`, makes no sense
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Where something stands: a file as the user would name it, and a line counted from 1 (0: the whole file)."""

    file: str
    line: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


class AttnspecError(Exception):
    """Something is wrong, and it is not the subject's attention. The message is all the user needs."""

    def __init__(self, message: str, *, where: Place | None = None) -> None:
        super().__init__(f"{where}: {message}" if where else message)

    @classmethod
    def unknown(cls, kind: str, name: object, known: Iterable[str], *, where: Place | None = None) -> AttnspecError:
        """`name` is not one of the `known` names of this kind: say so, with the nearest and with all of them."""
        return cls(f"{name!r} is not a known {kind}.{hint(name, known)}", where=where)


class SpecError(AttnspecError):
    """The law is badly written."""


class ManifestError(AttnspecError):
    """A manifest is badly written."""


class TargetError(AttnspecError):
    """What is to be judged cannot be found, imported or called."""


class RecordError(AttnspecError):
    """A record cannot be read."""


class UsageError(AttnspecError):
    """An option or argument makes no sense."""


def hint(name: object, known: Iterable[str]) -> str:
    """The nearest valid name and the list of valid ones, as the tail of a message."""
    names = sorted(known)
    near = difflib.get_close_matches(str(name), names, n=1)
    suggestion = f" Did you mean {near[0]!r}?" if near else ""
    return f"{suggestion} Known: {', '.join(names) or 'none'}."
