"""Transforms of how a problem is asked: again, after other calls, from other memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from attnspec.problems.problem import Layout
from attnspec.vocabulary.signature import Drawn
from attnspec.vocabulary.transforms.arrays import Attention
from attnspec.vocabulary.transforms.contents import other_content
from attnspec.vocabulary.transforms.shapes import keep_prefix


def again(posed: Attention) -> Attention:
    """Ask once more, remembering nothing."""
    return replace(posed, fresh=True)


def after_another(posed: Attention, *, by: Drawn) -> Attention:
    """Ask after another problem of the same shapes; where T = S, after a third that is one position long, too."""
    other = other_content(posed, by=by, arrays=("query", "key", "value"))
    square = other.one.sizes.T == other.one.sizes.S
    shorter = (keep_prefix(other, cut=Drawn(0)).one,) if square else ()
    return replace(posed, fresh=True, before=(other.one, *shorter))


def lay_out(posed: Attention, *, layout: Literal["strided", "transposed", "broadcast"]) -> Attention:
    """Hand the same arrays over in another memory layout."""
    return replace(posed.but(layout=Layout(layout)), fresh=True)
