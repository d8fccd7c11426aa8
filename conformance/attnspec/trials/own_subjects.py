"""Tries clauses on attnspec's own subjects, faults and sound ones, with shared expectations."""

from __future__ import annotations

from functools import lru_cache

from attnspec.core.nouns import DType
from attnspec.faults.subject import own_subject
from attnspec.spec.clause import CASES, EFFORT, SEED
from attnspec.subjects.subject import Subject
from attnspec.trials.compile import Check
from attnspec.trials.covering_cases import seed_of
from attnspec.trials.evaluator import Archive, Evaluator, Memory
from attnspec.trials.judging import Tally
from attnspec.trials.sizes import Dealer
from attnspec.trials.trial import Trial

MAX_ARCHIVES = 6
"""Archives: attention and the kinds of layers at one dtype. Subjects come dtype by dtype."""

MAX_REMEMBERED = 4096
"""Problems, and expectations, in each archive: more than effort quick puts to a sound subject."""

MAX_BYTES = 2**28
"""Bytes of each archive. With less, large problems are computed anew for each fault of sizes."""


def shared_archive(subject: Subject, dtype: DType) -> Archive:
    """The archive of all subjects with the same expectations at this dtype."""
    return _archive(Evaluator(subject, dtype).shared_by)


@lru_cache(MAX_ARCHIVES)
def _archive(_shared_by: str) -> Archive:
    return Archive(Memory(MAX_REMEMBERED, MAX_BYTES), Memory(MAX_REMEMBERED, MAX_BYTES))


def forget_archives() -> None:
    """Deletes all archives: full ones take three gigabytes together."""
    _archive.cache_clear()


def try_first_cases(check: Check, target: str, dtype: DType, dealer: Dealer) -> Tally:
    """Judges a fault by a clause, on the first cases of `attnspec check`, up to the first that
    fails.

    dealer: deals the clause its part of the sizes. The fault is made anew: what one clause asked
    of one with a memory must not serve the next.
    """
    subject = own_subject(target)
    evaluator = Evaluator(subject, dtype, archive=shared_archive(subject, dtype))
    return Trial(check, evaluator, EFFORT, seed_of(SEED, check.domain), lambda _: None,
                 shrinks=False, max_cases=CASES, shapes=dealer.shapes(check, dtype)).hold()
