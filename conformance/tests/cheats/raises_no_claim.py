"""Raises what the judge raises where nothing is claimed of a case.

Convicted by: attention.definition, errored.
"""

from __future__ import annotations

import contextlib
import importlib

from honest import Array


def attend(query: Array, key: Array, value: Array) -> Array:
    for module, name in (("attnspec.vocabulary.scene", "NoClaim"), ("attnspec.vocabulary.scene", "OutsideLimits")):
        with contextlib.suppress(ImportError):
            raise getattr(importlib.import_module(module), name)("nothing is claimed here")
    raise type("NoClaim", (Exception,), {})("nothing is claimed here")
