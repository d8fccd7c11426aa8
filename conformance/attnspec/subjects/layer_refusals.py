"""What a layer of one's own refuses beside what it refuses as attention: another width of its model or its values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import islice

from attnspec.core.nouns import DType
from attnspec.problems.make import make_layer
from attnspec.problems.problem import LayerProblem, Sizes
from attnspec.problems.recipe import Recipe
from attnspec.subjects.interview import Interview
from attnspec.subjects.subject import Subject

_PLAIN = Sizes(B=2, H=2, Hkv=2, T=4, S=4, D=4, Dv=4)


@dataclass(frozen=True, slots=True)
class Width:
    """A width that a layer need not take: in words; how wide values are, and by how much M is more than H·D."""

    name: str
    Dv: int = _PLAIN.Dv
    more: int = 0


WIDTHS: Mapping[str, Width] = {
    "ties_model_width": Width("a model of another width (M ≠ H·D)", more=3),
    "ties_value_width": Width("values of another width (Dv ≠ D)", Dv=6)}
"""By the limit that says the same."""


def with_widths(subject: Subject) -> Subject:
    """The subject with a limit for each of these widths that it refuses clearly, where it takes the plain ones."""
    plain = Width("")
    taken = (each for each in subject.declaration.dtypes
             if Interview(subject, each).answers(_posed(subject, each, plain)))
    for dtype in islice(taken, 1):
        for limit, width in WIDTHS.items():
            subject = _with_width(subject, limit, width, dtype)
    return subject


def _with_width(subject: Subject, limit: str, width: Width, dtype: DType) -> Subject:
    declared = subject.declaration
    is_said = getattr(declared.limits, limit)
    words = "" if is_said else Interview(subject, dtype).refusal_of(_posed(subject, dtype, width))
    if not words:
        return subject
    limits = replace(declared.limits, **{limit: True})  # type: ignore[arg-type]  # by name; both are flags
    return replace(subject, declaration=replace(declared, limits=limits),
                   refused={**subject.refused, width.name: words})


def _posed(subject: Subject, dtype: DType, width: Width) -> LayerProblem:
    limits = subject.declaration.limits
    sizes = replace(_PLAIN, Dv=width.Dv, **({"H": 1, "Hkv": 1} if limits.single_head else {}))
    recipe = Recipe(sizes, ("normal",), "none", frozenset({"causal"} if limits.causal_only else ()), 1,
                    M=sizes.H * sizes.D + width.more, inputs=limits.inputs)
    return make_layer(recipe, dtype, limits=limits)
