"""Answers by question: what each answer of the table of conventions looks like, and the questions without a column."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from attnspec.report.audit.conventions import ConventionAnswer, ConventionTable

NAMED = 4  # how many subjects with the most frequent answer are named

@dataclass(frozen=True, slots=True)
class AnswerGroup:
    """An answer, what was seen of it, and who gives it, where that matters."""

    answer: ConventionAnswer
    detail: str = ""
    whom: str = ""


@dataclass(frozen=True, slots=True)
class AnsweredQuestion:
    """A question with its answers, the most frequent first."""

    asks: str
    groups: tuple[AnswerGroup, ...]


@dataclass(frozen=True, slots=True)
class AuditAnswers:
    """What the audit's page tells of the answers to a probe's questions.

    examples: of each answer in the table, what was most often seen of it.  further: what the table does not tell.
    """

    examples: tuple[AnsweredQuestion, ...]
    further: tuple[AnsweredQuestion, ...]


def collect_answers(habits: ConventionTable) -> AuditAnswers:
    """Look at all answers."""
    return AuditAnswers(tuple(_examples(habits)), tuple(_further(habits)))


@dataclass(slots=True)
class _AnswerPile:
    """The answers to one question, as they are gathered: by what is said, who says it, and what was seen."""

    asks: str
    first: dict[str, ConventionAnswer] = field(default_factory=dict)
    subjects: dict[str, list[str]] = field(default_factory=dict)
    seen: dict[str, Counter[str]] = field(default_factory=dict)

    def add(self, key: str, answer: ConventionAnswer, subject: str) -> None:
        """Take an answer of a subject; `key` is what makes two answers the same."""
        self.first.setdefault(key, answer)
        self.subjects.setdefault(key, []).append(subject)
        self.seen.setdefault(key, Counter())[answer.detail] += 1

    @property
    def by_frequency(self) -> Sequence[str]:
        """The keys, the most frequent first."""
        return sorted(self.first, key=lambda key: -len(self.subjects[key]))


def _examples(habits: ConventionTable) -> Iterable[AnsweredQuestion]:
    """Of each column, in the order of the table."""
    for place, column in habits.columns:
        found = _AnswerPile(column.asks)
        for row in habits.customs:
            for answer in row.cells[place]:
                if answer.is_probed:
                    found.add(answer.answer, replace(answer, forms=(), otherwise=(), claimed=""), row.subject.label)
        groups = tuple(AnswerGroup(found.first[key], found.seen[key].most_common(1)[0][0])
                       for key in found.by_frequency)
        if any(group.detail for group in groups):
            yield AnsweredQuestion(found.asks, groups)


def _further(habits: ConventionTable) -> Iterable[AnsweredQuestion]:
    """Each question that the table has no column for, with who answers what."""
    questions: dict[str, _AnswerPile] = {}
    for row in habits.customs:
        for answer in row.rest:
            found = questions.setdefault(answer.asks, _AnswerPile(answer.asks))
            found.add(_sameness(answer), answer, row.subject.label)
    for found in questions.values():
        yield AnsweredQuestion(found.asks, tuple(_groups(found)))


def _groups(found: _AnswerPile) -> Iterable[AnswerGroup]:
    """The answers with who gives them. Of the most frequent one only a few are named; those who differ are, all."""
    for place, key in enumerate(found.by_frequency):
        names = found.subjects[key]
        are_named = place > 0 or len(names) <= NAMED
        others = "others that were asked" if len(found.first) > 1 else "that were asked"
        yield AnswerGroup(found.first[key], "", ", ".join(names) if are_named else f"all {len(names)} {others}")


def _sameness(answer: ConventionAnswer) -> str:
    """What two answers have in common that are told as one."""
    return repr((answer.answer, answer.otherwise, answer.is_probed, answer.is_contradiction and answer.claimed))
