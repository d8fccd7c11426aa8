"""Words of `then` about the parts that attention can be put together from."""

from __future__ import annotations

import numpy as np

from attnspec.problems.problem import Array
from attnspec.record.outcome import Measured
from attnspec.vocabulary.measures import keep, measure, verdict
from attnspec.vocabulary.observables import see
from attnspec.vocabulary.scene import ObservedRun, Scene, Side
from attnspec.vocabulary.signature import ORIGINAL, RunName


def merges(scene: Scene, *, parts: tuple[RunName, RunName], to: RunName) -> Measured:
    """Two runs on parts of the keys, merged by their log-sum-exps, are the run on all keys: output and log-sum-exp.

    Each output counts by exp(lse) over the sum of both. An error of the two log-sum-exps by a and b together moves a
    share w by w (1 - w) (exp(a + b) - 1) at the most, and the output by that times the distance of the two outputs.
    """
    lses = [_to_base_e(scene, see(scene, run, "lse")) for run in parts]
    outputs = [see(scene, run, "output") for run in parts]
    whole = see(scene, to, "output")
    shares = _shares(lses)
    moved = shares[0] * shares[1] * np.expm1(lses[0].allowance + lses[1].allowance)
    first, second = outputs
    merged = np.asarray(shares[0][..., None] * first.array + shares[1][..., None] * second.array)
    slack = (shares[0] + moved)[..., None] * first.allowance + (shares[1] + moved)[..., None] * second.allowance
    slack = slack + moved[..., None] * np.abs(first.array - second.array) + whole.allowance
    claimed = whole.claimed & first.claimed & second.claimed
    found = measure("merges", merged, whole.array, slack, claimed,
                    what=f"{parts[0]} and {parts[1]}, merged by their log-sum-exps, should be {to}")
    return keep(scene, found, Side("output of the parts, merged", to, merged),
                Side("output of all keys", to, whole.array), (slack, claimed))


def _to_base_e(scene: Scene, seen: ObservedRun) -> ObservedRun:
    """The log-sum-exp (B,H,T) of a run, to the natural base."""
    if scene.conventions.get("lse_base") != "two":
        return seen
    factor = np.log(seen.array.dtype.type(2))
    return ObservedRun(seen.array * factor, seen.truth * factor, seen.allowance * float(factor), seen.claimed)


def _shares(lses: list[ObservedRun]) -> list[Array]:
    """(B,H,T) each: by how much each part counts."""
    top = np.maximum(lses[0].array, lses[1].array)
    grown = [np.exp(one.array - top) for one in lses]
    return [each / (grown[0] + grown[1]) for each in grown]


def lse_merges(scene: Scene, *, parts: tuple[RunName, RunName], to: RunName) -> Measured:
    """The log-sum-exp of all keys is the log-sum-exp of those of two parts."""
    one, other, whole = (_to_base_e(scene, see(scene, run, "lse")) for run in (*parts, to))
    merged = np.logaddexp(one.array, other.array)
    slack, claimed = np.maximum(one.allowance, other.allowance) + whole.allowance, one.claimed & other.claimed
    found = measure("lse_merges", merged, whole.array, slack, claimed & whole.claimed,
                    what=f"the log-sum-exps of {parts[0]} and {parts[1]} should give that of {to}")
    return keep(scene, found, Side("log-sum-exp of the parts, merged", to, merged),
                Side("log-sum-exp of all keys", to, whole.array), (slack, claimed & whole.claimed), observed="lse")


def lse_has_its_dtype(scene: Scene, *, run: RunName = ORIGINAL) -> Measured:
    """A log-sum-exp is returned in float32, or float64 where the inputs are float64."""
    answers = scene.answers(scene.runs[run].but(return_lse=True))
    wanted = np.dtype(np.float64 if scene.dtype.value == "float64" else np.float32)
    seen = [answer.lse.dtype for answer in answers if answer.lse is not None]
    is_off = any(dtype != wanted for dtype in seen)
    return verdict("lse_has_its_dtype", f"the log-sum-exp is {seen[0] if seen else 'nothing'}; {wanted} is due",
                   broken=is_off)
