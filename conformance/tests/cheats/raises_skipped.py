"""Raises what pytest takes for a test to be left out.

Source: https://arxiv.org/abs/2511.18397
Convicted by: attention.definition, errored.
"""

from __future__ import annotations

import contextlib
import importlib
import unittest

from honest import Array


def attend(query: Array, key: Array, value: Array) -> Array:
    with contextlib.suppress(ImportError):
        raise importlib.import_module("pytest").skip.Exception("not today")
    raise unittest.SkipTest("not today")
