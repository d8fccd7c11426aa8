"""The smaller print of a measurement of power: equivalents, what convicted, and how long it took."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from attnspec.core.nouns import DType
from attnspec.record.events import SUITE, Conviction, SubjectPut

from evaluation.report.power_figures import conviction, dtypes, name_of, quantile, run_of, runs_of, tellable

EDGES = (1, 2, 3, 5, 10, 20, 50, 150)
"""Upper ends of the classes in which cases to conviction are counted."""


@dataclass(frozen=True, slots=True)
class Equivalent:
    """A fault that no honest check tells from rounding at these dtypes. `convicted`: the suite did so all the same."""

    name: str
    reason: str
    dtypes: tuple[DType, ...]
    convicted: bool


@dataclass(frozen=True, slots=True)
class Accusation:
    """The suite called a sound implementation wrong: by which clause, and what was seen."""

    name: str
    dtype: DType
    seed: int
    clause: str
    sentence: str


def accusations(puts: Iterable[SubjectPut]) -> tuple[Accusation, ...]:
    """Whom the suite accused though sound, run by run."""
    said = [(put, conviction(put, SUITE)) for put in puts if not put.is_fault]
    return tuple(Accusation(name_of(put), put.dtype, put.seed, told.clause, told.sentence)
                 for put, told in said if told and told.convicted)


def equivalents(puts: Iterable[SubjectPut]) -> tuple[Equivalent, ...]:
    """The faults that cannot be told from rounding at some dtypes, by name."""
    found: dict[tuple[str, str], list[SubjectPut]] = {}
    for put in puts:
        if put.is_fault and put.equivalent:
            found.setdefault((name_of(put), put.equivalent), []).append(put)
    return tuple(Equivalent(*key, dtypes(group), any(run_of(put, conviction(put, SUITE)).convicted for put in group))
                 for key, group in sorted(found.items()))


def tally(puts: Sequence[SubjectPut], of: Callable[[Conviction], str]) -> tuple[tuple[str, int], ...]:
    """How many of the suite's convictions each instrument or clause brought, the most telling first."""
    said = [conviction(put, SUITE) for put in tellable(puts)]
    return tuple(Counter(of(each) for each in said if each and each.convicted).most_common())


def distributions(puts: Sequence[SubjectPut]) -> tuple[tuple[tuple[str, int], ...], ...]:
    """For every dtype, how many runs the suite convicted within each class of cases, and how many not at all.

    Classes beyond the last that occurs at any dtype are left out.
    """
    faults = tellable(puts)
    runs = [runs_of([put for put in faults if put.dtype is dtype], SUITE) for dtype in dtypes(faults)]
    took = [Counter(_class_of(run.cases) for run in here if run.convicted) for here in runs]
    used = range(1 + max((max(counter, default=0) for counter in took), default=0))
    return tuple((*((_label(place), counter[place]) for place in used), ("not", len(here) - sum(counter.values())))
                 for here, counter in zip(runs, took, strict=True))


def _class_of(cases: int) -> int:
    return next((place for place, edge in enumerate(EDGES) if cases <= edge), len(EDGES))


def _label(place: int) -> str:
    """`1`, `4–5`, `> 150`."""
    if place == len(EDGES):
        return f"> {EDGES[-1]}"
    low = EDGES[place - 1] + 1 if place else 1
    return f"{low}" if low == EDGES[place] else f"{low}–{EDGES[place]}"


def quantiles(puts: Sequence[SubjectPut], rule: str) -> tuple[int, int, int]:
    """Cases to conviction over all dtypes: what half, 95 % and all of the runs took that the rule convicted."""
    took = [run.cases for run in runs_of(tellable(puts), rule) if run.convicted]
    return quantile(took, 0.5), quantile(took, 0.95), quantile(took, 1.0)
