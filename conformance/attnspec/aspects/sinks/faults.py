"""Faults of sinks: lost, taken from another head, weighed wrongly, or heeded on one path only."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np

from attnspec.core.keywords import KeywordArguments
from attnspec.faults import staged as sound
from attnspec.faults.fault import BLOCKS, GROUPED, ONE, QUERIES, RAGGED, SQUARE, AspectFaults, Fault, panel_recipe
from attnspec.faults.lost_keywords import WITH_PLACED, LostKeyword, forget
from attnspec.faults.staged import staged
from attnspec.faults.staged_work import AspectStage, PreparedCall
from attnspec.problems.problem import Array

BLOCK = 16
Join = Callable[[Array, PreparedCall], Array]


class SinksStage(AspectStage):
    """Sinks as attention computes them."""

    def extra_logit(self, call: KeywordArguments[Array]) -> Array | None:
        """The sinks, (H,); None without any."""
        return call.sinks


STAGE = SinksStage()


def _with_sinks(change: Callable[[Array, PreparedCall], Array]) -> Join:
    """A `join` stage with other sinks: (H,), or (B,H,T,1) in full."""
    def join(logits: Array, work: PreparedCall) -> Array:
        """Logits (B,H,T,S+1)."""
        if work.sinks is None:
            return logits
        sinks = change(work.sinks, work)
        column = np.broadcast_to(sinks if sinks.ndim == 4 else sinks[:, None, None], (*logits.shape[:3], 1))
        return np.concatenate([logits, column], axis=-1, dtype=logits.dtype)
    return join


def _once_a_block(logits: Array, work: PreparedCall) -> Array:
    """Logits (B,H,T,S+n), with the sink once for each block of keys."""
    joined = sound.join(logits, work)
    if work.sinks is None:
        return joined
    return np.concatenate([joined, *[joined[..., -1:]] * (-(-work.shape[3] // BLOCK) - 1)], axis=-1)


def _by_entry(sinks: Array, work: PreparedCall) -> Array:
    """The sinks (B,1,1,1), by which batch entry b has the sink of head b."""
    return sinks[np.arange(work.shape[0]) % len(sinks)][:, None, None, None]


def _by_row(sinks: Array, work: PreparedCall) -> Array:
    """The sinks (1,1,T,1), by which row i has the sink of head i."""
    rows = sinks[np.arange(work.shape[2]) % len(sinks)]
    return rows[None, None, :, None]


def _add_unshifted_sink(logits: Array, work: PreparedCall) -> Array:
    """Weights (B,H,T,S+1), the sink's exponential added without the maximum taken off."""
    if work.sinks is None:
        return sound.softmax(logits, work)
    grown = sound.exponentials(logits[..., :-1])
    return grown / (grown.sum(axis=-1, keepdims=True) + np.exp(logits[..., -1:]))


def _maximum_only(logits: Array, work: PreparedCall) -> Array:
    """Weights (B,H,T,S+1), with the sink in the maximum and not in the sum."""
    grown = sound.exponentials(logits)
    return sound.normalise(grown[..., :work.shape[3]])


def _after_division(logits: Array, work: PreparedCall) -> Array:
    """Weights (B,H,T,S+1) that sum to one, and are then multiplied by 1 - sigmoid(sink)."""
    if work.sinks is None:
        return sound.softmax(logits, work)
    return sound.softmax(logits[..., :-1], work) / (1 + np.exp(logits[..., -1:]))


def _with_value(weights: Array, work: PreparedCall) -> Array:
    """Weights (B,H,T,S), with the sink's share on the first key."""
    if work.sinks is None:
        return weights
    share = 1 - weights.sum(axis=-1, keepdims=True)
    return weights + np.where(np.arange(work.shape[3]) == 0, share, 0).astype(weights.dtype)


def _nan_without_keys(output: Array, work: PreparedCall) -> Array:
    """The output (B,H,T,Dv), NaN in a row with a sink that sees no key."""
    empty = ~work.visible.any(axis=-1, keepdims=True)
    return np.where(empty & (work.sinks is not None), np.nan, output)


def _infinite(logits: Array, work: PreparedCall) -> Array:
    """Logits (B,H,T,S+1), NaN if a sink is -inf."""
    joined = sound.join(logits, work)
    return joined if work.sinks is None else np.where(np.isneginf(work.sinks).any(), np.nan, joined)


_ANY = "sinks of the size of the logits"
_UNEQUAL = "heads with unequal sinks"

_LOST = LostKeyword("sinks", "The sinks are", "sinks")

_FAULTS = (
    Fault("sinks_ignored", "sinks", "The flag that turns sinks on is wired to False.", _ANY, forget("sinks")),
    *_LOST.dropped("for_one_query"),
    Fault("sinks_for_one_query_only", "sinks", "Only the decoding path (T = 1) has sinks.",
          "sinks with T > 1", forget("sinks", where=lambda call: call.query.shape[2] > 1)),
    Fault("sinks_by_row", "sinks", "The sink is read at the index of the row instead of the head.",
          _UNEQUAL, staged(join=_with_sinks(_by_row))),
    Fault("sinks_by_entry", "sinks", "The sink is read at the index of the batch entry instead of the head.", _UNEQUAL,
          staged(join=_with_sinks(_by_entry))),
    Fault("sinks_of_first_head", "sinks", "All heads have the sink of the first.", _UNEQUAL,
          staged(join=_with_sinks(lambda sinks, _: np.full_like(sinks, sinks[0])))),
    Fault("sinks_of_next_head", "sinks", "Each head has the sink of the next.", _UNEQUAL,
          staged(join=_with_sinks(lambda sinks, _: np.roll(sinks, -1)))),
    Fault("sinks_scaled", "sinks", "The sinks are multiplied by the scale, as the dot products are.",
          "sinks other than 0, a scale other than 1",
          staged(join=_with_sinks(lambda sinks, work: sinks * sound.scale(work)))),
    Fault("sinks_in_base_two", "sinks", "The exponential is 2^x, and the sinks are not multiplied by log2(e).",
          "sinks other than 0", staged(join=_with_sinks(lambda sinks, _: sinks * np.log(2)))),
    Fault("sinks_negated", "sinks", "The sinks are taken with the opposite sign.",
          "sinks other than 0", staged(join=_with_sinks(lambda sinks, _: -sinks))),
    Fault("sinks_exponentiated", "sinks", "The sinks are taken for exponentials, not for logits.", _ANY,
          staged(join=_with_sinks(lambda sinks, _: np.log(np.maximum(np.abs(sinks), 1e-30))))),
    Fault("sinks_clipped", "sinks", "The sinks are clipped to ±10, that their exponential does not overflow.",
          "sinks beyond 10, logits of that size", staged(join=_with_sinks(lambda sinks, _: np.clip(sinks, -10, 10)))),
    Fault("sinks_in_bfloat16", "sinks", "The sinks are kept in bfloat16.", "sinks that bfloat16 does not hold",
          staged(join=_with_sinks(lambda sinks, _: sinks.astype(ml_dtypes.bfloat16).astype(sinks.dtype)))),
    Fault("sinks_not_shifted", "sinks", "The row's maximum is not taken off the sink.",
          "logits whose maximum is not 0", staged(softmax=_add_unshifted_sink)),
    Fault("sinks_in_maximum_only", "sinks", "The sink takes part in the maximum, and not in the sum.", _ANY,
          staged(softmax=_maximum_only)),
    Fault("sinks_after_division", "sinks", "The weights are normalised, then multiplied by 1 - sigmoid(s).", _ANY,
          staged(softmax=_after_division)),
    Fault("sinks_once_a_block", "sinks", "Each of several blocks of keys adds the sink to its own sum.",
          "sinks with S > 16", staged(join=_once_a_block)),
    Fault("sinks_have_the_first_value", "sinks", "The sink's share goes to the first key.", _ANY,
          staged(weigh=_with_value)),
    Fault("sinks_without_keys_nan", "sinks", "A row with a sink and no key is 0/0.",
          "sinks, and a row that sees no key", staged(finish=_nan_without_keys)),
    Fault("sinks_minus_infinity_nan", "sinks", "A sink of -inf is -inf less -inf.",
          "a sink of -inf", staged(join=_infinite)),
    *_LOST.dropped("with_mask", *WITH_PLACED),
)

_PANEL = (
    panel_recipe(SQUARE, "sinks", seed=80), panel_recipe(GROUPED, "sinks causal", seed=81, sinks="rising"),
    panel_recipe(QUERIES, "sinks mask", seed=82, sinks="normal"), panel_recipe(ONE, "sinks", seed=83),
    panel_recipe(RAGGED, "sinks key_lengths", seed=84),
    panel_recipe(BLOCKS, "sinks", seed=86),
)

MISTAKES = AspectFaults(about={"sinks": _FAULTS}, panel=_PANEL)
