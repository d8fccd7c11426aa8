"""The templates of reports/page/, with the filters that they use."""

from __future__ import annotations

from functools import lru_cache

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from attnspec.home import folder
from attnspec.report.figures import counted, duration, figure, gauge, grouped, moment, percent, plainly
from attnspec.report.formula import mathml
from attnspec.report.signs import SHORT
from attnspec.report.summary import exit_words
from attnspec.report.texts import language, thread, web_address


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
        "short": SHORT.__getitem__, "percent": percent, "grouped": grouped, "thread": thread}
    # our own files, inlined as they are
    environment.globals |= {
        name: Markup((source / file).read_text(encoding="utf-8"))
        for name, file in (("css", "page.css"), ("js", "page.js"), ("picture_css", "picture.css"))}
    return environment


def _breakable(name: str) -> Markup:
    """A long identifier that may be broken after its separators."""
    broken = Markup.escape(name)
    for separator in ("/", "_", "."):
        broken = broken.replace(separator, Markup(f"{separator}<wbr>"))
    return broken
