"""Words of `then`: what must be true of what was seen. A margin above 1 violates it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from attnspec.core.conventions import CONVENTIONS, UNDEFINED, of_hidden_rows
from attnspec.core.forms import COMPILING, MadeForm, called_there
from attnspec.core.keyword import Acts
from attnspec.core.keywords import acting_on
from attnspec.core.nouns import DType
from attnspec.numerics.bound import MOST_CLOSEST_QUERIES
from attnspec.numerics.operands import extra_key, queries_within, visible_keys
from attnspec.numerics.precision import with_range_of_float32
from attnspec.numerics.stored import stored_hull
from attnspec.problems.keyword_arrays import replace_values
from attnspec.problems.problem import Array, Problem, join_past, numpy_dtype
from attnspec.questions.undeclared import describe_most, describe_tried
from attnspec.record.outcome import Measured, Reading
from attnspec.subjects.subject import SubjectRaised, UnusableAnswer
from attnspec.vocabulary import observables
from attnspec.vocabulary.observables import (
    Observable,
    averaged_allowance,
    by_definition,
    claimed_of_both,
    compare,
    compare_exactly,
    empty_rows,
    equal,
    keep,
    look_at,
    measure,
    nothing,
    observe,
    of_run,
    read_definition,
    seen_of,
    settled_rows,
    verdict,
)
from attnspec.vocabulary.scene import Incomparable, NoClaim, ObservedRun, OutsideLimits, Scene, Side
from attnspec.vocabulary.signature import ORIGINAL, DrawnRow, RunName

SCREENED = Reading(
    "rows of the largest cases", "screened", 0.0,
    f"all rows are compared with a float64 reference, within a bound that is at least as wide as the exact one; the "
    f"{MOST_CLOSEST_QUERIES} queries of each head that come closest to it are then judged by the exact one")
"""How the rows of a case were judged that is too large for the sharp bound on all of them."""

Parts = tuple[Array, Array, Array, Array]
"""What is seen, expected, how far apart they may be, and where that is claimed: (B,H,T,…)."""


def agrees_with_definition(scene: Scene, *, observe: Observable, run: RunName = ORIGINAL) -> Measured:
    """The observed array equals the definition's, within the rounding that the subject declares."""
    seen = look_at(scene, run, observe)
    bound = seen.allowance, seen.claimed
    result = measure("agrees_with_definition", seen.array, seen.truth, *bound,
                     what=f"{observe} against the definition in higher precision")
    if scene.kept is not None:  # it is to be drawn
        keep(scene, result, seen_of(observe, run, seen.array), by_definition(observe, run, seen.truth), bound,
             observed=observe)
    return replace(result, readings=(SCREENED,)) if seen.is_screened else result


def agree(scene: Scene, *, runs: tuple[RunName, RunName], observe: Observable,
          within: Literal["exact", "rounding", "reordering"], rows_through: DrawnRow | None = None,
          at_row: DrawnRow | None = None) -> Measured:
    """Two runs give the same array: in all rows, in the rows up to a drawn one, or in a drawn row
    alone.

    exact: the arrays are equal.  rounding: they differ by no more than the rounding errors of both
    runs.  reordering: as rounding, where the keys are summed in another order; rows that see no
    key are equal.
    """
    what = f"{runs[0]} and {runs[1]} should agree in {observe}"
    if within == "exact":
        left, right = (_rows(_raw(scene, run, observe), rows_through, at_row) for run in runs)
        fixed = [_rows(settled_rows(scene, run), rows_through, at_row) for run in runs]
        _comparable(runs, fixed)
        allowance, claimed = np.zeros(()), fixed[0] & fixed[1]
        result = equal("agree", left, right, claimed, what=what, first_row=at_row or 0)
    else:
        one, two = (look_at(scene, run, observe) for run in runs)
        _comparable(runs, [one.truth, two.truth])
        parts = one.array, two.array, one.allowance + two.allowance, one.claimed & two.claimed
        if within == "reordering":
            parts = _with_empty_rows(scene, runs, parts)
        left, right, allowance, claimed = (_rows(part, rows_through, at_row) for part in parts)
        result = measure("agree", left, right, allowance, claimed, what=what, first_row=at_row or 0)
    return keep(scene, result, of_run(observe, runs[0], left), of_run(observe, runs[1], right), (allowance, claimed),
                observed=observe, first_row=at_row or 0)


def _comparable(runs: Sequence[str], arrays: Sequence[Array]) -> None:
    """Raises Incomparable if the runs' arrays differ in shape: NumPy might stretch one."""
    if len({array.shape for array in arrays}) > 1:
        shapes = ", ".join(f"{run} {array.shape}" for run, array in zip(runs, arrays, strict=True))
        raise Incomparable(shapes)


def _with_empty_rows(scene: Scene, runs: tuple[RunName, RunName], parts: Parts) -> Parts:
    """The parts with a further claim: rows that see no key are equal, NaN to NaN.

    Nothing is summed there, so that no order can matter; what such a row holds is the subject's
    convention.
    """
    left, right, allowance, claimed = parts
    empty = np.logical_and(*(empty_rows(scene, run) for run in runs))
    same_nan = empty & np.isnan(left) & np.isnan(right)
    return (np.where(same_nan, 0, left), np.where(same_nan, 0, right), np.where(empty, 0, allowance), claimed | empty)


def agree_on_prefix(scene: Scene, *, whole: RunName, prefix: RunName, observe: Observable,
                    rows_through: DrawnRow) -> Measured:
    """The first rows of the run `whole` equal the rows of the shorter run `prefix`, within the rounding of both."""
    one, two = look_at(scene, whole, observe), look_at(scene, prefix, observe)
    array, allowance, claimed = (_rows(part, rows_through) for part in (one.array, one.allowance, one.claimed))
    _comparable((whole, prefix), [_rows(one.truth, rows_through), two.truth])
    bound = allowance + two.allowance, claimed & two.claimed
    return compare(scene, "agree_on_prefix", of_run(observe, whole, array), of_run(observe, prefix, two.array), bound,
                   what=f"the first rows of {whole} should be those of {prefix}", observed=observe)


def _raw(scene: Scene, run: str, name: str) -> Array:
    """What the subject shows of a run, (B,H,T,Dv), (B,T,M), (B,H,T,S) or (B,T,S)."""
    return observe(scene, run, name).array


def _rows(array: Array, through: int | None, at: int | None = None) -> Array:
    """The row `at` of (…,T,·), or the rows up to and with `through`, or all of them."""
    if at is not None:
        return array[..., at : at + 1, :]
    return array if through is None else array[..., : through + 1, :]


def adds_up(scene: Scene, *, runs: tuple[RunName, RunName], to: RunName, observe: Observable) -> Measured:
    """The arrays of two runs add up to the array of a third, within rounding."""
    one, two, both = (look_at(scene, run, observe) for run in (*runs, to))
    _comparable((*runs, to), [one.truth, two.truth, both.truth])
    total = of_run(observe, f"{runs[0]}` + `{runs[1]}", one.array + two.array)
    bound = one.allowance + two.allowance + both.allowance, one.claimed & two.claimed & both.claimed
    return compare(scene, "adds_up", replace(total, run=to), of_run(observe, to, both.array), bound,
                   what=f"{runs[0]} and {runs[1]} should add up to {to} in {observe}", observed=observe)


def is_multiple(scene: Scene, *, run: RunName, of: RunName, by: float, observe: Observable) -> Measured:
    """The array of one run is a multiple of the array of another, within rounding."""
    one, other = look_at(scene, run, observe), look_at(scene, of, observe)
    _comparable((run, of), [one.truth, other.truth])
    bound = one.allowance + abs(by) * other.allowance, one.claimed & other.claimed
    times = of_run(observe, of, by * other.array)
    return compare(scene, "is_multiple", of_run(observe, run, one.array),
                   replace(times, name=f"{by:g} times the {times.name}"), bound,
                   what=f"{run} should be {by:g} times {of} in {observe}", observed=observe)


def has_shape(scene: Scene, *, observe: Observable, run: RunName = ORIGINAL) -> Measured:
    """The observed array has the shape that the definition gives."""
    shape, wanted = _raw(scene, run, observe).shape, look_at(scene, run, observe).truth.shape
    return verdict("has_shape", f"the shape of {observe} is {shape}; it should be {wanted}", broken=shape != wanted)


def has_input_dtype(scene: Scene, *, run: RunName = ORIGINAL) -> Measured:
    """The output has the dtype of the inputs, or the dtype that the subject declares for it."""
    wanted = numpy_dtype(scene.subject.declaration.returned_dtype(scene.dtype))
    dtypes = {answer.output.dtype for answer in scene.answers(scene.runs[run])}
    names = " and ".join(sorted(dtype.name for dtype in dtypes))
    sentence = f"the output's dtype is {names}; it should be {wanted.name}"
    return verdict("has_input_dtype", sentence, broken=dtypes != {wanted})


def is_finite(scene: Scene, *, observe: Observable, run: RunName = ORIGINAL) -> Measured:
    """Every entry is a finite number, in each row that sees a key and for which the rounding bound holds."""
    seen = look_at(scene, run, observe)
    wrong = int((seen.claimed & ~np.isfinite(seen.array)).sum())
    entries = int(seen.claimed.sum())
    result = verdict("is_finite", f"{wrong} of {entries} entries of {observe} are not finite",
                     broken=wrong > 0, entries=entries)
    return keep(scene, result, seen_of(observe, run, seen.array), by_definition(observe, run, seen.truth),
                (np.inf, seen.claimed), observed=observe)


def not_negative(scene: Scene, *, observe: Observable, run: RunName = ORIGINAL) -> Measured:
    """No entry is negative, not even by a rounding error."""
    seen = look_at(scene, run, observe)
    result = measure("not_negative", np.minimum(seen.array, 0), np.zeros(()), 0.0, seen.claimed,
                     what=f"no entry of {observe} should be negative")
    shown = seen_of(observe, run, seen.array)
    return keep(scene, result, shown, Side(f"{shown.name}, at least 0", run, np.fmax(seen.array, 0)),
                (0.0, seen.claimed), observed=observe)


def sums_to_one(scene: Scene, *, observe: Observable, run: RunName = ORIGINAL) -> Measured:
    """Every row that sees a key sums to one, within rounding."""
    seen = look_at(scene, run, observe)
    allowance = read_definition(scene, run, "weights", ("B", "H", "T"), lambda expected: expected.row_sum_allowance)
    if seen.array.ndim == 3:  # averaged over the heads
        # the mean of rows that sum to 1 sums to 1
        allowance = averaged_allowance(np.ones_like(allowance), allowance, scene)
    claimed = np.asarray(seen.claimed.any(axis=-1))
    sums = np.asarray(seen.array.sum(axis=-1))
    name = f"row sums of the {seen_of(observe, run, sums).name}"
    return compare(scene, "sums_to_one", Side(name, run, sums), Side(f"{name}, which are 1", run, np.ones(())),
                   (allowance, claimed), what=f"rows of {observe} should sum to one", observed=observe)


def hidden_is_zero(scene: Scene, *, observe: Observable, run: RunName = ORIGINAL) -> Measured:
    """The weight of every masked key is exactly zero, in every row that sees a key."""
    seen = look_at(scene, run, observe)
    shown = read_definition(scene, run, "weights", ("B", "H", "T", "S"), lambda expected: expected.visible)
    hidden = np.asarray((shown if seen.array.ndim == 4 else shown.max(axis=1)) == 0)
    result = measure("hidden_is_zero", seen.array, np.zeros(()), 0.0, seen.claimed & hidden,
                     what=f"{observe} of masked keys should be exactly zero")
    return keep(scene, result, seen_of(observe, run, seen.array), by_definition(observe, run, seen.truth),
                (0.0, seen.claimed & hidden), observed=observe)


def inside_hull(scene: Scene, *, run: RunName = ORIGINAL) -> Measured:
    """Every entry of the output lies between the least and the greatest visible value of its
    feature.

    The weights in effect of an honest row sum to 1 within the allowance of values that are all
    one. An entry leaves the hull by that times the largest visible value; underflow, which does
    not scale with it, is paid for from 1 upwards.
    """
    seen = look_at(scene, run, "output")
    low, high = stored_hull(scene.problem(run), scene.conventions, scene.evaluator.precision)
    largest = np.maximum(1, np.maximum(np.abs(low), np.abs(high)))
    slack = np.fmin(_allowance_of_ones(scene, run) * largest, seen.allowance)
    inside = Side("output, between the least and the greatest visible value", run, np.clip(seen.array, low, high))
    return compare(scene, "inside_hull", seen_of("output", run, seen.array), inside, (slack, seen.claimed),
                   what="output should lie between the least and the greatest visible value")


def _allowance_of_ones(scene: Scene, run: str) -> Array:
    """How far an honest output may lie from 1 if all values are 1, (B,H,T,1)."""
    problem, key = scene.problem(run), scene.runs[run].key
    ones = replace_values(problem, np.ones_like(join_past(problem).value[..., :1]))
    return scene.evaluator.expect(ones, key and f"{key}|ones", "output").output_allowance


def row_maxima_grow(scene: Scene, *, runs: tuple[RunName, RunName]) -> Measured:
    """In every row, the largest weight of the second run is at least that of the first."""
    one, two = (look_at(scene, run, "weights") for run in runs)
    low, high = _top(one), _top(two)
    slack = one.allowance.max(axis=-1) + two.allowance.max(axis=-1)
    claimed = np.asarray(one.claimed.all(axis=-1) & two.claimed.all(axis=-1))
    result = measure("row_maxima_grow", np.minimum(high - low, 0), np.zeros(()), slack, claimed,
                     what=f"the largest weight of a row should not shrink from {runs[0]} to {runs[1]}")
    name = "largest weight of each row of"
    return keep(scene, result, Side(f"{name} `{runs[1]}`", runs[1], high),
                Side(f"{name} `{runs[1]}`, at least that of `{runs[0]}`", runs[0], np.fmax(low, high)),
                (slack, claimed), observed="weights")


def _top(seen: ObservedRun) -> Array:
    """The largest claimed weight of each row, (B,H,T); 0 without any."""
    return np.asarray(np.where(seen.claimed, seen.array, 0).max(axis=-1))


def leaves_inputs(scene: Scene, *, run: RunName = ORIGINAL) -> Measured:
    """The call does not change the arrays that are passed to it."""
    changed = sorted({name for answer in scene.answers(scene.runs[run]) for name in answer.mutated})
    sentence = f"the call changed {', '.join(changed) or 'none of its inputs'}"
    return verdict("leaves_inputs", sentence, broken=bool(changed))


def shares_no_memory(scene: Scene, *, run: RunName = ORIGINAL) -> Measured:
    """The output shares no memory with an input."""
    shared = sorted({name for answer in scene.answers(scene.runs[run]) for name in answer.aliases})
    sentence = f"the output shares memory with {', '.join(shared) or 'none of the inputs'}"
    return verdict("shares_no_memory", sentence, broken=bool(shared))


def answers_are_kept(scene: Scene, *, run: RunName, then: RunName) -> Measured:
    """A call for another run does not change the array that was returned for the first."""
    first = scene.answers(scene.runs[run])
    scene.answers(scene.runs[then])
    changed = not all(answer.is_kept() for answer in first)
    what = "changed" if changed else "stayed as it was"
    sentence = f"the array returned for {run} {what} during the call for {then}"
    return verdict("answers_are_kept", sentence, broken=changed)


def variants_agree(scene: Scene, *, observe: Observable, run: RunName = ORIGINAL) -> Measured:
    """Each variant that the subject declares gives the same array for the same inputs, within
    rounding.

    A variant is the same subject with one switch changed, such as training for inference, or
    compiled for not compiled.
    """
    variants = scene.variants()
    if not variants:
        raise NoClaim("variants that compile are not called in this case, to save time")
    base, worst = look_at(scene, run, observe), nothing("variants_agree", "no variant could be judged")
    for name, evaluator in variants.items():
        other = look_at(scene.before_evaluator(evaluator), run, observe)
        bound = base.allowance + other.allowance, claimed_of_both(base, other)
        quantity = seen_of(observe, run, other.array).name
        result = compare(scene, "variants_agree", Side(f"{quantity} with `{name}`", run, other.array),
                         Side(f"{quantity} without it", run, base.array), bound,
                         what=f"{observe} with {name} should be that without", observed=observe)
        worst = result if result.margin > worst.margin or not worst.claimed else worst
    return worst


# Parts that attention can be put together from


def merges(scene: Scene, *, parts: tuple[RunName, RunName], to: RunName) -> Measured:
    """Two runs on parts of the keys, merged by their log-sum-exps, are the run on all keys: output
    and log-sum-exp.

    Each output counts by exp(lse) over the sum of both. An error of the two log-sum-exps by a and
    b together moves a share w by w (1 - w) (exp(a + b) - 1) at the most, and the output by that
    times the distance of the two outputs. No share is below 0 or above 1, however large the errors
    are.
    """
    lses = [_to_base_e(scene, look_at(scene, run, "lse")) for run in parts]
    outputs = [look_at(scene, run, "output") for run in parts]
    whole = look_at(scene, to, "output")
    shares = _shares(lses)
    with np.errstate(invalid="ignore", over="ignore"):  # 0 times an error that may be anything
        moved = shares[0] * shares[1] * np.expm1(lses[0].allowance + lses[1].allowance)
    moved = np.fmin(moved, np.maximum(shares[0], shares[1]))
    first, second = outputs
    merged = np.asarray(shares[0][..., None] * first.array + shares[1][..., None] * second.array)
    slack = (shares[0] + moved)[..., None] * first.allowance + (shares[1] + moved)[..., None] * second.allowance
    slack = slack + moved[..., None] * np.abs(first.array - second.array) + whole.allowance
    claimed = whole.claimed & first.claimed & second.claimed
    return compare(scene, "merges", Side("output of the parts, merged", to, merged),
                   Side("output of all keys", to, whole.array), (slack, claimed),
                   what=f"{parts[0]} and {parts[1]}, merged by their log-sum-exps, should be {to}")


def _to_base_e(scene: Scene, seen: ObservedRun) -> ObservedRun:
    """The log-sum-exp (B,H,T) of a run, to the natural base."""
    if scene.conventions.get("lse_base") != "two":
        return seen
    factor = np.log(seen.array.dtype.type(2))
    return ObservedRun(seen.array * factor, seen.truth * factor, seen.allowance * float(factor), seen.claimed)


def _shares(lses: list[ObservedRun]) -> list[Array]:
    """By how much each part counts, (B,H,T) each."""
    top = np.maximum(lses[0].array, lses[1].array)
    grown = [np.exp(one.array - top) for one in lses]
    return [each / (grown[0] + grown[1]) for each in grown]


def lse_merges(scene: Scene, *, parts: tuple[RunName, RunName], to: RunName) -> Measured:
    """The log-sum-exp of all keys is the log-sum-exp of those of two parts."""
    one, other, whole = (_to_base_e(scene, look_at(scene, run, "lse")) for run in (*parts, to))
    merged = np.logaddexp(one.array, other.array)
    slack = np.maximum(one.allowance, other.allowance) + whole.allowance
    claimed = one.claimed & other.claimed & whole.claimed
    return compare(scene, "lse_merges", Side("log-sum-exp of the parts, merged", to, merged),
                   Side("log-sum-exp of all keys", to, whole.array), (slack, claimed),
                   what=f"the log-sum-exps of {parts[0]} and {parts[1]} should give that of {to}", observed="lse")


def lse_has_its_dtype(scene: Scene, *, run: RunName = ORIGINAL) -> Measured:
    """A log-sum-exp is returned in float32, or float64 where the inputs are float64."""
    answers = scene.answers(scene.runs[run].but(return_lse=True))
    wanted = np.dtype(np.float64 if scene.dtype.value == "float64" else np.float32)
    seen = [answer.lse.dtype for answer in answers if answer.lse is not None]
    is_off = any(dtype != wanted for dtype in seen)
    return verdict("lse_has_its_dtype", f"the log-sum-exp is {seen[0] if seen else 'nothing'}; {wanted} is due",
                   broken=is_off)


SPARED = "forms that compile are not made in this case, to save time"

OF_OPERATORS = "an ONNX graph stores what each operator returns: in half precision that is arithmetic of its own"


def form_agrees(scene: Scene, *, form: MadeForm, observe: Observable, run: RunName = ORIGINAL) -> Measured:
    """The form that attnspec has a framework make of the subject's function gives the array that
    the plain function gives, within rounding.

    What is traced for it is traced on other numbers of the same shapes.
    """
    lift = scene.subject.declaration.lift
    if not scene.compiles and (form in COMPILING or lift == "jax"):
        raise OutsideLimits(SPARED)
    if form == "onnx" and scene.dtype in (DType.FLOAT16, DType.BFLOAT16):
        raise OutsideLimits(OF_OPERATORS)
    name = called_there(form, lift)
    other = look_at(scene.before_evaluator(scene.evaluator.form_evaluator(form)), run, observe)
    base = look_at(scene, run, observe)
    bound = base.allowance + other.allowance, claimed_of_both(base, other)
    quantity = seen_of(observe, run, other.array).name
    return compare(scene, "form_agrees", Side(f"{quantity} by `{name}`", run, other.array),
                   Side(f"{quantity} without it", run, base.array), bound,
                   what=f"{observe} by {name} should be that without", observed=observe)


def does_not_overflow(scene: Scene, *, observe: Literal["output"], run: RunName = ORIGINAL) -> Measured:
    """The observed array equals the definition's within rounding, and no overflow is excused.

    So a subject fails that declares to store logits in float16, and whose logits overflow there.
    In a half dtype, the largest logit, the largest value and the most keys without an overflow are
    reported as well.
    """
    wide = scene.evaluator.with_precision(with_range_of_float32(scene.evaluator.precision))
    observables.observe(scene, run, observe)  # by the case's own evaluator, which may keep a log; then it is remembered
    seen = observables.look_at(scene.before_evaluator(wide), run, observe)
    result = measure("does_not_overflow", seen.array, seen.truth, seen.allowance, seen.claimed,
                     what=f"{observe} against the definition, no overflow excused")
    return replace(result, readings=_readings(scene))


def _readings(scene: Scene) -> tuple[Reading, ...]:
    """How much the subject takes without an overflow, in a half dtype."""
    ranges, dtype = scene.evaluator.ranges, scene.dtype.value
    if not ranges:
        return ()
    most = describe_most(ranges)
    return (Reading("range", most, 0.0, f"{dtype}: {most}; {describe_tried(ranges)}"),)


MUST_SHOW = 2.0
"""A difference of definitions of more than so many times both runs' rounding cannot vanish."""

ConventionName = Literal["hidden_row", "causal_alignment", "mask_with_causal", "grouped_heads", "beyond_length",
                         "lse_base", "lse_of_hidden_row", "overfull_cache", "used_cache"]


def convention_is(scene: Scene, *, convention: ConventionName) -> Measured:
    """The subject follows the recommended answer of a convention, which is a question on which libraries differ."""
    wanted, answer = CONVENTIONS[convention].recommended, scene.conventions.get(convention, UNDEFINED)
    source = ""
    # where a declaration alone would say so, the subject is asked; what it answers stands, if it answers at all
    if answer == wanted == scene.subject.declaration.conventions.get(convention):
        probed = scene.evaluator.probed_conventions.get(convention, UNDEFINED)
        if probed == UNDEFINED:
            source = ", as declared"
        else:
            answer = probed
    sentence = f"{convention} is {answer!r}{source}; {wanted!r} is recommended"
    return verdict("convention_is", sentence, broken=answer != wanted)


def hidden_rows_follow_convention(scene: Scene, *, run: RunName = ORIGINAL) -> Measured:
    """A query that sees no key gets what the subject's convention says: zeros, the mean of all values, or NaN."""
    name, problem = "hidden_rows_follow_convention", scene.problem(run)
    empty = _rows_without_keys(scene, problem)
    answer = of_hidden_rows(scene.conventions, problem.given)
    if answer == UNDEFINED or not empty.any():
        return nothing(name, "every row sees a key" if answer != UNDEFINED else "the convention is undefined")
    output = observe(scene, run, "output").array
    if answer == "uniform":
        return _mean_of_all_values(scene, run, output, empty)
    wanted = np.full_like(output, {"zeros": 0.0, "nan": np.nan}[answer])
    return compare_exactly(scene, name, seen_of("output", run, output),
                           Side(f"output, {answer} in rows that see no key", run, wanted), empty[..., None],
                           what=f"rows that see no key should be {answer}")


def _rows_without_keys(scene: Scene, problem: Problem) -> Array:
    """Which rows (B,H,T), of queries that there are, see no key."""
    sees = visible_keys(problem, scene.conventions).any(axis=-1)
    return np.asarray(~sees) & queries_within(problem)[:, None]


def rows_beyond_follow_convention(scene: Scene, *, run: RunName = ORIGINAL) -> Measured:
    """A row beyond the number of queries of its batch entry holds what the subject declares: zeros, if anything."""
    name, answer = "rows_beyond_follow_convention", scene.conventions.get("beyond_length", UNDEFINED)
    beyond = ~queries_within(scene.problem(run))[:, None, :, None]
    if answer != "zeros" or not beyond.any():
        return nothing(name, "no row lies beyond a length" if answer == "zeros" else "nothing is declared of such rows")
    output = observe(scene, run, "output").array
    wanted = Side("output, zeros beyond the lengths", run, np.zeros_like(output))
    return compare_exactly(scene, name, seen_of("output", run, output), wanted, beyond,
                           what="rows beyond the number of queries should be zeros")


_OF_HIDDEN = {"minus_infinity": -np.inf, "plus_infinity": np.inf, "zero": 0.0}


def lse_of_hidden_rows_follows_convention(scene: Scene, *, run: RunName = ORIGINAL) -> Measured:
    """The log-sum-exp of a row that sees no key, and no sink, is what the subject declares, if anything."""
    name, problem = "lse_of_hidden_rows_follows_convention", scene.problem(run)
    answer = scene.conventions.get("lse_of_hidden_row", UNDEFINED)
    empty = _rows_without_keys(scene, problem)
    extra = extra_key(problem)
    if extra is not None:
        empty = empty & np.isneginf(extra)[:, None]
    if answer not in _OF_HIDDEN or not empty.any():
        return nothing(name, "no row is fully hidden" if answer in _OF_HIDDEN else "nothing is declared of such rows")
    seen = observe(scene, run, "lse").array
    wanted = Side(f"log-sum-exp, {answer} in hidden rows", run, np.full_like(seen, _OF_HIDDEN[answer]))
    return compare_exactly(scene, name, seen_of("lse", run, seen), wanted, empty,
                           what=f"the log-sum-exp of fully hidden rows should be {answer}", observed="lse")


def _mean_of_all_values(scene: Scene, run: str, output: Array, empty: Array) -> Measured:
    """Compares the rows `empty` (B,H,T) of the output (B,H,T,Dv) with the mean of all values.

    That is the definition's answer to a query of zeros that sees every key.
    """
    problem: Problem = scene.problem(run)
    zeroed = np.where(empty[..., None], np.zeros_like(problem.query), problem.query)
    shown = visible_keys(problem, scene.conventions) | empty[..., None]
    bias = None if problem.bias is None else np.where(empty[..., None], np.zeros_like(problem.bias), problem.bias)
    all_shown = problem.but(**{**acting_on(Acts.VISIBILITY), "query": zeroed, "mask": shown, "bias": bias})
    expected = scene.evaluator.expect(all_shown, "", "output")
    mean = Side("output, the mean of all values in rows that see no key", run, expected.output)
    return compare(scene, "hidden_rows_follow_convention", seen_of("output", run, output), mean,
                   (expected.output_allowance, empty[..., None]),
                   what="rows that see no key should be the mean of all values")


def differ(scene: Scene, *, runs: tuple[RunName, RunName], observe: Observable,
           where: Literal["everywhere", "it must show"]) -> Measured:
    """Two runs differ by what the definition says they differ by, within the rounding of both.

    everywhere: all entries are judged.  it must show: only those whose difference is larger than
    rounding could hide.
    """
    one, two = (look_at(scene, run, observe) for run in runs)
    due, slack, claimed = one.truth - two.truth, one.allowance + two.allowance, one.claimed & two.claimed
    if where == "it must show":
        claimed = claimed & (np.abs(due) > MUST_SHOW * slack)
    seen = one.array - two.array
    name = of_run(observe, f"{runs[0]}` minus that of `{runs[1]}", seen).name
    return compare(scene, "differ", Side(name, runs[0], seen), Side(f"{name}, by definition", runs[0], due),
                   (slack, claimed), observed=observe,
                   what=f"{observe} of {runs[0]} minus that of {runs[1]}, against the difference by definition")


def is_refused(scene: Scene, *, run: RunName = ORIGINAL) -> Measured:
    """The call raises an exception with a message, instead of returning a wrong answer. An
    `assert` of the function's own code is its message: Python prints the line.
    """
    try:
        scene.answers(scene.runs[run])
    except SubjectRaised as raised:
        return verdict("is_refused", f"the call was refused with {raised}", broken=not raised.says_why)
    except UnusableAnswer as unusable:
        return verdict("is_refused", f"the call was answered, although it makes no sense: {unusable}", broken=True)
    return verdict("is_refused", "the call was answered, although it makes no sense", broken=True)
