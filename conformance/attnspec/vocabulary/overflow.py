"""A word of `then` about what overflows, be it that a storage is declared in which it may."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from attnspec.numerics.precision import with_range_of_float32
from attnspec.questions.ranges import told, tried
from attnspec.record.outcome import Measured, Reading
from attnspec.vocabulary import observables
from attnspec.vocabulary.measures import measure
from attnspec.vocabulary.scene import Scene
from attnspec.vocabulary.signature import ORIGINAL, RunName


def does_not_overflow(scene: Scene, *, observe: Literal["output"], run: RunName = ORIGINAL) -> Measured:
    """What is observed is what the definition says, be it that logits are declared to be stored in float16 and overflow
    it: only roundings are granted, no overflow. How much the subject stands in a half dtype is read off.
    """
    wide = scene.evaluator.under(with_range_of_float32(scene.evaluator.precision))
    observables.observe(scene, run, observe)  # by the case's own evaluator, which may keep a log; then it is remembered
    seen = observables.see(scene.against(wide), run, observe)
    found = measure("does_not_overflow", seen.array, seen.truth, seen.allowance, seen.claimed,
                    what=f"{observe} against the definition, no overflow excused")
    return replace(found, readings=_readings(scene))


def _readings(scene: Scene) -> tuple[Reading, ...]:
    """What the subject stands; nothing in a dtype that is no half."""
    found, dtype = scene.evaluator.ranges, scene.dtype.value
    return (Reading("range", told(found), 0.0, f"{dtype}: {told(found)}; {tried(found)}"),) if found else ()
