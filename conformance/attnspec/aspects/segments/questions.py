"""What a probe asks about segments: which keys a query sees."""

from __future__ import annotations

import numpy as np

from attnspec.questions.asker import FAILURES, Asker, Reply, keyword_question, promised, shown
from attnspec.questions.masks import band

_QUERY_SEGMENTS, _KEY_SEGMENTS = np.array([1, 2, 2, 3]), np.array([2, 1, 3, 2])
"""Of four queries and four keys, in another order each; every query has a key."""


def _form(asker: Asker) -> Reply:
    """Of keys that weigh the same."""
    many = len(_KEY_SEGMENTS)
    problem = asker.even(many, many)
    of_queries, of_keys = (np.tile(segments, (problem.sizes.B, 1)).astype(np.int32)
                           for segments in (_QUERY_SEGMENTS, _KEY_SEGMENTS))
    seen = asker.output(problem.but(query_segments=of_queries, key_segments=of_keys))[..., :many]
    own, theirs = _QUERY_SEGMENTS[:, None], _KEY_SEGMENTS
    return Reply(band(seen, {"own": own == theirs, "at_most": own >= theirs, "others": own != theirs,
                             "of_queries": own == _QUERY_SEGMENTS, "ignored": np.ones((many, many), bool)}),
                 shown(seen))


QUESTIONS = (
    keyword_question("segments.form", {
        "own": "those of its own segment", "at_most": "those of its own and of lower segments",
        "others": "those of other segments", "of_queries": "those at the places of its own segment's queries",
        "ignored": "all", **FAILURES}, _form, promised("own", "segments")),
)
