"""Lifts hand a function the arrays of its framework and read its answer back, without loss: a file a framework."""

LIFTS = ("torch", "jax")
"""Each lift by the name of its framework and of its file: a new one is a file beside these and a word here."""
