"""What a relation compared, kept for whoever draws it: which arrays, whose they are, and which entry is the worst."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from attnspec.problems.problem import Array
from attnspec.record.outcome import Measured
from attnspec.vocabulary.measures import beyond
from attnspec.vocabulary.observables import observe
from attnspec.vocabulary.scene import Compared, Scene, Side

QUANTITIES: Mapping[str, str] = {
    "output": "output", "weights": "weights", "returned_weights": "returned weights",
    "logits": "logits (relative to the largest of their row)"}
"""What a reader calls what is observed."""


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
