"""`rotary_embedding_torch.RotaryEmbedding`: its `rotate_queries_or_keys`, and its frequencies with `apply_rotary_emb`.

`rotate_queries_or_keys` counts on from an offset, the same for all batch entries: each stretch of tokens that count on
is a call of its own, of a module made anew, since a module remembers the angles of earlier calls.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Iterator

import torch
from rotary_embedding_torch import RotaryEmbedding, apply_rotary_emb

Tensor = Any  # torch is not seen by mypy


def rotate(x: Tensor, positions: Tensor, *, base: float = 10000.0) -> Tensor:
    """Turn x (B,H,T,D) at positions (B,T) to (B,H,T,D)."""
    entries = []
    for entry, places in zip(x, positions.tolist()):
        pieces = []
        for start, end in _stretches(places):
            module = RotaryEmbedding(x.shape[-1], theta=base)
            pieces.append(module.rotate_queries_or_keys(entry[:, start:end], offset=places[start]))
        entries.append(torch.cat(pieces, dim=1))
    return torch.stack(entries)


def apply(x: Tensor, positions: Tensor, *, base: float = 10000.0) -> Tensor:
    """Turn x (B,H,T,D) at positions (B,T) to (B,H,T,D)."""
    return apply_partial(x, positions, base=base)


def apply_partial(x: Tensor, positions: Tensor, *, base: float = 10000.0, rotary_width: int | None = None) -> Tensor:
    """Turn x (B,H,T,D) at positions (B,T) to (B,H,T,D), the first rotary_width features of it."""
    freqs = _embedding(rotary_width or x.shape[-1], base)(positions)
    return apply_rotary_emb(freqs[:, None], x)


def _stretches(places: list[int]) -> Iterator[tuple[int, int]]:
    """Where tokens begin that count on, and where they end."""
    borders = [at for at in range(1, len(places)) if places[at] != places[at - 1] + 1]
    return zip([0, *borders], [*borders, len(places)])


@lru_cache(maxsize=8)
def _embedding(width: int, base: float) -> Any:  # noqa: ANN401  (a module)
    return RotaryEmbedding(width, theta=base)
