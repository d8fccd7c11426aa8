"""Lifts hand a function the arrays of its framework and read its answer back, without loss."""

from __future__ import annotations

from collections.abc import Mapping

LIFTS: Mapping[str, str] = {
    "torch": "attnspec.subjects.lifts.torch:TorchLift",
    "jax": "attnspec.subjects.lifts.jax:JaxLift",
}
"""Each lift by the name of its framework: a new one is a file beside these and a line here. A manifest is read, and a
command line completed, without NumPy: the classes are named, not imported."""
