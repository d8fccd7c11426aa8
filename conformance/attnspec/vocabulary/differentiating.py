"""Words of `then` about gradients."""

from __future__ import annotations

from attnspec.record.outcome import Measured
from attnspec.vocabulary.measures import verdict
from attnspec.vocabulary.scene import Scene
from attnspec.vocabulary.signature import ORIGINAL, RunName


def gradients_have_input_dtypes(scene: Scene, *, run: RunName = ORIGINAL) -> Measured:
    """Each gradient has the dtype of its input."""
    wrong = sorted({f"{name}: {array.dtype.name}" for part, answer in
                    zip(scene.runs[run].parts, scene.answers(scene.runs[run]), strict=True)
                    for name, array in answer.by_input.items() if array.dtype != getattr(part, name).dtype})
    told = f"gradients that have not the dtype of their input: {', '.join(wrong)}" if wrong else \
        "each gradient has the dtype of its input"
    return verdict("gradients_have_input_dtypes", told, broken=bool(wrong))
