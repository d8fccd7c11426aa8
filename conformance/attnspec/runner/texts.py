"""Outcomes in words, and clauses as a record keeps them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from attnspec.core.nouns import DType, Verdict
from attnspec.core.paths import portable_argument
from attnspec.record.clause_text import ClauseText, QuotedSource
from attnspec.record.outcome import Evidence, Likeness, Outcome
from attnspec.spec.clause import Citation, Clause, Spec

HAPPENED: Mapping[Verdict, str] = {
    Verdict.HELD: "holds",
    Verdict.VIOLATED: "is violated",
    Verdict.INAPPLICABLE: "does not apply",
    Verdict.NO_CLAIM: "could not be decided on any case",
    Verdict.ERRORED: "fails: the implementation raised an exception",
    Verdict.CRASHED: "fails: the process crashed",
    Verdict.TIMED_OUT: "fails: no answer before the deadline",
    Verdict.NOT_RUN: "was not run",
    Verdict.EXPECTED: "is violated, as the list of known deviations says",
    Verdict.UNEXPECTED: "differs from the list of known deviations",
}


RECOMMENDED = "is a recommendation that is not followed"
"""What happened where a clause that does not gate is violated."""

OTHER_CONVENTION = "recommends another convention; libraries use both"
"""The same where libraries differ, and the subject does what some of them do."""


LIKE = 5
"""So many of the faults that explain a failure are told."""


def format_violation(outcome: Outcome, *, says: str, where: str, also: Sequence[DType] = (), happened: str = "") -> str:
    """A failure as the command line and pytest print it: why, the claim, the case, what was seen, how to see it again.

    also: the other dtypes at which it fails.  happened: in the place of what the verdict says.
    """
    head = f"{outcome.clause} ({where}) {happened or HAPPENED[outcome.verdict]}"
    others = f" (also {', '.join(dtype.value for dtype in also)})" if also else ""
    by = f"{outcome.subject}, {outcome.dtype.value}{others}"
    seen = outcome.evidence.sentence if outcome.evidence else ""
    note = outcome.reason if outcome.reason != seen else ""
    rows = [*_place(outcome.evidence), *_explanation(outcome.evidence), ("says", says), ("by", by),
            *_evidence(outcome.evidence), ("note", note), ("again", outcome.repeat)]
    return "\n".join([head, *(f"  {name}: {_indented(text)}" for name, text in rows if text)])


def _place(evidence: Evidence | None) -> list[tuple[str, str]]:
    return [("begins", evidence.begins), ("wrong", evidence.wrong)] if evidence else []


def _explanation(evidence: Evidence | None) -> list[tuple[str, str]]:
    explained = evidence.explained if evidence else None
    return [("cause", explained.cause), ("do", explained.advice), ("paste", explained.declare)] if explained else []


def _evidence(evidence: Evidence | None) -> list[tuple[str, str]]:
    if evidence is None:
        return []
    return [("case", evidence.case or evidence.recipe), ("seen", evidence.sentence),
            ("like", _likeness(evidence.like)), ("where", "" if evidence.explained else evidence.located),
            ("trace", _shortened(_without_carets(evidence.traceback), 3, 3)),
            ("printed", _shortened(evidence.stderr, 1, 2))]


def _likeness(like: Sequence[Likeness]) -> str:
    """The likeliest fault with its story and link; the names of those that explain it as well."""
    if not like:
        return ""
    first, *others = like[:LIKE]
    told = f"{first.fault} (in {first.agreed} of {first.tried} cases): {first.story} {first.link}".rstrip()
    return f"{told}\nor {', '.join(each.fault for each in others)}" if others else told


def _without_carets(traceback: str) -> str:
    """The lines that underline code are for eyes that see it in place."""
    return "\n".join(line for line in traceback.splitlines() if line.strip("^~ ") or not line)


def _shortened(text: str, first: int, last: int) -> str:
    """What matters of a stack or of a library's output stands at one of its ends."""
    lines = text.rstrip().splitlines()
    return "\n".join([*lines[:first], "…", *lines[-last:]] if len(lines) > first + last + 1 else lines)


def _indented(text: str) -> str:
    return text.replace("\n", "\n" + 8 * " ")


def in_short(outcome: Outcome) -> str:
    """An outcome in one line: the verdict and why."""
    begins, seen = (outcome.evidence.begins, outcome.evidence.sentence) if outcome.evidence else ("", "")
    why = " ".join(filter(None, (begins, outcome.reason or seen)))
    return f"{outcome.clause} {HAPPENED[outcome.verdict]}" + (f": {why}" if why else "")


def text_of(clause: Clause, spec: Spec) -> ClauseText:
    """What a record's header keeps of a clause."""
    return ClauseText(
        clause.id, clause.theme, clause.level, clause.profile, clause.says, clause.formula,
        tuple(_quote_source(each, spec) for each in clause.because), tuple(sorted(clause.needs)), clause.problem,
        clause.refuted_by, clause.note, str(replace(clause.where, file=portable_argument(clause.where.file))))


def _quote_source(citation: Citation, spec: Spec) -> QuotedSource:
    source = spec.bibliography[citation.cite]
    return QuotedSource(citation.cite, citation.at, citation.quote, citation.note, source.title, source.url,
                        citation.translation)
