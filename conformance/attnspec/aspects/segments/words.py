"""Words of the spec language, and a probe's question, about segments: which keys a query sees."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from attnspec.problems.problem import Array
from attnspec.questions.asker import FAILURES, Asker, Reply, keyword_question, promised_answer, show_numbers
from attnspec.questions.inputs import name_band
from attnspec.vocabulary.scene import NoClaim
from attnspec.vocabulary.transforms.axes import Attention, entries_along
from attnspec.vocabulary.transforms.contents import hide_by_mask

FIRST, STEP = 2**24, 256
"""Numbers from the first on, so far apart, look alike in float32 and in their lowest byte."""


def segments_as_mask(posed: Attention) -> Attention:
    """Hand segments over as an explicit mask, joined with all else that hides keys, but a bias."""
    return hide_by_mask(posed)


def cut_to_segments(posed: Attention) -> Attention:
    """Make one call for each segment, of its queries, keys and values alone; the answers are
    joined again. Only where the segments of queries and keys are the same, lie one behind the
    other and have the same borders in every batch entry.
    """
    problem = posed.one
    of_queries, of_keys = _shared_segments(problem.query_segments), _shared_segments(problem.key_segments)
    is_one = of_queries is not None and of_keys is not None and np.array_equal(of_queries, of_keys)
    if of_keys is None or not is_one or (np.diff(of_keys) < 0).any():
        raise NoClaim("the segments are not the same spans everywhere")
    alone = problem.but(query_segments=None, key_segments=None)
    parts = []
    for number in np.unique(of_keys):
        own = np.flatnonzero(of_keys == number)
        part = alone.but(**entries_along(alone, "T", own))
        parts.append(part.but(**entries_along(part, "S", own)))
    return replace(posed, parts=tuple(parts), join="T")


def _shared_segments(segments: Array | None) -> Array | None:
    """The segments (T,) of all batch entries, of (B,T); None if they differ, or without any."""
    return None if segments is None or (segments != segments[:1]).any() else np.asarray(segments[0])


def rename_segments(posed: Attention) -> Attention:
    """Give the segments other numbers: large ones, in the opposite order. Neighbours differ by 1,
    which float32 does not see, and others by multiples of 256.
    """
    problem = posed.one
    if problem.query_segments is None or problem.key_segments is None:
        raise NoClaim("there are no segments")
    last = np.int32(max(problem.query_segments.max(), problem.key_segments.max()))
    return posed.but(query_segments=_rename_segments(last - problem.query_segments),
                     key_segments=_rename_segments(last - problem.key_segments))


def _rename_segments(segments: Array) -> Array:
    """Segments (B,T), 0, 1, 2, 3 …, as 2^24, 2^24 + 1, 2^24 + 256, 2^24 + 257 …"""
    return np.asarray(FIRST + STEP * (segments // 2) + segments % 2, np.int32)


TRANSFORMS = (segments_as_mask, cut_to_segments, rename_segments)


_QUERY_SEGMENTS, _KEY_SEGMENTS = np.array([1, 2, 2, 3]), np.array([2, 1, 3, 2])
"""Of four queries and four keys, in another order each; every query has a key."""


def _form(asker: Asker) -> Reply:
    """Asks which keys are seen; they weigh the same."""
    many = len(_KEY_SEGMENTS)
    problem = asker.make_even(many, many)
    of_queries, of_keys = (np.tile(segments, (problem.sizes.B, 1)).astype(np.int32)
                           for segments in (_QUERY_SEGMENTS, _KEY_SEGMENTS))
    seen = asker.ask_output(problem.but(query_segments=of_queries, key_segments=of_keys))[..., :many]
    own, theirs = _QUERY_SEGMENTS[:, None], _KEY_SEGMENTS
    candidates = {"own": own == theirs, "at_most": own >= theirs, "others": own != theirs,
                  "of_queries": own == _QUERY_SEGMENTS, "ignored": np.ones((many, many), bool)}
    return Reply(name_band(seen, candidates), show_numbers(seen))


QUESTIONS = (
    keyword_question("segments.form", {
        "own": "those of its own segment", "at_most": "those of its own and of lower segments",
        "others": "those of other segments", "of_queries": "those at the places of its own segment's queries",
        "ignored": "all", **FAILURES}, _form, promised_answer("own", "segments")),
)
