"""`spec/refutations.json`: which clause convicts which fault at which dtype. A checkout makes it:
`python -m evaluation refutations --write`.

`refuted_by` in YAML names a few faults that teach; this names all, and no hand touches it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

from attnspec.core.errors import FileLocation, SpecError
from attnspec.core.nouns import DType, Effort, Level
from attnspec.spec.clause import Clause, Spec
from attnspec.spec.yaml_lines import read_bytes, shown_path

FILE = "refutations.json"
COMMAND = "python -m evaluation refutations --write"
"""What makes the file anew, in a checkout."""

SEED, CASES, EFFORT = 0, 5, Effort.QUICK
"""Each fault is put the first so many cases of each clause: those that `attnspec check` begins with."""

WITNESSES = 2
"""To how many clauses a fault is put, at the least, unless clauses are asked for."""

Convictions: TypeAlias = Mapping[str, Mapping[str, tuple[DType, ...]]]  # clause, fault, dtypes in the order of DType


@dataclass(frozen=True)
class Refutations:
    """The matrix as it was made: on the first `cases` of each clause at this effort and seed."""

    convictions: Convictions = field(default_factory=dict)
    effort: str = EFFORT.value
    cases: int = CASES
    seed: int = SEED

    @property
    def is_current(self) -> bool:
        """Whether the refutations were made on the cases on which this version would make them."""
        return (self.effort, self.cases, self.seed) == (EFFORT.value, CASES, SEED)

    @property
    def faults(self) -> frozenset[str]:
        """Every fault that a clause convicts."""
        return frozenset(name for faults in self.convictions.values() for name in faults)

    def of_fault(self, name: str) -> Mapping[str, tuple[DType, ...]]:
        """The clauses that convict it, each with the dtypes at which it does."""
        return self._by_fault.get(name, {})

    @cached_property
    def _by_fault(self) -> Mapping[str, Mapping[str, tuple[DType, ...]]]:
        found: dict[str, dict[str, tuple[DType, ...]]] = {}
        for clause, faults in self.convictions.items():
            for name, dtypes in faults.items():
                found.setdefault(name, {})[clause] = dtypes
        return found


def read_refutations(law: Spec) -> Refutations:
    """The matrix of a law, an empty one where it has none. Raises SpecError for what the command did not make."""
    path = law.folder / FILE
    if not path.is_file():
        return Refutations()
    try:
        found = json.loads(read_bytes(path).decode("utf-8"))
        pairs = {clause: _by_fault(groups) for clause, groups in found["clauses"].items()}
        return Refutations(pairs, str(found["effort"]), int(found["cases"]), int(found["seed"]))
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as cause:
        where = FileLocation(shown_path(path), getattr(cause, "lineno", 1))
        raise SpecError(f"is out of date. Make it again: {COMMAND}.", where=where) from None


def _by_fault(groups: Mapping[str, Iterable[str]]) -> dict[str, tuple[DType, ...]]:
    dtypes = {words: tuple(map(DType, words.split())) for words in groups}
    return dict(sorted((name, dtypes[words]) for words, names in groups.items() for name in names))


def known_faults(law: Spec, found: Refutations) -> tuple[str, ...]:
    """The faults that a clause names or convicts, by the alphabet: all that have no size to draw."""
    return tuple(sorted(found.faults.union(*(clause.refuted_by for clause in law.clauses))))


def witnesses(law: Spec, found: Refutations, fault: str) -> tuple[str, ...]:
    """The clauses that a fault is put to unless others are asked for, in the order of the law.

    Those that name it; where they are fewer than WITNESSES, the most telling of those that convict it as well.
    """
    named = [clause.id for clause in law.clauses if fault in clause.refuted_by]
    others = [clause.id for clause in _telling_clauses(law, found, fault) if clause.id not in named]
    chosen = {*named, *others[:max(0, WITNESSES - len(named))]}
    return tuple(clause.id for clause in law.clauses if clause.id in chosen)


def _telling_clauses(law: Spec, found: Refutations, fault: str) -> Iterator[Clause]:
    """Clauses that convict the fault: first what says must, at most dtypes, and convicts the fewest other faults."""
    convicting = found.of_fault(fault)
    clauses = (clause for clause in law.clauses if clause.id in convicting)
    yield from sorted(clauses, key=lambda clause: (
        clause.level is not Level.MUST, -len(convicting[clause.id]), len(found.convictions[clause.id])))
