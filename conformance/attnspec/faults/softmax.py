"""Softmax over the wrong axis, without its stabiliser, or with another denominator; exponentials that are approximated
or cut, logits that are bounded, weights that are pruned.
"""

# mypy: no-warn-return-any
# (reason: arithmetic on arrays of any dtype is Any to mypy; the arrays' types are declared all the same)

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from attnspec.core.nouns import DType
from attnspec.faults import staged as sound
from attnspec.faults.fault import Fault, Stage
from attnspec.faults.precision import BFLOAT16, FLOAT16, running_sum, through
from attnspec.faults.staged import staged
from attnspec.faults.staged_work import PreparedCall
from attnspec.problems.problem import Array


def _grown_by(change: Callable[[Array], Array]) -> Callable[[Array, PreparedCall], Array]:
    """A softmax whose exponentials are changed, given logits (B,H,T,S) less their row's maximum."""
    def softmax(logits: Array, work: PreparedCall) -> Array:  # noqa: ARG001  (the stage's signature)
        """Weights (B,H,T,S) by the changed exponential; hidden keys weigh nothing."""
        top = np.maximum(logits.max(axis=-1, keepdims=True, initial=-np.inf), np.finfo(logits.dtype).min)
        return sound.normalise(np.where(np.isneginf(logits), 0, change(logits - top)).astype(logits.dtype))
    return softmax


def _polynomial(lowered: Array) -> Array:
    """Exponentials (B,H,T,S) as 2^x by a cubic in the fraction: some 1e-4 off."""
    power = np.maximum(lowered * np.log2(np.e), -126)  # the least exponent of a normal float32
    whole = np.floor(power)
    part = power - whole
    return np.exp2(whole) * (1 + part * (0.6951 + part * (0.2276 + part * 0.0773)))


def _bits(lowered: Array) -> Array:
    """Schraudolph's trick, (B,H,T,S): the exponent field is filled with a linear function, up to some 4 % off."""
    power = np.maximum(lowered * np.log2(np.e), -126)
    whole = np.floor(power)
    return np.exp2(whole) * (1 + power - whole)


def _floored(lowered: Array) -> Array:
    """Exponentials (B,H,T,S), 0 where the argument is below -20."""
    return np.where(lowered < -20, 0, np.exp(lowered))


def _clamped(lowered: Array) -> Array:
    """Exponentials (B,H,T,S), none below that of -20."""
    return np.exp(np.maximum(lowered, -20))


def _oscillating(lowered: Array) -> Array:
    """Exponentials (B,H,T,S) that are up to 1e-4 off, to both sides."""
    return np.exp(lowered) * (1 + 1e-4 * np.sin(100 * lowered))


def _top(weights: Array, work: PreparedCall) -> Array:
    """Weights (B,H,T,S): all but the 32 largest of a row are dropped."""
    if work.shape[3] <= 32:
        return weights
    least = np.sort(weights, axis=-1)[..., -32, None]
    return sound.normalise(np.where(weights < least, 0, weights))


def _without_small(weights: Array, work: PreparedCall) -> Array:  # noqa: ARG001  (the stage's signature)
    """Weights (B,H,T,S), those below 1e-3 set to 0."""
    return np.where(weights < 1e-3, 0, weights)


def _clipped(work: PreparedCall, factor: float) -> Array:
    """Logits (B,H,T,S) clipped to ±50."""
    return np.clip(sound.logits(work, factor), -50, 50)


def _squared(work: PreparedCall, factor: float) -> Array:
    """Logits (B,H,T,S) squared, their signs kept."""
    dots = sound.logits(work, factor)
    return dots * np.abs(dots)


def _cosine(work: PreparedCall, factor: float) -> Array:
    """Logits (B,H,T,S) of queries and keys that are normalised first."""
    query, key = (array / np.maximum(np.linalg.norm(array, axis=-1, keepdims=True), 1e-12)
                  for array in (work.query, work.key))
    return sound.logits(work.but(query=query, key=key), factor)


def _distance(work: PreparedCall, factor: float) -> Array:
    """Logits (B,H,T,S) as minus half the squared distance: the keys' norms are left in."""
    return sound.logits(work, factor) - factor * (work.key ** 2).sum(axis=-1)[:, :, None, :] / 2


def _ties(logits: Array, work: PreparedCall) -> Array:
    """Weights (B,H,T,S): among equal largest logits only the first counts."""
    top = logits.max(axis=-1, keepdims=True, initial=-np.inf)
    is_later = (logits == top) & (np.cumsum(logits == top, axis=-1) > 1)
    return sound.softmax(np.where(is_later, -np.inf, logits).astype(logits.dtype), work)


EXPONENTIAL_FAULTS = (
    Fault("exp_polynomial", Stage.SOFTMAX, "exp by a cubic on the fraction, for speed.", "logits that differ",
          staged(softmax=_grown_by(_polynomial))),
    Fault("exp_bit_trick", Stage.SOFTMAX, "exp by writing into the exponent field, for speed.", "logits that differ",
          staged(softmax=_grown_by(_bits))),
    Fault("exp_oscillating", Stage.SOFTMAX, "exp from a small table without interpolation, off by up to ±1e-4.",
          "logits that differ", staged(softmax=_grown_by(_oscillating))),
    Fault("exp_zero_below_20", Stage.SOFTMAX, "Exponentials of less than -20 are flushed to zero.",
          "weights below 2e-9 on large values, or read out", staged(softmax=_grown_by(_floored))),
    Fault("exp_clamped_at_20", Stage.SOFTMAX, "The argument of exp is clamped at -20, so small weights stay up.",
          "weights below 2e-9 on large values, or read out", staged(softmax=_grown_by(_clamped))),
    Fault("weights_top_32", Stage.WEIGHTS, "Only the 32 largest weights are kept.", "more than 32 visible keys",
          staged(weigh=_top)),
    Fault("weights_small_dropped", Stage.WEIGHTS, "Weights below 1e-3 are skipped to save work.",
          "rows with small weights", staged(weigh=_without_small)),
    Fault("logits_clipped_50", Stage.LOGITS, "Logits are clipped to ±50 against overflow.", "logits beyond 50",
          staged(logits=_clipped)),
    Fault("logits_squared", Stage.LOGITS, "A sharpening power is left on.", "logits other than 0 and ±1",
          staged(logits=_squared)),
    Fault("logits_cosine", Stage.LOGITS,
          "Queries and keys are normalised (QK-norm), although the caller did not ask for it.",
          "queries or keys whose norm is not 1", staged(logits=_cosine)),
    Fault("logits_distance", Stage.LOGITS, "Squared distances are used instead of dot products.",
          "keys of different norms", staged(logits=_distance)),
    Fault("softmax_first_of_ties", Stage.SOFTMAX, "Of keys with the same largest logit, only the first counts.",
          "two keys with the same largest logit", staged(softmax=_ties)),
)


_BELOW = "1e-6 is about what float32 arithmetic inside may lose anyway, and far below the rounding of the output"
_HALVES = {DType.FLOAT16: _BELOW, DType.BFLOAT16: _BELOW}


def _with_softmax(change: Callable[[Array], Array]) -> Callable[[Array, PreparedCall], Array]:
    """A `softmax` stage that needs the logits (B,H,T,S) alone."""
    return lambda logits, _: change(logits)


def _over(axis: int) -> Callable[[Array, PreparedCall], Array]:
    """A softmax of logits (B,H,T,S) along another axis."""
    def softmax(logits: Array) -> Array:
        """Weights (B,H,T,S) that sum to 1 along `axis`."""
        turned = np.moveaxis(logits, axis, -1)
        return np.moveaxis(sound.normalise(sound.exponentials(turned)), -1, axis)
    return _with_softmax(softmax)


def _stabilised_by(statistic: Callable[[Array], Array]) -> Callable[[Array, PreparedCall], Array]:
    """A softmax of logits (B,H,T,S) with something else than the row's maximum subtracted."""
    return _with_softmax(lambda logits: sound.normalise(np.exp(logits - statistic(logits))))


def _row_mean(logits: Array) -> Array:
    """(B,H,T,S) -> (B,H,T,1): the mean of each row's finite logits."""
    seen = np.isfinite(logits)
    total = np.where(seen, logits, 0).sum(axis=-1, keepdims=True)
    return total / np.maximum(seen.sum(axis=-1, keepdims=True), 1)


def _all_maximum(logits: Array) -> Array:
    """The largest of all logits (B,H,T,S), one number for every row."""
    return np.maximum(logits.max(initial=-np.inf), np.finfo(logits.dtype).min)


def _first_logit(logits: Array) -> Array:
    """(B,H,T,S) -> (B,H,T,1): the first key's logit, 0 where it is hidden."""
    first = logits[..., :1]
    return np.where(np.isneginf(first), 0, first)


def _hidden_maximum(logits: Array, work: PreparedCall) -> Array:
    """Weights (B,H,T,S); the maximum is taken before the mask is applied."""
    hidden = np.where(work.visible, logits, -np.inf)
    return sound.normalise(np.exp(hidden - logits.max(axis=-1, keepdims=True, initial=-np.inf)))


def _keep(logits: Array, work: PreparedCall) -> Array:  # noqa: ARG001  (the stage's signature)
    """Logits (B,H,T,S) with nothing hidden."""
    return logits


def _divided_by(denominator: Callable[[Array], Array]) -> Callable[[Array, PreparedCall], Array]:
    """A softmax of logits (B,H,T,S) with another denominator; rows without a visible key stay zeros."""
    def softmax(logits: Array) -> Array:
        """Exponentials (B,H,T,S) over what `denominator` makes of them."""
        grown = sound.exponentials(logits)
        total = denominator(grown)
        return grown / np.where(total == 0, 1, total)
    return _with_softmax(softmax)


def _plus(number: float) -> Callable[[Array, PreparedCall], Array]:
    """A softmax of logits (B,H,T,S) with a number added to each row's sum."""
    return _divided_by(lambda grown: grown.sum(axis=-1, keepdims=True) + grown.dtype.type(number))


def _sum(grown: Array) -> Array:
    """(B,H,T,S) -> (B,H,T,1): the sum of each row."""
    return grown.sum(axis=-1, keepdims=True)


def _sink(logits: Array) -> Array:
    """Exp / (1 + sum of exp), (B,H,T,S), as if a key with logit 0 were always there."""
    top = np.maximum(logits.max(axis=-1, keepdims=True, initial=-np.inf), 0)
    grown = np.exp(logits - top)
    return grown / (np.exp(-top) + _sum(grown))


def _base_two(logits: Array) -> Array:
    """Weights (B,H,T,S) by powers of two in the place of e's."""
    return sound.normalise(sound.exponentials(logits * logits.dtype.type(np.log(2))))


def _twice(logits: Array) -> Array:
    """Weights (B,H,T,S) of a softmax over the softmax."""
    once = sound.normalise(sound.exponentials(logits))
    return sound.normalise(sound.exponentials(np.where(np.isneginf(logits), -np.inf, once)))


def _sigmoid(logits: Array) -> Array:
    """Weights (B,H,T,S), each by its own logit alone; rows do not sum to 1."""
    return 1 / (1 + np.exp(-logits))


def _hardmax(logits: Array) -> Array:
    """Weights (B,H,T,S), all of a row's weight on its first largest logit."""
    first = np.arange(logits.shape[-1]) == logits.argmax(axis=-1)[..., None]
    return (first & ~np.isneginf(logits)).astype(logits.dtype)


def _rounded_lse(logits: Array) -> Array:
    """Weights (B,H,T,S) by each row's log of the sum, (B,H,T,1), held in bfloat16."""
    top = np.maximum(logits.max(axis=-1, keepdims=True, initial=-np.inf), np.finfo(logits.dtype).min)
    lse = top + np.log(np.maximum(_sum(np.exp(logits - top)), np.finfo(logits.dtype).tiny))
    return np.exp(logits - through(lse, BFLOAT16))


SOFTMAX_FAULTS = (
    Fault("softmax_over_queries", Stage.SOFTMAX,
          "The softmax runs over the queries, so that columns sum to 1, not rows.", "T > 1 or S > 1",
          staged(softmax=_over(-2)),
          link="https://github.com/labmlai/annotated_deep_learning_paper_implementations/issues/146"),
    Fault("softmax_over_heads", Stage.SOFTMAX, "The softmax runs over the heads (dim=1).", "H > 1 or S > 1",
          staged(softmax=_over(1)), link="https://github.com/FudanNLP/fastNLP/issues/254"),
    Fault("softmax_over_batch", Stage.SOFTMAX, "The softmax runs over the batch (dim=0).", "B > 1 or S > 1",
          staged(softmax=_over(0)), link="https://github.com/PetrochukM/PyTorch-NLP/issues/2"),
    Fault("softmax_without_maximum", Stage.SOFTMAX,
          "exp overflows: the maximum of the logits is not subtracted before it.", "logits above 88, or far below zero",
          staged(softmax=_stabilised_by(lambda logits: np.zeros((), logits.dtype)))),
    Fault("softmax_global_maximum", Stage.SOFTMAX,
          "The maximum of the whole tensor is subtracted, so other rows underflow.",
          "rows whose maxima lie 88 apart", staged(softmax=_stabilised_by(_all_maximum))),
    Fault("softmax_mean_for_maximum", Stage.SOFTMAX, "The row's mean is subtracted instead of its maximum.",
          "a logit 88 above the mean of its row", staged(softmax=_stabilised_by(_row_mean))),
    Fault("softmax_first_for_maximum", Stage.SOFTMAX, "The first logit of the row is subtracted.",
          "a logit 88 above the first of its row; where the first is hidden, logits 88 away from zero",
          staged(softmax=_stabilised_by(_first_logit))),
    Fault("softmax_maximum_of_hidden", Stage.SOFTMAX, "The maximum is taken before the mask is applied.",
          "a masked logit 88 above the visible ones", staged(hide=_keep, softmax=_hidden_maximum)),
    Fault("softmax_epsilon_1e6", Stage.SOFTMAX, "1e-6 is added to the denominator against division by zero.",
          "float32 or float64", staged(softmax=_plus(1e-6)), equivalents=_HALVES),
    Fault("softmax_epsilon_1e3", Stage.SOFTMAX, "1e-3 is added to the denominator.",
          "any input; seen best on rows with few visible keys", staged(softmax=_plus(1e-3))),
    Fault("softmax_sink", Stage.SOFTMAX, "The softmax has one more key, with logit 0 (softmax1).",
          "logits not far above zero", staged(softmax=_with_softmax(_sink))),
    Fault("softmax_sink_after_shift", Stage.SOFTMAX, "1 is added to the sum after the maximum was subtracted.",
          "any input", staged(softmax=_plus(1.0))),
    Fault("softmax_not_normalised", Stage.SOFTMAX, "The division by the sum of the exponentials is forgotten.", "S > 1",
          staged(softmax=_with_softmax(sound.exponentials))),
    Fault("softmax_divided_by_count", Stage.SOFTMAX,
          "The exponentials are divided by the number of keys, not by their sum.", "S > 1",
          staged(softmax=_divided_by(lambda grown: np.full_like(grown[..., :1], grown.shape[-1])))),
    Fault("softmax_last_key_not_summed", Stage.SOFTMAX, "The sum of the exponentials leaves out the last key.",
          "a visible last key, S > 1",
          staged(softmax=_divided_by(lambda grown: _sum(grown[..., :-1])))),
    Fault("softmax_approximate_division", Stage.SOFTMAX, "A fast reciprocal without its Newton step, 2e-4 off.",
          "any input", staged(softmax=_divided_by(lambda grown: _sum(grown) * grown.dtype.type(1.0002)))),
    Fault("softmax_sum_in_bfloat16", Stage.SOFTMAX, "The running sum is kept in bfloat16.", "S > 1",
          staged(softmax=_divided_by(lambda grown: running_sum(grown, BFLOAT16)))),
    Fault("softmax_sum_in_float16", Stage.SOFTMAX, "The running sum is kept in float16.",
          "float32 or float64 with S > 1, or long rows",
          staged(softmax=_divided_by(lambda grown: running_sum(grown, FLOAT16)))),
    Fault("softmax_rounded_logsumexp", Stage.SOFTMAX, "exp(x - lse) with lse stored in bfloat16.", "any input",
          staged(softmax=_with_softmax(_rounded_lse))),
    Fault("softmax_base_two", Stage.SOFTMAX, "exp2 is used for exp: the factor log2(e) is forgotten.",
          "logits that differ",
          staged(softmax=_with_softmax(_base_two))),
    Fault("softmax_twice", Stage.SOFTMAX, "The softmax is applied twice.", "S > 1",
          staged(softmax=_with_softmax(_twice))),
    Fault("softmax_sigmoid", Stage.SOFTMAX, "A sigmoid of each logit replaces the softmax.", "any input",
          staged(softmax=_with_softmax(_sigmoid))),
    Fault("softmax_hardmax", Stage.SOFTMAX, "Only the key with the highest logit counts.",
          "S > 1, no logit far above the others",
          staged(softmax=_with_softmax(_hardmax))),
)
