"""Renders the page: templates, style and script lie in reports/page/ and end up in one file."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from xml.etree import ElementTree

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from latex2mathml.converter import convert
from markupsafe import Markup

from attnspec.core.conventions import CONVENTIONS, Convention
from attnspec.core.files import write_whole
from attnspec.core.other_names import list_defaults
from attnspec.core.paths import folder
from attnspec.record.read import RunRecord, show_hidden
from attnspec.report.audit.conventions import ConventionTable, collect_answers, find_habits
from attnspec.report.audit.view import Audit, is_audit, make_audit
from attnspec.report.comparison import ROUNDING, History, RunComparison, compared_runs
from attnspec.report.coverage import at_named_sizes, collect_readings, measure_subjects, measure_trust
from attnspec.report.figures import (
    SHORT,
    SIGNS,
    clause_anchor,
    count_noun,
    format_duration,
    format_figure,
    format_moment,
    gauge_margin,
    group_digits,
    language_of_text,
    name_thread,
    web_address,
    word_for_reader,
    yes_or_no,
)
from attnspec.report.findings import make_findings
from attnspec.report.joined import JoinedRecords, applying_to_nobody, group_by_theme, join_records
from attnspec.report.pictures import LEVELS
from attnspec.report.sections import RANKING_EXITS, PageSection, SectionMaker, check_shown, make_ranking
from attnspec.report.summary import LEGEND, Summary, exit_words, find_silences, never_decided, summarise_runs

_SPACE = "{http://www.w3.org/1998/Math/MathML}"
_ELEMENTS = frozenset({
    "math", "mrow", "mi", "mo", "mn", "mtext", "mspace", "mstyle", "mpadded", "mphantom", "mfrac", "msqrt",
    "mroot", "msub", "msup", "msubsup", "munder", "mover", "munderover", "mmultiscripts", "mprescripts",
    "none", "mtable", "mtr", "mtd", "menclose", "mfenced",
})
_ATTRIBUTES = frozenset({
    "display", "displaystyle", "scriptlevel", "mathvariant", "stretchy", "fence", "form", "separator",
    "symmetric", "largeop", "movablelimits", "accent", "accentunder", "linethickness", "width", "height",
    "depth", "lspace", "rspace", "minsize", "maxsize", "columnalign", "rowspacing", "columnspacing",
    "columnlines", "rowlines", "notation", "open", "close", "separators",
})
_CHILDREN = {"mfrac": 2, "mroot": 2, "msub": 2, "msup": 2, "munder": 2, "mover": 2, "msubsup": 3, "munderover": 3}


@lru_cache(maxsize=1024)
def formula_markup(latex: str) -> Markup | None:
    """The formula as MathML, or None where it cannot be converted whole: then the LaTeX itself is shown."""
    if not latex.strip() or not _is_balanced(latex):
        return None
    try:
        drawn = convert(latex, display="block")
    except Exception:  # the converter raises IndexError, KeyError and its own; a formula never costs a page
        return None
    return Markup(drawn) if _is_plain(drawn) else None


def _is_balanced(latex: str) -> bool:
    """Whether all braces close: the converter would draw half a formula and say nothing."""
    bare = latex.replace(r"\{", "").replace(r"\}", "")
    return bare.count("{") == bare.count("}")


def _is_plain(drawn: str) -> bool:
    r"""Whether this is MathML and nothing else. The converter copies the inside of \text as it stands, tags and all."""
    try:
        root = ElementTree.fromstring(drawn)
    except ElementTree.ParseError:
        return False
    return all(_is_sound(element, element.tag.removeprefix(_SPACE)) for element in root.iter())


def _is_sound(element: ElementTree.Element, name: str) -> bool:
    is_known = name in _ELEMENTS and _ATTRIBUTES.issuperset(element.keys())
    is_whole = len(element) == _CHILDREN.get(name, len(element))
    # an unknown command is copied, backslash and all
    return is_known and is_whole and "\\" not in (element.text or "")


FILES: Mapping[str, str] = {
    "css": "page.css", "js": "page.js", "audit_css": "audit/audit.css", "audit_js": "audit/audit.js"}


@lru_cache(maxsize=1)
def page_environment() -> Environment:
    """The environment that every page and picture is rendered in. What a record holds is escaped."""
    source = folder("reports") / "page"
    environment = Environment(
        loader=FileSystemLoader(source), autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {
        "figure": format_figure, "duration": format_duration, "gauge": gauge_margin, "moment": format_moment,
        "counted": count_noun, "mathml": formula_markup, "plainly": yes_or_no, "exit": exit_words,
        "web": web_address, "language": language_of_text, "breakable": _breakable, "short": SHORT.__getitem__,
        "grouped": group_digits, "thread": name_thread, "anchor": clause_anchor, "prose": _prose,
        "said": word_for_reader, "library": _library, "listed": list_defaults, "verbatim": _verbatim}
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
        return Markup('<a href="{0}" rel="noreferrer noopener">{1}</a>').format(part, name_thread(part))
    return Markup.escape(part)


def _library(name: str) -> str:
    """The folder of a subject's library, of an id or of `JudgedSubject.library`."""
    return name.partition("/")[0]


def _verbatim(text: str) -> Markup:
    """A long text between tags, where quotes need no escape and would take five signs each."""
    return Markup(html.escape(text, quote=False))


def _breakable(name: str) -> Markup:
    """A long identifier that may be broken after its separators."""
    broken = Markup.escape(name)
    for separator in ("/", "_", "."):
        broken = broken.replace(separator, Markup(f"{separator}<wbr>"))
    return broken


AXES: Mapping[str, str] = {
    "B": "batch", "H": "query heads", "Hkv": "key and value heads", "T": "query length", "S": "key and value length",
    "D": "head width (d_k)", "Dv": "head width of the values", "M": "model width (d_model)",
}


def write_page(records: Sequence[RunRecord], path: Path, *, compared: RunComparison | None = None,
               past: History | None = None, further: Sequence[SectionMaker] = ()) -> None:
    """Write the page of one or several runs to `path`, making its folder."""
    write_whole(path, render_page(records, compared=compared, past=past, further=further), "page")


def render_page(records: Sequence[RunRecord], *, compared: RunComparison | None = None, past: History | None = None,
                further: Sequence[SectionMaker] = ()) -> str:
    """The page of one or several runs as one HTML document that needs nothing else.

    It shows what the records hold: verdicts, answers to probes, a ranking, or several of these.
    compared, past: how the runs stand to an earlier one, and the runs before them, where that is wanted.
    further: what makes sections of what else was measured. Raises UsageError where none of them shows it.
    """
    earlier = {"compared": compared, "history": past, "rounding": ROUNDING}
    return page_environment().get_template("page.html").render({**_view(show_hidden(records), further), **earlier})


def _view(records: Sequence[RunRecord], further: Sequence[SectionMaker]) -> Mapping[str, object]:
    """All that the templates speak of."""
    joined = join_records(records)
    made = (make(records) for make in (*further, ranking_section))
    sections = tuple(section for section in made if section)
    check_shown(records, sections)
    is_judged = bool(joined.outcomes) or not (sections or joined.probes)
    summary = summarise_runs(joined, strict=joined.is_strict)
    looked = make_audit(joined) if is_judged and is_audit(joined) else None
    found = looked.habits if looked else find_habits(joined) if joined.probes else None
    return {
        "joined": joined, "strict": joined.is_strict, "summary": summary, "environment": _environments(joined),
        "sections": sections, "is_judged": is_judged, "audit": looked,
        "habits": found, "answers": collect_answers(found) if found else None,
        "title": _audit_headline(looked, summary) if looked else _title(
            summary, next(iter(sections), None), found, is_judged=is_judged),
        **(_common_variables(joined) if looked else _verdict_variables(joined) if is_judged else {}),
        "held": compared_runs(joined), "conventions": _conventions(joined), "legend": LEGEND, "axes": AXES,
        "levels": LEVELS,
    }


def ranking_section(records: Sequence[RunRecord]) -> PageSection | None:
    """The ranking of kernels as a section; None where no record has one."""
    ranked = make_ranking(records)
    if ranked is None:
        return None
    html = page_environment().get_template("ranking.html").render(ranking=ranked)
    return PageSection("Ranking", "ranking", ranked.headline, ranked.css, Markup(html), RANKING_EXITS,
                       lambda record: bool(record.ranks))


def _conventions(joined: JoinedRecords) -> Mapping[str, Convention]:
    """Those that everybody is asked, and those that somebody here has an answer to."""
    told = {name for each in joined.subjects for name in (*each.card.conventions, *each.card.probed)}
    return {name: each for name, each in CONVENTIONS.items() if not each.keyword or name in told}


def _audit_headline(looked: Audit, summary: Summary) -> tuple[str, str]:
    return looked.headline, "bad" if looked.unexplained or summary.interrupted_runs else "idle"


def _verdict_variables(joined: JoinedRecords) -> Mapping[str, object]:
    """What only a page with verdicts speaks of."""
    told = make_findings(joined, strict=joined.is_strict)
    return {
        "findings": told, "following": {other.clause.id for finding in told for other in finding.alike},
        "themes": group_by_theme(joined), "trust": measure_trust(joined), "readings": collect_readings(joined),
        "sizes": measure_subjects(joined),
        "at_sizes": at_named_sizes(joined), **_common_variables(joined),
    }


def _common_variables(joined: JoinedRecords) -> Mapping[str, object]:
    """What pages of either kind speak of where there are verdicts."""
    return {
        "silences": find_silences(joined), "never": never_decided(joined),
        "applies_to_nobody": applying_to_nobody(joined),
        "present": {SIGNS[outcome.verdict].word for outcome in joined.outcomes.values()},
    }


def _title(
    summary: Summary, measured: PageSection | None, found: ConventionTable | None, *, is_judged: bool,
) -> tuple[str, str]:
    """The sentence over the page, and its colour: that of the verdicts, of what was measured, or of the probes."""
    if is_judged:
        return summary.title, summary.css
    if measured is not None:
        return measured.headline, measured.css
    assert found is not None  # else it would be judged
    return found.title


def _environments(joined: JoinedRecords) -> tuple[tuple[str, tuple[str, ...], bool], ...]:
    """Rows of the environment table: a name, its value in every run, and whether the runs differ in it."""
    each = [run.record.header.environment for run in joined.runs]
    names = dict.fromkeys(name for environment in each for name in environment)
    rows = [(name, tuple(environment.get(name, "") for environment in each)) for name in names]
    return tuple((name, values, len(set(values)) > 1) for name, values in rows)
