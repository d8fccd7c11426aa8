"""Words of `then`: what must be true of what was seen. Each returns what it measured; a margin above 1 is a violation."""

from __future__ import annotations

from typing import Literal

import numpy as np

from attnspec.numerics.units import unit
from attnspec.problems.problem import Array, numpy_dtype
from attnspec.record.outcome import Measured
from attnspec.vocabulary.measure import equal, measure, nothing, verdict
from attnspec.vocabulary.observables import Observable, expectations, observe, see
from attnspec.vocabulary.scene import OutsideLimits, Scene, Seen
from attnspec.vocabulary.signature import Drawn, RunName


def agrees_with_definition(scene: Scene, *, observe: Observable, run: RunName = RunName("original")) -> Measured:
    """What is observed is what the definition says, within the rounding that the subject declares."""
    seen = see(scene, run, observe)
    return measure("agrees_with_definition", seen.array, seen.truth, seen.allowance, seen.claimed,
                   what=f"{observe} against the definition in higher precision")


def agree(scene: Scene, *, runs: tuple[RunName, RunName], observe: Observable, within: Literal["exact", "rounding"],
          rows_through: Drawn | None = None) -> Measured:
    """Two runs show the same, on all rows or on those up to a drawn one: equal values, or within both runs' rounding."""
    what = f"{runs[0]} and {runs[1]} should agree in {observe}"
    if within == "exact":
        left, right = (_rows(_raw(scene, run, observe), rows_through) for run in runs)
        return equal("agree", left, right, what=what)
    one, two = (see(scene, run, observe) for run in runs)
    cut = [(_rows(a.array, rows_through), _rows(a.allowance, rows_through), _rows(a.claimed, rows_through)) for a in (one, two)]
    (left, slack, claimed), (right, more_slack, more_claimed) = cut
    return measure("agree", left, right, slack + more_slack, claimed & more_claimed, what=what)


def agree_on_prefix(scene: Scene, *, whole: RunName, prefix: RunName, observe: Observable, rows_through: Drawn) -> Measured:
    """The first rows of one run are the rows of a shorter one, within both runs' rounding."""
    one, two = see(scene, whole, observe), see(scene, prefix, observe)
    cut = rows_through + 1
    return measure("agree_on_prefix", one.array[..., :cut, :], two.array, one.allowance[..., :cut, :] + two.allowance,
                   one.claimed[..., :cut, :] & two.claimed, what=f"the first rows of {whole} should be those of {prefix}")


def _raw(scene: Scene, run: str, name: str) -> Array:
    return observe(scene, run, name).array


def _rows(array: Array, through: int | None) -> Array:
    return array if through is None else array[..., : through + 1, :]


def adds_up(scene: Scene, *, runs: tuple[RunName, RunName], to: RunName, observe: Observable) -> Measured:
    """What two runs show adds up to what a third shows."""
    one, two, both = (see(scene, run, observe) for run in (*runs, to))
    slack = one.allowance + two.allowance + both.allowance
    return measure("adds_up", one.array + two.array, both.array, slack, one.claimed & two.claimed & both.claimed,
                   what=f"{runs[0]} and {runs[1]} should add up to {to} in {observe}")


def is_multiple(scene: Scene, *, run: RunName, of: RunName, by: float, observe: Observable) -> Measured:
    """What one run shows is a multiple of what another shows."""
    one, other = see(scene, run, observe), see(scene, of, observe)
    return measure("is_multiple", one.array, by * other.array, one.allowance + abs(by) * other.allowance,
                   one.claimed & other.claimed, what=f"{run} should be {by:g} times {of} in {observe}")


def has_shape(scene: Scene, *, observe: Observable) -> Measured:
    """The observed array has the axes of the definition, in their order and lengths."""
    shape, wanted = _raw(scene, "original", observe).shape, see(scene, "original", observe).truth.shape
    return verdict("has_shape", f"the shape of {observe} is {shape}; it should be {wanted}", broken=shape != wanted)


def has_input_dtype(scene: Scene) -> Measured:
    """The output has the dtype of the inputs, or the one that the subject declares to return."""
    declared = scene.subject.declaration.output_dtype
    wanted = numpy_dtype(scene.dtype) if declared == "input" else np.dtype(declared)
    [answer] = scene.answers(scene.runs["original"])
    return verdict("has_input_dtype", f"the output's dtype is {answer.output.dtype}; it should be {wanted}",
                   broken=answer.output.dtype != wanted)


def is_finite(scene: Scene, *, observe: Observable) -> Measured:
    """Every entry of a row that sees a key and lies in the domain is a finite number."""
    seen = see(scene, "original", observe)
    wrong = seen.claimed & ~np.isfinite(seen.array)
    return verdict("is_finite", f"{int(wrong.sum())} of {int(seen.claimed.sum())} entries of {observe} are not finite",
                   broken=bool(wrong.any()), entries=int(seen.claimed.sum()))


def not_negative(scene: Scene, *, observe: Observable) -> Measured:
    """No entry is below zero, by however little."""
    seen = see(scene, "original", observe)
    return measure("not_negative", np.minimum(seen.array, 0), np.zeros(()), 0.0, seen.claimed, what=f"no entry of {observe} is negative")


def sums_to_one(scene: Scene, *, observe: Observable) -> Measured:
    """Every row that sees a key sums to one."""
    seen = see(scene, "original", observe)
    parts = [expected.row_sum_allowance for expected in expectations(scene, scene.runs["original"], "weights")]
    allowance = parts[0] if seen.array.ndim == 4 else parts[0].max(axis=1)
    return measure("sums_to_one", seen.array.sum(axis=-1), np.ones(()), allowance, seen.claimed.any(axis=-1),
                   what=f"rows of {observe} should sum to one")


def hidden_is_zero(scene: Scene, *, observe: Observable) -> Measured:
    """The weight of every hidden key is exactly zero, in every row that sees a key."""
    seen = see(scene, "original", observe)
    visible = expectations(scene, scene.runs["original"], "weights")[0].visible
    hidden = ~visible if seen.array.ndim == 4 else ~visible.any(axis=1)
    return measure("hidden_is_zero", seen.array, np.zeros(()), 0.0, seen.claimed & hidden,
                   what=f"{observe} of hidden keys should be exactly zero")


def inside_hull(scene: Scene) -> Measured:
    """Every output lies between the least and the greatest visible value of its feature.

    Weights that sum to 1 + e move an entry out of the hull by at most |e| times the largest visible value.
    """
    seen, [expected] = see(scene, "original", "output"), expectations(scene, scene.runs["original"], "weights")
    low, high = _hull(scene, expected.visible)
    slack = expected.row_sum_allowance[..., None] * np.maximum(np.abs(low), np.abs(high)) + 2 * unit(scene.dtype).subnormal
    return measure("inside_hull", seen.array, np.clip(seen.array, low, high), slack, seen.claimed,
                   what="output should lie in the hull of the visible values")


def _hull(scene: Scene, visible: Array) -> tuple[Array, Array]:
    """The least and the greatest visible value of each row and feature, (B,H,T,Dv)."""
    problem = scene.problem()
    value = scene.bench.values_by_head(problem).astype(np.float64)
    some = visible.any(axis=-1)[..., None]
    bounds = [reduce(np.where(visible[..., None], value[:, :, None], fill), axis=3)
              for reduce, fill in ((np.min, np.inf), (np.max, -np.inf))]
    return np.where(some, bounds[0], 0.0), np.where(some, bounds[1], 0.0)


def row_maxima_grow(scene: Scene, *, runs: tuple[RunName, RunName]) -> Measured:
    """The largest weight of every row in the second run is at least that of the first."""
    one, two = (see(scene, run, "weights") for run in runs)
    low, high = (_top(seen) for seen in (one, two))
    slack = one.allowance.max(axis=-1) + two.allowance.max(axis=-1)
    return measure("row_maxima_grow", np.minimum(high - low, 0), np.zeros(()), slack, one.claimed.all(-1) & two.claimed.all(-1),
                   what=f"the largest weight of a row should not shrink from {runs[0]} to {runs[1]}")


def _top(seen: Seen) -> Array:
    return np.asarray(np.where(seen.claimed, seen.array, 0).max(axis=-1))


def leaves_inputs(scene: Scene) -> Measured:
    """The arrays handed over hold after the call what they held before it."""
    changed = sorted({name for answer in scene.answers(scene.runs["original"]) for name in answer.mutated})
    return verdict("leaves_inputs", f"the call changed {', '.join(changed) or 'none of its inputs'}", broken=bool(changed))


def shares_no_memory(scene: Scene) -> Measured:
    """What is returned is no view of what was handed over."""
    shared = sorted({name for answer in scene.answers(scene.runs["original"]) for name in answer.aliases})
    return verdict("shares_no_memory", f"the output shares memory with {', '.join(shared) or 'none of the inputs'}", broken=bool(shared))


def variants_agree(scene: Scene, *, observe: Observable) -> Measured:
    """Every hidden switch that the subject declares, flipped on the same inputs, gives the same within both roundings."""
    variants = scene.bench.variants()
    if not variants:
        raise OutsideLimits("it declares no hidden switch")
    base, worst = see(scene, "original", observe), nothing("variants_agree", "no variant was claimed on")
    for name, bench in variants.items():
        other = see(scene.against(bench), "original", observe)
        found = measure("variants_agree", other.array, base.array, base.allowance + other.allowance, base.claimed & other.claimed,
                        what=f"{observe} with {name} should be that without")
        worst = found if found.margin > worst.margin or not worst.claimed else worst
    return worst
