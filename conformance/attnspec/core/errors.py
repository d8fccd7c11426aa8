"""Defines the errors that attnspec raises on purpose, and the exit codes of its commands.

Its exceptions carry strings only.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from attnspec.core.dtype import OTHER_DTYPE_NAMES
from attnspec.core.nouns import OTHER_THEME_NAMES

LISTINGS: Mapping[str, str] = {
    "clause": "attnspec list clauses", "fault": "attnspec list faults",
    "profile": "attnspec list profiles",
    "problem": "attnspec list problems", "source of the bibliography": "attnspec list sources",
    "subject": "attnspec list", "relation": "attnspec list words",
    "transform": "attnspec list words"}
"""By kind of name, the command that lists all names."""

FEW = 8
"""Up to so many names are listed in full even where a command lists them."""

LONGEST_SHOWN = 100
"""So many characters of a wrong value are shown; the file has the rest."""

_NEARLY = 0.05  # a name this much less like the wrong one than the likest is a near miss, too


@dataclass(frozen=True, slots=True, order=True)
class FileLocation:
    """A place in a file: its name as the user types it, and a line from 1 on (0: the whole)."""

    file: str
    line: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


class AttnspecError(Exception):
    """Something is wrong, and it is not the subject's attention. The message says it all."""

    def __init__(self, message: str, *, where: FileLocation | None = None) -> None:
        super().__init__(f"{where}: {message}" if where else message)

    @classmethod
    def unknown(cls, kind: str, name: object, known: Iterable[str], *,
                where: FileLocation | None = None) -> AttnspecError:
        """The error that `name` is none of the `known` names of this kind, with a hint."""
        return cls(f"{quote_value(name)} is not a known {kind}.{hint(name, known, kind)}",
                   where=where)


class SpecError(AttnspecError):
    """The spec is badly written."""


class ManifestError(AttnspecError):
    """A manifest is badly written."""


class TargetError(AttnspecError):
    """What is to be judged cannot be found, imported or called."""


class MissingNameError(TargetError):
    """The module of what is to be judged is there, and has no such name."""


class ImportingError(TargetError):
    """What is to be judged is there, and importing it fails."""


class EndedError(TargetError):
    """What is to be judged is there, and importing it ends its process, or does not end."""


class ReleaseError(TargetError):
    """An adapter does not work with the installed release of its library, which has not failed."""


class RecordError(AttnspecError):
    """A record cannot be read."""


class UsageError(AttnspecError):
    """An option or argument makes no sense."""


def quote_value(value: object) -> str:
    """The value as a message shows it: invisible characters escaped, and cut short if long."""
    text = repr(value)
    if len(text) <= LONGEST_SHOWN:
        return text
    return f"{text[:LONGEST_SHOWN]}… ({len(text)} characters)"


IN_ORDER = frozenset({"effort"})
"""Kinds whose names are listed in their own order, from the cheapest to the dearest."""


def hint(name: object, known: Iterable[str], kind: str = "") -> str:
    """The end of a message: the nearest valid names, or all of them, or how to list them."""
    names = list(known) if kind in IN_ORDER else sorted(known)
    listing = f" `{LISTINGS[kind]}` names them all." if kind in LISTINGS else ""
    if nearest := near_misses(str(name), names):
        return f" Did you mean {either(nearest)}?{listing}"
    if listing and len(names) > FEW:
        return listing
    return f" Known: {', '.join(names) or 'none'}."


def near_misses(name: str, names: Sequence[str]) -> list[str]:
    """The names that were most likely meant, at most three, the likeliest first."""
    plain = name.rpartition(".")[2].casefold()  # torch.float32
    dtype_name = OTHER_DTYPE_NAMES.get(plain, plain)
    if dtype_name in names:
        return [dtype_name]
    theme, dot, rest = name.partition(".")
    by_meaning = f"{OTHER_THEME_NAMES.get(theme, '')}{dot}{rest}"
    if by_meaning in names:
        return [by_meaning]
    nearest = difflib.get_close_matches(name, names, n=1)
    if not nearest:
        return []
    least = difflib.SequenceMatcher(None, name, nearest[0]).ratio() - _NEARLY
    return difflib.get_close_matches(name, names, n=3, cutoff=max(least, 0))


def either(names: Sequence[str]) -> str:
    """`'a', 'b' or 'c'`."""
    *others, last = map(repr, names)
    return f"{', '.join(others)} or {last}" if others else last


CONFORMS, VIOLATED, CANNOT_RUN = 0, 1, 2
