"""Which failures the console tells in full, in what order, and how the others are named."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, zip_longest

import click

from attnspec.cli.digest import Digest
from attnspec.cli.wording import name_few
from attnspec.core.nouns import Level, Verdict
from attnspec.record.outcome import Outcome
from attnspec.report.bugs import explain_bugs, is_place, likely_group, rank_clarity
from attnspec.report.figures import count_noun
from attnspec.report.likely_cause import LikelyCause, is_other_convention
from attnspec.runner.texts import OTHER_CONVENTION, RECOMMENDED, format_violation

_ROOM = 90  # characters of a list of clauses
CAUSES = 3  # that are told in a line
_ROW = 50   # the same, where it is to be one row of a screen
_UNCOUNTED = "not counted; "


@dataclass(frozen=True, slots=True)
class FailedClause:
    """A clause that a subject fails: at the dtype that is shown, and alike at others."""

    shown_outcome: Outcome
    others: tuple[Outcome, ...]

    @property
    def clause(self) -> str:
        """The clause's id."""
        return self.shown_outcome.clause


@dataclass(frozen=True, slots=True)
class Bug:
    """Clauses that a subject fails by one cause, the clearest first; or one clause of which nobody knows the cause."""

    clauses: tuple[FailedClause, ...]
    cause: LikelyCause | None = None


def rank_bugs(digest: Digest) -> tuple[Bug, ...]:
    """Ranks the bugs that gate: one bug of every subject before a second of any, that which explains most before the
    others.
    """
    return tuple(_in_turn([_bugs(digest.digest_of(subject).failures) for subject in digest.subjects]))


def _bugs(failures: Sequence[Outcome]) -> list[Bug]:
    """Where most failures have no known cause, the clause that says most clearly what is wrong is first."""
    groups = explain_bugs(failures)
    clauses = {_key(each.shown_outcome): each
               for each in _by_clause([each for group in groups for each in group.failures])}
    found: list[Bug] = []
    for group in groups:
        mine = tuple(clauses.pop(key) for key in dict.fromkeys(map(_key, group.failures)) if key in clauses)
        found += [Bug(mine, group.cause)] if group.cause and mine else [Bug((each,)) for each in mine]
    if likely_group(failures):
        return found
    return sorted(found, key=lambda bug: rank_clarity(bug.clauses[0].shown_outcome))


def _in_turn(piles: Sequence[Sequence[Bug]]) -> Iterator[Bug]:
    """The first of every pile, then the second of every pile, …"""
    return (turn for turn in chain.from_iterable(zip_longest(*piles)) if turn is not None)


def _by_clause(failures: Sequence[Outcome]) -> tuple[FailedClause, ...]:
    piles: dict[tuple[object, ...], list[Outcome]] = {}
    for failure in failures:
        piles.setdefault(_key(failure), []).append(failure)
    return tuple(FailedClause(first, tuple(others)) for first, *others in piles.values())


def _key(outcome: Outcome) -> tuple[object, ...]:
    return outcome.subject, outcome.clause, outcome.verdict


def in_short(digest: Digest, bug: Bug) -> Iterator[str]:
    """The clearest clause in full, the others by name."""
    first, *others = bug.clauses
    yield from format_finding(digest, first, bug.cause)
    if others:
        yield f"  also: {name_few([each.clause for each in others], _ROW)} (-v shows {_them(others)})"


def _them(several: Sequence[object]) -> str:
    return "it" if len(several) == 1 else "them"


def format_finding(digest: Digest, finding: FailedClause, cause: LikelyCause | None = None) -> Iterator[str]:
    """Tells a failure in full: in red what gates, in yellow with its level what does not. cause: of the bug; its fault
    comes first.
    """
    first, clause = _lead_with_fault(finding.shown_outcome, cause), digest.clause(finding.clause)
    also = [outcome.dtype for outcome in finding.others]
    is_advice = first.verdict is Verdict.VIOLATED and not digest.gates(first)
    happened = (OTHER_CONVENTION if is_other_convention(first) else RECOMMENDED) if is_advice else ""
    text = format_violation(first, says=clause.says, where=clause.where, also=also, happened=happened)
    head, _, rest = text.partition("\n")
    level = "" if first.level is Level.MUST else f" [{first.level.value}]"
    yield ""
    yield click.style(head + level, fg="red" if digest.gates(first) else "yellow", bold=True)
    yield from rest.split("\n")


def _lead_with_fault(outcome: Outcome, cause: LikelyCause | None) -> Outcome:
    """The same with the cause's fault before the others that explain it as well."""
    if outcome.evidence is None or cause is None:
        return outcome
    like = sorted(outcome.evidence.like, key=lambda each: each.fault != cause.fault)
    return replace(outcome, evidence=replace(outcome.evidence, like=tuple(like)))


def name_other_bugs(digest: Digest, bugs: Sequence[Bug]) -> Iterator[str]:
    """The bugs that are not told in full: a line for each cause that is known, and one for all other clauses."""
    known = [bug for bug in bugs if bug.cause][:CAUSES]
    for bug in known:
        names = [_name(digest, each.shown_outcome) for each in bug.clauses]
        is_seen_alone = bug.cause is not None and is_place(bug.cause) and digest.is_glance
        how = f"also {bug.cause}" if is_seen_alone else f"also likely: {bug.cause}"
        yield f"{how}: {name_few(names, _ROW)} (-v shows {_them(names)})"
    names = list(dict.fromkeys(_name(digest, each.shown_outcome) for bug in bugs if bug not in known
                               for each in bug.clauses))
    if names:
        yield f"also violated: {name_few(names, _ROOM)} (-v shows {_them(names)})"


def format_recommendations(digest: Digest) -> Iterator[str]:
    """The recommendations that are not followed, by name; and the conventions that are others than recommended."""
    names = {(outcome.subject, outcome.clause): outcome for outcome in digest.advice}
    conventions = [outcome for outcome in names.values() if is_other_convention(outcome)]
    others = [outcome for outcome in names.values() if not is_other_convention(outcome)]
    if others:
        what = f"{_of_levels('recommendation', others)} {'is' if len(others) == 1 else 'are'} not followed"
        yield f"{what}: {_uncounted(digest, others)}"
    if conventions:
        how = "is another" if len(conventions) == 1 else "are others"
        what = f"{_of_levels('convention', conventions)} {how} than recommended, which libraries use, too"
        yield f"{what}: {_uncounted(digest, conventions)}"


def _of_levels(noun: str, outcomes: Sequence[Outcome]) -> str:
    levels = dict.fromkeys(outcome.level.value for outcome in outcomes)
    return f"{count_noun(len(outcomes), noun)} ({', '.join(levels)})"


def _uncounted(digest: Digest, outcomes: Sequence[Outcome]) -> str:
    listed = name_few([_advised(digest, outcome) for outcome in outcomes], _ROOM - len(_UNCOUNTED))
    return f"{listed} ({_UNCOUNTED}-v shows {_them(outcomes)})"


def _advised(digest: Digest, outcome: Outcome) -> str:
    """A recommendation by name; of the convention of a single subject, what it does."""
    seen = outcome.evidence.sentence if outcome.evidence else ""
    does = seen.partition(";")[0] if is_other_convention(outcome) and len(digest.subjects) == 1 else ""
    return does or _name(digest, outcome)


def _name(digest: Digest, outcome: Outcome) -> str:
    return outcome.clause if len(digest.subjects) == 1 else f"{outcome.subject} {outcome.clause}"


def list_all_failures(digest: Digest) -> Iterator[str]:
    """Every failure in full, what gates first."""
    for bug in rank_bugs(digest):
        for finding in bug.clauses:
            yield from format_finding(digest, finding, bug.cause)
    for finding in _by_clause(digest.advice):
        yield from format_finding(digest, finding)
