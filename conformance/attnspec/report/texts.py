"""Texts of a record as a page may show them: addresses, languages, anchors."""

from __future__ import annotations

import re

from attnspec.record.clause_text import ClauseText
from attnspec.report.figures import ascii_name

_CHINESE = re.compile(r"[\u3400-\u9fff]")
_THREAD = re.compile(r"https://github\.com/([^/]+/[^/]+)/(?:issues|pull)/(\d+)(?:#.*)?")


def clause_anchor(clause: ClauseText) -> str:
    """Where a page tells of a clause: its id made safe for an address."""
    return f"clause-{ascii_name(clause.id)}"


def language(text: str) -> str:
    """The tag of the language that a text is in where that is not the page's own: browsers choose the font by it."""
    return "zh" if _CHINESE.search(text) else ""


def web_address(url: str) -> str:
    """The address if it leads to the web, else nothing: records are foreign input, and `javascript:` is an address."""
    return url if url.startswith(("https://", "http://")) else ""


def thread(url: str) -> str:
    """`owner/name#12` for the address of an issue or a pull request on GitHub, else the address without its scheme."""
    found = _THREAD.fullmatch(url)
    return f"{found[1]}#{found[2]}" if found else url.partition("://")[2]
