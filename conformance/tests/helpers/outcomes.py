"""Outcomes and records of runs that never were."""

from __future__ import annotations

from attnspec.core.nouns import DType, Level, Verdict
from attnspec.record.events import RunFinished, SubjectKnown
from attnspec.record.outcome import ClauseText, Evidence, Measured, Outcome, SubjectCard
from attnspec.record.read import RunRecord

from helpers.records import run_started

SUBJECT = "lib/attend"


def evidence(margin: float, recipe: str = "B1;T2", relation: str = "agree") -> Evidence:
    """A counterexample that was measured on this case."""
    return Evidence("1 of 4 entries differ", "B=1 T=2", recipe,
                    Measured(relation, relation, margin, margin, 1.0, 1.0, 1.0 + margin, (0, 0), 4, 4, 1))


def outcome(verdict: Verdict, clause: str = "core.agrees", *, subject: str = SUBJECT, dtype: DType = DType.FLOAT32,
            level: Level = Level.MUST, seen: Evidence | None = None) -> Outcome:
    """What became of one item."""
    return Outcome(subject, clause, dtype, level, verdict, "", 3, 0, None, seen,
                   repeat=f"attnspec replay '{subject} {clause} {dtype.value} B1;T2'")


def run(*outcomes: Outcome, started: str = "2026-01-02T03:04:05+00:00", version: str = "1.2", seed: int = 7,
        strict: bool = False, is_whole: bool = True) -> RunRecord:
    """The record of a run that had these outcomes."""
    clauses = tuple(ClauseText(name, name.partition(".")[0], says=f"{name} holds.")
                    for name in dict.fromkeys(each.clause for each in outcomes))
    header = run_started(started=started, strict=strict, items=len(outcomes), clauses=clauses, seed=seed)
    cards = (SubjectKnown(SubjectCard(name, "", "attention", "lib", version, "", {}, {}, {}, ()))
             for name in dict.fromkeys(each.subject for each in outcomes))
    return RunRecord(header, tuple(cards), outcomes, RunFinished("", 1.0, {}, 0) if is_whole else None)
