"""Renders the page: templates, style and script lie in reports/page/ and end up in one file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from attnspec.ground.conventions import CONVENTIONS
from attnspec.home import folder
from attnspec.record.read import RunRecord
from attnspec.report.figures import counted, duration, figure, gauge, moment, plainly
from attnspec.report.findings import findings
from attnspec.report.formula import mathml
from attnspec.report.joined import Joined, join
from attnspec.report.ledger import themes
from attnspec.report.pictures import LEVELS
from attnspec.report.signs import SHORT, SIGNS
from attnspec.report.summary import LEGEND, exit_words, summarise
from attnspec.report.texts import language, web_address
from attnspec.report.trust import trust
from attnspec.report.unheard import never_decided, silences

AXES: Mapping[str, str] = {
    "B": "batch", "H": "query heads", "Hkv": "key and value heads", "T": "query length", "S": "key and value length",
    "D": "head width (d_k)", "Dv": "head width of the values", "M": "model width (d_model)",
}


def write_page(records: Sequence[RunRecord], path: Path) -> None:
    """Write the page of one or several runs to `path`, making its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(render(records), encoding="utf-8")


def render(records: Sequence[RunRecord]) -> str:
    """The page of one or several runs as one HTML document that needs nothing else."""
    return _environment().get_template("page.html").render(_view(join(records)))


def _view(joined: Joined) -> Mapping[str, object]:
    """All that the templates speak of."""
    strict = any(run.record.header.strict for run in joined.runs)
    return {
        "joined": joined, "strict": strict, "summary": summarise(joined, strict=strict),
        "findings": findings(joined, strict=strict), "themes": themes(joined), "trust": trust(joined),
        "silences": silences(joined), "never": never_decided(joined), "environment": _environments(joined),
        "present": {SIGNS[outcome.verdict].word for outcome in joined.outcomes.values()},
        "conventions": CONVENTIONS, "legend": LEGEND, "axes": AXES, "levels": LEVELS,
    }


def _environments(joined: Joined) -> tuple[tuple[str, tuple[str, ...], bool], ...]:
    """Rows of the environment table: a name, its value in every run, and whether the runs differ in it."""
    each = [run.record.header.environment for run in joined.runs]
    names = dict.fromkeys(name for environment in each for name in environment)
    rows = [(name, tuple(environment.get(name, "") for environment in each)) for name in names]
    return tuple((name, values, len(set(values)) > 1) for name, values in rows)


@lru_cache(maxsize=1)
def _environment() -> Environment:
    source = folder("reports") / "page"
    environment = Environment(
        loader=FileSystemLoader(source), autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {
        "figure": figure, "duration": duration, "gauge": gauge, "moment": moment, "counted": counted, "mathml": mathml,
        "plainly": plainly, "exit": exit_words, "web": web_address, "language": language, "breakable": _breakable,
        "short": SHORT.__getitem__}
    # our own files, inlined as they are
    environment.globals |= {
        name: Markup((source / f"page.{name}").read_text(encoding="utf-8")) for name in ("css", "js")}
    return environment


def _breakable(name: str) -> Markup:
    """A long identifier that may be broken after its separators."""
    broken = Markup.escape(name)
    for separator in ("/", "_", "."):
        broken = broken.replace(separator, Markup(f"{separator}<wbr>"))
    return broken
