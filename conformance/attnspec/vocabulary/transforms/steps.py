"""Transforms of how the past came into a cache."""

from __future__ import annotations

from attnspec.core.conventions import UNDEFINED
from attnspec.core.keyword_nouns import StepPattern
from attnspec.vocabulary.scene import OutsideLimits
from attnspec.vocabulary.transforms.axes import Attention


def with_steps(posed: Attention, *, to: StepPattern) -> Attention:
    """Store the same past in other calls. `tried_before` is put only to decoders that leave a used cache as it was."""
    if to == "tried_before" and posed.conventions.get("used_cache", UNDEFINED) != "kept":
        raise OutsideLimits("it does not promise that a cache can be continued a second time")
    return posed.but(cache=to)


OF_STEPS = (with_steps,)
"""The words of this keyword."""
