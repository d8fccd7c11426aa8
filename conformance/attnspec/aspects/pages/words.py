"""Words of the spec language about pages."""

from __future__ import annotations

from typing import Literal

import numpy as np

from attnspec.core.dtype import DTYPES
from attnspec.core.keyword import PagePattern
from attnspec.problems.problem import Array
from attnspec.subjects.serving_forms import LARGE_FILLER
from attnspec.vocabulary.scene import NoClaim
from attnspec.vocabulary.transforms.axes import Attention


def with_pages(posed: Attention, *, to: PagePattern) -> Attention:
    """Put the same keys and values into pages in another way. `large_beyond` makes no claim where
    a dot product with the content of unused slots would leave the dtype's range.
    """
    problem = posed.one
    reach = np.abs(problem.query.astype(np.float64)).sum(axis=-1).max() * LARGE_FILLER
    if to == "large_beyond" and reach > DTYPES[problem.dtype].largest:
        raise NoClaim("a dot product with the content of unused slots would overflow")
    return posed.but(block_table=to)


def share_prefix(posed: Attention, *, along: Literal["batch"]) -> Attention:  # noqa: ARG001  (so that clauses read)
    """Give all batch entries the first half of the keys and values of the first one, the middle one among them."""
    problem = posed.one
    half = -(-problem.sizes.S // 2)
    if problem.sizes.B == 1:
        raise NoClaim("there is one batch entry only")

    def shared(array: Array) -> Array:
        """An array (B,Hkv,S,·), with the first half of the first entry in all entries."""
        first = np.broadcast_to(array[:1, :, :half], (*array.shape[:2], half, array.shape[-1]))
        return np.concatenate([first, array[:, :, half:]], axis=2)

    return posed.but(key=shared(problem.key), value=shared(problem.value))


TRANSFORMS = (with_pages, share_prefix)
