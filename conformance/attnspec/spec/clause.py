"""The nouns of the spec: clauses, contracts, and which clause convicts which fault.

A contract is what a subject must take, in words (`causal window D128 T4096 float16`). It makes a
clause for each word, and one for all together.

`spec/refutations.json` says which clause convicts which fault at which dtypes. `python -m
evaluation refutations --write` makes it in a checkout; nobody edits it by hand. `refuted_by` in
YAML names only a few faults, those that teach most.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

from attnspec.core.dtype import OTHER_DTYPE_NAMES
from attnspec.core.errors import FEW, FileLocation, SpecError, UsageError, either, hint, near_misses
from attnspec.core.keywords import KEYWORDS, OFF
from attnspec.core.nouns import DType, Effort, Level
from attnspec.core.sizes import AXIS_MEANINGS, SIZE
from attnspec.spec.yaml_lines import read_bytes, shown_path

DEFINING = "agrees_with_definition"
"""The relation that compares an answer with the definition."""

FLIPPING = "variants_agree"
"""The relation that asks a subject's variants."""

MAKING = "form_agrees"
"""The relation that asks for a form that attnspec has a framework make of the subject."""


@dataclass(frozen=True, slots=True)
class BibliographyEntry:
    """An entry of `spec/bibliography.yaml`."""

    key: str
    title: str
    kind: str
    url: str = ""
    author: str = ""
    year: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Citation:
    """Where a clause's sentence comes from: the source, the place, and a quote or a note.

    cite: the source's key. at: section or heading. translation: the quote in English, if it is in
    another language.
    """

    cite: str
    at: str = ""
    quote: str = ""
    translation: str = ""
    note: str = ""
    where: FileLocation = field(default=FileLocation("", 0), compare=False)


@dataclass(frozen=True, slots=True)
class Word:
    """A word of the vocabulary with the arguments that the spec gives it."""

    name: str
    args: Mapping[str, object]
    where: FileLocation = field(default=FileLocation("", 0), compare=False)


class DtypeCoverage(enum.Enum):
    """At how many dtypes all cases of a clause are tried; the others get a sample or none.

    The spec says it under `glance`. It holds at every effort.
    """

    ONE_DTYPE = "one dtype"
    EVERY_DTYPE = "every dtype"


@dataclass(frozen=True, slots=True)
class Clause:
    """One sentence about attention that can be refuted.

    given: the word that makes problems, with the name of the named problem and the arguments of
    both problem and clause.
    draw: further random values.  runs: chains of transforms, by name.
    then: relations between what the runs show.
    pool: clauses of one pool share the pairs of sizes.
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
    glance: DtypeCoverage = DtypeCoverage.ONE_DTYPE
    pool: str = ""
    where: FileLocation = field(default=FileLocation("", 0), compare=False)
    places: Mapping[str, FileLocation] = field(default_factory=dict, compare=False)

    @property
    def flips(self) -> bool:
        """Whether the clause asks a subject's variants."""
        return any(word.name == FLIPPING for word in self.then)

    @property
    def holds_output(self) -> bool:
        """Whether the clause compares the output of the unchanged case with the definition.

        If the output of a case passes for one such clause, it passes for all of them.
        """
        is_held = any(word.name == DEFINING and word.args.get("observe") == "output"
                      for word in self.then)
        return is_held and not any(self.runs.values())

    @property
    def made_forms(self) -> frozenset[str]:
        """The forms of a subject that the clause asks for and attnspec makes."""
        return frozenset(str(word.args.get("form", ""))
                         for word in self.then if word.name == MAKING)

    def place_of(self, key: str) -> FileLocation:
        """Where a key of the clause stands in its file; without it, where the clause stands."""
        return self.places.get(key, self.where)


@dataclass(frozen=True, slots=True, eq=False)
class Spec:
    """All clauses in the order of their files, the bibliography, and a digest of all bytes read.

    problems: the named problems; `Clause.given` already contains them. added: the names of the
    user's own files. folder: where the other files are.
    """

    version: str
    digest: str
    clauses: tuple[Clause, ...]
    bibliography: Mapping[str, BibliographyEntry]
    problems: Mapping[str, Word] = field(default_factory=dict)
    added: tuple[str, ...] = ()
    folder: Path = Path()


MOST_MEANT = 3
"""At most so many clauses of a theme are suggested."""

SHORTEST = 4
"""Shorter words (`is`, `no`, `the`) do not make two names alike."""

SAME = 0.8
"""Words at least this similar count as equal: `counts` and `count`, not `counts` and `chunks`."""


def themes_of(ids: Iterable[str]) -> tuple[str, ...]:
    """A pattern for each theme: `causal.*`."""
    return tuple(dict.fromkeys(f"{name.partition('.')[0]}.*" for name in ids))


def hint_of_theme(name: str, ids: Sequence[str]) -> str:
    """The end of a message about an unknown clause; empty if the theme is unknown too.

    `Did you mean 'scale.explicit_default'?`, or the theme's first clauses if no name is similar.
    """
    theme, dot, rest = name.partition(".")
    rests = [each.removeprefix(f"{theme}.") for each in ids
             if each.startswith(f"{theme}{dot}") and "*" not in each]
    if not dot or not rests or "*" in name:
        return ""
    sharing = [each for each in rests if _share_a_word(rest, each)]
    if similar := near_misses(rest, rests) or sharing[:MOST_MEANT]:
        return f" Did you mean {either([f'{theme}.{each}' for each in similar])}?"
    first = ", ".join(rests[:FEW])
    if len(rests) > FEW:
        first += f" and {len(rests) - FEW} more"
    return f" The clauses of {theme!r} are {first}."


def _share_a_word(one: str, other: str) -> bool:
    """Whether both names have nearly the same word: `counts` and `lengths_count_it`."""
    words = [word for word in other.split("_") if len(word) >= SHORTEST]
    return any(get_close_matches(word, words, 1, SAME)
               for word in one.split("_") if len(word) >= SHORTEST)


def first_of(dtypes: Sequence[DType]) -> DType:
    """The dtype at which every clause is tried."""
    if DType.FLOAT32 in dtypes:
        return DType.FLOAT32
    return dtypes[0]


def is_due(clause: Clause, dtype: DType, effort: Effort, dtypes: Sequence[DType], *,
           is_brief: bool = False) -> bool:
    """Whether a clause is tried at this dtype, on a subject that is judged at `dtypes`.

    How a library treats masks, heads and keywords is the same at each dtype. Rounding, overflow,
    and whether the constant that hides keys is low enough depend on the dtype. is_brief: only what
    depends on it is tried at further dtypes, whatever the effort.
    """
    return (effort is not Effort.GLANCE and not is_brief) or is_put_whole(clause, dtype, dtypes)


def is_put_whole(clause: Clause, dtype: DType, dtypes: Sequence[DType]) -> bool:
    """Whether all cases of the clause are tried at this dtype.

    They are at the first dtype, and at all others if the verdict depends on the dtype.
    """
    return (clause.glance is DtypeCoverage.EVERY_DTYPE or dtype not in dtypes
            or dtype is first_of(dtypes))


CONTRACT = "contract"
"""The theme of a contract's clauses: `contract.D128`."""

ALL = "all"
"""The word for all others together: `contract.all`."""

MOST: Mapping[str, int] = {"B": 1024, "H": 1024, "Hkv": 1024, "T": 8192, "S": 8192, "D": 1024,
                           "Dv": 1024}
"""The largest size of each axis."""


@dataclass(frozen=True, slots=True)
class Contract:
    """What a subject must take. sizes: axis and size by word; `D128` is (D, 128)."""

    words: tuple[str, ...] = ()
    keywords: tuple[str, ...] = ()
    dtypes: tuple[DType, ...] = ()
    sizes: Mapping[str, tuple[str, int]] = field(default_factory=dict)

    @property
    def largest(self) -> Mapping[str, int]:
        """The largest size of each axis in the contract."""
        return dict(sorted(self.sizes.values()))  # of an axis the last, and largest, stands

    @property
    def is_plural(self) -> bool:
        """Whether there is more than one thing to take together."""
        return len(self.keywords) + len(self.largest) > 1


def read_contract(text: str) -> Contract:
    """The contract of these words: keywords, dtypes, and sizes such as D128.

    Raises UsageError with the nearest word.
    """
    words = tuple(dict.fromkeys(text.replace(",", " ").split()))
    keywords, dtypes, sizes = list[str](), list[DType](), dict[str, tuple[str, int]]()
    for word in words:
        if word in OFF:
            keywords.append(word)
        elif word in _DTYPES:
            dtypes.append(DType(word))
        else:
            sizes[word] = _size(word)
    contract = Contract(words, tuple(keywords), tuple(dtypes), sizes)
    _check_heads(contract)
    return contract


_DTYPES = tuple(dtype.value for dtype in DType)


def _size(word: str) -> tuple[str, int]:
    match = SIZE.fullmatch(word)
    if match is None or match[1] not in MOST:
        if match and word.casefold() not in OTHER_DTYPE_NAMES:
            meanings = {axis: AXIS_MEANINGS[axis] for axis in MOST}
            raise UsageError(f"{word!r} of the contract names no axis.{hint(match[1], meanings)}")
        raise UsageError(f"{word!r} is not a word of a contract.{hint(word, (*OFF, *_DTYPES))} "
                         "Words are keywords, dtypes, and sizes such as D128.")
    axis, size = match[1], int(match[2])
    if not 1 <= size <= MOST[axis]:
        raise UsageError(f"{word!r} of the contract: {axis} can be from 1 to {MOST[axis]}.")
    return axis, size


def _check_heads(contract: Contract) -> None:
    """Raises UsageError if the key/value heads do not divide the query heads."""
    H, Hkv = contract.largest.get("H"), contract.largest.get("Hkv")
    if H and Hkv and H % Hkv:
        raise UsageError(f"the contract has H{H} and Hkv{Hkv}, and {Hkv} does not divide {H}. Name others.")


# The clauses of a contract, beside those of the spec


WHERE = FileLocation("--must-take")


def contract_clauses(contract: Contract, *, is_whole: bool = False) -> tuple[Clause, ...]:
    """A clause for each word, and one for all together if there are several or `is_whole`."""
    sentences = dict(_contract_sentences(contract, is_whole=is_whole or contract.is_plural))
    return tuple(_clause(word, sentences[word])
                 for word in (*contract.words, ALL) if word in sentences)


def contract_id(word: str) -> str:
    """The id of a word's clause."""
    return f"{CONTRACT}.{word}"


def word_of(clause: str) -> str:
    """The word that a contract's clause is for; empty for a clause of the law."""
    theme, _, word = clause.partition(".")
    return word if theme == CONTRACT else ""


def is_put_at(clause: str, dtype: DType) -> bool:
    """Whether a contract's clause is tried at this dtype. One for a dtype is tried at no other."""
    word = word_of(clause)
    return word == dtype.value or word not in _DTYPES


def _contract_sentences(contract: Contract, *, is_whole: bool) -> Iterator[tuple[str, str]]:
    for name in contract.keywords:
        yield name, f"The contract: {KEYWORDS[name].promise}; it is taken."
    for dtype in contract.dtypes:
        yield dtype.value, f"The contract: {dtype.value} is taken."
    for word, (axis, size) in contract.sizes.items():
        yield word, f"The contract: {axis} = {size} is taken ({AXIS_MEANINGS[axis]})."
    if is_whole:
        yield ALL, f"The contract: all of it is taken together ({' '.join(contract.words)})."


def _clause(word: str, says: str) -> Clause:
    return Clause(
        id=contract_id(word), theme=CONTRACT, level=Level.MUST, profile="core", says=says,
        formula="", because=(), needs=frozenset(), problem="", given=Word(CONTRACT, {}, WHERE),
        draw={}, runs={}, then=(), refuted_by=(), note="", where=WHERE)


FILE = "refutations.json"
COMMAND = "python -m evaluation refutations --write"
"""Makes the file again, in a checkout."""

SEED, CASES, EFFORT = 0, 5, Effort.QUICK
"""Each fault is tried on so many cases of each clause, the first that `attnspec check` tries."""

WITNESSES = 2
"""A fault is tried on at least so many clauses, unless the user names clauses."""

Convictions: TypeAlias = Mapping[str, Mapping[str, tuple[DType, ...]]]  # clause, fault, its dtypes


@dataclass(frozen=True)
class Refutations:
    """Which clauses convict which faults, on the first `cases` at this effort and seed."""

    convictions: Convictions = field(default_factory=dict)
    effort: str = EFFORT.value
    cases: int = CASES
    seed: int = SEED

    @property
    def is_current(self) -> bool:
        """Whether this version would use the same cases."""
        return (self.effort, self.cases, self.seed) == (EFFORT.value, CASES, SEED)

    @property
    def faults(self) -> frozenset[str]:
        """Every fault that a clause convicts."""
        return frozenset(name for faults in self.convictions.values() for name in faults)

    def of_fault(self, name: str) -> Mapping[str, tuple[DType, ...]]:
        """The clauses that convict the fault, each with the dtypes at which it does."""
        return self._by_fault.get(name, {})

    @cached_property
    def _by_fault(self) -> Mapping[str, Mapping[str, tuple[DType, ...]]]:
        by_fault: dict[str, dict[str, tuple[DType, ...]]] = {}
        for clause, faults in self.convictions.items():
            for name, dtypes in faults.items():
                by_fault.setdefault(name, {})[clause] = dtypes
        return by_fault


def read_refutations(law: Spec) -> Refutations:
    """The refutations of a law, empty if it has no file. Raises SpecError for a bad file."""
    path = law.folder / FILE
    if not path.is_file():
        return Refutations()
    try:
        content = json.loads(read_bytes(path).decode("utf-8"))
        pairs = {clause: _by_fault(groups) for clause, groups in content["clauses"].items()}
        return Refutations(pairs, str(content["effort"]), int(content["cases"]),
                           int(content["seed"]))
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError,
            RecursionError) as cause:
        where = FileLocation(shown_path(path), getattr(cause, "lineno", 1))
        raise SpecError(f"is out of date. Make it again: {COMMAND}.", where=where) from None


def _by_fault(groups: Mapping[str, Iterable[str]]) -> dict[str, tuple[DType, ...]]:
    dtypes = {words: tuple(map(DType, words.split())) for words in groups}
    return dict(sorted((name, dtypes[words]) for words, names in groups.items() for name in names))


def known_faults(law: Spec, refutations: Refutations) -> tuple[str, ...]:
    """The faults that a clause names or convicts, in alphabetical order."""
    return tuple(sorted(refutations.faults.union(*(clause.refuted_by for clause in law.clauses))))


def witnesses(law: Spec, refutations: Refutations, fault: str) -> tuple[str, ...]:
    """The clauses on which a fault is tried unless the user names some, in the law's order.

    They are the clauses that name it. If those are fewer than WITNESSES, the most telling that
    convict it are added.
    """
    naming = [clause.id for clause in law.clauses if fault in clause.refuted_by]
    others = [clause.id for clause in _telling_clauses(law, refutations, fault)
              if clause.id not in naming]
    chosen = {*naming, *others[:max(0, WITNESSES - len(naming))]}
    return tuple(clause.id for clause in law.clauses if clause.id in chosen)


def _telling_clauses(law: Spec, refutations: Refutations, fault: str) -> Iterator[Clause]:
    """Clauses that convict the fault, the most telling first.

    First those that say must, then by most dtypes, then by fewest other faults.
    """
    convicting = refutations.of_fault(fault)
    clauses = (clause for clause in law.clauses if clause.id in convicting)
    yield from sorted(clauses, key=lambda clause: (
        clause.level is not Level.MUST, -len(convicting[clause.id]),
        len(refutations.convictions[clause.id])))
