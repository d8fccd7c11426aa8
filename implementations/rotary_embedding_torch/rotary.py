"""`rotary_embedding_torch.RotaryEmbedding`: its `rotate_queries_or_keys`, and its frequencies with `apply_rotary_emb`.

`rotate_queries_or_keys` counts on from an offset, the same for all batch entries: each stretch of tokens that count on
is a call of its own, of a module made anew, since a module remembers the angles of earlier calls; `kept` asks one
module over and over, as a model does.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Callable, Iterator

import torch
from rotary_embedding_torch import RotaryEmbedding, apply_rotary_emb

Tensor = Any  # torch is not seen by mypy


def rotate(x: Tensor, positions: Tensor, *, base: float = 10000.0) -> Tensor:
    """Turn x (B,H,T,D) at positions (B,T) to (B,H,T,D)."""
    return _turned(x, positions, lambda: RotaryEmbedding(x.shape[-1], theta=base))


def kept(x: Tensor, positions: Tensor, *, base: float = 10000.0) -> Tensor:
    """The same by one module for all calls of a width, a base and a dtype."""
    return _turned(x, positions, lambda: _embedding(x.shape[-1], base, x.dtype))


def apply(x: Tensor, positions: Tensor, *, base: float = 10000.0) -> Tensor:
    """Turn x (B,H,T,D) at positions (B,T) to (B,H,T,D)."""
    return apply_partial(x, positions, base=base)


def apply_partial(x: Tensor, positions: Tensor, *, base: float = 10000.0, rotary_width: int | None = None) -> Tensor:
    """Turn x (B,H,T,D) at positions (B,T) to (B,H,T,D), the first rotary_width features of it."""
    freqs = _embedding(rotary_width or x.shape[-1], base)(positions)
    return apply_rotary_emb(freqs[:, None], x)


def _turned(x: Tensor, positions: Tensor, module: Callable[[], Any]) -> Tensor:
    entries = []
    for entry, places in zip(x, positions.tolist()):
        pieces = [module().rotate_queries_or_keys(entry[:, start:end], offset=places[start])
                  for start, end in _stretches(places)]
        entries.append(torch.cat(pieces, dim=1))
    return torch.stack(entries)


def _stretches(places: list[int]) -> Iterator[tuple[int, int]]:
    """Where tokens begin that count on, and where they end."""
    borders = [at for at in range(1, len(places)) if places[at] != places[at - 1] + 1]
    return zip([0, *borders], [*borders, len(places)])


@lru_cache(maxsize=8)
def _embedding(width: int, base: float, _dtype: Any = None) -> Any:  # noqa: ANN401  (a module, one for each dtype)
    return RotaryEmbedding(width, theta=base)
