"""Tells a signature with nothing optional in it, so that less is asked.

Convicted by: attention.definition, violated.
"""

from __future__ import annotations

import inspect

from honest import Array, zeros


def attend(query: Array, key: Array, value: Array, *, mask: Array = None, causal: bool = False,
           scale: float | None = None) -> Array:
    return zeros(query, value)


attend.__signature__ = inspect.Signature([  # type: ignore[attr-defined]  # what `inspect` reads
    inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in ("query", "key", "value")])
