"""The templates of reports/page/, with the filters that they use."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from attnspec.ground.keywords import listed
from attnspec.home import folder
from attnspec.report.figures import counted, duration, figure, gauge, grouped, moment, percent, plainly, said
from attnspec.report.formula import mathml
from attnspec.report.signs import SHORT
from attnspec.report.summary import exit_words
from attnspec.report.texts import clause_anchor, language, thread, web_address

FILES: Mapping[str, str] = {
    "css": "page.css", "js": "page.js", "picture_css": "picture.css", "audit_css": "audit/audit.css",
    "audit_js": "audit/audit.js"}


@lru_cache(maxsize=1)
def templates() -> Environment:
    """The environment that every page and picture is rendered in. What a record holds is escaped."""
    source = folder("reports") / "page"
    environment = Environment(
        loader=FileSystemLoader(source), autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {
        "figure": figure, "duration": duration, "gauge": gauge, "moment": moment, "counted": counted, "mathml": mathml,
        "plainly": plainly, "exit": exit_words, "web": web_address, "language": language, "breakable": _breakable,
        "short": SHORT.__getitem__, "percent": percent, "grouped": grouped, "thread": thread, "anchor": clause_anchor,
        "prose": _prose, "said": said, "library": _library, "listed": listed}
    # our own files, inlined as they are
    environment.globals |= {
        name: Markup((source / file).read_text(encoding="utf-8"))
        for name, file in FILES.items()}
    return environment


def _prose(text: str) -> Markup:
    """A text whose `code` is set as code, and whose addresses lead there."""
    return Markup("").join(map(_piece, _PIECES.split(text)))


_PIECES = re.compile(r"(`[^`]+`|https?://[^\s<>\"')\]]*[^\s<>\"')\].,;:])")


def _piece(part: str) -> Markup:
    if part.startswith("`") and part.endswith("`") and len(part) > 1:
        return Markup("<code>{0}</code>").format(part.strip("`"))
    if web_address(part):
        return Markup('<a href="{0}" rel="noreferrer noopener">{1}</a>').format(part, thread(part))
    return Markup.escape(part)


def _library(name: str) -> str:
    """The folder of a subject's library, of an id or of `Judged.library`."""
    return name.partition("/")[0]


def _breakable(name: str) -> Markup:
    """A long identifier that may be broken after its separators."""
    broken = Markup.escape(name)
    for separator in ("/", "_", "."):
        broken = broken.replace(separator, Markup(f"{separator}<wbr>"))
    return broken
