"""Correct packed attentions that compute in different ways."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from attnspec.core.keywords import FROM_PLACE
from attnspec.faults import staged as stage
from attnspec.faults.packed import taken, together
from attnspec.faults.staged import Attend
from attnspec.faults.work import Answer, HandedOver
from attnspec.problems.problem import Array


def by_sequence(answer: Callable[[HandedOver], Answer]) -> Callable[[], Attend]:
    """A maker of packed functions that answer each sequence alone."""
    def attend(query: Array, key: Array, value: Array, **keywords: Any) -> Answer:  # noqa: ANN401  (a call's)
        """Query (Nq,H,D), key (Nk,Hkv,D), value (Nk,Hkv,Dv), borders (B+1,) -> output (Nq,H,Dv)."""
        return together(taken(query, key, value, keywords), lambda call: call.spans,
                        lambda call, spans: answer(call.of(spans)))
    return lambda: attend


def with_block_mask() -> Attend:
    """A packed function that answers all sequences in one call, under a mask of blocks; what counts from a query's own
    place counts from the beginning of its sequence.
    """
    def attend(query: Array, key: Array, value: Array, **keywords: Any) -> Answer:  # noqa: ANN401  (a call's)
        """Query (Nq,H,D), key (Nk,Hkv,D), value (Nk,Hkv,Dv), borders (B+1,) -> output (Nq,H,Dv)."""
        call = taken(query, key, value, keywords)
        (of_query, place), (of_key, other) = map(_places, (call.cu_query, call.cu_key))
        ahead = other - place[:, None]
        whole = HandedOver(*(array.swapaxes(0, 1)[None] for array in (query, key, value)), **call.keywords)
        work = stage.take(whole).but(start=np.arange(len(key)) - np.arange(len(query))[:, None] - ahead)
        visible = (of_query[:, None] == of_key) & stage.past(work) & stage.near(work)
        slopes = call.keywords.get("alibi_slopes")
        bias = None if slopes is None else _sloped(slopes, ahead, of_query, query.dtype)
        found = stage.attention(whole.but(**{**dict.fromkeys(FROM_PLACE), "causal": False, "alibi_slopes": None,
                                             "mask": visible[None, None], "bias": bias}))
        each = tuple(part[0].swapaxes(0, 1) for part in (found if isinstance(found, tuple) else (found,)))
        return each if isinstance(found, tuple) else each[0]
    return attend


def _places(borders: Array) -> tuple[Array, Array]:
    """(N,) twice: the sequence of each token, and its place there."""
    lengths = np.diff(borders)
    return np.repeat(np.arange(len(lengths)), lengths), np.arange(borders[-1]) - np.repeat(borders[:-1], lengths)


def _sloped(slopes: Array, ahead: Array, of_query: Array, dtype: np.dtype[Any]) -> Array:
    """(1,H,Nq,Nk): what slopes (H,) or (B,H) stand for, in the dtype of the computation."""
    wide = np.float64 if dtype == np.float64 else np.float32
    own = slopes.T[:, of_query] if slopes.ndim == 2 else np.broadcast_to(slopes[:, None], (len(slopes), len(of_query)))
    return np.asarray(np.negative(own[None, :, :, None].astype(wide)) * np.abs(ahead), wide)
