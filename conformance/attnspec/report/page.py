"""Renders the page: templates, style and script lie in reports/page/ and end up in one file.

Its findings are cards: one for all that one bug makes an implementation fail, worst first.
"""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from xml.etree import ElementTree

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from latex2mathml.converter import convert
from markupsafe import Markup

from attnspec.core.conventions import CONVENTIONS, Convention
from attnspec.core.keywords import list_defaults
from attnspec.core.nouns import FAILURES, Verdict
from attnspec.core.paths import folder, write_whole
from attnspec.core.texts import count_noun
from attnspec.record.outcome import ClauseText, KnownFinding, Outcome
from attnspec.record.read import RunRecord, show_hidden
from attnspec.report.audit.conventions import ConventionTable, collect_answers, find_habits
from attnspec.report.audit.explained import explaining_findings
from attnspec.report.audit.view import Audit, is_audit, make_audit
from attnspec.report.bugs import explain_bugs, is_endless, rank_clarity
from attnspec.report.comparison import MARGIN_FACTOR, History, RunComparison, compared_runs
from attnspec.report.coverage import collect_readings, coverage_at_named_sizes, measure_subjects, measure_trust
from attnspec.report.figures import (
    ADVICE,
    FINDINGS,
    LEVEL_WEIGHTS,
    OTHER_CONVENTION,
    SHORT_NAMES,
    SIGNS,
    Sign,
    clause_anchor,
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
from attnspec.report.joined import (
    JoinedRecords,
    JudgedSubject,
    applying_to_nobody,
    finding_anchor,
    group_by_theme,
    join_records,
    shade_verdict,
)
from attnspec.report.likely_cause import ExplainedFailures, LikelyCause, is_other_convention
from attnspec.report.pictures import PALETTE_STEPS, PictureGrid, fit_pictures
from attnspec.report.sections import RANKING_EXITS, PageSection, SectionMaker, check_shown, make_ranking
from attnspec.report.summary import LEGEND, Summary, exit_words, find_silences, never_decided, summarise_runs

# how many picture cells a page draws before it refers to the record instead
PICTURED_CELLS = 1_100
# how many findings that gate stand open; the rest can be opened one by one
OPEN_FINDINGS = 24


@dataclass(frozen=True, slots=True)
class PageFinding:
    """`outcomes` are those of the failing dtypes, gravest first; `pictures` belong to the first of them.

    cause: what is likely behind it, None if nobody knows.  alike: the findings under further clauses that this cause
    explains, too.  known: what the library's folder says of it.  failures: how many the cause explains, by which the
    console names the first.
    """

    anchor: str
    clause: ClauseText
    subject: JudgedSubject
    sign: Sign
    css: str
    dtypes: str
    outcomes: tuple[Outcome, ...]
    does_gate: bool
    is_open: bool = True
    pictures: tuple[PictureGrid, ...] = ()
    omitted: int = 0
    alike: tuple[PageFinding, ...] = ()
    known: tuple[KnownFinding, ...] = ()
    cause: LikelyCause | None = None
    failures: int = 0

    @property
    def clauses(self) -> int:
        """How many clauses fail by it."""
        return 1 + len(self.alike)

    @property
    def explains(self) -> str:
        """`16 clauses and 1 recommendation`: what the console counts, and what does not gate."""
        gating = sum(each.does_gate for each in (self, *self.alike))
        told = {"clause": gating, "recommendation": self.clauses - gating}
        return " and ".join(count_noun(number, noun) for noun, number in told.items() if number)


def make_findings(joined: JoinedRecords, *, strict: bool) -> tuple[PageFinding, ...]:
    """All findings about implementations (those about faults are the trust matrix), worst first."""
    cards = [card for subject in joined.subjects
             for card in _findings_of_one(joined, subject, strict=strict)]
    return _add_pictures_to_page(sorted(cards, key=_page_gravity))


def _findings_of_one(joined: JoinedRecords, subject: JudgedSubject, *,
                     strict: bool) -> Iterator[PageFinding]:
    """Makes a card for each cause, and for each clause without a known cause, or not as listed."""
    every = [_make_finding(number, clause, subject, joined.outcomes_of(subject, clause.id),
                           strict=strict)
             for number, clause in enumerate(joined.clauses)]
    left = {finding.clause.id: finding for finding in every if finding}
    failures = [outcome for finding in left.values()
                for outcome in finding.outcomes if outcome.verdict in FAILURES]
    for group in _group_by_cause(failures, strict=strict):
        alike = [left.pop(failure.clause) for failure in group.failures if failure.clause in left]
        if group.cause is None:
            yield from alike
        elif alike:
            yield replace(_lead_with(alike[0], group), alike=tuple(alike[1:]), cause=group.cause,
                          failures=len(group.failures))
    yield from left.values()


def _group_by_cause(failures: Sequence[Outcome], *, strict: bool) -> Sequence[ExplainedFailures]:
    """What gates by its causes, as the head of the page and the console count them; advice that fails for one of these
    joins it.
    """
    gating = [failure for failure in failures if failure.does_gate(strict=strict)]
    groups = list(explain_bugs(gating))
    for beside in explain_bugs(failures) if len(gating) < len(failures) else ():
        advice = tuple(failure
                       for failure in beside.failures if not failure.does_gate(strict=strict))
        host = max(groups, key=lambda group: _count_shared_failures(group, beside), default=None)
        if advice and host and host.cause and beside.cause and _count_shared_failures(host,
                                                                                      beside):
            groups[groups.index(host)] = replace(host, failures=(*host.failures, *advice))
        elif advice:
            groups.append(replace(beside, failures=advice))
    return groups


def _count_shared_failures(group: ExplainedFailures, beside: ExplainedFailures) -> int:
    """How many failures two groups have in common."""
    return sum(failure in beside.failures for failure in group.failures)


def _lead_with(finding: PageFinding, group: ExplainedFailures) -> PageFinding:
    """The same with what the cause explains in front: the title and the case that is shown are of one dtype."""
    mine = {failure.dtype for failure in group.failures if failure.clause == finding.clause.id}
    return replace(finding, outcomes=tuple(sorted(finding.outcomes, key=lambda each: each.dtype not in mine)))


def _sign_of_advice(outcome: Outcome) -> Sign:
    if is_other_convention(outcome):
        return OTHER_CONVENTION
    return ADVICE


def _make_finding(
    number: int, clause: ClauseText, subject: JudgedSubject, outcomes: tuple[Outcome, ...], *,
    strict: bool,
) -> PageFinding | None:
    failed = sorted((outcome for outcome in outcomes if outcome.verdict in FINDINGS),
                    key=_outcome_gravity)
    if not failed:
        return None
    worst, does_gate = failed[0], any(o.does_gate(strict=strict) for o in failed)
    is_advice = worst.verdict is Verdict.VIOLATED and not does_gate and not worst.is_excused
    return PageFinding(
        anchor=finding_anchor(number, subject), clause=clause, subject=subject,
        outcomes=tuple(failed),
        sign=_sign_of_advice(worst) if is_advice else SIGNS[worst.verdict],
        css=shade_verdict(worst.verdict, worst.level),
        dtypes=" ".join(SHORT_NAMES[o.dtype] for o in outcomes if o in failed),
        does_gate=does_gate,
        known=tuple({known.id: known for outcome in failed
                     for known in explaining_findings(subject, outcome)}.values()))


def measured_margin(outcome: Outcome) -> float:
    """The margin of the counterexample; 0 where none was measured."""
    measured = outcome.evidence.measured if outcome.evidence else None
    if measured is None:
        return 0.0
    if math.isnan(measured.margin):
        return math.inf
    return measured.margin


def _outcome_gravity(outcome: Outcome) -> tuple[float, ...]:
    return SIGNS[outcome.verdict].rank, is_endless(outcome), -measured_margin(outcome)


def _page_gravity(finding: PageFinding) -> tuple[float, ...]:
    first = finding.outcomes[0]
    return (not finding.does_gate, LEVEL_WEIGHTS[first.level], SIGNS[first.verdict].rank,
            -finding.failures,
            -finding.clauses,
            *rank_clarity(first), *_outcome_gravity(first))


def _add_pictures_to_page(found: list[PageFinding]) -> tuple[PageFinding, ...]:
    """The findings with their pictures, as long as the page has room for them; the first few stand open."""
    opened = [replace(finding, is_open=finding.does_gate and place < OPEN_FINDINGS)
              for place, finding in enumerate(found)]
    evidence = [finding.outcomes[0].evidence for finding in found]
    cases = [each.pictures if each else () for each in evidence]
    drawn = fit_pictures(cases, PICTURED_CELLS, PICTURED_CELLS)
    return tuple(replace(finding, omitted=len(pictures)) if grids is None
                 else replace(finding, pictures=grids)
                 for finding, pictures, grids in zip(opened, cases, drawn, strict=True))


_MATHML_NAMESPACE = "{http://www.w3.org/1998/Math/MathML}"
_ELEMENTS = frozenset({
    "math", "mrow", "mi", "mo", "mn", "mtext", "mspace", "mstyle", "mpadded", "mphantom", "mfrac",
    "msqrt",
    "mroot", "msub", "msup", "msubsup", "munder", "mover", "munderover", "mmultiscripts",
    "mprescripts",
    "none", "mtable", "mtr", "mtd", "menclose", "mfenced",
})
_ATTRIBUTES = frozenset({
    "display", "displaystyle", "scriptlevel", "mathvariant", "stretchy", "fence", "form",
    "separator",
    "symmetric", "largeop", "movablelimits", "accent", "accentunder", "linethickness", "width",
    "height",
    "depth", "lspace", "rspace", "minsize", "maxsize", "columnalign", "rowspacing",
    "columnspacing",
    "columnlines", "rowlines", "notation", "open", "close", "separators",
})
_CHILDREN = {"mfrac": 2, "mroot": 2, "msub": 2, "msup": 2, "munder": 2, "mover": 2, "msubsup": 3,
             "munderover": 3}


@lru_cache(maxsize=1024)
def formula_markup(latex: str) -> Markup | None:
    """The formula as MathML, or None where it cannot be converted whole: then the LaTeX itself is shown."""
    if not latex.strip() or not _is_balanced(latex):
        return None
    try:
        drawn = convert(latex, display="block")
    # the converter raises IndexError, KeyError and its own; a formula never costs a page
    except Exception:
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
    return all(_is_sound(element, element.tag.removeprefix(_MATHML_NAMESPACE))
               for element in root.iter())


def _is_sound(element: ElementTree.Element, name: str) -> bool:
    is_known = name in _ELEMENTS and _ATTRIBUTES.issuperset(element.keys())
    is_whole = len(element) == _CHILDREN.get(name, len(element))
    # an unknown command is copied, backslash and all
    return is_known and is_whole and "\\" not in (element.text or "")


TEMPLATE_FILES: Mapping[str, str] = {
    "css": "page.css", "js": "page.js", "audit_css": "audit/audit.css",
    "audit_js": "audit/audit.js"}


@lru_cache(maxsize=1)
def page_environment() -> Environment:
    """The environment that every page and picture is rendered in. What a record holds is escaped."""
    source = folder("reports") / "page"
    environment = Environment(
        loader=FileSystemLoader(source),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {
        "figure": format_figure, "duration": format_duration, "gauge": gauge_margin,
        "moment": format_moment,
        "counted": count_noun, "mathml": formula_markup, "plainly": yes_or_no, "exit": exit_words,
        "web": web_address, "language": language_of_text, "breakable": _breakable_markup,
        "short": SHORT_NAMES.__getitem__,
        "grouped": group_digits, "thread": name_thread, "anchor": clause_anchor,
        "prose": _prose_markup,
        "said": word_for_reader, "library": _library_folder, "listed": list_defaults,
        "verbatim": _verbatim_markup}
    # our own files, inlined as they are
    environment.globals |= {
        name: Markup((source / file).read_text(encoding="utf-8"))
        for name, file in TEMPLATE_FILES.items()}
    return environment


def _prose_markup(text: str) -> Markup:
    """A text whose `code` is set as code, and whose addresses lead there."""
    return Markup("").join(map(_piece_markup, _PIECES.split(text)))


_PIECES = re.compile(r"(`[^`]+`|https?://[^\s<>\"')\]]*[^\s<>\"')\].,;:])")


def _piece_markup(part: str) -> Markup:
    if part.startswith("`") and part.endswith("`") and len(part) > 1:
        return Markup("<code>{0}</code>").format(part.strip("`"))
    if web_address(part):
        return Markup('<a href="{0}" rel="noreferrer noopener">{1}</a>').format(part,
                                                                                name_thread(part))
    return Markup.escape(part)


def _library_folder(name: str) -> str:
    """The folder of a subject's library, of an id or of `JudgedSubject.library`."""
    return name.partition("/")[0]


def _verbatim_markup(text: str) -> Markup:
    """A long text between tags, where quotes need no escape and would take five signs each."""
    return Markup(html.escape(text, quote=False))


def _breakable_markup(name: str) -> Markup:
    """A long identifier that may be broken after its separators."""
    broken = Markup.escape(name)
    for separator in ("/", "_", "."):
        broken = broken.replace(separator, Markup(f"{separator}<wbr>"))
    return broken


AXES: Mapping[str, str] = {
    "B": "batch", "H": "query heads", "Hkv": "key and value heads", "T": "query length",
    "S": "key and value length",
    "D": "head width (d_k)", "Dv": "head width of the values", "M": "model width (d_model)",
}


def write_page(records: Sequence[RunRecord], path: Path, *, compared: RunComparison | None = None,
               past: History | None = None, further: Sequence[SectionMaker] = ()) -> None:
    """Write the page of one or several runs to `path`, making its folder."""
    write_whole(path, render_page(records, compared=compared, past=past, further=further), "page")


def render_page(records: Sequence[RunRecord], *, compared: RunComparison | None = None,
                past: History | None = None,
                further: Sequence[SectionMaker] = ()) -> str:
    """The page of one or several runs as one HTML document that needs nothing else.

    It shows what the records hold: verdicts, answers to probes, a ranking, or several of these.
    compared, past: how the runs stand to an earlier one, and the runs before them, where that is wanted.
    further: what makes sections of what else was measured. Raises UsageError where none of them shows it.
    """
    earlier = {"compared": compared, "history": past, "rounding": MARGIN_FACTOR}
    return page_environment().get_template("page.html").render({**_page_variables(show_hidden(records), further),
                                                                **earlier})


def _page_variables(records: Sequence[RunRecord],
                    further: Sequence[SectionMaker]) -> Mapping[str, object]:
    """Collects all that the templates speak of."""
    joined = join_records(records)
    made = (make(records) for make in (*further, ranking_section))
    sections = tuple(section for section in made if section)
    check_shown(records, sections)
    is_judged = bool(joined.outcomes) or not (sections or joined.probes)
    summary = summarise_runs(joined, strict=joined.is_strict)
    looked = make_audit(joined) if is_judged and is_audit(joined) else None
    found = looked.habits if looked else find_habits(joined) if joined.probes else None
    return {
        "joined": joined, "strict": joined.is_strict, "summary": summary,
        "environment": _environments_of_runs(joined),
        "sections": sections, "is_judged": is_judged, "audit": looked,
        "habits": found, "answers": collect_answers(found) if found else None,
        "title": _audit_headline(looked, summary) if looked else _title_of_page(
            summary, next(iter(sections), None), found, is_judged=is_judged),
        **(_common_variables(joined) if looked else _verdict_variables(joined) if is_judged
           else {}),
        "held": compared_runs(joined), "conventions": _conventions_of_page(joined),
        "legend": LEGEND, "axes": AXES,
        "levels": PALETTE_STEPS,
    }


def ranking_section(records: Sequence[RunRecord]) -> PageSection | None:
    """The ranking of kernels as a section; None where no record has one."""
    ranked = make_ranking(records)
    if ranked is None:
        return None
    html = page_environment().get_template("ranking.html").render(ranking=ranked)
    return PageSection("Ranking", "ranking", ranked.headline, ranked.css, Markup(html),
                       RANKING_EXITS,
                       lambda record: bool(record.ranks))


def _conventions_of_page(joined: JoinedRecords) -> Mapping[str, Convention]:
    """Picks the conventions that everybody is asked, and those that somebody here has an answer to."""
    told = {name for each in joined.subjects
            for name in (*each.card.conventions, *each.card.probed)}
    return {name: each for name, each in CONVENTIONS.items() if not each.keyword or name in told}


def _audit_headline(looked: Audit, summary: Summary) -> tuple[str, str]:
    return looked.headline, "bad" if looked.unexplained or summary.interrupted_runs else "idle"


def _verdict_variables(joined: JoinedRecords) -> Mapping[str, object]:
    """Collects what only a page with verdicts speaks of."""
    told = make_findings(joined, strict=joined.is_strict)
    return {
        "findings": told,
        "following": {other.clause.id for finding in told for other in finding.alike},
        "themes": group_by_theme(joined), "trust": measure_trust(joined),
        "readings": collect_readings(joined),
        "sizes": measure_subjects(joined),
        "at_sizes": coverage_at_named_sizes(joined), **_common_variables(joined),
    }


def _common_variables(joined: JoinedRecords) -> Mapping[str, object]:
    """Collects what pages of either kind speak of where there are verdicts."""
    return {
        "silences": find_silences(joined), "never": never_decided(joined),
        "applies_to_nobody": applying_to_nobody(joined),
        "present": {SIGNS[outcome.verdict].word for outcome in joined.outcomes.values()},
    }


def _title_of_page(
    summary: Summary, measured: PageSection | None, found: ConventionTable | None, *,
    is_judged: bool,
) -> tuple[str, str]:
    """The sentence over the page, and its colour: that of the verdicts, of what was measured, or of the probes."""
    if is_judged:
        return summary.title, summary.css
    if measured is not None:
        return measured.headline, measured.css
    assert found is not None  # else it would be judged
    return found.title


def _environments_of_runs(joined: JoinedRecords) -> tuple[tuple[str, tuple[str, ...], bool], ...]:
    """Rows of the environment table: a name, its value in every run, and whether the runs differ in it."""
    each = [run.record.header.environment for run in joined.runs]
    names = dict.fromkeys(name for environment in each for name in environment)
    rows = [(name, tuple(environment.get(name, "") for environment in each)) for name in names]
    return tuple((name, values, len(set(values)) > 1) for name, values in rows)
