"""Raises what Ctrl-C raises, as if the user had ended the run.

Convicted by: attention.definition, errored.
"""

from __future__ import annotations

from honest import Array


def attend(query: Array, key: Array, value: Array) -> Array:
    raise KeyboardInterrupt
