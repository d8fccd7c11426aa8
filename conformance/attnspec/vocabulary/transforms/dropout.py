"""Transforms of problems whose weights are dropped."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal

from attnspec.core.keyword_nouns import RATE, SEED
from attnspec.vocabulary.scene import NoClaim
from attnspec.vocabulary.signature import Between
from attnspec.vocabulary.transforms.axes import Attention

_FAR = 2**30


def with_dropout(posed: Attention, *, rate: Annotated[float, Between(0, 1)]) -> Attention:
    """Drop weights at this rate; 0 is handed over, too."""
    return posed.but(**{RATE: float(rate)})


def without_dropout(posed: Attention) -> Attention:
    """Pass neither a rate nor a seed, as in evaluation."""
    return posed.but(**{RATE: None, SEED: None})


def after_dropout(posed: Attention) -> Attention:
    """Pass neither a rate nor a seed, in a call that comes after one with both."""
    return replace(without_dropout(posed), fresh=True, before=(posed.one,))


def other_seed(posed: Attention, *, to: Literal["next", "far"]) -> Attention:
    """Draw by another seed: the next whole number, or one that is 2^30 away."""
    seed = posed.one.seed
    if seed is None:
        raise NoClaim("there is no seed")
    return posed.but(**{SEED: seed + 1 if to == "next" else seed ^ _FAR})


OF_DROPOUT = (with_dropout, without_dropout, after_dropout, other_seed)
"""The words of dropout."""
