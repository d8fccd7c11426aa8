"""Renders the HTML page of one or several runs. Templates, style and script lie in reports/page/.

A card of the page shows all clauses that one bug makes an implementation fail; the worst card
comes first.
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
from attnspec.report.audit.view import is_audit, make_audit
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
from attnspec.report.summary import (
    LEGEND,
    Summary,
    exit_words,
    find_silences,
    name_clauses,
    never_decided,
    summarise_runs,
)

PICTURED_CELLS = 1_100  # cells of pictures that a page draws; it refers to the record for further ones
OPEN_FINDINGS = 24  # findings that gate and stand open; the others can be opened one by one


@dataclass(frozen=True, slots=True)
class PageFinding:
    """A card of the page: an implementation that fails a clause.

    outcomes: those of the failing dtypes, the gravest first.  pictures: of the first outcome.
    cause: what is likely behind it; None if unknown.  alike: the findings under other clauses that
    the same cause explains.  known: what the library's folder says of it.  failures: how many
    outcomes the cause explains.
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
        """How many clauses the card shows."""
        return 1 + len(self.alike)

    @property
    def explains(self) -> str:
        """`16 clauses and 1 recommendation`: how many gate, and how many do not."""
        gating = sum(each.does_gate for each in (self, *self.alike))
        counts = {"clause": gating, "recommendation": self.clauses - gating}
        return " and ".join(count_noun(number, noun) for noun, number in counts.items() if number)


def make_findings(joined: JoinedRecords, *, strict: bool) -> tuple[PageFinding, ...]:
    """Makes the cards of all implementations, the worst first. Failures of faults are shown by the
    trust matrix.
    """
    cards = [card for subject in joined.subjects
             for card in _findings_of_one(joined, subject, strict=strict)]
    return _add_pictures_to_page(sorted(cards, key=_page_gravity))


def _findings_of_one(joined: JoinedRecords, subject: JudgedSubject, *,
                     strict: bool) -> Iterator[PageFinding]:
    """Makes a card for each cause, then one for each other clause that fails."""
    left = dict[str, PageFinding]()
    for number, clause in enumerate(joined.clauses):
        outcomes = joined.outcomes_of(subject, clause.id)
        if finding := _make_finding(number, clause, subject, outcomes, strict=strict):
            left[clause.id] = finding
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
    """Groups the failures that gate by cause; advice that fails for such a cause joins it."""
    gating = [failure for failure in failures if failure.does_gate(strict=strict)]
    groups = list(explain_bugs(gating))
    if len(gating) == len(failures):
        return groups
    for mixed in explain_bugs(failures):
        advice = tuple(each for each in mixed.failures if not each.does_gate(strict=strict))
        if not advice:
            continue
        host = max(groups, key=lambda group: _count_shared_failures(group, mixed), default=None)
        if host and host.cause and mixed.cause and _count_shared_failures(host, mixed):
            groups[groups.index(host)] = replace(host, failures=(*host.failures, *advice))
        else:
            groups.append(replace(mixed, failures=advice))
    return groups


def _count_shared_failures(group: ExplainedFailures, other: ExplainedFailures) -> int:
    return sum(failure in other.failures for failure in group.failures)


def _lead_with(finding: PageFinding, group: ExplainedFailures) -> PageFinding:
    """Puts the outcomes first that the cause explains, so that title and case are of one dtype."""
    dtypes = {failure.dtype for failure in group.failures if failure.clause == finding.clause.id}
    ordered = sorted(finding.outcomes, key=lambda each: each.dtype not in dtypes)
    return replace(finding, outcomes=tuple(ordered))


def _sign_of_advice(outcome: Outcome) -> Sign:
    if is_other_convention(outcome):
        return OTHER_CONVENTION
    return ADVICE


def _make_finding(
    number: int, clause: ClauseText, subject: JudgedSubject, outcomes: tuple[Outcome, ...], *,
    strict: bool,
) -> PageFinding | None:
    failing = [outcome for outcome in outcomes if outcome.verdict in FINDINGS]
    if not failing:
        return None
    worst, *others = sorted(failing, key=_outcome_gravity)
    does_gate = any(outcome.does_gate(strict=strict) for outcome in failing)
    is_advice = worst.verdict is Verdict.VIOLATED and not does_gate and not worst.is_excused
    known = {finding.id: finding for outcome in (worst, *others)
             for finding in explaining_findings(subject, outcome)}
    return PageFinding(
        anchor=finding_anchor(number, subject), clause=clause, subject=subject,
        outcomes=(worst, *others),
        sign=_sign_of_advice(worst) if is_advice else SIGNS[worst.verdict],
        css=shade_verdict(worst.verdict, worst.level),
        dtypes=" ".join(SHORT_NAMES[outcome.dtype] for outcome in failing),
        does_gate=does_gate, known=tuple(known.values()))


def measured_margin(outcome: Outcome) -> float:
    """The margin of the counterexample: 0 if none was measured, infinite if it is NaN."""
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
            -finding.failures, -finding.clauses, *rank_clarity(first), *_outcome_gravity(first))


def _add_pictures_to_page(findings: list[PageFinding]) -> tuple[PageFinding, ...]:
    """Adds pictures to the findings while there is room, and opens the first findings."""
    evidence = [finding.outcomes[0].evidence for finding in findings]
    cases = [each.pictures if each else () for each in evidence]
    drawn = fit_pictures(cases, PICTURED_CELLS, PICTURED_CELLS)
    with_pictures = []
    for place, (finding, pictures, grids) in enumerate(zip(findings, cases, drawn, strict=True)):
        is_open = finding.does_gate and place < OPEN_FINDINGS
        omitted = len(pictures) if grids is None else 0
        with_pictures.append(replace(finding, is_open=is_open, pictures=grids or (),
                                     omitted=omitted))
    return tuple(with_pictures)


_MATHML_NAMESPACE = "{http://www.w3.org/1998/Math/MathML}"
_ELEMENTS = frozenset({
    "math", "mrow", "mi", "mo", "mn", "mtext", "mspace", "mstyle", "mpadded", "mphantom", "mfrac",
    "msqrt", "mroot", "msub", "msup", "msubsup", "munder", "mover", "munderover", "mmultiscripts",
    "mprescripts", "none", "mtable", "mtr", "mtd", "menclose", "mfenced",
})
_ATTRIBUTES = frozenset({
    "display", "displaystyle", "scriptlevel", "mathvariant", "stretchy", "fence", "form",
    "separator", "symmetric", "largeop", "movablelimits", "accent", "accentunder", "linethickness",
    "width", "height", "depth", "lspace", "rspace", "minsize", "maxsize", "columnalign",
    "rowspacing", "columnspacing", "columnlines", "rowlines", "notation", "open", "close",
    "separators",
})
_CHILDREN = {"mfrac": 2, "mroot": 2, "msub": 2, "msup": 2, "munder": 2, "mover": 2, "msubsup": 3,
             "munderover": 3}


@lru_cache(maxsize=1024)
def formula_markup(latex: str) -> Markup | None:
    """Converts LaTeX to MathML; None if that fails, and the LaTeX is to be shown."""
    if not latex.strip() or not _is_balanced(latex):
        return None
    try:
        drawn = convert(latex, display="block")
    # the converter raises IndexError, KeyError and its own; a formula never costs a page
    except Exception:
        return None
    return Markup(drawn) if _is_plain(drawn) else None


def _is_balanced(latex: str) -> bool:
    """Whether all braces close. If they do not, the converter draws half a formula without an
    error.
    """
    bare = latex.replace(r"\{", "").replace(r"\}", "")
    return bare.count("{") == bare.count("}")


def _is_plain(drawn: str) -> bool:
    r"""Whether this is MathML alone. The converter copies what stands in \text, tags included."""
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
    """Makes the Jinja environment of all pages and pictures.

    It escapes whatever a record holds.
    """
    source = folder("reports") / "page"
    environment = Environment(
        loader=FileSystemLoader(source),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {
        "anchor": clause_anchor, "breakable": _breakable_markup, "counted": count_noun,
        "duration": format_duration, "exit": exit_words, "figure": format_figure,
        "gauge": gauge_margin, "grouped": group_digits, "language": language_of_text,
        "library": _library_folder, "listed": list_defaults, "mathml": formula_markup,
        "moment": format_moment, "named": name_clauses, "plainly": yes_or_no,
        "prose": _prose_markup,
        "said": word_for_reader, "short": SHORT_NAMES.__getitem__, "thread": name_thread,
        "verbatim": _verbatim_markup, "web": web_address}
    # our own files, inlined as they are
    environment.globals |= {
        name: Markup((source / file).read_text(encoding="utf-8"))
        for name, file in TEMPLATE_FILES.items()}
    return environment


def _prose_markup(text: str) -> Markup:
    """Sets `code` of a text as code, and makes links of its addresses."""
    return Markup("").join(map(_piece_markup, _PIECES.split(text)))


_PIECES = re.compile(r"(`[^`]+`|https?://[^\s<>\"')\]]*[^\s<>\"')\].,;:])")


def _piece_markup(part: str) -> Markup:
    if part.startswith("`") and part.endswith("`") and len(part) > 1:
        return Markup("<code>{0}</code>").format(part.strip("`"))
    if web_address(part):
        link = Markup('<a href="{0}" rel="noreferrer noopener">{1}</a>')
        return link.format(part, name_thread(part))
    return Markup.escape(part)


def _library_folder(name: str) -> str:
    """The library's folder: of a subject's id, or of `JudgedSubject.library`."""
    return name.partition("/")[0]


def _verbatim_markup(text: str) -> Markup:
    """Escapes a text between tags. Quotes stay as they are: escaped, they take five signs each."""
    return Markup(html.escape(text, quote=False))


def _breakable_markup(name: str) -> Markup:
    """Allows a line break after each separator of a long identifier."""
    broken = Markup.escape(name)
    for separator in ("/", "_", "."):
        broken = broken.replace(separator, Markup(f"{separator}<wbr>"))
    return broken


AXES: Mapping[str, str] = {
    "B": "batch", "H": "query heads", "Hkv": "key and value heads", "T": "query length",
    "S": "key and value length", "D": "head width (d_k)", "Dv": "head width of the values",
    "M": "model width (d_model)",
}


def write_page(records: Sequence[RunRecord], path: Path, *, compared: RunComparison | None = None,
               past: History | None = None, further: Sequence[SectionMaker] = ()) -> None:
    """Write the page of one or several runs to `path`, making its folder."""
    write_whole(path, render_page(records, compared=compared, past=past, further=further), "page")


def render_page(records: Sequence[RunRecord], *, compared: RunComparison | None = None,
                past: History | None = None,
                further: Sequence[SectionMaker] = ()) -> str:
    """Renders one or several runs as one HTML document that needs no other file.

    It shows what the records hold: verdicts, answers to probes, a ranking, or several of these.
    compared: how the runs stand to an earlier one.  past: the runs before them.  further: makers
    of sections for what else was measured. Raises UsageError if a record measured something that
    no section shows.
    """
    variables = {**_page_variables(show_hidden(records), further),
                 "compared": compared, "history": past, "rounding": MARGIN_FACTOR}
    return page_environment().get_template("page.html").render(variables)


def _page_variables(records: Sequence[RunRecord],
                    further: Sequence[SectionMaker]) -> Mapping[str, object]:
    joined = join_records(records)
    drawn = (draw_section(records) for draw_section in (*further, ranking_section))
    sections = tuple(section for section in drawn if section)
    check_shown(records, sections)
    is_judged = bool(joined.outcomes) or not (sections or joined.probes)
    summary = summarise_runs(joined, strict=joined.is_strict)
    audit = make_audit(joined) if is_judged and is_audit(joined) else None
    if audit:
        habits: ConventionTable | None = audit.habits
        is_bad = bool(audit.unexplained or summary.interrupted_runs)
        title = audit.headline, "bad" if is_bad else "idle"
        verdicts = _common_variables(joined)
    else:
        habits = find_habits(joined) if joined.probes else None
        title = _title_of_page(summary, next(iter(sections), None), habits, is_judged=is_judged)
        verdicts = _verdict_variables(joined) if is_judged else {}
    return {
        "joined": joined, "strict": joined.is_strict, "summary": summary,
        "environment": _environments_of_runs(joined),
        "sections": sections, "is_judged": is_judged, "audit": audit,
        "habits": habits, "answers": collect_answers(habits) if habits else None,
        "title": title, **verdicts,
        "held": compared_runs(joined), "conventions": _conventions_of_page(joined),
        "legend": LEGEND, "axes": AXES, "levels": PALETTE_STEPS,
    }


def ranking_section(records: Sequence[RunRecord]) -> PageSection | None:
    """Draws the ranking of kernels as a section; None if no record has one."""
    ranking = make_ranking(records)
    if ranking is None:
        return None
    section = page_environment().get_template("ranking.html").render(ranking=ranking)
    return PageSection("Ranking", "ranking", ranking.headline, ranking.css, Markup(section),
                       RANKING_EXITS, lambda record: bool(record.ranks))


def _conventions_of_page(joined: JoinedRecords) -> Mapping[str, Convention]:
    """The conventions that all subjects are asked, and those that a subject here answered."""
    answered = {name for each in joined.subjects
                for name in (*each.card.conventions, *each.card.probed)}
    return {name: each for name, each in CONVENTIONS.items()
            if not each.keyword or name in answered}


def _verdict_variables(joined: JoinedRecords) -> Mapping[str, object]:
    """Collects what only a page with verdicts shows that is no audit."""
    findings = make_findings(joined, strict=joined.is_strict)
    return {
        "findings": findings,
        "following": {other.clause.id for finding in findings for other in finding.alike},
        "themes": group_by_theme(joined), "trust": measure_trust(joined),
        "readings": collect_readings(joined), "sizes": measure_subjects(joined),
        "at_sizes": coverage_at_named_sizes(joined), **_common_variables(joined),
    }


def _common_variables(joined: JoinedRecords) -> Mapping[str, object]:
    """Collects what any page with verdicts shows, be it an audit or not."""
    return {
        "silences": find_silences(joined), "never": never_decided(joined),
        "applies_to_nobody": applying_to_nobody(joined),
        "present": {SIGNS[outcome.verdict].word for outcome in joined.outcomes.values()},
    }


def _title_of_page(
    summary: Summary, measured: PageSection | None, habits: ConventionTable | None, *,
    is_judged: bool,
) -> tuple[str, str]:
    """The headline and its colour: of the verdicts, of what was measured, or of the probes."""
    if is_judged:
        return summary.title, summary.css
    if measured is not None:
        return measured.headline, measured.css
    assert habits is not None  # a page without verdicts and sections has probes
    return habits.title


def _environments_of_runs(joined: JoinedRecords) -> tuple[tuple[str, tuple[str, ...], bool], ...]:
    """The rows of the environment table: a name, its value in each run, whether runs differ."""
    each = [run.record.header.environment for run in joined.runs]
    names = dict.fromkeys(name for environment in each for name in environment)
    rows = [(name, tuple(environment.get(name, "") for environment in each)) for name in names]
    return tuple((name, values, len(set(values)) > 1) for name, values in rows)
