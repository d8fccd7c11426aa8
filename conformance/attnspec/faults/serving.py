"""The stages of a staged attention that are about what servers ask for; each sound, and as it is without."""

# mypy: no-warn-return-any
# (reason: arithmetic on arrays of any dtype is Any to mypy; the arrays' types are declared all the same)

from __future__ import annotations

import numpy as np

from attnspec.faults import aspect_stage
from attnspec.faults.log_sum import with_column
from attnspec.faults.work import HandedOver, PreparedCall
from attnspec.problems.problem import Array


def extend(call: HandedOver) -> HandedOver:
    """The call with past keys and values before the new ones; the past is handed on for its length."""
    if call.past_key is None or call.past_value is None:
        return call
    pairs = {"key": (call.past_key, call.key), "value": (call.past_value, call.value)}
    return call.but(**{name: np.concatenate(pair, axis=2) for name, pair in pairs.items()})


def start(work: PreparedCall) -> Array | int:
    """The place of the first query: behind the past."""
    return 0 if work.past_key is None else work.past_key.shape[2]


def ahead(work: PreparedCall) -> Array:
    """(T,S), or (B,1,T,S): how far each key lies ahead of the query's own place."""
    _, _, T, S = work.shape
    return np.arange(S) - np.arange(T)[:, None] - work.start


def add_by_place(logits: Array, work: PreparedCall) -> Array:
    """Logits (B,H,T,S) with what aspects add to them by the places of query and key."""
    added = aspect_stage.added_logits(work, ahead(work), logits.dtype)
    return logits if added is None else logits + added


def own_keys(work: PreparedCall) -> Array:
    """The keys that a query may see wherever it stands, (S,), (B,1,1,S) or (B,1,T,S)."""
    return aspect_stage.own_keys(work, work.shape[3])


def join(logits: Array, work: PreparedCall) -> Array:
    """Logits (B,H,T,S+1): that of each head's extra key stands behind the others. As they are where there is none."""
    extra = aspect_stage.extra_logit(work)
    return logits if extra is None else with_column(logits, extra)


def find_empty_rows(work: PreparedCall) -> Array:
    """bool, (B,H,T,1) or what broadcasts to it: the rows that see no key, and no extra one."""
    is_empty = np.logical_not(np.any(work.visible, axis=-1, keepdims=True))
    return np.asarray(is_empty & (aspect_stage.extra_logit(work) is None))


def clear(output: Array, work: PreparedCall) -> Array:
    """The output (B,H,T,Dv), with zeros beyond the number of queries of each batch entry."""
    own = aspect_stage.own_queries(work, work.shape[2])
    return output if own is None else np.where(own, output, 0)
