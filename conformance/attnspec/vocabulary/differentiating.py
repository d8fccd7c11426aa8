"""Words of `then` about gradients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from attnspec.record.outcome import Measured
from attnspec.subjects.backward import PARAMS
from attnspec.subjects.subject import SubjectAnswer
from attnspec.vocabulary.gradients import with_parameters
from attnspec.vocabulary.measures import verdict
from attnspec.vocabulary.scene import OutsideLimits, Posed, Scene
from attnspec.vocabulary.signature import ORIGINAL, RunName


def gradients_have_input_dtypes(scene: Scene, *, run: RunName = ORIGINAL) -> Measured:
    """Each gradient has the dtype of its input."""
    posed = scene.runs[run]
    wrong = sorted({f"{name.removeprefix(f'{PARAMS}.')}: {array.dtype.name}"
                    for part, answer in _parts_with_gradients(scene, posed)
                    for name, array in answer.by_input.items() if array.dtype != getattr(part, name, part.query).dtype})
    told = f"gradients that have not the dtype of their input: {', '.join(wrong)}" if wrong else \
        "each gradient has the dtype of its input"
    return verdict("gradients_have_input_dtypes", told, broken=bool(wrong))


def _parts_with_gradients(scene: Scene, posed: Posed[Any]) -> Iterator[tuple[Any, SubjectAnswer]]:
    """Each part with the gradients of its inputs; with those of parameters, too, which have the dtype of the query,
    where a layer's own backward pass returns some. Frameworks give gradients the dtype of what they are of.
    """
    yield from zip(posed.parts, scene.answers(posed), strict=True)
    if scene.is_layer and scene.subject.backward:
        try:
            yield from zip(posed.parts, scene.answers(with_parameters(posed)), strict=True)
        except OutsideLimits:  # it returns none
            return
