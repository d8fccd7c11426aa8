"""Failed advice that is no mistake: where libraries differ, the subject does what some of them do."""

from __future__ import annotations

import re
from collections.abc import Iterable

from attnspec.core.conventions import describe_answer
from attnspec.record.outcome import Outcome, SubjectCard

_ANSWER = re.compile(r"(?P<name>[\w.]+) is '(?P<answer>\w+)'")
"""How a clause on a convention says what it found."""

UNSPECIFIED = "unspecified"
"""The answer of a convention by which anything may come."""


def is_other_convention(outcome: Outcome) -> bool:
    """Whether a clause recommends one answer of a convention, and the subject follows another.

    What no library is known to do has an explanation; it is not in use.
    """
    found = outcome.evidence
    return bool(found and found.measured and found.measured.relation == "convention_is" and not found.explained)


def other_conventions(outcomes: Iterable[Outcome], card: SubjectCard | None) -> tuple[str, ...]:
    """What one subject does by conventions that are others than recommended, as clauses, by the names of these; and by
    those of which a probe found that it promises nothing: that is what a keyword that is ignored looks like.
    """
    found = (_ANSWER.match(outcome.evidence.sentence) for outcome in outcomes
             if outcome.evidence and is_other_convention(outcome))
    others = {(each["name"], each["answer"]) for each in found if each}
    probed = {each for each in card.probed.items() if each[1] == UNSPECIFIED} if card else set()
    return tuple(describe_answer(*each) for each in sorted(others | probed))
