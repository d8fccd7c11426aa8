"""What was tried: the sizes, and how many cases at further dtypes."""

from __future__ import annotations

from collections.abc import Iterator

from attnspec.cli.digest import Digest
from attnspec.cli.wording import of_subject
from attnspec.core.gradient_keywords import GRAD
from attnspec.core.plan import NOT_AT_FLOAT64
from attnspec.report.coverage import at_sizes, covered

FEW = 3
"""Subjects whose sizes are told."""


def tried(digest: Digest) -> Iterator[str]:
    """A line or two for each of a few subjects, and one for the further dtypes."""
    yield from _sizes(digest)
    yield from _sampled(digest)


def _sizes(digest: Digest) -> Iterator[str]:
    """Which sizes were tried, of a few subjects."""
    for subject, known in digest.cards.items() if len(digest.cards) <= FEW else ():
        if found := covered(digest.of(subject).outcomes, known.card):
            yield f"sizes{of_subject(subject, digest.subjects)}: {found.sentence}"
        if named := at_sizes(digest.of(subject).outcomes):
            yield f"your sizes{of_subject(subject, digest.subjects)}: {named.sentence}"


def _sampled(digest: Digest) -> Iterator[str]:
    """That further dtypes, and gradients, were tried with fewer cases, where they were."""
    asking = {name for name in {outcome.clause for outcome in digest.outcomes} if GRAD in digest.clause(name).needs}
    of_gradients = [outcome for outcome in digest.outcomes if outcome.clause in asking]
    others = [outcome for outcome in digest.outcomes if outcome.clause not in asking]
    if sample := max((outcome.sample for outcome in others), default=0):
        none = ", none at float64" if any(outcome.reason == NOT_AT_FLOAT64 for outcome in digest.outcomes) else ""
        yield (f"further dtypes: {sample} cases of each clause whose verdict does not depend on the dtype{none} "
               "(--dtype NAME tries all)")
    if sample := max((outcome.sample for outcome in of_gradients), default=0):
        at = ", ".join(dict.fromkeys(outcome.dtype.value for outcome in of_gradients if outcome.sample))
        yield f"gradients: {sample} cases of each clause, at {at} (--profile +gradients tries all)"
