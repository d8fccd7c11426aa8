"""Lifts pass a framework's arrays to a function and read its answer, each in a file."""

LIFTS = ("torch", "jax")
"""Each lift by the name of its framework and of its file: a new one is a file beside these, whose
class stands there under the name LIFT, and a word here. `attnspec init` writes adapters for it if
the tables in `scaffold` have its vocabulary (docs/where-to-change.md names their files).
"""
