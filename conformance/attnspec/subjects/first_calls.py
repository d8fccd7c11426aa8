"""The first calls of a function of one's own, before anything else is loaded: can it be called as attention is?"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from attnspec.core.forms import InputForm
from attnspec.core.nouns import Kind
from attnspec.core.surroundings import Surroundings
from attnspec.problems.problem import Array, numpy_dtype
from attnspec.spec.clause import first_of
from attnspec.subjects.call import Call, SubjectDied, SubjectRaised, UnusableAnswer
from attnspec.subjects.callee import Hosted
from attnspec.subjects.smoke import check_axes
from attnspec.subjects.subject import Subject
from attnspec.subjects.target import begin, importable, load_bare

_SHAPE = (1, 1, 16, 8)
"""What any attention takes: (B,H,T,D)."""


def check_first_calls(target: str, surroundings: Surroundings, *, lift: str = "") -> str:
    """Load the function and call it with small inputs; what it returns where an array should be, in a sentence, empty
    if it is one. Raises TargetError where it cannot be judged at all. Nothing is concluded of one that dies.
    """
    begin(target, surroundings)
    subject = load_bare(target, surroundings, lift=lift)
    with contextlib.suppress(SubjectDied):
        check_axes(subject, target=importable(target))
        return _returned_otherwise(subject, importable(target))
    return ""


def _returned_otherwise(subject: Subject, target: str) -> str:
    declared = subject.declaration
    if declared.kind is not Kind.ATTENTION or declared.form is not InputForm.DENSE:
        return ""
    causal = {"causal": True} if declared.limits.causal_only else {}
    call = subject.as_spelled(Call(_inputs(subject), causal, first_of(declared.dtypes), (_SHAPE,)))
    try:
        subject.callee.perform(call)
    except UnusableAnswer as unusable:
        assert isinstance(subject.callee, Hosted)
        returned = subject.callee.whole(replace(call, shapes=()))
        if any(not part.path for part in returned.parts):  # an array of another shape or dtype, which is judged
            return ""
        return (f"{subject.source}: {unusable.sentence} Return the output alone, or have a wrapper written: "
                f"attnspec init {target}.")
    except SubjectRaised:
        return ""
    return ""


def _inputs(subject: Subject) -> Mapping[str, Array]:
    """Query, key and value of small whole numbers, each (B,H,T,D)."""
    dtype = numpy_dtype(first_of(subject.declaration.dtypes))
    whole = (np.arange(np.prod(_SHAPE)).reshape(_SHAPE) % 3 - 1).astype(dtype)
    return {name: whole.copy() for name in ("query", "key", "value")}
