"""Faults of segments: lost, of another batch entry, compared wrongly, or heeded in part."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from attnspec.core.keywords import KeywordArguments
from attnspec.faults import staged as sound
from attnspec.faults.fault import BLOCKS, GROUPED, RAGGED, SQUARE, AspectFaults, Fault, Outside, panel_recipe
from attnspec.faults.lost_keywords import LostKeyword, forget, heed_in_first
from attnspec.faults.staged import Attend, staged
from attnspec.faults.staged_work import AspectStage, PreparedCall
from attnspec.problems.problem import Array


class SegmentsStage(AspectStage):
    """Segments as attention computes them."""

    def own_keys(self, call: KeywordArguments[Array], keys: int) -> Array | None:  # noqa: ARG002  (the hook's signature)
        """The keys of each query's own segment, (B,1,T,S); None without segments."""
        if call.query_segments is None or call.key_segments is None:
            return None
        return np.equal(call.query_segments[:, None, :, None], call.key_segments[:, None, None])


STAGE = SegmentsStage()

BLOCK = 4
OwnKeys = Callable[[PreparedCall], Array]


def _everything(work: PreparedCall) -> Array:
    """The keys of every segment, (T,S)."""
    return np.ones(work.shape[2:], bool)


def _own_segment(work: PreparedCall) -> Array:
    """The keys of each query's own segment, (B,1,T,S); without segments all, (T,S)."""
    own = STAGE.own_keys(work, work.shape[3])
    return _everything(work) if own is None else own


def _with_segment_keys(keys: OwnKeys, **more: Any) -> Callable[[], Attend]:  # noqa: ANN401  (as `staged`)
    """A maker of attention functions to which other keys are of a query's segment, (T,S) and more
    axes.

    What further aspects hide stays hidden.
    """
    def own_keys(work: PreparedCall) -> Array:
        """The keys that queries may see, broadcast to (B,H,T,S)."""
        return keys(work) & sound.own_keys(work.but(query_segments=None, key_segments=None))
    return staged(own_keys=own_keys, **more)


def _compare_by(compare: Callable[[Array, Array], Array]) -> OwnKeys:
    """The keys of a query's segment, (B,1,T,S), by another comparison of the numbers."""
    def keys(work: PreparedCall) -> Array:
        """The keys of each query's segment, (B,1,T,S)."""
        if work.query_segments is None or work.key_segments is None:
            return _everything(work)
        return np.asarray(compare(work.query_segments[:, None, :, None], work.key_segments[:, None, None]), bool)
    return keys


def _not_in_last_row(work: PreparedCall) -> Array:
    """The keys of each query's own segment, (B,1,T,S), all keys for the last query."""
    return _own_segment(work) | (np.arange(work.shape[2]) == work.shape[2] - 1)[:, None]


def _whole_blocks(work: PreparedCall) -> Array:
    """The keys, (B,1,T,S), that any query of a block of queries sees."""
    seen = np.broadcast_to(_own_segment(work), (work.shape[0], 1, *work.shape[2:]))
    first = np.arange(0, work.shape[2], BLOCK)
    return np.repeat(np.logical_or.reduceat(seen, first, axis=2), BLOCK, axis=2)[:, :, :work.shape[2]]


def _add_penalty_outside(logits: Array, work: PreparedCall) -> Array:
    """Logits (B,H,T,S) plus the bias, lowered by 1e4 in other segments."""
    biased = sound.add_bias(logits, work)
    return np.where(_own_segment(work), biased, biased + biased.dtype.type(-1e4))


def _restarting(work: PreparedCall) -> Array:
    """The keys that the causal flag allows, (B,1,T,S), with queries counted in their segments.

    Keys are counted from the first key of all.
    """
    if not work.causal or work.query_segments is None:
        return sound.past(work)
    same = work.query_segments[:, :, None] == work.query_segments[:, None]
    own = np.arange(work.shape[2]) - same.argmax(axis=-1)
    return np.arange(work.shape[3]) <= own[:, None, :, None]


def _with_segments(change: Callable[[Array, PreparedCall], Array]) -> OwnKeys:
    """The keys of a query's segment, (B,1,T,S), by other segments of the keys (B,S)."""
    def keys(work: PreparedCall) -> Array:
        """The keys of each query's segment, (B,1,T,S)."""
        if work.key_segments is None:
            return _everything(work)
        return _own_segment(work.but(key_segments=change(work.key_segments, work)))
    return keys


def _of_queries(segments: Array, work: PreparedCall) -> Array:
    """The segments (B,S) of the queries, as far as they reach, then the last one's."""
    assert work.query_segments is not None
    return work.query_segments[:, np.minimum(np.arange(segments.shape[1]), work.shape[2] - 1)]


_ANY = "two segments and more"

_SEGMENTS = ("query_segments", "key_segments")
_LOST = LostKeyword("segments", "The segments are", f"{_ANY},", _SEGMENTS)

_OF_QUERIES = (
    Fault("segments_ignored", "query_segments", "The segments are accepted and not applied.", _ANY,
          forget(*_SEGMENTS), link="https://github.com/AI-Hypercomputer/maxtext/issues/4476"),
    Fault("segments_at_most", "query_segments", "The comparison is >= in place of ==: earlier documents are seen.",
          _ANY, _with_segment_keys(_compare_by(np.greater_equal))),
    Fault("segments_of_others", "query_segments", "The mask is inverted: other segments are seen.",
          "any segments", _with_segment_keys(_compare_by(np.not_equal))),
    Fault("segments_zero_is_padding", "query_segments",
          "A segment whose number is 0 is taken for padding.", "a segment whose number is 0",
          _with_segment_keys(_compare_by(lambda query, key: (query == key) & (query > 0)))),
    Fault("segments_zero_sees_all", "query_segments",
          "A query whose segment is 0 is taken to have none.", "a segment whose number is 0",
          _with_segment_keys(_compare_by(lambda query, key: (query == key) | (query == 0)))),
    Fault("segments_compared_as_floats", "query_segments", "Numbers of segments are compared in float32.",
          "numbers above 2^24", _with_segment_keys(_compare_by(
              lambda query, key: query.astype(np.float32) == key.astype(np.float32)))),
    Fault("segments_lowest_byte", "query_segments", "Numbers of segments are compared by their lowest byte.",
          "numbers that differ by 256", _with_segment_keys(_compare_by(lambda query, key: query % 256 == key % 256))),
    Fault("segments_first_head_only", "query_segments", "The segments are heeded in the first head only.",
          f"{_ANY}, H > 1", heed_in_first(1, *_SEGMENTS)),
    Fault("segments_not_in_last_row", "query_segments", "The last query is masked by the tile's edge alone.", _ANY,
          _with_segment_keys(_not_in_last_row)),
    Fault("segments_whole_blocks", "query_segments", "Each query of a block of 4 sees the segments of all four.",
          "a border within a block of queries", _with_segment_keys(_whole_blocks)),
    Fault("segments_add_1e4", "query_segments", "Logits of other segments are lowered by 1e4, not hidden.",
          "logits that differ by 1e4, or a query whose segment has no key",
          _with_segment_keys(_everything, add_bias=_add_penalty_outside)),
    Fault("segments_after_softmax", "query_segments", "Weights of other segments become 0 after the softmax.", _ANY,
          _with_segment_keys(_everything, softmax=lambda logits, work: np.where(
              _own_segment(work), sound.softmax(logits, work), 0))),
    Fault("segments_zero_times_content", "query_segments",
          "Values of other segments are multiplied by a weight of 0, and 0 times NaN is NaN.",
          "NaN or infinity in a value of another segment", staged(mix=lambda weights, work: weights @ work.value)),
    Fault("segments_restart_causal", "query_segments",
          "Places of queries restart in each segment, and those of keys do not.",
          f"{_ANY}, together with causal", staged(past=_restarting)),
    *_LOST.dropped("with_causal", "with_mask", "with_bias"),
)

_OF_KEYS = (
    Fault("key_segments_late", "key_segments", "Borders are those of the shifted tokens of a language model.", _ANY,
          _with_segment_keys(_with_segments(
              lambda segments, _: np.concatenate([segments[:, :1], segments[:, :-1]], axis=1)))),
    Fault("key_segments_early", "key_segments", "The last key of each segment is counted to the next.", _ANY,
          _with_segment_keys(_with_segments(
              lambda segments, _: np.concatenate([segments[:, 1:], segments[:, -1:]], axis=1)))),
    Fault("key_segments_of_queries", "key_segments", "One array of segments serves queries and keys.",
          "keys whose segments are not those of the queries", _with_segment_keys(_with_segments(_of_queries))),
    Fault("key_segments_of_next_entry", "key_segments", "Each batch entry has the segments of the next one's keys.",
          "B > 1", _with_segment_keys(_with_segments(lambda segments, _: np.roll(segments, -1, axis=0)))),
    Fault("key_segments_of_first_entry", "key_segments",
          "All batch entries have the segments of the first's keys.", "B > 1",
          _with_segment_keys(_with_segments(lambda segments, _: np.repeat(segments[:1], len(segments), axis=0)))),
    Fault("key_segments_sorted", "key_segments", "The segments are taken to lie one behind the other.",
          "segments by turns", _with_segment_keys(_with_segments(lambda segments, _: np.sort(segments, axis=1)))),
)

_BUGS: Mapping[str, Mapping[str, str | Outside]] = {
    "mask dropped": {
        "AI-Hypercomputer/maxtext/issues/4476":
            "segments_dropped_with_causal segments_ignored mask_dropped_with_causal",
        "google/praxis/issues/30": "segments_ignored layer_mask_ignored",
    },
}

_BOTH = " ".join(_SEGMENTS)

_PANEL = (
    panel_recipe(SQUARE, _BOTH, seed=110), panel_recipe(RAGGED, _BOTH, seed=111, query_segments="by_turns"),
    panel_recipe(SQUARE, f"{_BOTH} causal", seed=112, query_segments="ragged"),
    panel_recipe(GROUPED, f"{_BOTH} mask", seed=113, query_segments="padded"),
    panel_recipe(SQUARE, f"{_BOTH} bias", seed=114, query_segments="by_turns"),
    panel_recipe(BLOCKS, _BOTH, seed=115, query_segments="padded"),
)

MISTAKES = AspectFaults(
    about={"query_segments": _OF_QUERIES, "key_segments": _OF_KEYS}, bugs=_BUGS, panel=_PANEL)
