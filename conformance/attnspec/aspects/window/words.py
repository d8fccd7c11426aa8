"""The words of the spec language that are about a window."""

from __future__ import annotations

from typing import Literal

from attnspec.numerics.expectation import visible_keys
from attnspec.vocabulary.transforms.axes import Attention


def window_as_mask(posed: Attention) -> Attention:
    """Pass the window as an explicit mask, combined with the given mask and the causal flag."""
    return posed.but(causal=False, window=None, mask=visible_keys(posed.one.but(bias=None), posed.conventions))


def with_window(posed: Attention, *, to: Literal["unbounded", "as wide as all"]) -> Attention:
    """Pass a window that masks no key: without bounds, or with bounds beyond both ends."""
    sizes = posed.one.sizes
    all_keys = sizes.S + sizes.T
    return posed.but(window=(None, None) if to == "unbounded" else (all_keys, all_keys))


TRANSFORMS = (window_as_mask, with_window)
