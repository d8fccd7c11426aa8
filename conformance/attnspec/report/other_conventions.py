"""Failed advice that is no mistake: where libraries differ, the subject does what some of them do."""

from __future__ import annotations

from collections.abc import Iterable

from attnspec.record.outcome import Outcome, SubjectCard

UNSPECIFIED = "unspecified"
"""The answer of a convention by which anything may come."""


def is_other_convention(outcome: Outcome) -> bool:
    """Whether a clause recommends one answer of a convention, and the subject follows another.

    What no library is known to do has an explanation; it is not in use.
    """
    found = outcome.evidence
    return bool(found and found.measured and found.measured.relation == "convention_is" and not found.explained)


def other_conventions(outcomes: Iterable[Outcome], card: SubjectCard | None) -> tuple[str, ...]:
    """`grouped_heads 'tile'`: the conventions of one subject that are others than recommended, sorted; and those by
    which, as a probe found, it promises nothing: `beyond_length 'unspecified'` is what a keyword that is ignored looks
    like.
    """
    found = (outcome.evidence for outcome in outcomes if is_other_convention(outcome))
    sentences = {evidence.sentence.partition(";")[0] for evidence in found if evidence}
    others = {sentence.removesuffix(", as declared").replace(" is ", " ", 1) for sentence in sentences}
    probed = card.probed.items() if card else ()
    return tuple(sorted(others | {f"{name} {answer!r}" for name, answer in probed if answer == UNSPECIFIED}))
