"""What a function of one's own refuses: asked with small problems, before it is judged.

Who wrote attention for as many key/value heads as query heads has not promised grouped ones. Where such a function says
so, with a clear error, that is a limit and no violation: clauses that need what it refuses are INAPPLICABLE, in its own
words. A promise (a declared limit or dtype, a claimed profile) is held to, and what a registered subject takes stands
in its manifest.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from attnspec.core.declaration import Limits
from attnspec.core.nouns import DType, Kind
from attnspec.problems.problem import Problem, Sizes, numpy_dtype
from attnspec.subjects.subject import Subject, SubjectRaised, UnusableAnswer

PLAIN = Sizes(B=2, H=4, Hkv=4, T=16, S=16, D=16, Dv=16)
"""What any attention takes: nothing is concluded of a function that refuses this too."""

ON_PURPOSE = frozenset({"ValueError", "TypeError", "NotImplementedError", "AssertionError", "RuntimeError"})
"""The exceptions by which code refuses; frameworks raise them, or subclasses of them, for shapes that do not fit."""


@dataclass(frozen=True, slots=True)
class Optional:
    """What an attention need not take: a problem that has it, the limit of those that refuse it, and its profile."""

    name: str
    sizes: Sizes
    limits: Mapping[str, Any]
    causal: bool = False
    profile: str = ""


OPTIONAL = (
    Optional("grouped heads (Hkv < H)", replace(PLAIN, Hkv=2), {"grouped": False}, profile="grouped"),
    Optional("values of another width (Dv ≠ D)", replace(PLAIN, Dv=8), {"ties_value_width": True}),
    Optional("T ≠ S", replace(PLAIN, T=8), {"lengths": "equal"}),
    Optional("T > S", replace(PLAIN, S=8), {"lengths": "no_more_queries"}),
    Optional("causal with T ≠ S", replace(PLAIN, T=8), {"causal_lengths": "equal"}, causal=True),
    Optional("causal with T > S", replace(PLAIN, S=8), {"causal_lengths": "no_more_queries"}, causal=True),
)


def with_refusals(subject: Subject) -> Subject:
    """The subject with a limit for everything that it refuses clearly and has not promised."""
    if subject.declaration.kind is Kind.LAYER:
        return subject
    subject = _without_refused_dtypes(subject)
    for causal in (False, True):
        taken = (dtype for dtype in subject.declaration.dtypes
                 if _takes(subject, _problem(PLAIN, dtype, causal=causal)))
        if (dtype := next(taken, None)) is None:
            continue
        for optional in OPTIONAL:
            if optional.causal is causal:
                subject = _asked(subject, optional, dtype)
    return subject


def limits_without_refusals(subject: Subject) -> Limits:
    """The limits that the subject would have, had it refused nothing."""
    found = {name for optional in OPTIONAL if optional.name in subject.refused for name in optional.limits}
    return replace(subject.declaration.limits, **{name: getattr(Limits(), name) for name in found})


def _asked(subject: Subject, optional: Optional, dtype: DType) -> Subject:
    declared = subject.declaration
    is_said = any(getattr(declared.limits, name) != getattr(Limits(), name) for name in optional.limits)
    if is_said or optional.profile in declared.claims:
        return subject
    words = _refusal(subject, _problem(optional.sizes, dtype, causal=optional.causal))
    if not words:
        return subject
    limits = replace(declared.limits, **optional.limits)
    return replace(subject, declaration=replace(declared, limits=limits),
                   refused={**subject.refused, optional.name: words})


def _without_refused_dtypes(subject: Subject) -> Subject:
    """Unless the function says itself which dtypes it takes, those that it refuses are left out, if it takes any."""
    declared = subject.declaration
    if subject.described and "dtypes" in subject.described.attributes:
        return subject
    said = {dtype: _refusal(subject, _problem(PLAIN, dtype), shapes=False) for dtype in declared.dtypes}
    refused = {dtype: words for dtype, words in said.items() if words}
    taken = tuple(dtype for dtype in declared.dtypes if dtype not in refused)
    if not taken or not any(_takes(subject, _problem(PLAIN, dtype)) for dtype in taken):
        return subject
    left_out = {dtype: f"{subject.id} refuses {dtype.value}: {words}" for dtype, words in refused.items()}
    return replace(subject, declaration=replace(declared, dtypes=taken, left_out={**declared.left_out, **left_out}),
                   refused={**subject.refused, **{dtype.value: words for dtype, words in refused.items()}})


def _problem(sizes: Sizes, dtype: DType, *, causal: bool = False) -> Problem:
    """Small whole numbers: query (B,H,T,D), key (B,Hkv,S,D), value (B,Hkv,S,Dv)."""
    B, H, Hkv, T, S, D, Dv = (getattr(sizes, name) for name in ("B", "H", "Hkv", "T", "S", "D", "Dv"))
    shapes = ((B, H, T, D), (B, Hkv, S, D), (B, Hkv, S, Dv))
    query, key, value = ((np.arange(np.prod(shape)).reshape(shape) % 3 - 1).astype(numpy_dtype(dtype))
                         for shape in shapes)
    return Problem(dtype, query, key, value, causal=causal)


def _takes(subject: Subject, problem: Problem) -> bool:
    """Whether the function answers, rightly or wrongly."""
    if subject.refuses(problem):
        return False
    try:
        subject.answer(problem)
    except SubjectRaised:
        return False
    except UnusableAnswer:
        return True
    return True


def _refusal(subject: Subject, problem: Problem, *, shapes: bool = True) -> str:
    """The words of a clear refusal; empty where the function answers, or where a limit keeps the problem from it.

    shapes: what it should speak of, of shapes or else of number formats.
    """
    if subject.refuses(problem):
        return ""
    try:
        subject.answer(problem)
    except UnusableAnswer:
        return ""
    except SubjectRaised as raised:
        is_mute = ": " not in raised.summary  # a bare `assert` says what its code says
        told = f"{raised.summary}: {raised.statement}" if is_mute else raised.summary
        is_told = any(_speaks(told, problem, is_code=is_mute)) if shapes else bool(_OF_DTYPES.search(told))
        return told if is_told and raised.classes & ON_PURPOSE else ""
    return ""


_OF_DTYPES = re.compile(r"d?type|float|half|double|precision|implement|support", re.IGNORECASE)
_OF_SHAPES = re.compile(r"shape|size|dim|length|head|group|broadcast|width|causal|quer(y|ies)|\bkeys?\b|values?\b|"
                        r"\b[qkv]\b", re.IGNORECASE)
_OF_AXES = re.compile(r"\b[A-Z]\b")


def _speaks(told: str, problem: Problem, *, is_code: bool) -> Iterator[bool]:
    """Whether a message names what it is about: a parameter, an axis (in code by its letter), or one of the lengths."""
    message = told.partition(": ")[2]
    yield is_code and message.startswith("assert") and bool(_OF_AXES.search(message))
    lengths = {str(getattr(problem.sizes, name)) for name in ("H", "Hkv", "T", "S", "D", "Dv")}
    yield bool(_OF_SHAPES.search(message))
    yield bool(lengths & set(re.findall(r"\d+", message)))
