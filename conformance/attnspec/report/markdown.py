"""Texts of a record in Markdown, none of which can become markup: records are foreign input."""

from __future__ import annotations

import re

from attnspec.report.figures import web_address

_CODE = re.compile(r"(`[^`]*`)")
_ADDRESS = re.compile(r"(https?://[^\s<>\"'\[\]`|*\\]+)", re.IGNORECASE)
_MARKUP = re.compile(r"([\\*\[\]<|]|(?<!\w)_|_(?!\w))")
_TICKS = re.compile("`+")


def escape_text(text: str) -> str:
    """A text none of whose signs means anything in Markdown, on one line."""
    return _MARKUP.sub(r"\\\1", _on_one_line(text))


def format_prose(text: str) -> str:
    """A text in which only `code` means something; addresses of the web stay as they are, for readers make links of
    them.
    """
    pieces = [piece for part in _CODE.split(_on_one_line(text))
              for piece in ([part] if part.startswith("`") else _ADDRESS.split(part))]
    return "".join(piece if piece.startswith("`") or web_address(piece) else plain_piece(piece) for piece in pieces)


def plain_piece(text: str) -> str:
    """A text without markup, with the blanks at its ends."""
    return _MARKUP.sub(r"\\\1", text)


def format_code(text: str) -> str:
    """A text as code on one line: between more backticks than it holds in a row."""
    shown = _on_one_line(text)
    ticks, room = "`" * (_longest(shown) + 1), " " if "`" in shown else ""
    return f"{ticks}{room}{shown}{room}{ticks}"


def fence_code(text: str, language: str) -> list[str]:
    """Lines of code as a block of its own."""
    fence = "`" * max(3, _longest(text) + 1)
    return [f"{fence}{language}", text.rstrip("\n"), fence]


def format_link(name: str, url: str) -> str:
    """`[name](url)`, or the name alone where the address does not lead to the web."""
    leads = web_address(url).replace("(", "%28").replace(")", "%29").replace("|", "%7C")
    return f"[{escape_text(name)}]({leads})" if leads else escape_text(name)


def format_row(cells: list[str]) -> str:
    """A row of a table."""
    return "| " + " | ".join(re.sub(r"(?<!\\)\|", r"\\|", cell) for cell in cells) + " |"


def _on_one_line(text: str) -> str:
    return " ".join(text.split())


def _longest(text: str) -> int:
    return max(map(len, _TICKS.findall(text)), default=0)
