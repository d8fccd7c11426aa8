"""Finds a drift that is too small for any bound, because it is the same everywhere: a
self-normalised score test.

An error per entry is at most a rounding; a drift of the scale by 1e-4 in bfloat16 is a fortieth of
one. Summed against the direction in which it pushes, over hundreds of head slices with draws of
their own, it stands out of what is symmetric. No size of the error is assumed, so there is nothing
to tune; docs/numerics.md has the derivation. Sources: B. Efron, "Student's t-test under symmetry
conditions", JASA 64, 1969; V. H. de la Peña, T. L. Lai and Q.-M. Shao, *Self-Normalized
Processes*, 2009, chapter 2.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from attnspec.core.dtype import DTYPES, HALF_DTYPES
from attnspec.core.nouns import DType
from attnspec.numerics.precision import Precision
from attnspec.problems.problem import Array

DirectionName = Literal["temperature", "gain", "mixing", "bias"]

# A part of the unit's mean square joins that of each entry: an output that happens to lie near 0 would else outweigh
# its whole unit, and few units would decide. Any weights are valid; at 1/10 the statistic was largest (of 1/10 and 1).
SHARED_PART = 0.1


@dataclass(frozen=True, slots=True, eq=False)
class Units:
    """Of each head slice, the sum of errors against the direction, and what a drift of 1 adds to
    it.

    Both are (n,).
    """

    score: Array
    size: Array

    @property
    def count(self) -> int:
        """How many units there are."""
        return len(self.score)

    @property
    def estimate(self) -> float:
        """The drift that explains the scores best."""
        return float(self.score.sum() / self.size.sum())

    @property
    def standard_error(self) -> float:
        """The standard error of the estimate, from the scatter of the units about it."""
        return float(np.sqrt(np.square(self.score - self.estimate * self.size).sum())
                     / self.size.sum())

    def statistic(self, drift: float = 0.0) -> float:
        """T: the sum of the scores without this drift, over the root of their squares.

        Its size is at most sqrt(count).
        """
        # under the drift that is true, what is left is symmetric about 0
        rest = self.score - drift * self.size
        norm = float(np.sqrt(np.square(rest).sum()))
        return float(rest.sum()) / norm if norm else 0.0

    def least_statistic(self, most: float) -> float:
        """The smallest |T| of all drifts up to `most`.

        0 where the estimate is one of them. Elsewhere |T| rises to one maximum with the distance
        from the estimate and falls from there, so that an end of the interval has the least.
        """
        if abs(self.estimate) <= most:
            return 0.0
        return min(abs(self.statistic(drift)) for drift in (-most, most))


def threshold(rate: float, tests: int = 1) -> float:
    """What |T| exceeds with probability at most `rate` in any of so many tests, if errors are
    symmetric.

    P(|T| > x) <= 2 exp(-x²/2), and probabilities of several tests add up. 6.54 for 1e-9 and one
    test.
    """
    return math.sqrt(2 * math.log(2 * tests / rate))


def significance(statistic: float) -> float:
    """An upper bound of the probability of such a |T| or more under symmetric errors."""
    return min(1.0, 2 * math.exp(-statistic * statistic / 2))


@dataclass(frozen=True, slots=True, eq=False)
class Drifts:
    """Which way each drift pushes the output of some head slices, for all answers to one problem.

    truth: (n,1,T,Dv), the output.  pushes: (n,E) each, E = T·Dv.  weight: (n,E), of each entry's
    error.
    """

    truth: Array
    pushes: Mapping[DirectionName, Array]
    weight: Array
    _own: dict[DirectionName, tuple[Array, Array]] = field(default_factory=dict)

    def units(self, direction: DirectionName, error: Array) -> Units:
        """The units of a direction, one for each head slice of error (B,H,T,Dv).

        The other directions are projected out of this one, unit by unit: a drift of theirs, of
        whatever size, adds nothing to these scores.
        """
        if direction not in self._own:
            self._own[direction] = self._score_direction(direction)
        own, size = self._own[direction]
        return Units((own * _flatten_slices(error)).sum(axis=-1), size)

    def _score_direction(self, direction: DirectionName) -> tuple[Array, Array]:
        """(n,E), the factors of errors, and (n,), the score of a drift of 1."""
        others = np.stack([push for name, push in self.pushes.items() if name != direction],
                          axis=-1)
        own = _orthogonal_part(self.pushes[direction], others, self.weight)
        return own * self.weight, (own * self.weight * own).sum(axis=-1)


def compute_drifts(weights: Array, value: Array, bias: Array | None = None, *,
                   relative_rounding: float = 0.0) -> Drifts:
    """The drifts of weights and bias (B,H,T,S) and value (B,H,S,Dv), in B·H head slices.

    Weights and values are the truth. Only a problem with a bias has the direction `bias`.
    relative_rounding: of a weight over one of the output, for the typical size of an error.
    """
    truth = np.asarray(weights @ value)
    # directions and weights of errors need no more than float64, whatever the truth has
    weights, value, output = (np.asarray(array, np.float64) for array in (weights, value, truth))
    pushes = {name: _flatten_slices(push)
              for name, push in _push_directions(weights, value, output, bias).items()}
    return Drifts(truth, pushes,
                  1 / _flatten_slices(_typical_square(weights, value, output, relative_rounding)))


def _typical_square(weights: Array, value: Array, output: Array, relative_rounding: float) -> Array:
    """(B,H,T,Dv): tau², the square of an error's typical size, in roundings of an output of 1."""
    squares = np.square(output)
    return np.asarray(squares + relative_rounding**2 * (np.square(weights) @ np.square(value))
                      + SHARED_PART * squares.mean(axis=(-2, -1), keepdims=True))


def _flatten_slices(array: Array) -> Array:
    """(B,H,T,Dv) -> (B·H,T·Dv): one row for each head slice, in float64."""
    return array.reshape(-1, math.prod(array.shape[2:])).astype(np.float64)


def _push_directions(weights: Array, value: Array, output: Array,
                     bias: Array | None) -> Mapping[DirectionName, Array]:
    """(B,H,T,Dv) each: by how much the output moves for a unit of drift.

    temperature: d output / d log scale = the covariance of scaled dot product and value under the
    weights.  gain: the output itself.  mixing: a share of the weight spread evenly over the keys.
    bias: all of it times 1 + x.
    """
    # but for what is common to a row, which has no covariance
    logits = np.log(np.where(weights > 0, weights, 1))
    if bias is not None:
        logits = logits - bias
    pushes: dict[DirectionName, Array] = {
        "temperature": _key_value_covariance(logits, weights, value, output),
        "gain": output, "mixing": value.mean(axis=-2, keepdims=True) - output}
    if bias is not None:
        pushes["bias"] = _key_value_covariance(bias, weights, value, output)
    return pushes


def _key_value_covariance(scores: Array, weights: Array, value: Array, output: Array) -> Array:
    """(B,H,T,Dv): the covariance of scores (B,H,T,S) and values under the weights."""
    leant = weights * scores
    return np.asarray(leant @ value - leant.sum(axis=-1, keepdims=True) * output)


def _orthogonal_part(push: Array, others: Array, weight: Array) -> Array:
    """A direction (n,E) without its projection on the others (n,E,k), by the weights."""
    gram = np.einsum("nea,neb,ne->nab", others, others, weight, optimize=True)
    onto = np.einsum("nea,ne,ne->na", others, push, weight, optimize=True)
    # unit by unit: a drift of another direction then adds nothing to any score
    shares = np.linalg.solve(gram, onto[..., None])[..., 0]
    return np.asarray(push - np.einsum("nea,na->ne", others, shares))


# How large an error may be that is the same everywhere: what a precision class vouches for


UNITS_OF_THE_ACCUMULATOR = 8
"""Roundings that every entry of an answer may share.

The scale has 4 (root and reciprocal, of a scale split in two), the constants log2(e) and ln(2) of
the exponential 1 each, and its polynomial is off by 2 (1 ulp) on average.
"""

CONSTANTS_OF_THE_EXPONENTIAL = 2
"""log2(e) and ln(2), of an exponential in a half format.

Its polynomial is evaluated in float32, and the scale has a format of its own; rounding to nearest
has no mean.
"""

GUARDED_PART = 1 / 16
"""What truncation adds on average if four bits beyond the output's are kept, in its units."""

_WORKING_WORDS = ("accumulate", "softmax", "row_sum")
_STORAGE_WORDS = ("output", "weights", "logits", "prescale")


def systematic_error(precision: Precision, direction: DirectionName = "gain", *,
                     scale_width: int | None = None, products: int = 0) -> float:
    """How large an error that is the same everywhere may be, relatively, in a subject of this
    class.

    Some units of the coarsest of what sums, exponentials and quotients are computed in, which is
    float32 at the coarsest: what is stored in a half format is rounded to nearest, without a mean.
    But the constants of a half exponential move all logits. Where the class does not vouch for
    that, besides it, a sixteenth of a unit of the output. Rounding to nearest adds u² a storage:
    numbers just above a power of two are rounded more coarsely than those below, which leaves
    -u²/5 on average. Sums in a half format: see `drift_of_sums`.  scale_width: what the default
    scale is the root of, for errors of the temperature: a constant that is stored more coarsely
    than all else is off by its roundings, unless its root and fourth root are powers of two.
    products: of how many a logit is the sum, for errors of the logits.
    """
    working = max(DTYPES[DTYPES[getattr(precision, word)].wide].roundoff
                  for word in _WORKING_WORDS)
    storages = {getattr(precision, word) for word in _STORAGE_WORDS}
    storages |= {getattr(precision, word) for word in _WORKING_WORDS} & set(HALF_DTYPES)
    storage = max(DTYPES[dtype].roundoff for dtype in storages)
    # rounding to nearest leaves u² a storage, since numbers above a power of two lie further apart
    error = UNITS_OF_THE_ACCUMULATOR * working + storage**2
    if precision.systematic == "output":
        error += GUARDED_PART * DTYPES[precision.output].roundoff
    if DTYPES[precision.softmax].is_half and direction != "gain":
        error += CONSTANTS_OF_THE_EXPONENTIAL * DTYPES[precision.softmax].roundoff
    if DTYPES[precision.accumulate].is_half:
        # the same bias, of each product that is added in a half format
        error += products * DTYPES[precision.accumulate].roundoff ** 2
    constant = DTYPES[precision.scale].roundoff
    if scale_width is not None and constant > working and math.log(scale_width, 16) % 1:
        error += precision.scale_roundings * constant
    return error


def drift_of_sums(drifts: Drifts, direction: DirectionName, weights: Array, value: Array,
                  precision: Precision) -> float:
    """The drift that sums in a half format may have, of weights (n,1,T,S) and values (n,1,S,Dv).

    A term that is smaller than half a unit of the partial sum is lost, always; see `lost_terms`.
    What that would do to the output is scored like any error, once for the sum with the values and
    once for the row's sum.
    """
    drift = 0.0
    if DTYPES[precision.accumulate].is_half:
        error = lost_terms(weights, precision.accumulate) @ value
        drift += abs(drifts.units(direction, error).estimate)
    if DTYPES[precision.row_sum].is_half:
        total = lost_terms(weights, precision.row_sum).sum(axis=-1, keepdims=True)
        drift += abs(drifts.units(direction, (weights @ value) * total).estimate)
    return drift


def lost_terms(weights: Array, dtype: DType) -> Array:
    """Any shape: how much of each weight a sum in this format loses on average, at the most.

    The sum is 1 at the most, and its numbers are h = 2u apart. Of a term x above h, the bits that
    are cut off have a smooth density f, and rounding to nearest is off by h²/24·f'/f on average,
    which is h²/(24 x) = u²/(6 x) where every size is as likely as another; of a smaller one, by no
    more than all of it.
    """
    u = DTYPES[dtype].roundoff
    mean_loss = u * u / (6 * np.maximum(weights, np.finfo(np.float64).tiny))
    return np.asarray(np.minimum(weights, mean_loss))
