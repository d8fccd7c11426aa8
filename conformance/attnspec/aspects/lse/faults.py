"""Faults of log-sum-exps: parts are forgotten, or base, dtype or order are other ones."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np

from attnspec.core.keyword import Acts
from attnspec.core.keywords import acting_on
from attnspec.faults import staged as sound
from attnspec.faults.fault import BLOCKS, EVEN, GROUPED, QUERIES, RAGGED, SQUARE, AspectFaults, Fault, panel_recipe
from attnspec.faults.staged import around, attention, log_sum_exp, staged
from attnspec.faults.staged_work import Answer, HandedOver, PreparedCall
from attnspec.problems.problem import Array

BLOCK = 16
Lse = Callable[[Array, PreparedCall], Array]


def _with_other_lse(change: Callable[[Array], Array]) -> Lse:
    """An `lse` stage that changes the log-sum-exp (B,H,T)."""
    return lambda logits, _: change(log_sum_exp(logits))


def _form_again(**changes: object) -> Lse:
    """An `lse` stage (B,H,T) that forms the logits a second time, with other keywords."""
    def lse(logits: Array, work: PreparedCall) -> Array:
        """The log-sum-exp (B,H,T) of the call with these keywords."""
        bare = work.but(**changes)
        capped = sound.bend(sound.logits(bare, sound.scale(bare)), bare)
        return log_sum_exp(sound.join(sound.hide(sound.add_bias(capped, bare), bare), bare))
    return lse


def _without_maximum(logits: Array, work: PreparedCall) -> Array:
    """The log-sum-exp (B,H,T), of exponentials as they are."""
    with np.errstate(over="ignore", divide="ignore"):
        return np.log(np.exp(logits).sum(axis=-1))


def _maximum_forgotten(logits: Array, work: PreparedCall) -> Array:
    """The log-sum-exp (B,H,T), less the row's maximum."""
    top = logits.max(axis=-1, initial=-np.inf)
    return log_sum_exp(logits) - np.where(np.isneginf(top), 0, top)


def _of_hidden(number: float) -> Lse:
    """An `lse` stage (B,H,T) with this number in rows that see no key."""
    def change(lse: Array) -> Array:
        """The log-sum-exp (B,H,T), the number for -inf."""
        return np.where(np.isneginf(lse), lse.dtype.type(number), lse)
    return _with_other_lse(change)


def _sum(logits: Array, work: PreparedCall) -> Array:
    """The sum of the exponentials, (B,H,T), without a logarithm."""
    with np.errstate(over="ignore"):
        return np.exp(log_sum_exp(logits))


def _with_lse(change: Callable[[Array], Array]) -> Callable[[HandedOver], Answer]:
    """An attention that changes the log-sum-exp (B,H,T), if it is asked for."""
    def answer(call: HandedOver) -> Answer:
        """Output (B,H,T,Dv), with weights (B,H,T,S) and the log-sum-exp."""
        parts = attention(call)
        return (*parts[:-1], change(parts[-1])) if call.return_lse else parts
    return answer


def _read_time_first(lse: Array) -> Array:
    """The log-sum-exp (B,H,T), read from memory that lies (B,T,H)."""
    B, H, T = lse.shape
    return np.ascontiguousarray(lse.swapaxes(1, 2)).reshape(B, H, T)


def _before_weights(call: HandedOver) -> Answer:
    """The answer, with the log-sum-exp before the weights."""
    parts = attention(call)
    if not (call.return_lse and call.return_weights):
        return parts
    output, weights, lse = parts
    return output, lse, weights


def _leave_undivided(call: HandedOver) -> Answer:
    """The answer, its output not divided by the sum, as of a split kernel before the merge."""
    parts = attention(call)
    if not call.return_lse:
        return parts
    output, *others = parts
    grown = np.exp(np.minimum(others[-1], 80.0))[..., None]
    return ((output * grown).astype(output.dtype), *others)


_ANY = "return_lse"

_FAULTS = (
    Fault("lse_in_base_two", "return_lse", "The kernel's 2^x gives a logarithm to base two.", _ANY,
          staged(lse=_with_other_lse(lambda lse: lse / np.log(2)))),
    Fault("lse_without_maximum", "return_lse", "The exponentials are added up without the maximum taken off.",
          "logits beyond 88", staged(lse=_without_maximum)),
    Fault("lse_maximum_forgotten", "return_lse", "The maximum that was taken off is not added again.", _ANY,
          staged(lse=_maximum_forgotten)),
    Fault("lse_maximum_alone", "return_lse", "The running maximum is returned for the log-sum-exp.",
          "return_lse with S > 1", staged(lse=lambda logits, _: logits.max(axis=-1, initial=-np.inf))),
    Fault("lse_negated", "return_lse", "The log-sum-exp comes back with the opposite sign.", _ANY,
          staged(lse=_with_other_lse(lambda lse: -lse))),
    Fault("lse_without_logarithm", "return_lse", "The sum itself is returned.", _ANY, staged(lse=_sum)),
    Fault("lse_of_mean", "return_lse", "The mean of the exponentials is taken for their sum.", "S > 1",
          staged(lse=lambda logits, work: log_sum_exp(logits) - logits.dtype.type(np.log(work.shape[3])))),
    Fault("lse_of_last_block", "return_lse", "Each block of keys writes its own, and the last one stays.", "S > 16",
          staged(lse=lambda logits, work: log_sum_exp(logits[..., (work.shape[3] - 1) // BLOCK * BLOCK:]))),
    Fault("lse_in_bfloat16", "return_lse", "The log-sum-exp is stored in bfloat16.", _ANY,
          staged(lse=_with_other_lse(lambda lse: lse.astype(ml_dtypes.bfloat16).astype(lse.dtype)))),
    Fault("lse_in_float16", "return_lse", "The log-sum-exp is stored in float16.", _ANY,
          staged(lse=_with_other_lse(lambda lse: lse.astype(np.float16).astype(lse.dtype)))),
    Fault("lse_has_output_dtype", "return_lse", "The log-sum-exp comes back in float16.", _ANY,
          around(_with_lse(lambda lse: lse.astype(np.float16)))),
    Fault("lse_unscaled", "return_lse", "The log-sum-exp is of dot products that were not scaled.",
          "a scale other than 1", staged(lse=_form_again(scale=1.0))),
    Fault("lse_without_bias", "return_lse", "The log-sum-exp is formed before the bias is added.",
          "return_lse together with a bias", staged(lse=_form_again(bias=None))),
    Fault("lse_of_dot_products", "return_lse",
          "The log-sum-exp is of dot products times 1/sqrt(D) alone, whatever scale, cap, bias or sink is given.",
          "return_lse together with what changes logits", staged(lse=_form_again(**acting_on(Acts.LOGITS)))),
    Fault("lse_without_sink", "return_lse", "The sink is left out of the log-sum-exp.",
          "return_lse together with sinks", staged(lse=_form_again(sinks=None))),
    Fault("lse_of_all_keys", "return_lse", "Hidden keys are counted in the log-sum-exp.",
          "return_lse together with hidden keys",
          staged(lse=lambda logits, work: _form_again(visible=np.ones_like(work.visible))(logits, work))),
    Fault("lse_of_hidden_row_nan", "return_lse", "The log-sum-exp of a row that sees no key is NaN.",
          "a row that sees no key", staged(lse=_of_hidden(np.nan))),
    Fault("lse_of_hidden_row_infinite", "return_lse", "The log-sum-exp of a row that sees no key is +inf.",
          "a row that sees no key", staged(lse=_of_hidden(np.inf))),
    Fault("lse_of_hidden_row_zero", "return_lse", "The log-sum-exp of a row that sees no key is 0.",
          "a row that sees no key", staged(lse=_of_hidden(0.0))),
    Fault("lse_of_first_head", "return_lse", "All heads have that of the first.", "return_lse with H > 1",
          around(_with_lse(lambda lse: np.repeat(lse[:, :1], lse.shape[1], axis=1)))),
    Fault("lse_time_first", "return_lse", "The log-sum-exp lies (B,T,H) and is read as (B,H,T).",
          "return_lse with H > 1 and T > 1", around(_with_lse(_read_time_first))),
    Fault("lse_leaves_output_undivided", "return_lse", "With a log-sum-exp, the output is not divided by its sum.",
          _ANY, around(_leave_undivided)),
    Fault("lse_before_weights", "return_lse", "The log-sum-exp is returned before the weights.",
          "return_lse together with return_weights", around(_before_weights)),
)

_PANEL = (
    panel_recipe(SQUARE, "return_lse", seed=105), panel_recipe(RAGGED, "return_lse scale", seed=106),
    panel_recipe(QUERIES, "return_lse causal", seed=107),
    panel_recipe(SQUARE, "return_lse mask", seed=108, mask="padding"),
    panel_recipe(SQUARE, "return_lse mask", seed=109, mask="with_empty_rows"),
    panel_recipe(SQUARE, "return_lse bias", seed=110),
    panel_recipe(GROUPED, "return_lse", seed=111), panel_recipe(BLOCKS, "return_lse", seed=112),
    panel_recipe(EVEN, "return_lse", seed=113), panel_recipe(SQUARE, "return_lse sinks", seed=114),
    panel_recipe(SQUARE, "return_lse return_weights", seed=115),
)

MISTAKES = AspectFaults(about={"return_lse": _FAULTS}, panel=_PANEL)
