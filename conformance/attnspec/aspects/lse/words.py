"""The word of the spec language that is about log-sum-exps."""

from __future__ import annotations

from attnspec.vocabulary.transforms.axes import Attention


def ask_lse(posed: Attention) -> Attention:
    """Ask for the log-sum-exp, too."""
    return posed.but(return_lse=True)


TRANSFORMS = (ask_lse,)
