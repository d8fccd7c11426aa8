"""What tells the faults of rotary embeddings apart, what is right beside what is wrong, and the arithmetic that may
explain one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from attnspec.core.nouns import DType
from attnspec.core.rotary import POSITIONS, width_of
from attnspec.diagnosis.tolerance import ComparisonStandard
from attnspec.problems.problem import Recipe, Sizes
from attnspec.problems.rotary import RotaryProblem
from attnspec.trials.call_log import log_call
from attnspec.vocabulary.scene import AnyProblem

_FEW, _WIDE = Sizes(2, 2, 2, 5, 5, 8, 8), Sizes(3, 2, 2, 9, 9, 24, 24)


def _recipe(sizes: Sizes, positions: str, keywords: str = "", *, seed: int, width: str = "half") -> Recipe:
    """The recipe of a call: a width that turns nothing else than the whole would would say nothing."""
    assert width_of(width, sizes.D) < sizes.D
    values = {POSITIONS: positions, "base": 500000.0, "rotary_width": width}
    features = frozenset({POSITIONS, *keywords.split()})
    return Recipe(sizes, ("normal",), "none", features, seed,
                  values={name: value for name, value in values.items() if name in features})


CALLS = (
    _recipe(_FEW, "counted", seed=1), _recipe(_FEW, "offset", seed=2), _recipe(_FEW, "scattered", seed=3),
    _recipe(_FEW, "packed", seed=4), _recipe(_FEW, "far", seed=5), _recipe(_FEW, "zero", seed=6),
    _recipe(_FEW, "offset", "base", seed=7), _recipe(_FEW, "offset", "rotary_width", seed=8),
    _recipe(_FEW, "offset", "interleaved", seed=9), _recipe(_WIDE, "scattered", "base rotary_width", seed=10),
    _recipe(_WIDE, "scattered", "interleaved rotary_width", seed=11, width="two"),
    _recipe(_WIDE, "far", "base interleaved", seed=12),
    _recipe(_WIDE, "counted", "base interleaved rotary_width", seed=13),
)
"""Calls that are put to a rotary embedding and to its faults."""

LEFT_OUT: Mapping[str, tuple[str, object]] = {
    "rotary_width": ("a rotary width < D", None), "base": ("base", None), "interleaved": ("interleaved", False)}
"""By keyword that a rotary embedding need not be given, what it is called, and the value that leaves it out."""


def locate_in_rotation(bar: ComparisonStandard, failing: Sequence[AnyProblem]) -> str:
    """The keywords without which a failing case is answered rightly, in a sentence; empty where there are none."""
    problems = (each for each in failing if isinstance(each, RotaryProblem))
    needed = next(filter(None, (tuple(_needed_classes(bar, each)) for each in problems)), ())
    return f"the answer is wrong here, and right once {' or '.join(needed)} is left out" if needed else ""


def _needed_classes(bar: ComparisonStandard, problem: RotaryProblem) -> Iterator[str]:
    if _is_right(bar, problem):
        return
    for keyword, (name, nothing) in LEFT_OUT.items():
        is_given = keyword in problem.keywords and (keyword != "rotary_width" or problem.width < problem.x.shape[-1])
        if is_given and _is_right(bar, problem.but(**{keyword: nothing})):
            yield name


def _is_right(bar: ComparisonStandard, problem: RotaryProblem) -> bool:
    return not bar.subject.refuses(problem) and bar.ruler(problem).is_right(log_call(bar.subject, problem),
                                                                            is_subject=True)


@dataclass(frozen=True, slots=True)
class NarrowRotation:
    """Angles, or cos and sin, in a narrower format: what such a function does, what would mend it, and its words."""

    cause: str
    advice: str
    words: dict[str, object]


def narrow_for(dtype: DType) -> tuple[NarrowRotation, ...]:
    """The classes that may explain an answer at a dtype, the likelier first."""
    if dtype is DType.FLOAT64:
        return (NarrowRotation("its angles are computed in float32", "Compute frequencies and angles in float64",
                               {"angle": "float32"}),
                NarrowRotation("it turns its features in float32", "Compute in float64",
                               {"angle": "float32", "rotation": "float32"}))
    if dtype is DType.FLOAT32:
        return tuple(NarrowRotation(f"its cos and sin are stored in {half}", "Store them in float32",
                                    {"rotation": half})
                     for half in ("float16", "bfloat16"))
    return ()
