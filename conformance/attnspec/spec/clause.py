"""The nouns of the spec."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path

from attnspec.core.errors import FEW, FileLocation, either, near_misses
from attnspec.core.nouns import DType, Effort, Level

DEFINING = "agrees_with_definition"
"""The relation that holds an answer against the definition."""

FLIPPING = "variants_agree"
"""The relation that asks variants."""

MAKING = "form_agrees"
"""The relation that asks for a form which attnspec makes of the subject itself."""


@dataclass(frozen=True, slots=True)
class BibliographyEntry:
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
    """Where a clause's sentence comes from: bibliography key, section or heading, and a short quote or a note.

    translation: the quote in English, where it is in another language.
    """

    cite: str
    at: str = ""
    quote: str = ""
    translation: str = ""
    note: str = ""
    where: FileLocation = field(default=FileLocation("", 0), compare=False)


@dataclass(frozen=True, slots=True)
class Word:
    """A vocabulary word with the arguments that the spec gives it."""

    name: str
    args: Mapping[str, object]
    where: FileLocation = field(default=FileLocation("", 0), compare=False)


class Glance(enum.Enum):
    """At how many dtypes all cases of a clause are tried; at the others a sample of them, or by a glance none."""

    ONE_DTYPE = "one dtype"
    EVERY_DTYPE = "every dtype"


@dataclass(frozen=True, slots=True)
class Clause:
    """One falsifiable sentence about attention.

    `given` is the word that makes problems: its name is that of the named problem, its arguments (`kind` among them)
    come from the named problem and from the clause; `draw` names further drawn values; `runs` are chains of transforms
    by name; `then` are relations between what is observed of the runs. The clauses of one `pool` share out among them
    the pairs of sizes that a run meets.
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
    pool: str = ""
    where: FileLocation = field(default=FileLocation("", 0), compare=False)
    places: Mapping[str, FileLocation] = field(default_factory=dict, compare=False)

    @property
    def flips(self) -> bool:
        """Whether the clause asks the variants of a subject."""
        return any(word.name == FLIPPING for word in self.then)

    @property
    def holds_output(self) -> bool:
        """Whether the clause holds the output of its very case against the definition: what holds then holds for all
        clauses that do so.
        """
        is_held = any(word.name == DEFINING and word.args.get("observe") == "output" for word in self.then)
        return is_held and not any(self.runs.values())

    @property
    def made(self) -> frozenset[str]:
        """The forms of a subject that it asks for, which attnspec makes itself."""
        return frozenset(str(word.args.get("form", "")) for word in self.then if word.name == MAKING)

    def place_of(self, key: str) -> FileLocation:
        """Where a key of the clause (`given`, `refuted_by`, …) stands; the clause's own place if it is not given."""
        return self.places.get(key, self.where)


@dataclass(frozen=True, slots=True, eq=False)
class Spec:
    """All clauses, in the order of their files, with the bibliography and a digest of every byte read.

    `problems` are the named problems that clauses start from; `Clause.given` has them merged in already. `added` names
    the files of own clauses among them. `folder` is where the others were read.
    """

    version: str
    digest: str
    clauses: tuple[Clause, ...]
    bibliography: Mapping[str, BibliographyEntry]
    problems: Mapping[str, Word] = field(default_factory=dict)
    added: tuple[str, ...] = ()
    folder: Path = Path()


MOST_MEANT = 3
"""So many clauses of a theme are suggested for a name that is none."""

SHORTEST = 4
"""Shorter words (`is`, `no`, `the`) do not make two names alike."""

SAME = 0.8
"""Words at least this similar are the same word: `counts` and `count`, not `counts` and `chunks`."""


def themes_of(ids: Iterable[str]) -> tuple[str, ...]:
    """The patterns that stand for a theme each: `causal.*`."""
    return tuple(dict.fromkeys(f"{name.partition('.')[0]}.*" for name in ids))


def hint_of_theme(name: str, ids: Sequence[str]) -> str:
    """The tail of a message about a clause that its theme does not have; empty where there is no such theme.

    `Did you mean 'scale.explicit_default'?`, or the first clauses of the theme where none is like it.
    """
    theme, dot, rest = name.partition(".")
    rests = [each.removeprefix(f"{theme}.") for each in ids if each.startswith(f"{theme}{dot}") and "*" not in each]
    if not dot or not rests or "*" in name:
        return ""
    if near := near_misses(rest, rests) or [each for each in rests if _share_a_word(rest, each)][:MOST_MEANT]:
        return f" Did you mean {either([f'{theme}.{each}' for each in near])}?"
    more = f" and {len(rests) - FEW} more" if len(rests) > FEW else ""
    return f" The clauses of {theme!r} are {', '.join(rests[:FEW])}{more}."


def _share_a_word(one: str, other: str) -> bool:
    """Whether a word of both is nearly the same: `counts` and `lengths_count_it`."""
    words = [word for word in other.split("_") if len(word) >= SHORTEST]
    return any(get_close_matches(word, words, 1, SAME) for word in one.split("_") if len(word) >= SHORTEST)


def first_of(dtypes: Sequence[DType]) -> DType:
    """The dtype at which every clause is put."""
    return DType.FLOAT32 if DType.FLOAT32 in dtypes else dtypes[0]


def is_due(clause: Clause, dtype: DType, effort: Effort, dtypes: Sequence[DType], *, is_brief: bool = False) -> bool:
    """Whether a clause is put at this dtype to a subject that is judged at these.

    What a library does with masks, heads and keywords it does at every dtype; what depends on the dtype is how it
    rounds, where it overflows, and whether the constant that hides a key is low enough.
    is_brief: further dtypes are put what depends on the dtype, whatever the effort.
    """
    return (effort is not Effort.GLANCE and not is_brief) or is_put_whole(clause, dtype, dtypes)


def is_put_whole(clause: Clause, dtype: DType, dtypes: Sequence[DType]) -> bool:
    """Whether all cases of the clause are tried at this dtype: at the first of these, and at each where the verdict
    depends on it.
    """
    return clause.glance is Glance.EVERY_DTYPE or dtype not in dtypes or dtype is first_of(dtypes)
