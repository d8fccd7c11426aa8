"""Faults of slopes: lost, taken from elsewhere, or multiplied by another distance."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from attnspec.core.keywords import KeywordArguments
from attnspec.faults import staged as sound
from attnspec.faults.fault import GROUPED, ONE, QUERIES, SQUARE, AspectFaults, Fault, panel_recipe
from attnspec.faults.lost_keywords import LostKeyword, forget
from attnspec.faults.staged import staged
from attnspec.faults.staged_work import AspectStage, PreparedCall
from attnspec.problems.problem import Array

Lower = Callable[[Array, PreparedCall], Array]


class SlopesStage(AspectStage):
    """Slopes as attention computes them."""

    def added_logits(self, call: KeywordArguments[Array], ahead: Array, dtype: np.dtype[Any]) -> Array | None:
        """Each head's slope times the distance from the query's place, (B,H,T,S), below zero."""
        if call.alibi_slopes is None:
            return None
        return -(call.alibi_slopes.astype(dtype)[..., None, None] * np.abs(ahead).astype(dtype))


STAGE = SlopesStage()


def _with_slopes(change: Callable[[Array, PreparedCall], Array]) -> Lower:
    """An `add_by_place` stage with other slopes: (B,H), or (…,H,T,1) in full."""
    def lower(logits: Array, work: PreparedCall) -> Array:
        """Logits (B,H,T,S)."""
        if work.alibi_slopes is None:
            return logits
        slopes = change(np.broadcast_to(work.alibi_slopes, work.shape[:2]), work)
        full = slopes if slopes.ndim == 4 else slopes[..., None, None]
        return logits - (full * np.abs(sound.ahead(work))).astype(logits.dtype)
    return lower


def _with_distance(distance: Callable[[PreparedCall], Array]) -> Lower:
    """An `add_by_place` stage with another distance (T,S)."""
    def lower(logits: Array, work: PreparedCall) -> Array:
        """Logits (B,H,T,S)."""
        if work.alibi_slopes is None:
            return logits
        return logits - (work.alibi_slopes[..., None, None] * distance(work)).astype(logits.dtype)
    return lower


def _with_first_place(place: Callable[[PreparedCall], int]) -> Lower:
    """An `add_by_place` stage with another place of the first query."""
    return _with_distance(lambda work: np.abs(sound.ahead(work.but(start=place(work)))))


def _by_row(slopes: Array, work: PreparedCall) -> Array:
    """The slopes (B,1,T,1), by which row i has the slope of head i."""
    rows = slopes[:, np.arange(work.shape[2]) % slopes.shape[1]]
    return rows[:, None, :, None]


def _by_entry(slopes: Array, work: PreparedCall) -> Array:
    """The slopes (B,H), by which all heads of batch entry b have the slope of head b."""
    entries = np.arange(len(slopes))[:, None] % slopes.shape[1]
    return np.take_along_axis(slopes, entries, axis=1) * np.ones_like(slopes)


def _default_at_zero(slopes: Array, work: PreparedCall) -> Array:
    """The slopes (B,H), usual ones in place of 0."""
    H = slopes.shape[1]
    return np.where(slopes == 0, np.exp2(-8 * np.arange(1, H + 1) / H), slopes)


def _of_new_keys(work: PreparedCall) -> Array:
    """The distance (T,S), 0 for past keys."""
    is_past = np.arange(work.shape[3]) < sound.start(work)
    return np.where(is_past, 0, np.abs(sound.ahead(work)))


def _restarting(work: PreparedCall) -> Array:
    """The distance (T,S), with new keys counted from the first past one's place."""
    start = int(sound.start(work))
    keys = np.arange(work.shape[3])
    return np.abs(np.where(keys < start, keys, keys - start) - np.arange(work.shape[2])[:, None] - start)


def _of_query_length(work: PreparedCall) -> Array:
    """The distance (T,S), 0 for a single query, as a bias over queries is that broadcasts."""
    distance = np.abs(sound.ahead(work))
    return np.zeros_like(distance) if work.shape[2] == 1 else distance


def _round_products(logits: Array, work: PreparedCall) -> Array:
    """Logits (B,H,T,S), less slopes times distances in bfloat16."""
    if work.alibi_slopes is None:
        return logits
    product = work.alibi_slopes[..., None, None] * np.abs(sound.ahead(work))
    return logits - product.astype(ml_dtypes.bfloat16).astype(logits.dtype)


_ANY = "slopes other than 0"
_UNEQUAL = "heads with unequal slopes"

_LOST = LostKeyword("slopes", "The slopes are", "slopes", ("alibi_slopes",))

_FAULTS = (
    Fault("slopes_ignored", "alibi_slopes", "The slopes are taken and never used.", _ANY, forget("alibi_slopes")),
    Fault("slopes_negated", "alibi_slopes", "The bias grows with the distance.", _ANY,
          staged(add_by_place=_with_slopes(lambda slopes, _: -slopes))),
    Fault("slopes_signed", "alibi_slopes", "The distance has a sign: keys ahead are raised.",
          "keys ahead of a query, so no causal flag",
          staged(add_by_place=_with_distance(lambda work: -sound.ahead(work)))),
    Fault("slopes_by_row", "alibi_slopes", "The slope is read at the index of the row instead of the head.",
          _UNEQUAL, staged(add_by_place=_with_slopes(_by_row))),
    Fault("slopes_by_entry", "alibi_slopes", "The slope is read at the index of the batch entry.",
          _UNEQUAL, staged(add_by_place=_with_slopes(_by_entry))),
    Fault("slopes_of_first_head", "alibi_slopes", "All heads have the slope of the first.", _UNEQUAL,
          staged(add_by_place=_with_slopes(lambda slopes, _: slopes[:, :1] * np.ones_like(slopes)))),
    Fault("slopes_of_next_head", "alibi_slopes", "Each head has the slope of the next.", _UNEQUAL,
          staged(add_by_place=_with_slopes(lambda slopes, _: np.roll(slopes, -1, axis=1)))),
    Fault("slopes_reversed", "alibi_slopes", "The heads have the slopes in reverse.", _UNEQUAL,
          staged(add_by_place=_with_slopes(lambda slopes, _: slopes[:, ::-1]))),
    Fault("slopes_of_first_entry", "alibi_slopes",
          "All batch entries have the slopes of the first.", "batch entries with unequal slopes",
          staged(add_by_place=_with_slopes(lambda slopes, _: slopes[:1] * np.ones_like(slopes)))),
    Fault("slopes_zero_is_default", "alibi_slopes", "A slope of 0 is taken for none, and a usual one is used.",
          "a slope of 0", staged(add_by_place=_with_slopes(_default_at_zero))),
    Fault("slopes_scaled", "alibi_slopes", "The slopes are multiplied by the scale, as the dot products are.",
          "a scale other than 1", staged(add_by_place=_with_slopes(lambda slopes, work: slopes * sound.scale(work)))),
    Fault("slopes_in_base_two", "alibi_slopes", "The exponential is 2^x, and the bias is not times log2(e).",
          _ANY, staged(add_by_place=_with_slopes(lambda slopes, _: slopes * np.log(2)))),
    Fault("slopes_before_cap", "alibi_slopes", "The cap of the logits bends the bias, too.", "slopes beside a cap",
          staged(bend=lambda logits, work: sound.bend(sound.add_by_place(logits, work), work),
                 add_by_place=lambda logits, _: logits)),
    Fault("slopes_of_the_root", "alibi_slopes", "The root of the distance is taken, as another kind of bias does.",
          "distances above 1", staged(add_by_place=_with_distance(lambda work: np.sqrt(np.abs(sound.ahead(work)))))),
    Fault("slopes_kept_in_bfloat16", "alibi_slopes", "Slopes times distances are kept in bfloat16.",
          "products that bfloat16 does not hold", staged(add_by_place=_round_products)),
    Fault("slopes_from_the_end", "alibi_slopes", "The last query stands at the last key.", "T other than S",
          staged(add_by_place=_with_first_place(lambda work: work.shape[3] - work.shape[2]))),
    Fault("slopes_without_past", "alibi_slopes", "The distance counts from the first key, past or not.",
          "slopes together with a past", staged(add_by_place=_with_first_place(lambda _: 0))),
    Fault("slopes_of_new_keys", "alibi_slopes", "The bias is built for the new keys only.",
          "slopes together with a past", staged(add_by_place=_with_distance(_of_new_keys))),
    Fault("slopes_restart_behind_past", "alibi_slopes", "The places of new keys begin at 0 again.",
          "slopes together with a past", staged(add_by_place=_with_distance(_restarting))),
    Fault("slopes_zero_for_one_query", "alibi_slopes",
          "The bias is as long as the queries, and broadcasts: zero at each decoding step.",
          "slopes with T = 1", staged(add_by_place=_with_distance(_of_query_length))),
    *_LOST.dropped("with_bias", "with_causal", "with_mask"),
)

_PANEL = (
    panel_recipe(SQUARE, "alibi_slopes", seed=98),
    panel_recipe(GROUPED, "alibi_slopes", seed=99, alibi_slopes="of_entries"),
    panel_recipe(QUERIES, "alibi_slopes causal", seed=100, alibi_slopes="powers"),
    panel_recipe(SQUARE, "alibi_slopes mask", seed=101), panel_recipe(SQUARE, "alibi_slopes bias", seed=102),
    panel_recipe(ONE, "alibi_slopes", seed=103), panel_recipe(SQUARE, "past_key past_value alibi_slopes", seed=104),
)

MISTAKES = AspectFaults(about={"alibi_slopes": _FAULTS}, panel=_PANEL)
