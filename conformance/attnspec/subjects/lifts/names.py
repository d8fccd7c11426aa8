"""The lifts there are. Apart, because a manifest is read without NumPy."""

from __future__ import annotations

LIFTS = ("torch", "jax")
