"""Which keys the rows of a run see, and which rows hang on what they see alone."""

from __future__ import annotations

import numpy as np

from attnspec.numerics.expectation import visible_keys
from attnspec.numerics.lengths import queries_within
from attnspec.problems.problem import Array, LayerProblem, Problem, joined
from attnspec.problems.rotary import RotaryProblem
from attnspec.vocabulary.observables import as_one, numbers
from attnspec.vocabulary.scene import Scene


def visible(scene: Scene, run: str) -> Array:
    """bool, (B,H,T,S): the keys of a run that each query may attend to."""
    shown = [numbers(np.asarray(visible_keys(part, scene.conventions))) for part in scene.runs[run].parts]
    return np.asarray(as_one(shown, scene.runs[run], ("B", "H", "T", "S")) > 0)


def settled_rows(scene: Scene, run: str) -> Array:
    """Rows (B,H,T,1) whose answer hangs on what they see alone.

    Under the convention `uniform` not the empty ones; where one input is query, key and value, not those at a place
    that holds NaN or infinity; of rows beyond the number of queries none, unless they are declared to be zeros.
    """
    posed = scene.runs[run]
    if isinstance(posed.parts[0], RotaryProblem):
        return as_one([np.ones((*part.x.shape[:3], 1), bool) for part in posed.parts], posed, ("B", "H", "T", "1"))
    answers = {answer for name, answer in scene.conventions.items() if name.partition(".")[0] == "hidden_row"}
    is_fixed = bool(answers) and answers <= {"zeros", "nan"}
    sees = [np.asarray(visible_keys(part, scene.conventions).any(axis=-1)) for part in posed.parts]
    has_one_input = scene.subject.declaration.limits.self_attention_only
    own = [_finite_places(part)[:, None, -part.query.shape[-2]:] if has_one_input else True for part in posed.parts]
    are_zeros = scene.conventions.get("beyond_length") == "zeros"
    within = [queries_within(part)[:, None] for part in posed.parts]
    settled = [np.where(asked, (rows | is_fixed) & finite, are_zeros)[..., None]
               for rows, finite, asked in zip(sees, own, within, strict=True)]
    return as_one(settled, posed, ("B", "H", "T", "1"))


def empty_rows(scene: Scene, run: str) -> Array:
    """Rows (B,H,T,1) that see no key, where the subject's convention says that nothing but that decides them."""
    if isinstance(scene.runs[run].parts[0], RotaryProblem):
        return ~settled_rows(scene, run)
    sees = [np.asarray(visible_keys(part, scene.conventions).any(axis=-1))[..., None] for part in scene.runs[run].parts]
    seeing = as_one([rows.astype(float) for rows in sees], scene.runs[run], ("B", "H", "T", "1"))
    return np.asarray(settled_rows(scene, run) & (seeing == 0))


def _finite_places(problem: Problem | LayerProblem) -> Array:
    """(B,S): where no head's key or value holds NaN or infinity."""
    axes = (2,) if isinstance(problem, LayerProblem) else (1, 3)
    whole = joined(problem)
    key, value = (np.all(np.isfinite(array), axis=axes) for array in (whole.key, whole.value))
    return np.asarray(key & value)
