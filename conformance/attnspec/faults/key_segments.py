"""Segments of keys that are taken from elsewhere, or whose borders lie elsewhere."""

# mypy: no-warn-return-any
# (reason: arithmetic on arrays of any dtype is Any to mypy; the arrays' types are declared all the same)

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from attnspec.faults import serving
from attnspec.faults.fault import Fault, Stage
from attnspec.faults.query_segments import VisibleKeys, everything
from attnspec.faults.staged import staged
from attnspec.faults.work import PreparedCall
from attnspec.problems.problem import Array


def _with_segments(change: Callable[[Array, PreparedCall], Array]) -> VisibleKeys:
    """An `own_segment` stage with other segments of the keys (B,S) than it was given."""
    def seen(work: PreparedCall) -> Array:
        """(B,1,T,S)."""
        if work.key_segments is None:
            return everything(work)
        return serving.own_segment(work.but(key_segments=change(work.key_segments, work)))
    return seen


def _late(segments: Array, _: PreparedCall) -> Array:
    """(B,S): each border lies one key later."""
    return np.concatenate([segments[:, :1], segments[:, :-1]], axis=1)


def _early(segments: Array, _: PreparedCall) -> Array:
    """(B,S): each border lies one key earlier."""
    return np.concatenate([segments[:, 1:], segments[:, -1:]], axis=1)


def _of_queries(segments: Array, work: PreparedCall) -> Array:
    """(B,S): the segments of the queries, as far as they reach; the last one's behind."""
    assert work.query_segments is not None
    return work.query_segments[:, np.minimum(np.arange(segments.shape[1]), work.shape[2] - 1)]


def _sorted(segments: Array, _: PreparedCall) -> Array:
    """(B,S): taken to lie one behind the other, as many keys each as there are."""
    return np.sort(segments, axis=1)


_ANY = "two segments and more"

FAULTS = (
    Fault("key_segments_late", Stage.KEY_SEGMENTS, "Borders are those of the shifted tokens of a language model.", _ANY,
          staged(own_segment=_with_segments(_late))),
    Fault("key_segments_early", Stage.KEY_SEGMENTS, "The last key of each segment is counted to the next.", _ANY,
          staged(own_segment=_with_segments(_early))),
    Fault("key_segments_of_queries", Stage.KEY_SEGMENTS, "One array of segments serves queries and keys.",
          "keys whose segments are not those of the queries", staged(own_segment=_with_segments(_of_queries))),
    Fault("key_segments_of_next_entry", Stage.KEY_SEGMENTS, "Each batch entry has the segments of the next one's keys.",
          "B > 1", staged(own_segment=_with_segments(lambda segments, _: np.roll(segments, -1, axis=0)))),
    Fault("key_segments_of_first_entry", Stage.KEY_SEGMENTS, "All batch entries have the segments of the first's keys.",
          "B > 1",
          staged(own_segment=_with_segments(lambda segments, _: np.repeat(segments[:1], len(segments), axis=0)))),
    Fault("key_segments_sorted", Stage.KEY_SEGMENTS, "The segments are taken to lie one behind the other.",
          "segments by turns", staged(own_segment=_with_segments(_sorted))),
)
