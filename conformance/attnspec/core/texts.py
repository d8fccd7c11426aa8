r"""Docstrings, numbers with nouns, and invisible characters of foreign texts, shown as Python
writes them.

What a subject raises or prints, a manifest's title and whatever else a record holds is foreign
text. Shown as it is, it could move the cursor of a terminal, or turn a line around so that it
reads as another.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import textwrap
import unicodedata
from collections.abc import Callable

# What is left: line feed, tab, and a carriage return before a line feed.
_CONTROL = r"\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"
_DIRECTION = r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_UNSEEN = r"\xad\u200b-\u200d\u2028\u2029\u2060-\u2064\u206a-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f"
_HALF = r"\ud800-\udfff"  # of a pair: no encoding writes it

HIDDEN = re.compile(rf"[{_CONTROL}{_DIRECTION}{_UNSEEN}{_HALF}]|\r(?!\n)")


def escape_hidden(text: str) -> str:
    """The text with each invisible character as Python writes it. Line feeds and tabs stay."""
    return HIDDEN.sub(_escape_character, text)


def count_noun(number: int, noun: str) -> str:
    """`1 clause`, `3 clauses`."""
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{number} {noun if number == 1 else plural}"


def other_script(text: str) -> str:
    """The first letter that neither English nor its formulas are written with; nothing if there is
    none.

    It finds Chinese, Japanese, Korean, Cyrillic, Arabic, …; it does not tell French from English.
    """
    # of the letters of formulas, 𝑥 and ℝ, the plain ones
    plain = unicodedata.normalize("NFKC", text)
    for letter in plain:
        if letter.isalpha() and not unicodedata.name(letter, "").startswith(("LATIN", "GREEK")):
            return letter
    return ""


def _escape_character(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def docstring(thing: Callable[..., object]) -> str:
    """The docstring of a function or a class, without its indentation; empty if there is none."""
    if sys.flags.optimize > 1:
        return _in_source(thing)
    return inspect.getdoc(thing) or ""


def _in_source(thing: Callable[..., object]) -> str:
    try:
        [definition] = ast.parse(textwrap.dedent(inspect.getsource(thing))).body
    except (OSError, TypeError):  # no source is at hand
        return ""
    if isinstance(definition, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return ast.get_docstring(definition) or ""
    return ""
