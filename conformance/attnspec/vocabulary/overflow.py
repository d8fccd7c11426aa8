"""A word of `then` about overflow, also for a subject that declares a storage which may overflow."""

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
    """The observed array equals the definition's within rounding, and no overflow is excused.

    So a subject fails that declares to store logits in float16, and whose logits overflow there. In a half dtype, the
    largest logit, the largest value and the most keys without an overflow are reported as well.
    """
    wide = scene.evaluator.under(with_range_of_float32(scene.evaluator.precision))
    observables.observe(scene, run, observe)  # by the case's own evaluator, which may keep a log; then it is remembered
    seen = observables.see(scene.against(wide), run, observe)
    found = measure("does_not_overflow", seen.array, seen.truth, seen.allowance, seen.claimed,
                    what=f"{observe} against the definition, no overflow excused")
    return replace(found, readings=_readings(scene))


def _readings(scene: Scene) -> tuple[Reading, ...]:
    """How much the subject takes without an overflow; nothing in a dtype that is no half."""
    found, dtype = scene.evaluator.ranges, scene.dtype.value
    return (Reading("range", told(found), 0.0, f"{dtype}: {told(found)}; {tried(found)}"),) if found else ()
