"""How far apart what was seen and what was expected are, how that is told, and what of it is kept to be drawn."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np

from attnspec.problems.problem import Array
from attnspec.record.outcome import Measured
from attnspec.vocabulary.gradients import DIFFERENTIATED
from attnspec.vocabulary.observables import observe
from attnspec.vocabulary.scene import Compared, Scene, Side

AT_ONCE = 2**20
"""Entries that are compared at once: more of them are compared part by part, so that no part takes much memory."""

QUANTITIES: Mapping[str, str] = {
    "output": "output", "weights": "weights", "returned_weights": "returned weights",
    "logits": "logits (relative to the largest of their row)", "lse": "log-sum-exp",
    **{name: f"gradient with respect to the {of}" for name, of in DIFFERENTIATED.items()}}
"""What a reader calls what is observed."""


def measure(relation: str, seen: Array, expected: Array, allowance: Array | float, claimed: Array,
            *, what: str, first_row: int = 0) -> Measured:
    """Entries that should be `expected` within `allowance` wherever a claim is made; any shape, broadcast to one.
    first_row: what the first of the rows counts as in the array that they are taken from.

    An entry that is not finite where a finite one is expected is infinitely wrong; 0 against 0 allowed is right. An
    allowance that is not a number allows nothing.
    """
    seen, expected, allowance, claimed = np.broadcast_arrays(seen, expected, np.asarray(allowance), claimed)
    margin = np.empty(seen.shape, np.result_type(seen, expected, allowance, np.float64))
    for place in _chunks(seen.shape):
        margin[place] = np.where(claimed[place], _margin(seen[place], expected[place], allowance[place])[0], -1.0)
    return _worst(relation, what, (seen, expected, allowance, margin), int(claimed.sum()), first_row)


def beyond(seen: Array, expected: Array, allowance: Array | float) -> Array:
    """bool, of the shape of what is seen: entries that lie further from what is expected than is allowed; any shape."""
    seen, expected, allowance = np.broadcast_arrays(seen, expected, np.asarray(allowance))
    return np.asarray(_margin(seen, expected, allowance)[0] > 1)


def _chunks(shape: tuple[int, ...]) -> Iterator[tuple[int | slice, ...]]:
    """Places that cover an array of any shape, of at most AT_ONCE entries each where the last axis is no longer."""
    if math.prod(shape) <= AT_ONCE:
        yield ()
        return
    axis = next(axis for axis in range(len(shape)) if math.prod(shape[axis + 1:]) <= AT_ONCE)
    step = max(1, AT_ONCE // math.prod(shape[axis + 1:]))
    for before in np.ndindex(shape[:axis]):
        yield from ((*before, slice(start, start + step)) for start in range(0, shape[axis], step))


def _margin(seen: Array, expected: Array, allowance: Array) -> tuple[Array, Array]:
    """Gap over allowance, and the gap; all of one shape, any shape."""
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        gap = np.abs(seen - expected)
        margin = gap / allowance
    # something is not finite, or nothing is allowed
    return (margin, gap) if (margin < np.inf).all() else _awkward_margin(seen, expected, gap, allowance)


def _awkward_margin(seen: Array, expected: Array, gap: Array, allowance: Array) -> tuple[Array, Array]:
    """Gap over allowance, and the gap, where either may not be a finite number; all of one shape, any shape."""
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        gap = np.where(seen == expected, 0, np.where(np.isnan(gap), np.inf, gap))
        margin = np.where(np.isinf(gap) | np.isnan(allowance), np.inf, gap / allowance)
    return np.where(gap == 0, 0, margin), gap


def _worst(relation: str, what: str, arrays: tuple[Array, ...], claimed: int, first_row: int) -> Measured:
    """What is told of the entry with the largest margin, the last of the arrays; all are of one shape, any shape."""
    margin = arrays[-1]
    if not claimed:
        return Measured(relation, f"{what}: no entry can be judged here", 0, 0, 0, 0, 0, (), margin.size, 0)
    at = tuple(int(i) for i in np.unravel_index(int(margin.argmax()), margin.shape))
    gap = float(_margin(*(array[at] for array in arrays[:3]))[1])
    seen, expected, allowance = (float(array[at]) for array in arrays[:3])
    wrong = int((margin > 1).sum())
    whole = (*at[:-2], at[-2] + first_row, at[-1]) if first_row else at
    allowed = f"{gap:.3g} where {allowance:.2g} is allowed"
    sentence = (f"{what}: {wrong} of {claimed} entries differ; worst at {whole}, {seen:.9g} against {expected:.9g}, "
                f"apart by {allowed}" if wrong else
                f"{what}: all {claimed} entries agree; the one closest to its bound, at {whole}, is apart by {allowed}")
    return Measured(relation, sentence, float(margin[at]), gap, allowance, seen, expected, whole, margin.size,
                    claimed, wrong)


def verdict(relation: str, sentence: str, *, broken: bool, entries: int = 1) -> Measured:
    """A claim that holds or does not, without a distance."""
    margin = float("inf") if broken else 0.0
    return Measured(relation, sentence, margin, float(broken), 0.0, 0.0, 0.0, (), entries, entries, int(broken))


def nothing(relation: str, why: str) -> Measured:
    """A claim that this case says nothing of."""
    return Measured(relation, why, 0.0, 0.0, 0.0, 0.0, 0.0, (), 0, 0)


def equal(relation: str, left: Array, right: Array, claimed: Array | bool = True, *, what: str,
          first_row: int = 0) -> Measured:
    """Equal values, of any shape, wherever a claim is made, +0 equal to -0 and any NaN to any NaN."""
    same_nan = np.isnan(left) & np.isnan(right)
    left, right = (np.where(same_nan, 0, array) for array in (left, right))
    return measure(relation, left, right, 0.0, np.broadcast_to(claimed, left.shape), what=what,
                   first_row=first_row)


def of_run(observed: str, run: str, array: Array) -> Side:
    """What a run shows, any shape."""
    return Side(f"{QUANTITIES[observed]} of `{run}`", run, array)


def seen_of(observed: str, run: str, array: Array) -> Side:
    """What is seen of a run that is not held to another run, any shape."""
    return Side(QUANTITIES[observed], run, array)


def by_definition(observed: str, run: str, array: Array) -> Side:
    """What the definition says of a run, any shape."""
    return Side(f"{QUANTITIES[observed]} by definition", run, array)


def keep(scene: Scene, found: Measured, seen: Side, expected: Side, bound: tuple[Array | float, Array | bool], *,
         observed: str = "output", first_row: int = 0) -> Measured:
    """What was found, as it is. Where the scene keeps what is compared, the two sides are kept if no worse ones are.

    bound: how far apart they may be, and where that is claimed; of any shape, broadcast to that of what is seen.
    """
    if scene.kept is None or (scene.kept and scene.kept[0].margin >= found.margin):
        return found
    shape, (allowance, claims) = seen.array.shape, bound
    claimed = np.broadcast_to(claims, shape)
    same_nan = np.isnan(seen.array) & np.isnan(expected.array) & (np.asarray(allowance) == 0)  # as `equal` has it
    wrong = claimed & beyond(seen.array, expected.array, allowance) & ~same_nan
    index = found.index or tuple(int(place) for place in np.unravel_index(int(wrong.argmax()), shape))
    if first_row and found.index:
        index = (*index[:-2], index[-2] - first_row, index[-1])
    axes = observe(scene, seen.run, observed).axes[:len(shape)]
    scene.kept[:] = [Compared(found.margin, index, axes, seen,
                              Side(expected.name, expected.run, np.broadcast_to(expected.array, shape)), claimed,
                              wrong, first_row)]
    return found
