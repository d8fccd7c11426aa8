"""Pictures of a counterexample: the weights by definition, the output seen, and their difference."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from attnspec.problems.demand import logits
from attnspec.problems.problem import Array, LayerProblem
from attnspec.record.outcome import Measured, Picture
from attnspec.subjects.subject import SubjectDied, SubjectRaised, UnusableAnswer
from attnspec.vocabulary.observables import defined, see
from attnspec.vocabulary.scene import NoClaim, OutsideLimits, Scene

LARGEST = 24
"""Rows and columns of a picture: a part around the worst entry."""

LARGEST_WEIGHTS = 2**23
"""Logits B·H·T·S up to which the weights are pictured: they are worked out for it, all of them."""


def pictures(scene: Scene, measured: Measured) -> tuple[Picture, ...]:
    """The weights by definition, the output seen and its difference from the definition, around the worst entry."""
    try:
        return tuple(_pictures(scene, measured))
    except (NoClaim, OutsideLimits, SubjectRaised, SubjectDied, UnusableAnswer):  # no reason to lose the verdict
        return ()


def _pictures(scene: Scene, measured: Measured) -> Iterator[Picture]:
    run = next(iter(scene.runs))
    posed = scene.runs[run]
    if not measured.index or len(posed.parts) != 1:
        return
    at, output = _place(measured.index), see(scene, run, "output")
    difference = "output seen - output by definition"
    if isinstance(posed.one, LayerProblem):
        yield _picture(difference, "queries", "model features", (output.array - output.truth)[at[0]], at[2])
        return
    if logits(posed.one.sizes) <= LARGEST_WEIGHTS:
        weights = defined(scene, run, "weights", ("B", "H", "T", "S"), lambda expected: expected.weights)
        yield _picture("weights by definition", "queries", "keys", weights[at[0], at[1]], at[2])
    seen, truth = output.array[at[0], at[1]], output.truth[at[0], at[1]]
    yield _picture(f"output seen ({run})", "queries", "value features", seen, at[2])
    yield _picture(difference, "queries", "value features", seen - truth, at[2])


def _place(index: tuple[int, ...]) -> tuple[int, int, int]:
    """Batch entry, head and row of the worst entry; what has no head (a layer, averaged weights) counts as 0."""
    batch, head, row = (*index, 0, 0)[:3]
    return (batch, 0, head) if len(index) == 3 else (batch, head, row)


def _picture(name: str, rows: str, columns: str, array: Array, row: int) -> Picture:
    """The rows around `row` of an array (T,S), (T,Dv) or (T,M), as many as a picture holds."""
    start = max(0, min(row - LARGEST // 2, array.shape[0] - LARGEST))
    part = array[start : start + LARGEST, :LARGEST]
    whole = part.shape == array.shape
    shown = f"rows {start} to {start + part.shape[0] - 1}, first {part.shape[1]} columns"
    title = name if whole else f"{name} ({shown})"
    return Picture(title, rows, columns, tuple(tuple(_plain(entry) for entry in line) for line in part))


def _plain(entry: np.generic) -> float | str:
    number = float(entry)
    if np.isfinite(number):
        return float(f"{number:.6g}")
    return "nan" if np.isnan(number) else "inf" if number > 0 else "-inf"
