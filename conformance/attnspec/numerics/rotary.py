"""Says what an honest rotary embedding answers, and how far rounding may take it.

docs/numerics.md derives each line.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from attnspec.core.dtype import DTYPES
from attnspec.core.forms import DEFAULT_BASE
from attnspec.core.nouns import DType
from attnspec.numerics.expectation import EMPTY_FIELDS, Expectation
from attnspec.numerics.precision import Precision, assumed_precision
from attnspec.numerics.reference import is_wider, wide_float
from attnspec.numerics.roundings import function_error
from attnspec.problems.make import RotaryProblem
from attnspec.problems.problem import Array

LOG_ULPS = EXP_ULPS = 3.0  # OpenCL's bounds, the standard that those of pow, cos and sin are from
ROTARY_PAIRS = "rotary_pairs"
INTERLEAVED = "interleaved"


def is_interleaved(problem: RotaryProblem, conventions: Mapping[str, str]) -> bool:
    """Whether features 2i and 2i+1 are a pair, by the flag, or by convention without one."""
    return problem.interleaved or conventions.get(ROTARY_PAIRS) == INTERLEAVED


def split_pairs(array: Array, width: int, *, interleaved: bool) -> tuple[Array, Array]:
    """The first and the second features of the pairs, both (…,R), of an array (…,D).

    width: how many features are turned.
    """
    if interleaved:
        return array[..., 0:width:2], array[..., 1:width:2]
    return array[..., : width // 2], array[..., width // 2 : width]


@dataclass(frozen=True, slots=True, eq=False)
class Turn:
    """A rotation, in the arithmetic of the truth.

    angle (B,1,T,R); first, second: the features of the pairs (B,H,T,R).
    """

    angle: Array
    first: Array
    second: Array

    @property
    def turned_pairs(self) -> tuple[Array, Array]:
        """The pairs turned by their angles: both (B,H,T,R)."""
        c, s = np.cos(self.angle), np.sin(self.angle)
        return self.first * c - self.second * s, self.second * c + self.first * s

    @property
    def radius(self) -> Array:
        """(B,H,T,R): the norms of the pairs."""
        return np.asarray(np.hypot(self.first, self.second))


def compute_turn(problem: RotaryProblem, conventions: Mapping[str, str],
                 real: type[np.floating]) -> Turn:
    """The rotation of a problem, by its definition."""
    width = problem.width
    exponent = np.arange(0, width, 2).astype(real) / real(width)
    frequency = real(problem.base or DEFAULT_BASE) ** -exponent
    angle = problem.positions.astype(real)[:, None, :, None] * frequency
    return Turn(angle,
                *split_pairs(problem.x.astype(real), width,
                             interleaved=is_interleaved(problem, conventions)))


def frequency_error(base: float, width: int, precision: Precision) -> Array:
    """(R,): the relative error of base^(-2i/r), by pow or by an exponential of a logarithm.

    The first one has none: at the exponent 0 both are exactly 1.
    """
    u = DTYPES[precision.angle].roundoff
    exponent, log = np.arange(0, width, 2) / width, np.log(base)
    power = function_error(precision, "pow_ulps", precision.angle)
    # the exponent is rounded before pow, and a reciprocal may be taken behind it
    by_pow = np.exp(exponent * u * (log + 1)) * (1 + power) * (1 + u) - 1
    # the logarithm, its product with the exponent, and the exponent itself
    argument = exponent * (log * ((1 + u) ** 2 * (1 + 2 * LOG_ULPS * u) - 1) + u)
    by_exp = np.exp(argument) * (1 + 2 * EXP_ULPS * u) - 1
    return np.where(exponent == 0, 0.0, np.maximum(by_pow, by_exp))


def angle_error(problem: RotaryProblem, angle: Array, precision: Precision) -> Array:
    """(B,1,T,R): how far a computed angle may be from the definition.

    0 at position 0, and of the first pair wherever the position itself is exact.
    """
    dtype = DTYPES[precision.angle]
    places = problem.positions[:, None, :, None].astype(np.float64)
    # smaller ones are exact
    conversion = np.where(np.abs(places) > 1 / dtype.roundoff, dtype.roundoff, 0.0)
    relative = 1 + frequency_error(problem.base or DEFAULT_BASE, problem.width, precision)
    product = np.where(relative == 1, 0.0, dtype.roundoff)  # times 1 is exact
    growth = relative * (1 + conversion) * (1 + product) - 1
    error = np.abs(angle) * growth + (np.abs(places) + 1) * dtype.underflow
    return np.asarray(np.where(places == 0, 0.0, error))


def rotation_allowance(turn: Turn, precision: Precision,
                       angle_errors: Array) -> tuple[Array, Array]:
    """How far the turned pairs may be off, both (B,H,T,R).

    angle_errors: of their angles, (B,1,T,R).
    """
    # the chord: how far a vector of length 1 moves that is turned by the error
    chord = 2 * np.sin(np.minimum(angle_errors, np.pi) / 2)
    # neither exceeds 1, however far the angle is off
    cos = np.minimum(1.0, np.abs(np.cos(turn.angle)) + chord)
    sin = np.minimum(1.0, np.abs(np.sin(turn.angle)) + chord)
    first, second = np.abs(turn.first), np.abs(turn.second)
    first_out, second_out = (np.abs(each) for each in turn.turned_pairs)
    error = chord * turn.radius
    return (_round_entry(first_out, error, ((first, cos), (second, sin)), precision),
            _round_entry(second_out, error, ((second, cos), (first, sin)), precision))


def _round_entry(out: Array, error: Array, products: tuple[tuple[Array, Array], ...],
                 precision: Precision) -> Array:
    """(B,H,T,R): the error of an entry, a sum of two products of a feature with a cosine or sine.

    out: its size.  error: what the angle's error costs.  products: the sizes of feature and
    function. The errors are those of functions, storage, products, sum, and what is returned.
    """
    storage, output = DTYPES[precision.rotation], DTYPES[precision.output]
    function = function_error(precision, "sincos_ulps", precision.angle)
    for feature, size in products:
        storage_error = function + storage.roundoff * (size + function) + storage.underflow
        error = (error + feature * storage_error + storage.roundoff * feature * (size + storage_error)
                 + storage.underflow)
    error = error + storage.roundoff * (out + error) + storage.underflow
    return np.asarray(error + output.roundoff * (out + error) + output.underflow)


def norm_allowance(problem: RotaryProblem, precision: Precision,
                   conventions: Mapping[str, str]) -> Array:
    """(B,H,T,R): how far the norm of a turned pair may be from that of the pair.

    Whatever the angle, cos² + sin² is 1, so that the angle's error does not matter.
    """
    turn = compute_turn(problem, conventions, np.float64)
    first, second = np.abs(turn.first), np.abs(turn.second)
    one = np.ones(())
    entries = (_round_entry(turn.radius, np.zeros(()), ((a, one), (b, one)), precision)
               for a, b in ((first, second), (second, first)))
    # what hypot itself rounds, and the norms that are compared
    return np.asarray(np.hypot(*entries)) * (1 + 2.0**-50) * _count_classes(problem.dtype)


def _count_classes(dtype: DType) -> int:
    """How many classes err: one, or two if the truth of a float64 subject is no wider."""
    return 1 if is_wider(dtype) else 2


def expect_rotary(problem: RotaryProblem, precision: Precision, *,
                  conventions: Mapping[str, str]) -> Expectation:
    """The truth and the allowance of a rotary embedding, both (B,H,T,D).

    Features that are not turned may not change.
    """
    real = wide_float(problem.dtype)
    with np.errstate(all="ignore"):  # what overflows is left out by `claimed`
        turn = compute_turn(problem, conventions, real)
        narrow = Turn(*(np.asarray(each, np.float64)
                        for each in (turn.angle, turn.first, turn.second)))
        angle_errors = angle_error(problem, narrow.angle, precision)
        slack = rotation_allowance(narrow, precision, angle_errors)
        if not is_wider(problem.dtype):
            own = assumed_precision(DType.FLOAT64)
            # the truth of a float64 subject rounds as it does where long double is no wider
            more = rotation_allowance(narrow, own, angle_error(problem, narrow.angle, own))
            slack = slack[0] + more[0], slack[1] + more[1]
    truth = _fill_pairs(problem, conventions, problem.x.astype(real), turn.turned_pairs)
    allowance = _fill_pairs(problem, conventions, np.zeros(truth.shape), slack)
    is_claimed = _is_claimed(problem, allowance, precision)
    parts: dict[str, Array] = {
        **EMPTY_FIELDS, "output": truth, "output_allowance": allowance, "claimed": is_claimed,
        "output_claimed": is_claimed, "empty": np.zeros_like(is_claimed)}
    return Expectation(**parts)  # type: ignore[arg-type]  # by name


def _fill_pairs(problem: RotaryProblem, conventions: Mapping[str, str], whole: Array,
                pairs: tuple[Array, Array]) -> Array:
    """An array (B,H,T,D) with these pairs (B,H,T,R) in place of its turned features."""
    first, second = split_pairs(whole, problem.width,
                                interleaved=is_interleaved(problem, conventions))
    first[...], second[...] = pairs
    return whole


def _is_claimed(problem: RotaryProblem, allowance: Array, precision: Precision) -> Array:
    """(B,H,T): the finite rows in which no sum can overflow."""
    most = np.abs(problem.x.astype(np.float64)).max(axis=-1)
    # each entry of a turned pair is a sum of two products
    fits = 2 * most < min(DTYPES[precision.rotation].largest, DTYPES[precision.output].largest)
    return np.asarray(fits & np.isfinite(allowance).all(axis=-1))
