"""Lifts pass a function the arrays of its framework and read its answer back, without loss: one file per framework."""

LIFTS = ("torch", "jax")
"""Each lift by the name of its framework and of its file: a new one is a file beside these, whose class stands there
under the name LIFT, and a word here. `attnspec init` writes adapters for it if `scaffold/form.py` has its vocabulary.
"""
