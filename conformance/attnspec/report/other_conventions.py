"""Failed advice that is no mistake: where libraries differ, the subject does what some of them do."""

from __future__ import annotations

from attnspec.record.outcome import Outcome


def is_other_convention(outcome: Outcome) -> bool:
    """Whether a clause recommends one answer of a convention, and the subject follows another.

    What no library is known to do has an explanation; it is not in use.
    """
    found = outcome.evidence
    return bool(found and found.measured and found.measured.relation == "convention_is" and not found.explained)
