"""How a verdict is written: a sign for cells, a word for sentences, a meaning for the glossary, and how grave it is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from attnspec.ground.nouns import FAILURES, DType, Level, Verdict


@dataclass(frozen=True, slots=True)
class Sign:
    """`css` is the class of the verdict's colour; `rank` counts from the gravest (0)."""

    sign: str
    word: str
    css: str
    rank: int
    meaning: str


SIGNS: Mapping[Verdict, Sign] = {
    Verdict.CRASHED: Sign("C", "crashed", "bad", 0, "The process died while the case was on trial."),
    Verdict.TIMED_OUT: Sign("T", "timed out", "bad", 1, "No answer came within the time an item may take."),
    Verdict.VIOLATED: Sign("✗", "violated", "bad", 2, "An answer contradicts the clause beyond the derived allowance."),
    Verdict.ERRORED: Sign("E", "errored", "bad", 3, "The implementation raised on input that it claims to take."),
    Verdict.UNEXPECTED: Sign("U", "unexpected", "odd", 4,
                             "A listed deviation passes, or fails in another way than the one listed."),
    Verdict.EXPECTED: Sign("K", "known deviation", "known", 5, "A listed deviation, failing in the listed way."),
    Verdict.NOT_RUN: Sign("?", "not run", "idle", 6, "Interrupted, or the adapter itself is broken. Never a pass."),
    Verdict.NO_CLAIM: Sign("○", "no claim", "open", 7,
                           "Every case fell outside the domain of the bound, so nothing was decided. Never a pass."),
    Verdict.INAPPLICABLE: Sign("–", "inapplicable", "idle", 8,
                               "The subject lacks what the clause needs; the reason is given. Never a pass."),
    Verdict.HELD: Sign("✓", "held", "good", 9, "No case contradicted the clause."),
}

FINDINGS = FAILURES | {Verdict.UNEXPECTED}
DECIDED = FAILURES | {Verdict.HELD, Verdict.EXPECTED, Verdict.UNEXPECTED}
SHORT: Mapping[DType, str] = {
    DType.FLOAT64: "f64", DType.FLOAT32: "f32", DType.FLOAT16: "f16", DType.BFLOAT16: "bf16",
}
WEIGHT: Mapping[Level, int] = {Level.MUST: 0, Level.SHOULD: 1, Level.MAY: 2}


def gravest(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict that stands for several: the worst of them."""
    return min(verdicts, key=lambda verdict: SIGNS[verdict].rank)


_OVERALL = (*sorted(FINDINGS, key=lambda verdict: SIGNS[verdict].rank), Verdict.EXPECTED, Verdict.NOT_RUN, Verdict.HELD,
            Verdict.NO_CLAIM, Verdict.INAPPLICABLE)


def overall(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict on a clause that was tried at several dtypes: a failure at any; held where it was decided at all.

    That a subject cannot be asked at one dtype takes nothing from what it holds at the others.
    """
    return min(verdicts, key=_OVERALL.index)
