"""Spec words and questions about dropout: what becomes of weights, and which are dropped."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, Literal

import numpy as np

from attnspec.core.keyword import DROPOUT_PROFILE, GRAD, RATE, SEED
from attnspec.numerics.dropout import count_limits, dropout_factors, expect_any_dropped, rescaling_error
from attnspec.numerics.expectation import Expectation
from attnspec.numerics.reference import wide_float
from attnspec.problems.problem import Array, Problem
from attnspec.questions.asker import (
    FAILURES,
    OTHER,
    Asker,
    Reply,
    is_close,
    keyword_question,
    promised_answer,
    show_numbers,
)
from attnspec.record.outcome import Measured
from attnspec.vocabulary.observables import (
    GRADIENTS,
    LOOKS,
    OF_INPUT,
    QUANTITIES,
    GradientOf,
    by_definition,
    compare,
    equal,
    expectations,
    measure,
    nothing,
    seen_of,
)
from attnspec.vocabulary.observables import observe as look
from attnspec.vocabulary.scene import NoClaim, Posed, Scene, Side
from attnspec.vocabulary.signature import ORIGINAL, Between, RunName
from attnspec.vocabulary.transforms.axes import Attention

Rate = Annotated[float, Between(1e-15, 0.5)]
Along = Literal["batch", "heads", "head slices", "queries", "keys", "diagonals"]
_AXES: Mapping[Along, int] = {"batch": 0, "heads": 1, "head slices": 1, "queries": 2, "keys": 3}
_INSIDE = (2, 3)
"""The axes of a head slice."""
_FAR = 2**30


def with_dropout(posed: Attention, *, rate: Annotated[float, Between(0, 1)]) -> Attention:
    """Drop weights at this rate; 0 is handed over, too."""
    return posed.but(**{RATE: float(rate)})


def without_dropout(posed: Attention) -> Attention:
    """Pass neither a rate nor a seed, as in evaluation."""
    return posed.but(**{RATE: None, SEED: None})


def after_dropout(posed: Attention) -> Attention:
    """Pass neither a rate nor a seed, in a call that comes after one with both."""
    return replace(without_dropout(posed), fresh=True, before=(posed.one,))


def other_seed(posed: Attention, *, to: Literal["next", "far"]) -> Attention:
    """Draw by another seed: the next whole number, or one that is 2^30 away."""
    seed = posed.one.seed
    if seed is None:
        raise NoClaim("there is no seed")
    return posed.but(**{SEED: seed + 1 if to == "next" else seed ^ _FAR})


def weights_are_dropped_or_rescaled(scene: Scene, *, run: RunName = ORIGINAL) -> Measured:
    """Each weight in effect is exactly 0, or what it is without dropout over one minus the rate, within rounding."""
    dropped = read_dropped(scene, run)
    due = np.where(dropped.kept, dropped.truth, 0)
    return compare(scene, "weights_are_dropped_or_rescaled", Side("weights in effect", run, dropped.seen),
                   Side("0, or p / (1 - rate)", run, due), (dropped.allowance, dropped.claimed),
                   what=f"weights that are not 0, against p / (1 - {dropped.rate:g})", observed="weights")


def agrees_with_what_is_kept(scene: Scene, *, observe: Literal["output", GradientOf],
                             run: RunName = ORIGINAL) -> Measured:
    """The observed array equals the definition's, with those weights dropped that are 0 where the
    values are the identity.
    """
    problem, part = scene.problem(run), GRADIENTS if observe in OF_INPUT else "output"
    if problem.sizes.T * problem.sizes.S * problem.sizes.Dv * problem.sizes.B * problem.sizes.H > LARGEST:
        raise NoClaim("there are too many weights")
    expected = scene.evaluator.expect_dropped(problem, read_dropped(scene, run).factor, part)
    truth, allowance, claimed = LOOKS[observe].define(expected, scene)
    seen = look(scene, run, observe).array
    return compare(scene, "agrees_with_what_is_kept", seen_of(observe, run, seen), by_definition(observe, run, truth),
                   (allowance, claimed), observed=observe,
                   what=f"{QUANTITIES[observe]} against the definition, dropping what is dropped where V = I")


def masks_agree(scene: Scene, *, runs: tuple[RunName, RunName]) -> Measured:
    """Two runs drop the same weights."""
    one, two = (read_dropped(scene, run) for run in runs)
    known = one.known & two.known
    return equal("masks_agree", one.kept.astype(float), two.kept.astype(float), known,
                 what=f"{runs[0]} and {runs[1]} should drop the same weights (1: kept)")


def drops_at_rate(scene: Scene, *, false_alarm: Rate, run: RunName = ORIGINAL) -> Measured:
    """In each head slice the number of weights that are dropped is binomial, of independent draws
    at the rate: an exact test. false_alarm: how often, at the most, a subject that draws so fails
    the clause, all its cases together.
    """
    dropped = read_dropped(scene, run)
    counts = _counts(dropped.known & ~dropped.kept, dropped.known, _INSIDE)
    return _compare_counts("drops_at_rate", list(counts), dropped.rate, false_alarm / scene.cases,
                           "the share of the weights of a head slice that is dropped")


def masks_are_independent(scene: Scene, *, runs: tuple[RunName, RunName], false_alarm: Rate) -> Measured:
    """What one run drops says nothing of what another run drops: in each head slice the weights of
    which both do the same are counted, by an exact test. false_alarm: as in `drops_at_rate`.
    """
    one, two = (read_dropped(scene, run) for run in runs)
    known = one.known & two.known
    counts = list(_counts(known & (one.kept == two.kept), known, _INSIDE))
    return _compare_counts("masks_are_independent", counts, _alike(one.rate), false_alarm / scene.cases,
                    f"the share of the weights of a head slice of which {runs[0]} and {runs[1]} both do the same")


def drops_independently(scene: Scene, *, along: Along, false_alarm: Rate, run: RunName = ORIGINAL) -> Measured:
    """What is dropped at one place says nothing of what is dropped at another: an exact test at
    every distance.

    Along an axis, places are paired that lie so far apart; along head slices, heads of all batch
    entries one behind the other; along diagonals, neighbouring queries with their keys shifted by
    as many. No place is in two pairs of one test, so the number of pairs that are alike is
    binomial. Other axes are not taken to be independent: of queries and keys each head slice is
    tested by itself, of heads each batch entry, of batch entries each head. false_alarm: as in
    `drops_at_rate`; all distances together.
    """
    dropped = read_dropped(scene, run)
    pairs = list(_diagonals(dropped) if along == "diagonals" else _distances(_flat(dropped, along), _AXES[along]))
    if not pairs:
        return nothing("drops_independently", f"there is one place along {along}")
    return _compare_counts("drops_independently", pairs, _alike(dropped.rate), false_alarm / scene.cases,
                           f"the share of weights that are treated as those at another place along {along}")


def _alike(rate: float) -> float:
    """How often two independent draws come out the same."""
    return rate * rate + (1 - rate) * (1 - rate)


def _flat(dropped: Dropped, along: Along) -> Dropped:
    """The dropped weights with the heads of all batch entries in one axis, if `along` says so."""
    if along != "head slices":
        return dropped
    shape = (1, -1, *dropped.kept.shape[2:])
    return replace(dropped, kept=dropped.kept.reshape(shape), known=dropped.known.reshape(shape))


def _distances(dropped: Dropped, axis: int) -> Iterator[tuple[int, int]]:
    """Alike pairs, and all pairs, at each distance along an axis, by even and odd stretches."""
    for distance in range(1, dropped.kept.shape[axis]):
        places = np.arange(dropped.kept.shape[axis] - distance)
        for phase in (0, 1):
            left = places[places // distance % 2 == phase]
            kept, known = (np.take(array, left, axis) for array in (dropped.kept, dropped.known))
            other_kept, other_known = (np.take(array, left + distance, axis) for array in (dropped.kept, dropped.known))
            known = known & other_known
            yield from _counts(known & (kept == other_kept), known, (axis, *_INSIDE))


def _diagonals(dropped: Dropped) -> Iterator[tuple[int, int]]:
    """Alike pairs of neighbouring queries, and all pairs, at every shift of the keys but 0."""
    T, S = dropped.kept.shape[2:]
    for shift in (*range(1 - S, 0), *range(1, S)):
        left, right = slice(max(0, -shift), S - max(0, shift)), slice(max(0, shift), S + min(0, shift))
        for phase in (0, 1):
            one = (..., slice(phase, T - 1, 2), left)
            two = (..., slice(phase + 1, T, 2), right)
            known = dropped.known[one] & dropped.known[two]
            yield from _counts(known & (dropped.kept[one] == dropped.kept[two]), known, _INSIDE)


def _counts(alike: Array, known: Array, axes: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    """The number of alike weights (B,H,T,S), and of known ones, summed along these axes."""
    over = tuple(set(axes))
    counts, trials = np.ravel(alike.sum(axis=over)), np.ravel(known.sum(axis=over))
    yield from ((int(count), int(trial)) for count, trial in zip(counts, trials, strict=True) if trial)


def _compare_counts(relation: str, counts: list[tuple[int, int]], chance: float, false_alarm: float,
                    what: str) -> Measured:
    """Compares counts, each of so many trials, with what is expected of them."""
    if not counts:
        return nothing(relation, "no weight is so large that it is seen whether it is dropped")
    shares, allowances = [], []
    for count, trials in counts:
        low, high = count_limits(trials, chance, false_alarm / len(counts))
        expected = trials * chance
        distance = high - expected if count > expected else expected - low
        shares.append(count / trials)
        allowances.append((distance + 0.5) / trials)  # half a count: a limit itself raises no alarm
    return measure(relation, np.array(shares), np.array(chance), np.array(allowances), np.ones(len(counts), bool),
                   what=what)


def averages_to_plain(scene: Scene, *, draws: Annotated[int, Between(2, 4096)], over: Literal["entries", "heads"],
                      false_alarm: Rate, run: RunName = ORIGINAL) -> Measured:
    """The mean of the output over draws by other seeds is the output without dropout.

    By Hoeffding's inequality: each weight that an output is made of is between 0 and what it is if
    it is kept, and they are independent. over: each entry by itself, or all of a head together, as
    the projection on the plain output. false_alarm: as in `drops_at_rate`.
    """
    problem, plain = scene.problem(run), _plain(scene.runs[run])
    rate, seed = rate_of(problem), getattr(problem, SEED)
    posed = Posed(tuple(problem.but(**{SEED: seed + at}) for at in range(draws)), key=f"{plain.key}|draws")
    mean = np.mean([answer.output.astype(np.float64) for answer in scene.answers(posed)], axis=0)
    [expected] = expectations(scene, plain, "weights")
    bound = expect_any_dropped(problem, rate, scene.evaluator.precision, conventions=scene.conventions,
                               scale_width=scene.subject.scale_width(problem))
    parts = expected.weights.astype(np.float64), scene.evaluator.values_by_head(problem).astype(np.float64)
    seen, truth, squares, rounding, claimed = {"heads": _by_head, "entries": _by_entry}[over](
        mean, *parts, bound.output_allowance, expected.claimed & bound.claimed)
    spread = math.log(2 * squares.size * scene.cases / false_alarm) * squares / (2 * draws)
    return measure("averages_to_plain", seen, truth, np.sqrt(spread) / (1 - rate) + rounding, claimed,
                   what=f"the mean of the output over {draws} draws against the output without dropout, by {over}")


def _plain(posed: Posed[Any]) -> Posed[Any]:
    return replace(posed.but(**{RATE: None, SEED: None}), key=f"{posed.key}|plain")


Averages = tuple[Array, Array, Array, Array, Array]
"""What is seen, what is expected, the sum of the squares of what each weight may contribute, what
rounding allows, and where a claim is made.
"""


def _by_entry(mean: Array, weights: Array, value: Array, rounding: Array, claimed: Array) -> Averages:
    """Each entry's averages: mean, rounding (B,H,T,Dv), weights (B,H,T,S), values (B,H,S,Dv)."""
    squares = np.square(weights) @ np.square(value)
    return mean, weights @ value, squares, rounding, np.broadcast_to(claimed[..., None], mean.shape)


def _by_head(mean: Array, weights: Array, value: Array, rounding: Array, claimed: Array) -> Averages:
    """Averages of each head slice (B,H): projections on the plain output, where it is claimed."""
    places = claimed[..., None]
    direction = np.where(places, weights @ value, 0)
    squares = np.square(weights * (direction @ value.swapaxes(-1, -2))).sum(axis=(-1, -2))
    seen = (np.where(places, mean, 0) * direction).sum(axis=(-1, -2))
    truth = (np.where(places, direction, 0) * direction).sum(axis=(-1, -2))
    slack = (np.where(places, rounding, 0) * np.abs(direction)).sum(axis=(-1, -2))
    return seen, truth, squares, slack, np.asarray(claimed.any(axis=-1))


TRANSFORMS = (with_dropout, without_dropout, after_dropout, other_seed)
RELATIONS = (weights_are_dropped_or_rescaled, agrees_with_what_is_kept, masks_agree, drops_at_rate,
             drops_independently, masks_are_independent, averages_to_plain)


# Which weights a run drops, read through values that are the identity


LARGEST = 2**28
"""Entries of weights times width: more are not held to the definition under a mask."""


@dataclass(frozen=True, slots=True, eq=False)
class Dropped:
    """What was read of the weights of a run, all (B,H,T,S).

    seen: the weights in effect.  kept: whether each is not 0.  truth, allowance: of a weight that
    is kept.  claimed: where a claim is made.  known: where, too, a weight is so large that it is 0
    only if it was dropped.
    """

    rate: float
    seen: Array
    kept: Array
    truth: Array
    allowance: Array
    claimed: Array
    known: Array

    @property
    def factor(self) -> Array:
        """What multiplies the weights, (B,H,T,S). Raises NoClaim if that is not known of all."""
        if self.rate < 1 and (self.claimed & ~self.known).any():
            raise NoClaim("some weights are too small to see whether they are dropped")
        return dropout_factors(self.kept | ~self.claimed, self.rate)


def rate_of(problem: Problem) -> float:
    """The dropout rate of a problem; 0 without one."""
    return float(getattr(problem, RATE) or 0.0)


def read_dropped(scene: Scene, run: str) -> Dropped:
    """What was dropped in a run; it is read once a case."""
    key = (run, "dropped")
    if key not in scene.cache:
        scene.cache[key] = _find_dropped(scene, scene.runs[run])
    dropped: Dropped = scene.cache[key]
    return dropped


def _find_dropped(scene: Scene, posed: Posed[Any]) -> Dropped:
    plain = replace(posed.but(**{GRAD: None}), key=f"{posed.key}|read")  # nothing is read of gradients
    with scene.subject.callee.meanwhile((partial(expectations, scene, plain, "weights"),)):
        [weights], _ = LOOKS["weights"].observe(scene, plain)
    [expected] = expectations(scene, plain, "weights")
    return _read_dropped(weights.astype(wide_float(scene.dtype)), expected, rate_of(posed.one), scene)


def _read_dropped(seen: Array, expected: Expectation, rate: float, scene: Scene) -> Dropped:
    """What weights (B,H,T,S) tell of which were dropped."""
    grown = 1 / (1 - rate) if rate < 1 else 0.0
    slack = expected.weights_allowance
    added = rescaling_error(scene.evaluator.precision) if rate > 0 else 0.0
    truth, allowance = grown * expected.weights, grown * (slack + added * (expected.weights + slack))
    claimed = np.broadcast_to(expected.claimed[..., None], seen.shape) & expected.visible
    return Dropped(rate, seen, seen != 0, truth, np.asarray(allowance), claimed, claimed & (truth > allowance))


QUERIES, KEYS = 16, 8
"""T and S: weights are 1/8; by chance none, or all of a call, are dropped once in 2^256."""
HALF = 0.5


def _weights(asker: Asker, seed: int) -> Array:
    """Weights (B,H,T,S), the same for all keys, at a rate of one half."""
    return asker.ask_output(asker.make_even(QUERIES, KEYS).but(**{RATE: HALF, SEED: seed}))[..., :KEYS]


def _form(asker: Asker) -> Reply:
    seen = _weights(asker, 1)
    kept, plain = np.where(seen != 0, 1, 0), 1 / KEYS
    forms = {"ignored": np.full_like(seen, plain), "rescaled": kept * plain / HALF, "not_rescaled": kept * plain,
             "renormalised": kept / np.maximum(kept.sum(axis=-1, keepdims=True), 1)}
    return Reply(next((name for name, form in forms.items() if is_close(seen, form)), OTHER), show_numbers(seen))


def _seed(asker: Asker) -> Reply:
    one, again, other = (_weights(asker, seed) for seed in (1, 1, 2))
    if not np.array_equal(one, again):
        return Reply("anew", show_numbers(again))
    return Reply("ignored" if np.array_equal(one, other) else "same", show_numbers(one))


QUESTIONS = (
    keyword_question("dropout.form", {
        "rescaled": "0, or the weight over one minus the rate", "not_rescaled": "0, or the weight as it is",
        "renormalised": "0, or the weight over the sum of those that are left", "ignored": "nothing", **FAILURES},
        _form, promised_answer("rescaled", DROPOUT_PROFILE)),
    keyword_question("dropout.seed", {
        "same": "yes, and another seed drops others", "ignored": "yes, and so does every other seed",
        "anew": "no: each call draws anew", **FAILURES}, _seed, promised_answer("same", DROPOUT_PROFILE)),
)
