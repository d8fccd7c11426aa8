"""The arrays of a counterexample, cut down to what a page can show."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from attnspec.problems.problem import Array, Problem
from attnspec.record.outcome import Measured, Picture
from attnspec.subjects.subject import SubjectRaised, UnusableAnswer
from attnspec.vocabulary.observables import expectations, observe
from attnspec.vocabulary.posed import NoClaim
from attnspec.vocabulary.scene import OutsideLimits, Scene

LARGEST = 24
"""Rows and columns of a picture: a window around the worst entry."""


def pictures(scene: Scene, measured: Measured) -> tuple[Picture, ...]:
    """The weights by definition, the output seen and its difference from the definition, around the worst entry."""
    try:
        return tuple(_pictures(scene, measured))
    except (NoClaim, OutsideLimits, SubjectRaised, UnusableAnswer):  # a help, no reason to lose the verdict
        return ()


def _pictures(scene: Scene, measured: Measured) -> Iterator[Picture]:
    run = next(iter(scene.runs))
    posed = scene.runs[run]
    if not measured.index or len(posed.parts) != 1 or scene.rows is not None:
        return
    [expected] = expectations(scene, posed, "output")
    at = _place(measured.index)
    output = observe(scene, run, "output").array
    if isinstance(posed.one, Problem):
        [inside] = expectations(scene, posed, "weights")
        yield _picture("weights by definition", "queries", "keys", inside.weights[at[0], at[1]], at[2])
        yield _picture(f"output seen ({run})", "queries", "value features", output[at[0], at[1]], at[2])
        yield _picture("output seen - output by definition", "queries", "value features",
                       (output - expected.output)[at[0], at[1]], at[2])
    else:
        yield _picture("output seen - output by definition", "queries", "model features",
                       (output - expected.output)[at[0]], at[1])


def _place(index: tuple[int, ...]) -> tuple[int, int, int]:
    """Batch entry, head and row of the worst entry; averaged weights have no head, and the first is shown."""
    batch, head, row = (*index, 0, 0)[:3]
    return (batch, 0, head) if len(index) == 3 else (batch, head, row)


def _picture(name: str, rows: str, columns: str, array: Array, row: int) -> Picture:
    start = max(0, min(row - LARGEST // 2, array.shape[0] - LARGEST))
    window = array[start : start + LARGEST, :LARGEST]
    whole = window.shape == array.shape
    shown = f"rows {start} to {start + window.shape[0] - 1}, first {window.shape[1]} columns"
    title = name if whole else f"{name} ({shown})"
    return Picture(title, rows, columns, tuple(tuple(_plain(entry) for entry in line) for line in window))


def _plain(entry: np.generic) -> float | str:
    number = float(entry)
    if np.isfinite(number):
        return float(f"{number:.6g}")
    return "nan" if np.isnan(number) else "inf" if number > 0 else "-inf"
