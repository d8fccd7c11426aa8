"""The names of what is judged: `torch/sdpa` is registered; `package.module:name` and `mine.py:name` are bare."""

from __future__ import annotations


def is_bare(target: str) -> bool:
    """Whether it names a function of one's own, of which no manifest speaks."""
    return ":" in target
