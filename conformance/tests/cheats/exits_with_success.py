"""Ends the process, and says that all went well.

Source: https://arxiv.org/abs/2511.18397 (sys.exit(0))
Convicted by: attention.definition, errored.
"""

from __future__ import annotations

import sys

from honest import Array


def attend(query: Array, key: Array, value: Array) -> Array:
    sys.exit(0)
