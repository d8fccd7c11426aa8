"""The nouns of the spec."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from attnspec.core.errors import Place
from attnspec.core.nouns import Level


@dataclass(frozen=True, slots=True)
class Source:
    """An entry of the bibliography: `spec/bibliography.yaml`."""

    key: str
    title: str
    kind: str
    url: str = ""
    author: str = ""
    year: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Citation:
    """Where a clause's sentence comes from: bibliography key, section or heading, and a short quote or a note."""

    cite: str
    at: str = ""
    quote: str = ""
    note: str = ""
    where: Place = field(default=Place("", 0), compare=False)


@dataclass(frozen=True, slots=True)
class Word:
    """A vocabulary word with the arguments that the spec gives it."""

    name: str
    args: Mapping[str, object]
    where: Place = field(default=Place("", 0), compare=False)


class Glance(enum.Enum):
    """At how many dtypes a glance puts a clause, and a gate that looks at all dtypes quickly."""

    ONE_DTYPE = "one dtype"
    EVERY_DTYPE = "every dtype"


@dataclass(frozen=True, slots=True)
class Clause:
    """One falsifiable sentence about attention.

    `given` is the word that makes problems: its name is that of the named problem, its arguments (`kind` among them)
    come from the named problem and from the clause; `draw` names further drawn values; `runs` are chains of transforms
    by name; `then` are relations between what is observed of the runs.
    """

    id: str
    theme: str
    level: Level
    profile: str
    says: str
    formula: str
    because: tuple[Citation, ...]
    needs: frozenset[str]
    problem: str
    given: Word
    draw: Mapping[str, str]
    runs: Mapping[str, tuple[Word, ...]]
    then: tuple[Word, ...]
    refuted_by: tuple[str, ...]
    note: str
    glance: Glance = Glance.ONE_DTYPE
    where: Place = field(default=Place("", 0), compare=False)
    places: Mapping[str, Place] = field(default_factory=dict, compare=False)

    def place_of(self, key: str) -> Place:
        """Where a key of the clause (`given`, `refuted_by`, …) stands; the clause's own place if it is not given."""
        return self.places.get(key, self.where)


@dataclass(frozen=True, slots=True)
class Spec:
    """All clauses, in the order of their files, with the bibliography and a digest of every byte read.

    `problems` are the named problems that clauses start from; `Clause.given` has them merged in already. `added` names
    the files of own clauses among them.
    """

    version: str
    digest: str
    clauses: tuple[Clause, ...]
    bibliography: Mapping[str, Source]
    problems: Mapping[str, Word] = field(default_factory=dict)
    added: tuple[str, ...] = ()


def themes_of(ids: Iterable[str]) -> tuple[str, ...]:
    """The patterns that stand for a theme each: `causal.*`."""
    return tuple(dict.fromkeys(f"{name.partition('.')[0]}.*" for name in ids))
