"""Which failures the console tells in full, in what order, and how the others are named."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest

import click

from attnspec.cli.digest import Digest
from attnspec.cli.wording import few, plural
from attnspec.core.nouns import Level, Verdict
from attnspec.record.outcome import Outcome
from attnspec.report.findings import Explained, explanations
from attnspec.runner.texts import RECOMMENDED, violation

_ROOM = 90  # characters of a list of clauses
_UNCOUNTED = "not counted; "


@dataclass(frozen=True, slots=True)
class FailedClause:
    """A clause that a subject fails: at the dtype that is shown, and alike at others."""

    shown: Outcome
    others: tuple[Outcome, ...]

    @property
    def clause(self) -> str:
        """The clause's id."""
        return self.shown.clause


def ranked(digest: Digest) -> tuple[FailedClause, ...]:
    """What gates: one of every subject before a second of any, and of each one of every cause; clauses of its theme
    first, and smaller cases.
    """
    return _by_clause(_in_turn([_of_one(digest.of(subject).failures) for subject in digest.subjects]))


def _of_one(failures: Sequence[Outcome]) -> list[Outcome]:
    return _in_turn([_in_order(group) for group in explanations(failures)])


def _in_turn(piles: Sequence[Sequence[Outcome]]) -> list[Outcome]:
    """The first of every pile, then the second of every pile, …"""
    return [turn for turn in chain.from_iterable(zip_longest(*piles)) if turn is not None]


def _in_order(group: Explained) -> list[Outcome]:
    return sorted(group.failures, key=lambda each: (_theme(each) not in str(group.cause), _size(each)))


def _by_clause(failures: Sequence[Outcome]) -> tuple[FailedClause, ...]:
    piles: dict[tuple[object, ...], list[Outcome]] = {}
    for failure in failures:
        piles.setdefault(_key(failure), []).append(failure)
    return tuple(FailedClause(first, tuple(others)) for first, *others in piles.values())


def _key(outcome: Outcome) -> tuple[object, ...]:
    return outcome.subject, outcome.clause, outcome.verdict


def _theme(outcome: Outcome) -> str:
    """`mask` of masking.definition: as a cause would name it."""
    return outcome.clause.partition(".")[0].removesuffix("ing")


def _size(outcome: Outcome) -> float:
    """How many numbers the case has, about: the product of its sizes, which begin its recipe."""
    recipe = outcome.evidence.recipe if outcome.evidence else ""
    sizes = re.findall(r"\d+", recipe.partition(";")[0])
    return math.prod(map(int, sizes)) if sizes else math.inf


def told(digest: Digest, finding: FailedClause) -> Iterator[str]:
    """In full: in red what gates, in yellow with its level what does not."""
    first, clause = finding.shown, digest.clause(finding.clause)
    also = [outcome.dtype for outcome in finding.others]
    is_advice = first.verdict is Verdict.VIOLATED and not digest.gates(first)
    text = violation(first, says=clause.says, where=clause.where, also=also, happened=RECOMMENDED if is_advice else "")
    head, _, rest = text.partition("\n")
    level = "" if first.level is Level.MUST else f" [{first.level.value}]"
    yield ""
    yield click.style(head + level, fg="red" if digest.gates(first) else "yellow", bold=True)
    yield from rest.split("\n")


def named(digest: Digest, findings: Sequence[FailedClause]) -> Iterator[str]:
    """The failures that are not told in full, by name."""
    names = list(dict.fromkeys(_name(digest, finding.shown) for finding in findings))
    if names:
        yield f"also violated: {few(names, _ROOM)} (-v shows them)"


def recommendations(digest: Digest) -> Iterator[str]:
    """The recommendations that are not followed, by name."""
    names = {(outcome.subject, outcome.clause): outcome for outcome in digest.advice}
    if names:
        levels = dict.fromkeys(outcome.level.value for outcome in names.values())
        what = f"{plural(len(names), 'recommendation')} ({', '.join(levels)})"
        listed = few([_name(digest, outcome) for outcome in names.values()], _ROOM - len(_UNCOUNTED))
        yield f"{what} {'is' if len(names) == 1 else 'are'} not followed: {listed} ({_UNCOUNTED}-v shows them)"


def _name(digest: Digest, outcome: Outcome) -> str:
    return outcome.clause if len(digest.subjects) == 1 else f"{outcome.subject} {outcome.clause}"


def everything(digest: Digest) -> Iterator[str]:
    """Every failure in full, what gates first."""
    for finding in (*ranked(digest), *_by_clause(digest.advice)):
        yield from told(digest, finding)
