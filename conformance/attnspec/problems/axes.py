"""The lengths that axes are drawn with: each axis has a distribution of its own.

What goes wrong in real code goes wrong at the end of a block, past a threshold, or at a width that no power of two
divides. So both sides of every multiple of 8, 16 … 512 weigh more than what lies between, widths are mostly those that
models have, and small lengths come more often than large ones: they cost little, and findings are read on them.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from itertools import accumulate, pairwise

from attnspec.core.coverage import AXES, LONGEST
from attnspec.core.refusal import RefusalCondition
from attnspec.problems.problem import Sizes

BLOCKS = (8, 16, 32, 64, 128, 256, 512)
"""What kernels cut the axes T, S, D and Dv into."""

STANDARD_WIDTHS = (16, 32, 40, 64, 72, 80, 96, 112, 128, 160, 192, 256)
"""Head widths of published models, from ViT's and Stable Diffusion's to DeepSeek's and Gemma's."""

_AT_A_BLOCK = 0.5   # of the weight of T and S, and of what is no standard width
_STANDARD = 0.55    # of the weight of widths
_PRIME = 2.0        # times the weight of a length that is none
_AT_ITS_BLOCKS = 0.5  # of the weight of an axis whose blocks the subject declares

Blocks = tuple[tuple[str, tuple[int, ...]], ...]
"""By axis, the lengths of the blocks that a subject cuts it into."""


@dataclass(frozen=True, slots=True)
class LengthDistribution:
    """The lengths of an axis from which problems draw, and how likely each is.

    lengths: ascending.  sums: for each, the sum of the weights up to it, its own among them.
    is_whole: whether nothing but cost keeps a subject from other lengths.
    """

    name: str
    lengths: tuple[int, ...]
    sums: tuple[float, ...]
    is_whole: bool = True

    def length_at(self, share: float, least: int = 1, most: int | None = None) -> int:
        """The length that a share in [0, 1) of the weight between these bounds stands for; a smaller share never
        stands for a longer one. `least` where no length lies between them.
        """
        start = bisect_right(self.lengths, least - 1)
        end = len(self.lengths) if most is None else bisect_right(self.lengths, most)
        if start >= end:
            return least
        before = self.sums[start - 1] if start else 0.0
        weight = before + share * (self.sums[end - 1] - before)
        return self.lengths[min(max(bisect_right(self.sums, weight), start), end - 1)]


    def first(self, least: int) -> int:
        """The least length that is taken and no less than this one."""
        start = bisect_right(self.lengths, least - 1)
        return least if self.is_whole else self.lengths[min(start, len(self.lengths) - 1)]

    @property
    def weights(self) -> Mapping[int, float]:
        """The weight of each length."""
        return dict(zip(self.lengths, (b - a for a, b in pairwise((0.0, *self.sums))), strict=True))


@lru_cache(maxsize=256)
def taken_of(axis: LengthDistribution, refused: tuple[RefusalCondition, ...]) -> LengthDistribution:
    """The axis without the lengths at which one of these conditions holds: as it is where they leave none."""
    taken = {length: weight for length, weight in axis.weights.items()
             if not any(each.holds_at({each.axis: length}) for each in refused)}
    return replace(_axis(axis.name, taken), is_whole=False) if refused and taken else axis


def _axis(name: str, weights: Mapping[int, float]) -> LengthDistribution:
    lengths = tuple(sorted(weights))
    return LengthDistribution(name, lengths, tuple(accumulate(weights[length] for length in lengths)))


def _is_prime(number: int) -> bool:
    return number > 1 and all(number % each for each in range(2, math.isqrt(number) + 1))


def _scale_weights(weights: Mapping[int, float], total: float) -> dict[int, float]:
    whole = sum(weights.values())
    return {length: weight * total / whole for length, weight in weights.items()}


def _add_weights(parts: Iterable[Mapping[int, float]]) -> dict[int, float]:
    weights: dict[int, float] = {}
    for part in parts:
        for length, weight in part.items():
            weights[length] = weights.get(length, 0.0) + weight
    return weights


def _plain(most: int) -> dict[int, float]:
    """Every length, steeper near the small end, primes more often."""
    return {length: (_PRIME if _is_prime(length) else 1.0) / (length + 8) for length in range(1, most + 1)}


def _at_blocks(most: int) -> dict[int, float]:
    """The multiples of every block, one less and one more; the first multiples more often than later ones."""
    return _at_ends(BLOCKS, most)


def _at_ends(blocks: Iterable[int], most: int) -> dict[int, float]:
    near = ({multiple + side: block / multiple}
            for block in blocks for multiple in range(block, most + 1, block) for side in (-1, 0, 1))
    return {length: weight for length, weight in _add_weights(near).items() if 1 <= length <= most}


def _lengths(most: int) -> dict[int, float]:
    return _add_weights((_scale_weights(_plain(most), 1 - _AT_A_BLOCK), _scale_weights(_at_blocks(most), _AT_A_BLOCK)))


MOST_TOKENS_THOROUGH = 8192


def length_distributions(*, is_thorough: bool = False, blocks: Blocks = ()) -> Mapping[str, LengthDistribution]:
    """The axes by letter. G is H/Hkv; H follows from Hkv and G.

    blocks: those of a subject: half of the weight of their axes lies on the ends of these.
    """
    usual = _usual(is_thorough=is_thorough)
    return {**usual, **{name: _with_own(usual[name], own) for name, own in blocks}}


@lru_cache(maxsize=16)
def _with_own(axis: LengthDistribution, blocks: tuple[int, ...]) -> LengthDistribution:
    """The axis with weight on both sides of every multiple of these blocks, as far as it is drawn."""
    ends = _at_ends(blocks, axis.lengths[-1])
    share = _AT_ITS_BLOCKS if ends else 0.0
    return _axis(axis.name, _add_weights((_scale_weights(axis.weights, 1 - share), _scale_weights(ends, share))))


@cache
def _usual(*, is_thorough: bool) -> Mapping[str, LengthDistribution]:
    tokens = _lengths(MOST_TOKENS_THOROUGH if is_thorough else LONGEST["T"])
    widths = _add_weights((_scale_weights(_lengths(LONGEST["D"]), 1 - _STANDARD),
                           dict.fromkeys(STANDARD_WIDTHS, _STANDARD / len(STANDARD_WIDTHS))))
    batches = {1: 6.0, 2: 5.0, **dict.fromkeys(range(3, 10), 1.0), 17: 0.6, 33: 0.5}
    heads = {1: 4.0, 2: 4.0, 3: 2.0, 4: 3.0, **dict.fromkeys(range(5, 10), 1.2), 12: 1.0, 14: 0.5, 16: 1.0,
             17: 0.4, 20: 0.5, 28: 0.5, 32: 1.0, 33: 0.3, 40: 0.5, 64: 0.4, 71: 0.3, 128: 0.3}
    groups = {1: 8.0, 2: 3.0, 3: 1.5, 4: 3.0, 5: 1.0, 6: 1.0, 7: 1.5, 8: 2.0, 16: 0.3, 71: 0.2}
    return {
        "B": _axis("B", batches),
        "H": _axis("H", heads),
        "G": _axis("G", groups),
        "T": _axis("T", tokens),
        "S": _axis("S", tokens),
        "D": _axis("D", widths),
        "Dv": _axis("Dv", widths),
    }


def lengths_of(sizes: Sizes) -> dict[str, int]:
    """The lengths of the axes that have buckets (`core.coverage`), in their order."""
    return {name: sizes.H // sizes.Hkv if name == "G" else getattr(sizes, name) for name in AXES}
