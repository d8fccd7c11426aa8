"""Says which entries of an answer are wrong, as ranges of its axes, and which further quantities are right."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from attnspec.core.errors import AttnspecError
from attnspec.core.keyword import GRAD
from attnspec.problems.problem import Array, Recipe
from attnspec.subjects.subject import SubjectDied, SubjectRaised, UnusableAnswer
from attnspec.vocabulary.gradients import OF_INPUT
from attnspec.vocabulary.observables import QUANTITIES, axes_of, beyond, see
from attnspec.vocabulary.scene import NoClaim, OutsideLimits, Scene

FORWARD = ("output", "lse")
_SAYS_NOTHING = (NoClaim, OutsideLimits, SubjectRaised, SubjectDied, UnusableAnswer, AttnspecError)


def right_beside(scene: Scene, recipe: Recipe) -> str:
    """`Only the log-sum-exp is wrong; the output is right.`; empty where all of it is wrong, or nothing is."""
    asked = [*OF_INPUT, "output"] if GRAD in recipe.features else list(FORWARD)
    run = next(iter(scene.runs))
    fared = [(QUANTITIES[name], is_right) for name in asked for is_right in _quantity_verdicts(scene, run, name)]
    wrong, right = ([name for name, is_right in fared if is_right is which] for which in (False, True))
    if not wrong or not right:
        return ""
    return f"Only the {_join_names(wrong)} {_is(wrong)} wrong; the {_join_names(right)} {_is(right)} right."


def _quantity_verdicts(scene: Scene, run: str, name: str) -> Iterator[bool]:
    """Whether it is right where a claim is made; nothing where none is, or it is not asked for."""
    try:
        seen = see(scene, run, name)
    except _SAYS_NOTHING:
        return
    if seen.claimed.any():
        with np.errstate(all="ignore"):
            yield not (beyond(seen.array, seen.truth, seen.allowance) & seen.claimed).any()


def _join_names(names: list[str]) -> str:
    return " and the ".join(names)


def _is(names: list[str]) -> str:
    return "is" if len(names) == 1 else "are"


_NAMES = {"B": ("batch entry", "batch entries"), "H": ("head", "heads"), "T": ("row", "rows"),
          "S": ("key", "keys"), **dict.fromkeys(("D", "Dv", "M", "Out"), ("column", "columns")),
          "In": ("row", "rows")}
_LISTED = 4
"""So many single indices are listed; of more, how many they are."""

_FILLED = 0.5
"""Where fewer of the entries in the ranges are wrong, it is some of them."""


def wrong_entries(scene: Scene) -> tuple[Array, tuple[str, ...]] | None:
    """Which entries of the output of the first wrong run lie beyond their allowance, and the names of its axes.

    bool, (B,H,T,Dv), of a layer (B,T,M), of a rotary embedding (B,H,T,D). None where every run's output is right.
    """
    for run, posed in scene.runs.items():
        seen = see(scene, run, "output")
        with np.errstate(invalid="ignore"):
            near = np.abs(seen.array - seen.truth) <= seen.allowance
        wrong = seen.claimed & ~near & (seen.array != seen.truth)
        if wrong.any():
            return wrong, axes_of(posed.parts[0])
    return None


def describe_ranges(wrong: Array, axes: Sequence[str]) -> str:
    """`rows 64 to 128 of every head`; "every entry" where all of them are wrong.

    wrong: bool, of any shape with these axes, some of them True.
    """
    among = [np.asarray(wrong.any(axis=tuple(other for other in range(wrong.ndim) if other != axis)))
             for axis in range(wrong.ndim)]
    told = {name: _indices(name, each) for name, each in zip(axes, among, strict=True) if not each.all()}
    filled = wrong[np.ix_(*(np.flatnonzero(each) for each in among))].mean()
    some = "some entries of " if filled < _FILLED else ""
    if not told:
        return "some entries everywhere" if some else "every entry"
    return some + " of ".join(_in_order(told, wrong, axes))


def _in_order(told: dict[str, str], wrong: Array, axes: Sequence[str]) -> Iterator[str]:
    """The innermost first: columns of rows of heads of batch entries. wrong: any shape with these axes."""
    for name in ("D", "Dv", "M", "Out", "S", "T", "In"):
        if name in told:
            yield told[name]
    heads = wrong.shape[axes.index("H")] if "H" in axes else 0
    if "H" in told:
        yield told["H"]
    elif heads > 1 and "B" not in told:
        yield "every head"
    if "B" in told:
        yield told["B"]


def _indices(name: str, among: Array) -> str:
    """`rows 64 to 128`, `the last row`, `every second row from 1 on`, `heads 1, 5 and 6`, `12 of 40 rows`.

    among: bool, (T,) of rows and alike of other axes, some of them True and some not.
    """
    one, many = _NAMES[name]
    at = [int(index) for index in np.flatnonzero(among)]
    if len(at) == 1:
        return f"the last {one}" if at[0] == len(among) - 1 else f"{one} {at[0]}"
    steps = {after - before for before, after in pairwise(at)}
    if steps == {1}:
        return f"{many} {at[0]} to {at[-1]}"
    if len(steps) == 1 and len(at) > 2:
        return f"every {_ordinal(steps.pop())} {one} from {at[0]} to {at[-1]}"
    if len(at) <= _LISTED:
        return f"{many} {', '.join(map(str, at[:-1]))} and {at[-1]}"
    return f"{len(at)} of {len(among)} {many}, {at[0]} to {at[-1]}"


def _ordinal(number: int) -> str:
    named = {2: "second", 3: "third"}
    ending = "th" if number % 100 in {11, 12, 13} else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return named.get(number, f"{number}{ending}")
