"""Lifts hand a function its framework's arrays and read its answer, without loss: a file each."""

LIFTS = ("torch", "jax")
"""Each lift by the name of its framework and of its file: a new one is a file beside these, whose
class stands there under the name LIFT, and a word here. `attnspec init` writes adapters for it if
`scaffold/form.py` has its vocabulary.
"""
