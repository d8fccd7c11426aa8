"""What is right beside what is wrong: of the quantities that a failing case asks for, which are, and which are not."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from attnspec.core.errors import AttnspecError
from attnspec.core.gradient_keywords import GRAD
from attnspec.problems.recipe import Recipe
from attnspec.subjects.subject import SubjectDied, SubjectRaised, UnusableAnswer
from attnspec.vocabulary.gradients import OF_INPUT
from attnspec.vocabulary.measures import QUANTITIES, beyond
from attnspec.vocabulary.observables import see
from attnspec.vocabulary.scene import NoClaim, OutsideLimits, Scene

FORWARD = ("output", "lse")
_SAYS_NOTHING = (NoClaim, OutsideLimits, SubjectRaised, SubjectDied, UnusableAnswer, AttnspecError)


def right_beside(scene: Scene, recipe: Recipe) -> str:
    """`Only the log-sum-exp is wrong; the output is right.`; empty where all of it is wrong, or nothing is."""
    asked = [*OF_INPUT, "output"] if GRAD in recipe.features else list(FORWARD)
    run = next(iter(scene.runs))
    fared = [(QUANTITIES[name], is_right) for name in asked for is_right in _fares(scene, run, name)]
    wrong, right = ([name for name, is_right in fared if is_right is which] for which in (False, True))
    if not wrong or not right:
        return ""
    return f"Only the {_listed(wrong)} {_is(wrong)} wrong; the {_listed(right)} {_is(right)} right."


def _fares(scene: Scene, run: str, name: str) -> Iterator[bool]:
    """Whether it is right where a claim is made; nothing where none is, or it is not asked for."""
    try:
        seen = see(scene, run, name)
    except _SAYS_NOTHING:
        return
    if seen.claimed.any():
        with np.errstate(all="ignore"):
            yield not (beyond(seen.array, seen.truth, seen.allowance) & seen.claimed).any()


def _listed(names: list[str]) -> str:
    return " and the ".join(names)


def _is(names: list[str]) -> str:
    return "is" if len(names) == 1 else "are"
