"""Slips of the pen."""

from __future__ import annotations

import os
from collections.abc import Iterable


def slip_of(name: str, known: Iterable[str]) -> str:
    """The known name that `name` is a slip of the pen from: one letter more, less or other, or two swapped; else ""."""
    return next((other for other in known if _is_slip(name, other)), "")


def _is_slip(written: str, meant: str) -> bool:
    same = len(os.path.commonprefix((written, meant)))  # noqa: RUF071  (letter by letter is what is meant)
    wrote, means = written[same:], meant[same:]
    is_swap = wrote[:2] == means[:2][::-1] and wrote[2:] == means[2:]
    return wrote != means and (is_swap or wrote[1:] == means[1:] or wrote[1:] == means or wrote == means[1:])
