"""Segments that are lost, taken from another batch entry, compared wrongly, or heeded in one place only."""

# mypy: no-warn-return-any
# (reason: arithmetic on arrays of any dtype is Any to mypy; the arrays' types are declared all the same)

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from attnspec.faults import serving
from attnspec.faults import staged as sound
from attnspec.faults.fault import Fault, Stage
from attnspec.faults.staged import staged
from attnspec.faults.work import PreparedCall
from attnspec.problems.problem import Array

BLOCK = 4
VisibleKeys = Callable[[PreparedCall], Array]


def everything(work: PreparedCall) -> Array:
    """(T,S): keys of every segment."""
    return np.ones(work.shape[2:], bool)


def compared(by: Callable[[Array, Array], Array]) -> VisibleKeys:
    """An `own_segment` stage that compares queries' segments (B,1,T,1) with keys' (B,1,1,S) in another way."""
    def seen(work: PreparedCall) -> Array:
        """(B,1,T,S)."""
        if work.query_segments is None or work.key_segments is None:
            return everything(work)
        return np.asarray(by(work.query_segments[:, None, :, None], work.key_segments[:, None, None]), bool)
    return seen


def _dropped_if(condition: Callable[[PreparedCall], bool]) -> VisibleKeys:
    return lambda work: everything(work) if condition(work) else serving.own_segment(work)


def _first_head_only(work: PreparedCall) -> Array:
    """(B,H,T,S): segments are heeded in head 0 alone."""
    return serving.own_segment(work) | (np.arange(work.shape[1]) > 0)[:, None, None]


def _not_in_last_row(work: PreparedCall) -> Array:
    """(B,1,T,S): the last query sees every segment."""
    return serving.own_segment(work) | (np.arange(work.shape[2]) == work.shape[2] - 1)[:, None]


def _whole_blocks(work: PreparedCall) -> Array:
    """(B,1,T,S): a block of queries sees what one of its queries sees."""
    seen = np.broadcast_to(serving.own_segment(work), (work.shape[0], 1, *work.shape[2:]))
    first = np.arange(0, work.shape[2], BLOCK)
    return np.repeat(np.logical_or.reduceat(seen, first, axis=2), BLOCK, axis=2)[:, :, :work.shape[2]]


def _added(logits: Array, work: PreparedCall) -> Array:
    """Logits (B,H,T,S) with the bias: -1e4 is added to those of other segments."""
    biased = sound.add_bias(logits, work)
    return np.where(serving.own_segment(work), biased, biased + biased.dtype.type(-1e4))


def _in_the_sum(logits: Array, work: PreparedCall) -> Array:
    """Weights (B,H,T,S): keys of other segments take part in the row's sum, and get no value."""
    return np.where(serving.own_segment(work), sound.softmax(logits, work), 0)


def _restarting(work: PreparedCall) -> Array:
    """(B,1,T,S): under the causal flag, the place of a query counts from the first one of its segment, and that of a
    key from the first key of all.
    """
    if not work.causal or work.query_segments is None:
        return sound.past(work)
    same = work.query_segments[:, :, None] == work.query_segments[:, None]
    own = np.arange(work.shape[2]) - same.argmax(axis=-1)
    return np.arange(work.shape[3]) <= own[:, None, :, None]


_ANY = "two segments and more"

FAULTS = (
    Fault("segments_ignored", Stage.QUERY_SEGMENTS, "The segments are accepted and not applied.", _ANY,
          staged(own_segment=everything), link="https://github.com/AI-Hypercomputer/maxtext/issues/4476"),
    Fault("segments_at_most", Stage.QUERY_SEGMENTS, "The comparison is >= in place of ==: earlier documents are seen.",
          _ANY, staged(own_segment=compared(np.greater_equal))),
    Fault("segments_of_others", Stage.QUERY_SEGMENTS, "The mask is inverted: other segments are seen.", "any segments",
          staged(own_segment=compared(np.not_equal))),
    Fault("segments_zero_is_padding", Stage.QUERY_SEGMENTS, "A segment whose number is 0 is taken for padding.",
          "a segment whose number is 0", staged(own_segment=compared(lambda query, key: (query == key) & (query > 0)))),
    Fault("segments_zero_sees_all", Stage.QUERY_SEGMENTS, "A query whose segment is 0 is taken to have none.",
          "a segment whose number is 0",
          staged(own_segment=compared(lambda query, key: (query == key) | (query == 0)))),
    Fault("segments_compared_as_floats", Stage.QUERY_SEGMENTS, "Numbers of segments are compared in float32.",
          "numbers above 2^24", staged(own_segment=compared(
              lambda query, key: query.astype(np.float32) == key.astype(np.float32)))),
    Fault("segments_lowest_byte", Stage.QUERY_SEGMENTS, "Numbers of segments are compared by their lowest byte.",
          "numbers that differ by 256", staged(own_segment=compared(lambda query, key: query % 256 == key % 256))),
    Fault("segments_first_head_only", Stage.QUERY_SEGMENTS, "The segments are heeded in the first head only.",
          f"{_ANY}, H > 1", staged(own_segment=_first_head_only)),
    Fault("segments_not_in_last_row", Stage.QUERY_SEGMENTS, "The last query is masked by the tile's edge alone.", _ANY,
          staged(own_segment=_not_in_last_row)),
    Fault("segments_whole_blocks", Stage.QUERY_SEGMENTS,
          "Each query of a block of 4 sees the segments of all four.", "a border within a block of queries",
          staged(own_segment=_whole_blocks)),
    Fault("segments_add_1e4", Stage.QUERY_SEGMENTS, "Logits of other segments are lowered by 1e4, not hidden.",
          "logits that differ by 1e4, or a query whose segment has no key",
          staged(own_segment=everything, add_bias=_added)),
    Fault("segments_after_softmax", Stage.QUERY_SEGMENTS, "Weights of other segments become 0 after the softmax.", _ANY,
          staged(own_segment=everything, softmax=_in_the_sum)),
    Fault("segments_zero_times_content", Stage.QUERY_SEGMENTS,
          "Values of other segments are multiplied by a weight of 0, and 0 times NaN is NaN.",
          "NaN or infinity in a value of another segment", staged(mix=lambda weights, work: weights @ work.value)),
    Fault("segments_restart_causal", Stage.QUERY_SEGMENTS,
          "Places of queries restart in each segment, and those of keys do not.", f"{_ANY}, together with causal",
          staged(past=_restarting)),
    Fault("segments_dropped_with_causal", Stage.QUERY_SEGMENTS, "The segments are dropped with the causal flag.",
          f"{_ANY}, together with causal", staged(own_segment=_dropped_if(lambda work: work.causal)),
          link="https://github.com/AI-Hypercomputer/maxtext/issues/4476"),
    Fault("segments_dropped_with_mask", Stage.QUERY_SEGMENTS, "The segments are dropped where there is a mask.",
          f"{_ANY}, together with a mask", staged(own_segment=_dropped_if(lambda work: work.mask is not None))),
    Fault("segments_dropped_with_bias", Stage.QUERY_SEGMENTS, "The segments are dropped where there is a bias.",
          f"{_ANY}, together with a bias", staged(own_segment=_dropped_if(lambda work: work.bias is not None))),
)
