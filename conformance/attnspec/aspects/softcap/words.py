"""The words of the spec language that are about a softcap."""

from __future__ import annotations

from typing import Literal

from attnspec.vocabulary.transforms.axes import Attention


def with_softcap(posed: Attention, *, to: Literal["huge"]) -> Attention:  # noqa: ARG001  (named, so that clauses read)
    """Pass a softcap of 2^14, which every dtype can hold and which is far above ordinary logits."""
    return posed.but(softcap=2.0**14)


TRANSFORMS = (with_softcap,)
