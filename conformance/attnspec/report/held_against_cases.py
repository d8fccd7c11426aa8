"""What is told of where a failure begins, held against the cases of its run before anybody reads it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from attnspec.core.nouns import Verdict
from attnspec.record.contradictions import Calls, keywords_in, lengths_in, needed_alone, parts_of
from attnspec.record.outcome import Evidence, Outcome

ABOUT_OTHER_MATTERS = frozenset({"numerics", "drift", "purity"})
"""Themes whose clauses may break at sizes at which the answers are right: they are about rounding and about memory."""


def telling_failures(failures: Sequence[Outcome]) -> list[Outcome]:
    """The failures whose case has the sizes of every call that is made of it: of another the case says little of where
    it fails.
    """
    return [each for each in failures if each.evidence is None or not each.evidence.calls]


def without_contradicted(failures: Sequence[Outcome]) -> list[Outcome]:
    """The failures, each with those conditions alone that its own case meets, and every case like it that failed."""
    return [_as_far_as_borne_out(failure, failures) for failure in failures]


def is_contradicted(says: str, failures: Sequence[Outcome]) -> bool:
    """Whether one of these cases fails at sizes at which a cause says that nothing fails."""
    parts, left = parts_of(says), parts_of(needed_alone(says, _lengths(failures)))
    return len(left) < len(parts)


def told_of_all(says: str, failures: Sequence[Outcome]) -> str:
    """What all these cases bear out of a cause that names sizes; "" if nothing is left."""
    return needed_alone(says, _lengths(failures)) if is_contradicted(says, failures) else says


def _lengths(failures: Sequence[Outcome]) -> list[Calls]:
    return [_calls_of(each.evidence) for each in failures if each.evidence]


def _calls_of(evidence: Evidence) -> Calls:
    return [lengths_in(each) for each in (evidence.recipe, *evidence.calls)]


def _as_far_as_borne_out(failure: Outcome, failures: Sequence[Outcome]) -> Outcome:
    evidence = failure.evidence
    if evidence is None or not parts_of(evidence.begins):
        return failure
    cases = [_calls_of(each) for each in (evidence, *_that_count(failure, evidence, failures))]
    left = needed_alone(evidence.begins, cases)
    if len(parts_of(left)) == len(parts_of(evidence.begins)):
        return failure
    return replace(failure, evidence=replace(evidence, begins=left and f"{left[:1].upper()}{left[1:]}."))


def _that_count(failure: Outcome, evidence: Evidence, failures: Sequence[Outcome]) -> Iterator[Evidence]:
    """The other failures that nothing else explains and that are given no more than this one: the same bug breaks them
    or it is no matter of sizes alone.
    """
    given = keywords_in(evidence.recipe)
    for other in failures:
        seen = other.evidence
        if (other is not failure and seen is not None and other.verdict is Verdict.VIOLATED
                and other.verdict is failure.verdict and other.dtype is failure.dtype
                and other.clause.partition(".")[0] not in ABOUT_OTHER_MATTERS
                and not (seen.like or seen.explained or seen.begins) and keywords_in(seen.recipe) <= given):
            yield seen
