"""Reading a page of HTML."""

from __future__ import annotations

import re


def words(html: str, *, between: str = "") -> str:
    """What a reader sees, with single spaces; `between` takes the place of each tag."""
    bare = re.sub(r"<(style|script)\b.*?</\1>", "", html, flags=re.DOTALL)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", between, bare)).strip()


def spaced_words(html: str) -> str:
    """What a reader sees, where the cells of a table stay apart."""
    return words(html, between=" ").replace(" ,", ",")


def section(page: str, name: str) -> str:
    """The source of one section of the page."""
    start = page.index(f'<section id="{name}"')
    return page[start : (page + "<section id=").index("<section id=", start + 1)]
