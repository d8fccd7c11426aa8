"""What attnspec raises on purpose, with exceptions that carry strings only, and the exit codes of its commands."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from attnspec.core.dtype import OTHER_DTYPE_NAMES
from attnspec.core.nouns import OTHER_THEME_NAMES

LISTINGS: Mapping[str, str] = {
    "clause": "attnspec list clauses", "fault": "attnspec list faults", "profile": "attnspec list profiles",
    "problem": "attnspec list problems", "source of the bibliography": "attnspec list sources",
    "subject": "attnspec list", "relation": "attnspec list words", "transform": "attnspec list words"}
"""The command that lists all names of a kind."""

FEW = 8
"""So many names are told in full even where a command lists them."""

LONGEST_SHOWN = 100
"""So many characters of a wrong value are told; the file has the rest."""

_NEARLY = 0.05  # a name this much less like the wrong one than the likest is a near miss, too


@dataclass(frozen=True, slots=True, order=True)
class FileLocation:
    """A place in a file: the file as the user would name it, and a line counted from 1 (0: the whole file)."""

    file: str
    line: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


class AttnspecError(Exception):
    """Something is wrong, and it is not the subject's attention. The message is all the user needs."""

    def __init__(self, message: str, *, where: FileLocation | None = None) -> None:
        super().__init__(f"{where}: {message}" if where else message)

    @classmethod
    def unknown(cls, kind: str, name: object, known: Iterable[str], *,
                where: FileLocation | None = None) -> AttnspecError:
        """`name` is not one of the `known` names of this kind: say so, with what `hint` says."""
        return cls(f"{quote_value(name)} is not a known {kind}.{hint(name, known, kind)}", where=where)


class SpecError(AttnspecError):
    """The law is badly written."""


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
    """An adapter does not work with the release of its library that is installed; it is no failure of the library."""


class RecordError(AttnspecError):
    """A record cannot be read."""


class UsageError(AttnspecError):
    """An option or argument makes no sense."""


def quote_value(value: object) -> str:
    """The value as a message shows it: what does not show is escaped, and what is long is cut short."""
    text = repr(value)
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}… ({len(text)} characters)"


IN_ORDER = frozenset({"effort"})
"""Kinds whose names are told in their own order: from the cheapest to the dearest."""


def hint(name: object, known: Iterable[str], kind: str = "") -> str:
    """The tail of a message: the nearest valid names alone; where none is near, all of them or how to list them."""
    names, listing = [*known] if kind in IN_ORDER else sorted(known), LISTINGS.get(kind, "")
    if near := near_misses(str(name), names):
        return f" Did you mean {either(near)}?" + (f" `{listing}` names them all." if listing else "")
    if listing and len(names) > FEW:
        return f" `{listing}` names them all."
    return f" Known: {', '.join(names) or 'none'}."


def near_misses(name: str, names: Sequence[str]) -> list[str]:
    """The names that were most likely meant, at most three, the likeliest first."""
    plain = name.rpartition(".")[2].casefold()  # torch.float32
    meant = OTHER_DTYPE_NAMES.get(plain, plain)
    if meant in names:
        return [meant]
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
