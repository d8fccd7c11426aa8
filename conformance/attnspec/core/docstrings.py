"""What a docstring says, also under `python -OO`, which leaves them out: help and schemas are made of them."""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from collections.abc import Callable


def docstring(thing: Callable[..., object]) -> str:
    """The docstring of a function or a class, without its indentation; empty if there is none."""
    return _in_source(thing) if sys.flags.optimize > 1 else inspect.getdoc(thing) or ""


def _in_source(thing: Callable[..., object]) -> str:
    try:
        [defined] = ast.parse(textwrap.dedent(inspect.getsource(thing))).body
    except (OSError, TypeError):  # no source is at hand
        return ""
    if isinstance(defined, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return ast.get_docstring(defined) or ""
    return ""
