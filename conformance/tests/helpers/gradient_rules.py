"""Rules on gradients at little work, and subjects with backward passes of a test's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from attnspec.faults.backward import as_backward
from attnspec.faults.sound import sound_named
from attnspec.faults.subject import own_subject
from attnspec.problems.problem import Array, Sizes
from attnspec.subjects.callee import InProcess
from attnspec.subjects.subject import Subject
from evaluation.baselines import dealing, gradient_suites
from evaluation.baselines.gradient_suites import cases_of

SOUND = "sound/backward_eager"
Backward = Callable[..., Mapping[str, Array]]
Change = Callable[[Mapping[str, Array], int], Mapping[str, Array]]


@contextmanager
def little_work() -> Iterator[None]:
    """Grids deal a fifth of the work that they deal in a measurement, and gradcheck takes narrow heads."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dealing, "HALF", dealing.HALF / 5)
        patch.setattr(gradient_suites, "MATH", Sizes(2, 2, 2, 3, 4, 2, 2))
        patch.setattr(gradient_suites, "_SAMPLE", Sizes(2, 4, 4, 3, 5, 2, 2))
        cases_of.cache_clear()
        yield
    cases_of.cache_clear()


def subject_with_backward(backward: Backward) -> Subject:
    """A sound forward pass with this backward pass."""
    return replace(own_subject(SOUND), id="altered", callee=InProcess(sound_named("naive").function, backward=backward))


def subject_with_change(change: Change) -> Subject:
    """One whose results are changed by a function of them and of the number of the call."""
    sound, calls = as_backward(), iter(range(10**9))

    def attend_backward(*arguments: Array, **keywords: Any) -> Mapping[str, Array]:  # noqa: ANN401  (Call's)
        return change(sound(*arguments, **keywords), next(calls))

    return subject_with_backward(attend_backward)
