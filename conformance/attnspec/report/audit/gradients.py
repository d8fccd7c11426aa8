"""The backward pass of each implementation, as far as its gradients were judged: where it rounds, how near it came to
its bound, and what it gives where practice is divided.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from attnspec.core.keyword_nouns import GRADIENTS_PROFILE
from attnspec.core.keywords import KEYWORDS
from attnspec.core.nouns import DType, Kind, Verdict
from attnspec.record.clause_text import ClauseText
from attnspec.record.outcome import Outcome, SubjectCard
from attnspec.report.audit.conventions import ConventionAnswer, group_answers
from attnspec.report.audit.explained import are_chosen
from attnspec.report.audit.table import Nearness, closest_case, counted_by_verdict
from attnspec.report.figures import DECIDED, FINDINGS, SHORT, shared_reason
from attnspec.report.joined import JoinedRecords, JudgedSubject

HIDDEN_ROWS = f"{GRADIENTS_PROFILE}.hidden_rows"
"""The clause about a query for which every key is masked."""

OWN, OTHERS = "its own", "others"
"""Whose gradients are told where one query sees no key."""

ROW, KEY = "gradient.hidden_row", "gradient.hidden_key"
"""The questions of a probe about masked rows and keys."""

_PARTLY = "Why some were not judged with respect to everything"
_WHOLLY = "Of which no gradients were judged, and why"

_OF = f"{GRADIENTS_PROFILE}.of_"
_INPUTS = ("query", "key", "value")
_PARAMETERS = "params"


@dataclass(frozen=True, slots=True)
class GradientLine:
    """A subject whose gradients were judged. held: of the clauses that apply to it, as `SubjectLine.counts` has them.

    broken: the clauses that it does not keep.  rounds: pairs of a dtype and where its backward pass rounds there, as
    declared.  closest: at each dtype, of the clauses that it holds, which came nearest to its bound.
    row, key: what there is for a query that sees no key, and for a masked key.
    given: with respect to what gradients were judged.  ungiven: with respect to what else there might be some, by the
    reason why they were not.
    """

    subject: JudgedSubject
    held: str
    broken: tuple[ClauseText, ...]
    rounds: tuple[tuple[str, str], ...]
    closest: tuple[Nearness, ...]
    row: tuple[ConventionAnswer, ...]
    key: tuple[ConventionAnswer, ...]
    given: tuple[str, ...]
    ungiven: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class UnjudgedGradients:
    """Why gradients were not judged, and whose."""

    reason: str
    labels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Gradients:
    """The table.  partly: why some were judged with respect to some things alone.  wholly: why others not at all."""

    lines: tuple[GradientLine, ...]
    partly_judged: tuple[UnjudgedGradients, ...]
    never_judged: tuple[UnjudgedGradients, ...]

    @property
    def unjudged(self) -> tuple[tuple[str, tuple[UnjudgedGradients, ...]], ...]:
        """Both, each with what is said over it; one that is empty is left out."""
        return tuple(each for each in ((_PARTLY, self.partly_judged), (_WHOLLY, self.never_judged)) if each[1])


ByClause = Mapping[ClauseText, Sequence[Outcome]]


def describe_gradients(joined: JoinedRecords) -> Gradients | None:
    """Look at what was judged of gradients; None if none was."""
    clauses = [clause for clause in joined.clauses if clause.profile == GRADIENTS_PROFILE]
    asked = [(subject, _gradient_outcomes(joined, subject, clauses)) for subject in joined.subjects]
    judged = [(subject, outcomes) for subject, outcomes in asked if _is_judged(outcomes)]
    lines = tuple(_line(joined, subject, outcomes) for subject, outcomes in judged)
    others = [(subject, outcomes) for subject, outcomes in asked if outcomes and not _is_judged(outcomes)]
    return Gradients(lines, _partly_unjudged(lines), _wholly_unjudged(others)) if lines else None


def _gradient_outcomes(joined: JoinedRecords, subject: JudgedSubject, clauses: Iterable[ClauseText]) -> ByClause:
    found = {clause: joined.outcomes_of(subject, clause.id) for clause in clauses}
    return {clause: outcomes for clause, outcomes in found.items() if outcomes}


def _is_judged(outcomes: ByClause) -> bool:
    return any(_decides(each) for each in outcomes.values())


def _decides(outcomes: Iterable[Outcome]) -> bool:
    return any(outcome.verdict in DECIDED for outcome in outcomes)


def _line(joined: JoinedRecords, subject: JudgedSubject, outcomes: ByClause) -> GradientLine:
    named = _by_name(outcomes)
    return GradientLine(
        subject, counted_by_verdict(subject, outcomes.values()).share, tuple(_broken_clauses(subject, outcomes)),
        _rounds(subject.card), tuple(_closest(subject, outcomes)),
        (*_own_row(joined.outcomes_of(subject, HIDDEN_ROWS)), *_others(group_answers(joined, subject, ROW))),
        group_answers(joined, subject, KEY), tuple(name for name, each in named.items() if _decides(each)),
        _by_key((_reason(subject.card, each), name) for name, each in named.items()
                if not _decides(each) and _takes_input(subject.card, name)))


def _by_name(outcomes: ByClause) -> Mapping[str, Sequence[Outcome]]:
    """The outcomes by what the gradient is with respect to, as far as a clause is about one thing: inputs first."""
    named = {_differentiated_input(clause): each for clause, each in outcomes.items()}
    order = (*(name for name in _INPUTS if name in named), *named)
    return {name: named[name] for name in order if name}


def _differentiated_input(clause: ClauseText) -> str:
    """With respect to what the gradient is that a clause is about: `query` of `gradients.of_query`; else empty."""
    name = clause.id.removeprefix(_OF).replace("_", " ") if clause.id.startswith(_OF) else ""
    is_array = name in _INPUTS or (name in KEYWORDS and KEYWORDS[name].axes)
    return name if is_array or _PARAMETERS in clause.needs else ""


def _takes_input(card: SubjectCard, name: str) -> bool:
    """Whether a subject takes that input; of a layer, whether it takes parameters."""
    if name in KEYWORDS:
        return KEYWORDS[name].profile in card.claims
    return name in _INPUTS or card.kind == Kind.LAYER.value


def _reason(card: SubjectCard, outcomes: Sequence[Outcome]) -> str:
    """Why it was not decided, in words that several subjects may share."""
    told = next((outcome.reason for outcome in outcomes if outcome.reason), "no claim was made")
    return shared_reason(card.id, told)


def _broken_clauses(subject: JudgedSubject, outcomes: ByClause) -> Iterator[ClauseText]:
    for clause, each in outcomes.items():
        if any(outcome.verdict in FINDINGS for outcome in each) and not are_chosen(subject, each):
            yield clause


def _rounds(card: SubjectCard) -> tuple[tuple[str, str], ...]:
    return tuple((SHORT[dtype], card.backward[dtype.value]) for dtype in DType if dtype.value in card.backward)


def _closest(subject: JudgedSubject, outcomes: ByClause) -> Iterator[Nearness]:
    held = [outcome for each in outcomes.values() for outcome in each if outcome.verdict is Verdict.HELD]
    found = (closest_case(outcome for outcome in held if outcome.dtype is dtype) for dtype in subject.dtypes)
    yield from filter(None, found)


def _own_row(outcomes: Sequence[Outcome]) -> Iterator[ConventionAnswer]:
    """What the clause found of the row's own gradient. Nothing but zeros is ever claimed of it, so that it was zeros
    where all entries were claimed.
    """
    asks = "What is the gradient of a query for which every key is masked?"
    worst = [outcome.worst for outcome in outcomes if outcome.verdict is Verdict.HELD and outcome.worst]
    if any(outcome.verdict in FINDINGS for outcome in outcomes):
        yield ConventionAnswer((OWN,), asks, "wrong", f"It does not keep {HIDDEN_ROWS}.")
    elif worst and all(each.claimed == each.entries for each in worst):
        yield ConventionAnswer((OWN,), asks, "zeros", worst[0].sentence)
    elif worst or any(outcome.verdict is Verdict.NO_CLAIM for outcome in outcomes):
        yield ConventionAnswer((OWN,), asks, "no claim", "Nothing is claimed of it where its output is not zeros.")


def _others(answers: Iterable[ConventionAnswer]) -> Iterator[ConventionAnswer]:
    for each in answers:
        yield replace(each, forms=(": ".join(filter(None, (OTHERS, ", ".join(each.forms)))),))


def _partly_unjudged(lines: Iterable[GradientLine]) -> tuple[UnjudgedGradients, ...]:
    return _grouped((reason, line.subject.label) for line in lines for reason in line.ungiven)


def _wholly_unjudged(subjects: Iterable[tuple[JudgedSubject, ByClause]]) -> tuple[UnjudgedGradients, ...]:
    return _grouped((_reason(subject.card, [one for each in outcomes.values() for one in each]), subject.label)
                    for subject, outcomes in subjects)


def _grouped(pairs: Iterable[tuple[str, str]]) -> tuple[UnjudgedGradients, ...]:
    return tuple(UnjudgedGradients(reason, labels) for reason, labels in _by_key(pairs).items())


def _by_key(pairs: Iterable[tuple[str, str]]) -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return {key: tuple(values) for key, values in found.items()}
