"""Slopes that are lost, taken from elsewhere, or multiplied by another distance."""

# mypy: no-warn-return-any
# (reason: arithmetic on arrays of any dtype is Any to mypy; the arrays' types are declared all the same)

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np

from attnspec.faults import serving
from attnspec.faults import staged as sound
from attnspec.faults.fault import Fault, Stage
from attnspec.faults.staged import staged
from attnspec.faults.work import PreparedCall
from attnspec.problems.problem import Array

Slope = Callable[[Array, PreparedCall], Array]


def _none(logits: Array, work: PreparedCall) -> Array:  # noqa: ARG001  (the stage's signature)
    """Logits (B,H,T,S), without slopes."""
    return logits


def _dropped_if(condition: Callable[[PreparedCall], bool]) -> Slope:
    return lambda logits, work: logits if condition(work) else serving.slope(logits, work)


def _with_slopes(change: Callable[[Array, PreparedCall], Array]) -> Slope:
    """A `slope` stage with other slopes than (H,) or (B,H): (B,H), or (…,H,T,1) in full."""
    def slope(logits: Array, work: PreparedCall) -> Array:
        """Logits (B,H,T,S)."""
        if work.alibi_slopes is None:
            return logits
        every = np.broadcast_to(work.alibi_slopes, work.shape[:2])
        changed = change(every, work)
        full = changed if changed.ndim == 4 else changed[..., None, None]
        return logits - (full * np.abs(serving.ahead(work))).astype(logits.dtype)
    return slope


def _with_distance(distance: Callable[[PreparedCall], Array]) -> Slope:
    """A `slope` stage with another distance (T,S) than that from the query's own place."""
    def slope(logits: Array, work: PreparedCall) -> Array:
        """Logits (B,H,T,S)."""
        if work.alibi_slopes is None:
            return logits
        return logits - (work.alibi_slopes[..., None, None] * distance(work)).astype(logits.dtype)
    return slope


def _with_first_place(place: Callable[[PreparedCall], int]) -> Slope:
    """A `slope` stage with another place of the first query."""
    return _with_distance(lambda work: np.abs(serving.ahead(work.but(start=place(work)))))


def _by_row(slopes: Array, work: PreparedCall) -> Array:
    """(B,1,T,1): row i has the slope of head i."""
    rows = slopes[:, np.arange(work.shape[2]) % slopes.shape[1]]
    return rows[:, None, :, None]


def _of_new_keys(work: PreparedCall) -> Array:
    """(T,S): past keys are at no distance."""
    is_past = np.arange(work.shape[3]) < serving.start(work)
    return np.where(is_past, 0, np.abs(serving.ahead(work)))


def _restarting(work: PreparedCall) -> Array:
    """(T,S): new keys are counted from the place of the first past one, queries behind the past."""
    start = int(serving.start(work))
    keys = np.arange(work.shape[3])
    return np.abs(np.where(keys < start, keys, keys - start) - np.arange(work.shape[2])[:, None] - start)


def _of_query_length(work: PreparedCall) -> Array:
    """(T,S): a bias over the queries alone, which for one query is zero and broadcasts over all keys."""
    distance = np.abs(serving.ahead(work))
    return np.zeros_like(distance) if work.shape[2] == 1 else distance


def _before_cap(logits: Array, work: PreparedCall) -> Array:
    """Logits (B,H,T,S): the slopes' bias is capped together with the products."""
    return sound.bend(serving.slope(logits, work), work)


def _rounded(logits: Array, work: PreparedCall) -> Array:
    """Logits (B,H,T,S): slopes times distances are kept in bfloat16."""
    if work.alibi_slopes is None:
        return logits
    product = work.alibi_slopes[..., None, None] * np.abs(serving.ahead(work))
    return logits - product.astype(ml_dtypes.bfloat16).astype(logits.dtype)


def _scaled(logits: Array, work: PreparedCall) -> Array:
    """Logits (B,H,T,S): the slopes are multiplied by the scale as well."""
    return _with_slopes(lambda slopes, work: slopes * sound.scale(work))(logits, work)


_ANY = "slopes other than 0"
_UNEQUAL = "heads with unequal slopes"
_G = "https://github.com/"

FAULTS = (
    Fault("slopes_ignored", Stage.ALIBI_SLOPES, "The slopes are taken and never used.", _ANY, staged(slope=_none),
          link=f"{_G}lucidrains/x-transformers/issues/298"),
    Fault("slopes_negated", Stage.ALIBI_SLOPES, "The bias grows with the distance.", _ANY,
          staged(slope=_with_slopes(lambda slopes, _: -slopes))),
    Fault("slopes_signed", Stage.ALIBI_SLOPES, "The distance has a sign: keys ahead are raised.",
          "keys ahead of a query, so no causal flag", staged(slope=_with_distance(lambda work: -serving.ahead(work)))),
    Fault("slopes_by_row", Stage.ALIBI_SLOPES, "The slope is read at the index of the row instead of the head.",
          _UNEQUAL, staged(slope=_with_slopes(_by_row))),
    Fault("slopes_by_entry", Stage.ALIBI_SLOPES, "The slope is read at the index of the batch entry.", _UNEQUAL,
          staged(slope=_with_slopes(lambda slopes, _: np.take_along_axis(
              slopes, np.arange(len(slopes))[:, None] % slopes.shape[1], axis=1) * np.ones_like(slopes)))),
    Fault("slopes_of_first_head", Stage.ALIBI_SLOPES, "All heads have the slope of the first.", _UNEQUAL,
          staged(slope=_with_slopes(lambda slopes, _: slopes[:, :1] * np.ones_like(slopes)))),
    Fault("slopes_of_next_head", Stage.ALIBI_SLOPES, "Each head has the slope of the next.", _UNEQUAL,
          staged(slope=_with_slopes(lambda slopes, _: np.roll(slopes, -1, axis=1)))),
    Fault("slopes_reversed", Stage.ALIBI_SLOPES, "The heads have the slopes in reverse.", _UNEQUAL,
          staged(slope=_with_slopes(lambda slopes, _: slopes[:, ::-1])), link=f"{_G}lucidrains/x-transformers/pull/85"),
    Fault("slopes_of_first_entry", Stage.ALIBI_SLOPES, "All batch entries have the slopes of the first.",
          "batch entries with unequal slopes",
          staged(slope=_with_slopes(lambda slopes, _: slopes[:1] * np.ones_like(slopes)))),
    Fault("slopes_zero_is_default", Stage.ALIBI_SLOPES, "A slope of 0 is taken for none, and a usual one is used.",
          "a slope of 0", staged(slope=_with_slopes(lambda slopes, _: np.where(
              slopes == 0, np.exp2(-8 * np.arange(1, slopes.shape[1] + 1) / slopes.shape[1]), slopes)))),
    Fault("slopes_scaled", Stage.ALIBI_SLOPES, "The slopes are multiplied by the scale, as the dot products are.",
          "a scale other than 1", staged(slope=_scaled)),
    Fault("slopes_in_base_two", Stage.ALIBI_SLOPES, "The exponential is 2^x, and the bias is not times log2(e).",
          _ANY, staged(slope=_with_slopes(lambda slopes, _: slopes * np.log(2)))),
    Fault("slopes_before_cap", Stage.ALIBI_SLOPES, "The cap of the logits bends the bias, too.",
          "slopes beside a cap",
          staged(bend=_before_cap, slope=_dropped_if(lambda _: True))),
    Fault("slopes_of_the_root", Stage.ALIBI_SLOPES, "The root of the distance is taken, as another kind of bias does.",
          "distances above 1", staged(slope=_with_distance(lambda work: np.sqrt(np.abs(serving.ahead(work)))))),
    Fault("slopes_kept_in_bfloat16", Stage.ALIBI_SLOPES, "Slopes times distances are kept in bfloat16.",
          "products that bfloat16 does not hold", staged(slope=_rounded)),
    Fault("slopes_from_the_end", Stage.ALIBI_SLOPES, "The last query stands at the last key.", "T other than S",
          staged(slope=_with_first_place(lambda work: work.shape[3] - work.shape[2]))),
    Fault("slopes_without_past", Stage.ALIBI_SLOPES, "The distance counts from the first key, past or not.",
          "slopes together with a past", staged(slope=_with_first_place(lambda _: 0))),
    Fault("slopes_of_new_keys", Stage.ALIBI_SLOPES, "The bias is built for the new keys only.",
          "slopes together with a past", staged(slope=_with_distance(_of_new_keys))),
    Fault("slopes_restart_behind_past", Stage.ALIBI_SLOPES, "The places of new keys begin at 0 again.",
          "slopes together with a past", staged(slope=_with_distance(_restarting))),
    Fault("slopes_zero_for_one_query", Stage.ALIBI_SLOPES,
          "The bias is as long as the queries, and broadcasts: zero at each decoding step.", "slopes with T = 1",
          staged(slope=_with_distance(_of_query_length))),
    Fault("slopes_dropped_with_bias", Stage.ALIBI_SLOPES, "A bias takes the place of the slopes.",
          "slopes together with a bias", staged(slope=_dropped_if(lambda work: work.bias is not None))),
    Fault("slopes_dropped_with_causal", Stage.ALIBI_SLOPES, "The slopes are dropped where the causal flag is set.",
          "slopes together with causal", staged(slope=_dropped_if(lambda work: work.causal))),
    Fault("slopes_dropped_with_mask", Stage.ALIBI_SLOPES, "The slopes are dropped where there is a mask.",
          "slopes together with a mask", staged(slope=_dropped_if(lambda work: work.mask is not None))),
)
