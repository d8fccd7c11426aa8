"""The page as text: what it says of made-up runs, and that nothing a record holds can break out of it."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from attnspec.core.nouns import DType, Level, Novelty, Panel, Verdict
from attnspec.core.texts import count_noun
from attnspec.record.events import ItemStarted, RunFinished, SubjectKnown, SubjectProbed
from attnspec.record.outcome import (
    Change,
    ClauseText,
    Evidence,
    Explanation,
    KnownFinding,
    Likeness,
    Measured,
    Outcome,
    Picture,
    QuotedSource,
    Reading,
    SubjectCard,
)
from attnspec.record.read import RunRecord
from attnspec.report.figures import format_duration, format_figure, format_moment, gauge_margin
from attnspec.report.joined import join_records
from attnspec.report.page import formula_markup, render_page, write_page
from attnspec.report.pictures import make_grid, make_grids
from attnspec.report.summary import find_silences, name_clauses
from helpers.pages import section, words
from helpers.records import run_started

HOSTILE = "</script><script>alert(1)</script>\"'><img src=x onerror=alert(2)>"
MEASURED = Measured("agree", "should agree", 59500.0, 0.119, 2e-6, -0.8808, -1.0, (0, 0, 1, 3), 35, 34, 3)
PICTURES = (
    Picture("weights", "T", "S", ((0.25, 0.75), (1.0, 0.0))),
    Picture("difference", "T", "S", ((0.0, "nan"), ("inf", -0.5))),
)
EVIDENCE = Evidence("3 of 35 entries differ", "B=1 H=1 T=2 S=2 D=1 Dv=1 float32", "B1,H1;seed=9", MEASURED, PICTURES)
VOID = {"meta", "link", "img", "input", "br", "hr", "wbr"}
OPTIONAL = {"tr", "td", "th", "li", "option", "p", "tbody", "thead"}  # HTML lets these end by themselves


Changes: TypeAlias = Any  # fields of a dataclass, by name


def clause(name: str, **changes: Changes) -> ClauseText:
    source = QuotedSource("vaswani2017", "3.2.1", "divide each by the root", title="Attention Is All You Need",
                          url="https://example.org/paper")
    whole = ClauseText(name, name.partition(".")[0], Level.MUST, "core", f"{name} holds.", r"\frac{a}{b}", (source,),
                       ("mask",), where="spec/x.yaml:7")
    return replace(whole, **changes)


def outcome(
    subject: str, name: str, verdict: Verdict = Verdict.HELD, dtype: DType = DType.FLOAT32, **changes: Changes,
) -> Outcome:
    plain = Outcome(subject, name, dtype, Level.MUST, verdict, "", 12, 1, seconds=0.5, repeat="attnspec replay Xt9Kp2")
    return replace(plain, **changes)


def card(subject: str, **changes: Changes) -> SubjectKnown:
    zeros = {"hidden_row": "zeros"}
    plain = SubjectCard(subject, "a title", "attention", "numpy", "2.4", "https://example.org/home", zeros, zeros,
                        {"float32": "G0"}, ("core",))
    return SubjectKnown(replace(plain, **changes))


def run(*outcomes: Outcome, clauses: tuple[ClauseText, ...] = (), **changes: Changes) -> RunRecord:
    names = dict.fromkeys(each.clause for each in outcomes)
    header = run_started(items=len(outcomes), clauses=clauses or tuple(clause(name) for name in names))
    cards = tuple(card(subject) for subject in dict.fromkeys(each.subject for each in outcomes))
    footer = RunFinished("2026-01-02T03:05:05+00:00", 60.0, {}, 0)
    return RunRecord(replace(header, **changes), cards, outcomes, footer)


def violated(subject: str = "lib/attend", name: str = "core.agrees", **changes: Changes) -> Outcome:
    return outcome(subject, name, Verdict.VIOLATED, **{"evidence": EVIDENCE, "worst": MEASURED, **changes})


class Tags(HTMLParser):
    """Collects elements, their ids and addresses, and complains about an end without a start."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.names: set[str] = set()
        self.ids: list[str] = []
        self.addresses: list[str] = []
        self.handlers: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self.handlers += [name for name, _ in attrs if name.startswith("on")]
        self.ids += [value for name, value in attrs if name == "id" and value]
        self.addresses += [value for name, value in attrs if name in {"href", "src"} and value]
        if tag not in VOID | OPTIONAL:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID | OPTIONAL:
            assert self.open, f"</{tag}> ends nothing"
            assert self.open.pop() == tag


def parsed(page: str) -> Tags:
    tags = Tags()
    tags.feed(page)
    assert tags.open == []
    return tags


def test_the_summary_says_in_words_who_violates_how_much() -> None:
    page = render_page([run(violated(), outcome("lib/attend", "core.rows"), outcome("lib/attend", "core.dtype"))])
    assert "lib/attend does not conform" in words(page)
    assert "1 of 3 clauses fail" in words(page)


def test_whoever_fails_only_what_is_advised_conforms() -> None:
    advised = violated(level=Level.SHOULD)
    assert "lib/attend conforms" in words(render_page([run(advised)]))
    assert "lib/attend does not conform" in words(render_page([run(advised, strict=True)]))


def test_a_subject_about_which_nothing_was_decided_does_not_conform() -> None:
    page = render_page([run(outcome("lib/attend", "core.agrees", Verdict.INAPPLICABLE, reason="no keyword mask",
                                    cases=0))])
    assert "lib/attend was not judged" in words(page)


def test_several_subjects_are_counted() -> None:
    page = render_page([run(violated("lib/bad"), outcome("lib/good", "core.agrees"))])
    assert "1 of 2 implementations conform" in words(page)


def test_a_run_without_footer_is_called_interrupted() -> None:
    record = replace(
        run(outcome("lib/attend", "core.agrees"), items=5), footer=None,
        unfinished=(ItemStarted("lib/attend", "core.rows", "float16"),))
    page = words(render_page([record]))
    assert "The run was interrupted" in page
    assert "? was judged in part" in page
    assert "4 of 5 items have no verdict; 1 of these still ran when the record ends" in page
    assert "lib/attend core.rows float16" in page


def test_a_run_that_executed_nothing_says_so() -> None:
    page = words(render_page([run(clauses=(clause("core.agrees"),))]))
    assert "Nothing was judged" in page
    assert "Nothing was executed. That is not a pass." in page
    assert "core.agrees core.agrees holds." in page[page.index("Clauses that were decided for no implementation"):]


def leading_clauses(page: str) -> list[str]:
    """The clause that each card of a page shows in full."""
    cards = section(page, "findings").split('<details class="finding')[1:]
    return [card.partition('href="#clause-')[2].partition('"')[0] for card in cards]


def test_findings_come_worst_first() -> None:
    page = render_page([run(
        violated(name="core.slightly", evidence=replace(EVIDENCE, measured=replace(MEASURED, margin=2.0))),
        violated(name="core.advice", level=Level.SHOULD),
        violated(name="core.badly"),
        outcome("lib/attend", "core.dead", Verdict.CRASHED, reason="signal 6"))])
    assert leading_clauses(page) == ["core.dead", "core.badly", "core.slightly", "core.advice"]


def test_one_finding_holds_all_dtypes_that_fail() -> None:
    held = outcome("lib/attend", "core.agrees", dtype=DType.FLOAT64)
    page = render_page([run(violated(), violated(dtype=DType.FLOAT16), held)])
    findings = section(page, "findings")
    assert findings.count('<details class="finding') == 1
    assert "f32 f16 · must" in words(findings)
    assert "also at float16" in words(findings)


def test_one_defect_that_fails_many_clauses_is_told_once() -> None:
    raised = Evidence("RuntimeError: no mask", "B=1", "B1", traceback="Traceback: here")
    items = [outcome("lib/attend", f"core.c{n}", Verdict.ERRORED, evidence=raised, worst=MEASURED) for n in range(5)]
    other = outcome("lib/attend", "core.d", Verdict.ERRORED, reason="another")
    findings = section(render_page([run(*items, other)]), "findings")
    assert findings.count('<details class="finding') == 2
    assert findings.count("RuntimeError: no mask") == 2  # as the cause, and as what was seen
    assert "it raises RuntimeError: no mask lib/attend explains 5 clauses" in words(findings)
    assert "4 more clauses, likely for the same reason" in words(findings)
    assert "59500" not in findings  # the worst margin of the cases before is no evidence of what was raised


def caused(name: str, fault: str = "late_mask", **changes: Changes) -> Outcome:
    like = (Likeness(fault, "mask", "The mask comes late.", "", 3, 3),)
    return violated(name=name, evidence=replace(EVIDENCE, like=like, sentence=f"seen under {name}"), **changes)


def test_one_bug_is_one_card_that_says_the_cause_first() -> None:
    other = violated(name="scale.other", evidence=replace(EVIDENCE, like=()))
    page = render_page([run(caused("attention.rows"), caused("masking.definition"),
                            caused("masking.rows", level=Level.MAY),
                            other)])
    findings = section(page, "findings")
    assert leading_clauses(page) == ["masking.definition", "scale.other"]
    assert "3 of 4 clauses fail, one cause for 2 of them; 1 recommendation not followed (1 may)." in words(page)
    assert "the mask comes late late_mask lib/attend explains 2 clauses and 1 recommendation" in words(findings)
    assert "2 more clauses, likely for the same reason" in words(findings)
    assert 'Findings <b>2</b>' in page


def test_the_other_clauses_of_a_bug_are_reached_and_show_what_was_seen() -> None:
    page = render_page([run(caused("attention.rows"), caused("masking.definition"))])
    [item] = re.findall(r"<li id=.*?</li>", section(page, "findings"), re.DOTALL)
    assert "seen under attention.rows" in item
    assert "attnspec replay Xt9Kp2" in item
    [anchor] = re.findall(r'<li id="([^"]+)"', item)
    assert f'href="#{anchor}"' in section(page, "matrix")


def test_what_is_not_as_listed_has_a_card_of_its_own() -> None:
    gone = [outcome("lib/attend", f"core.c{n}", Verdict.UNEXPECTED, reason="it passes") for n in range(2)]
    assert section(render_page([run(*gone)]), "findings").count('<details class="finding') == 2


def test_recommendations_of_one_that_conforms_stay_closed_and_uncounted() -> None:
    page = render_page([run(outcome("lib/attend", "core.a"), violated(name="core.b", level=Level.MAY))])
    assert "1 of 2 applicable clauses held by lib/attend; 1 recommendation not followed (1 may)" in words(page)
    assert '<h1 class="verdict good">lib/attend conforms</h1>' in page
    [card] = re.findall(r'<details class="finding[^>]*>', page)
    assert not card.endswith(" open>")
    assert "not as recommended" in words(section(page, "findings"))
    assert '<a href="#findings">Findings</a>' in page


def test_a_convention_that_is_in_use_is_counted_apart_from_recommendations() -> None:
    other = replace(EVIDENCE, measured=replace(MEASURED, relation="convention_is"))
    convention = violated(name="core.b", level=Level.SHOULD, evidence=other)
    page = render_page([run(outcome("lib/attend", "core.a"), convention, violated(name="core.c", level=Level.MAY))])
    assert ("1 of 3 applicable clauses held by lib/attend; 1 recommendation not followed (1 may); "
            "1 convention in use, but not recommended (1 should)") in words(page)
    assert "another convention" in words(section(page, "findings"))
    assert "another convention" not in words(section(render_page([run(violated(level=Level.MAY))]), "findings"))


def test_how_large_an_error_passes_stands_beside_what_is_held() -> None:
    record = run(outcome("lib/attend", "core.a"))
    record = replace(record, subjects=(card("lib/attend", passing_error="much passes"),))
    assert "1 of 1 applicable clause held by lib/attend; much passes" in words(render_page([record]))


def test_the_page_says_what_it_counts() -> None:
    record = run(outcome("lib/attend", "core.a"), outcome("lib/attend", "core.b"))
    assert ("tried2 items (subject × clause × dtype), 24 cases, 2 of which could not be judged (no claim)"
            in words(render_page([record])))
    probed = replace(record, probes=(SubjectProbed("lib/attend", "", DType.FLOAT32, ()),))
    assert "2 items (subject × clause × dtype) and 1 probe, 24 cases" in words(render_page([probed]))


def test_what_does_not_apply_is_one_entry_until_it_is_opened() -> None:
    lacking = [outcome("lib/attend", f"core.c{n}", Verdict.INAPPLICABLE, cases=0, reason=f"reason {n}")
               for n in range(3)]
    page = render_page([run(outcome("lib/attend", "core.a"), *lacking)])
    assert "1 of 1 applicable clause held by lib/attend" in words(page)
    silence = section(page, "silence")
    assert "What the implementation lacks, by reason3 items" in words(silence)
    assert silence.count("<details") == 1
    assert silence.index("reason 2") < silence.index("</details>")
    assert "3 clauses apply to no implementation; attnspec explain CLAUSE shows a clause." in words(silence)


def test_what_two_missing_keywords_keep_away_stands_under_one_of_them() -> None:
    reasons = {"core.a": "it takes no mask", "core.b": "it takes no mask and no bias", "core.c": "it takes no bias",
               "core.d": "it takes no bias", "other.a": "it takes no window and no mask"}
    lacking = [outcome("lib/attend", name, Verdict.INAPPLICABLE, cases=0, reason=reason)
               for name, reason in reasons.items()]
    silences = find_silences(join_records([run(*lacking)]))
    assert {each.reason: [clause.id for _, clauses in each.silenced_clauses for clause in clauses]
            for each in silences} == {"it takes no bias": ["core.b", "core.c", "core.d"],
                                      "it takes no mask": ["core.a", "other.a"]}


def test_a_reason_at_several_dtypes_is_told_once() -> None:
    lacking = [outcome("lib/attend", "core.a", Verdict.INAPPLICABLE, dtype, cases=0,
                       reason=f"it does not take {dtype.value}") for dtype in (DType.FLOAT16, DType.FLOAT64)]
    [only] = find_silences(join_records([run(*lacking)]))
    assert (only.reason, only.items) == ("it does not take float64, float16", 2)


@pytest.mark.parametrize(("ids", "names"), [
    (["a.1", "a.2", "b.1"], ("a.1", "a.2", "b.1")),
    (["a.1", "a.2", "a.3", "a.4", "b.1"], ("a.* (all but 1)", "b.1")),
    (["a.1", "b.1", "b.2"], ("a.1", "b.*")),
    (["a.1", "a.2", "a.3", "a.4", "a.5", "b.1", "b.2"], ("all clauses",)),
])
def test_most_clauses_of_a_theme_are_named_by_the_theme(ids: list[str], names: tuple[str, ...]) -> None:
    every = [clause(name) for name in ("a.1", "a.2", "a.3", "a.4", "a.5", "b.1", "b.2")]
    assert name_clauses([each for each in every if each.id in ids], every) == names


def test_a_clause_that_applies_to_nobody_has_no_row_and_no_entry() -> None:
    lacking = [outcome("lib/attend", name, Verdict.INAPPLICABLE, cases=0) for name in ("core.b", "paged.a")]
    page = render_page([run(outcome("lib/attend", "core.a"), *lacking)])
    assert re.findall(r'<details class="clause" id="clause-([\w.]+)', page) == ["core.a"]
    matrix = words(section(page, "matrix"))
    assert "1 more does not apply" in matrix
    assert "Of paged no clause applies (1 clause; the reasons)." in matrix


def test_what_is_held_names_the_command_that_gives_its_sources() -> None:
    source = QuotedSource(title="notes", quote="each row sums to 1")
    page = render_page([run(outcome("lib/attend", "core.a"), clauses=(clause("core.a", because=(source,)),))])
    assert "each row sums to 1" not in page
    assert "attnspec explain CLAUSE gives them" in words(section(page, "clauses"))


def test_a_clause_with_the_cause_of_another_has_no_sources() -> None:
    source = QuotedSource(title="notes", quote="each row sums to 1")
    names = ("attention.rows", "masking.definition")
    page = section(render_page([run(*map(caused, names), clauses=tuple(
        clause(name, because=(replace(source, quote=f"of {name}"),)) for name in names))]), "clauses")
    assert ("of masking.definition" in page, "of attention.rows" in page) == (True, False)


def test_the_head_says_where_it_begins_and_counts_once() -> None:
    begun = replace(EVIDENCE, like=(), begins="Fails where T ≥ 65; holds at T = 64.")
    unseen = replace(EVIDENCE, like=())
    page = render_page([run(violated(name="core.a", evidence=begun), violated(name="core.b", evidence=unseen),
                            outcome("lib/attend", "core.c"),
                            violated(name="core.d", level=Level.MAY, evidence=unseen))])
    head = words(page.partition("<nav")[0])
    assert "ails where T ≥ 65" in head
    assert "2 of 4 clauses fail" in head
    assert "1 recommendation not followed (1 may)" in head
    assert "explains" not in head


def test_what_does_not_apply_is_not_among_the_counts_of_the_head() -> None:
    lacking = outcome("lib/attend", "core.b", Verdict.INAPPLICABLE, cases=0, reason="no mask")
    assert "inapplicable" not in render_page([run(outcome("lib/attend", "core.a"), lacking)]).partition("<nav")[0]


def test_advice_that_fails_for_the_cause_of_what_gates_stands_on_its_card() -> None:
    page = render_page([run(caused("masking.definition"), caused("scale.rows", level=Level.SHOULD),
                            caused("state.other", "another", level=Level.MAY))])
    assert leading_clauses(page) == ["masking.definition", "state.other"]
    assert "one cause" in words(page.partition("<nav")[0])


def test_the_evidence_shows_case_numbers_and_the_command_that_repeats_it() -> None:
    findings = words(section(render_page([run(violated())]), "findings"))
    for piece in ("B=1 H=1 T=2 S=2 D=1 Dv=1 float32", "59500", "2.00×10⁻⁶", "−0.8808", "(0, 0, 1, 3)", "3 / 34 / 35",
                  "attnspec replay Xt9Kp2", "B1,H1;seed=9"):
        assert piece in findings


def test_a_violation_says_which_faults_it_is_like_and_what_it_rests_on() -> None:
    link = "https://github.com/a/b/pull/7"
    like = (Likeness("hidden_by_constant", "mask", "Hidden keys get -1e4.", link, 11, 11),
            Likeness("late_mask", "mask", "The mask comes late.", "", 9, 11))
    evidence = replace(EVIDENCE, like=like)
    page = section(render_page([run(violated(evidence=evidence, instrument="equality"))]), "findings")
    assert "like hidden_by_constant mask · the same answer as this fault on 11 of 11 cases" in words(page)
    assert 'Hidden keys get -1e4. <a href="https://github.com/a/b/pull/7" rel="noreferrer noopener">a/b#7</a>' in page
    assert "or like late_mask mask · the same answer as this fault on 9 of 11 cases The mask comes late." in words(page)
    assert "rests on equality" in words(page)


def test_a_wider_arithmetic_is_told_before_what_was_seen() -> None:
    explained = Explanation("every step is rounded to float16", "Accumulate in float32, or declare it:", "attend.x = 1")
    findings = words(section(render_page([run(violated(evidence=replace(EVIDENCE, explained=explained)))]), "findings"))
    assert ("cause every step is rounded to float16 Accumulate in float32, or declare it:pasteattend.x = 1 "
            f"{EVIDENCE.sentence}") in findings
    assert "cause" not in words(section(render_page([run(violated())]), "findings"))


def test_a_finding_says_first_where_it_begins() -> None:
    begins, wrong = "Fails where T ≥ 65; holds at T = 64.", "At B=2 H=2: rows 64 to 128 of every head."
    evidence = replace(EVIDENCE, begins=begins, wrong=wrong)
    findings = words(section(render_page([run(violated(evidence=evidence))]), "findings"))
    assert 0 < findings.index(f"begins {begins}Wrong: {wrong}") < findings.index(EVIDENCE.sentence)


def test_a_violation_like_no_fault_says_where_it_was_located() -> None:
    evidence = replace(EVIDENCE, located="the weights of hidden keys are not zero")
    findings = words(section(render_page([run(violated(evidence=evidence))]), "findings"))
    assert "where the weights of hidden keys are not zero" in findings
    assert "like hidden" not in findings


def test_readings_stand_beside_their_instrument_with_and_without_a_failure() -> None:
    drift = Reading("temperature drift", -1.2e-6, 3e-7, "it drifts, by chance at most 1e-9")
    grade = Reading("precision grade", "G1", 0.0, "G1 explains the panel")
    page = render_page([run(
        outcome("lib/a", "drift.temperature", readings=(drift,), instrument="score test"),
        violated("lib/a", "drift.temperature", dtype=DType.FLOAT16, readings=(drift,)),
        outcome("lib/a", "numerics.grade", readings=(grade,)), outcome("lib/b", "numerics.grade"))])
    readings = section(page, "readings")
    for piece in ("temperature drift", "score test", "−1.2×10⁻⁶ ± 3.0×10⁻⁷", "it drifts, by chance at most 1e-9", "G1",
                  "G1 explains the panel"):
        assert piece in words(readings)
    assert "−1.2×10⁻⁶ ± 3.0×10⁻⁷ ✗" in words(readings)
    assert words(readings).count("✗") == 1
    assert "lib/b" not in words(readings)


def test_without_readings_there_is_no_section_for_them() -> None:
    assert 'id="readings"' not in render_page([run(violated())])


def test_every_cell_of_the_matrix_leads_somewhere() -> None:
    page = render_page([run(
        violated(), violated(dtype=DType.FLOAT16),
        outcome("lib/attend", "core.rows"), outcome("lib/other", "core.rows"),
        outcome("lib/other", "core.agrees", Verdict.INAPPLICABLE, cases=0, reason="no"),
        outcome("lib/other", "core.agrees", Verdict.INAPPLICABLE, DType.FLOAT16, cases=0, reason="no"))])
    tags = parsed(page)
    targets = [address[1:] for address in tags.addresses if address.startswith("#")]
    assert len(targets) > 10
    assert set(targets) <= set(tags.ids)
    assert len(tags.ids) == len(set(tags.ids))


def test_identical_reasons_are_told_once() -> None:
    items = [outcome(f"lib/{n}", name, Verdict.INAPPLICABLE, cases=0, reason="takes no keyword 'mask'")
             for n in range(3) for name in ("core.agrees", "core.rows")]
    silence = section(render_page([run(*items, outcome("lib/0", "core.other"))]), "silence")
    assert silence.count("takes no keyword") == 1
    assert "lib/0, lib/1, lib/2: core.agrees, core.rows" in words(silence)


def test_hostile_text_stays_text() -> None:
    evil = clause(f"core.{HOSTILE}", says=HOSTILE, note=HOSTILE, where=HOSTILE, formula=HOSTILE, refuted_by=(HOSTILE,),
                  because=(QuotedSource(HOSTILE, HOSTILE, HOSTILE, HOSTILE, HOSTILE, "javascript:alert(3)"),))
    likeness = Likeness(HOSTILE, HOSTILE, HOSTILE, "javascript:alert(5)", 1, 2)
    evidence = Evidence(HOSTILE, HOSTILE, HOSTILE, replace(MEASURED, sentence=HOSTILE),
                        (Picture(HOSTILE, HOSTILE, HOSTILE, ((1.0,),)),), HOSTILE, HOSTILE, (likeness,) * 2, HOSTILE,
                        Explanation(HOSTILE, HOSTILE, HOSTILE))
    readings = (Reading(HOSTILE, HOSTILE, 0.0, HOSTILE),)
    items = [violated(f"{prefix}{HOSTILE}", f"core.{HOSTILE}", evidence=evidence, reason=HOSTILE, repeat=HOSTILE,
                      instrument=HOSTILE, readings=readings) for prefix in ("lib/", "fault/")]
    record = run(*items, clauses=(evil,), environment={HOSTILE: HOSTILE}, command=(HOSTILE,), started=HOSTILE)
    mapping = {HOSTILE: HOSTILE}
    cards = [card(each.subject, claims=(HOSTILE,), limits=mapping, defaults=mapping) for each in items]
    tags = parsed(render_page([replace(record, subjects=tuple(replace(each, broken=HOSTILE) for each in cards))]))
    assert tags.names.isdisjoint({"img", "iframe", "object"})
    assert tags.handlers == []
    assert not [address for address in tags.addresses if address.startswith("javascript:")]


def test_the_page_asks_the_network_for_nothing() -> None:
    page = render_page([run(violated())])
    assert parsed(page).names.isdisjoint({"img", "iframe", "object", "embed", "audio", "video"})
    assert "default-src 'none'" in page
    assert re.findall(r"url\(([^)]*)\)|@import", page.split("</style>")[0].split("<style>")[1]) == [
        "#masked", "#unjudged", "#hatch"]
    assert set(re.findall(r'<(?:script|link)\b[^>]*?(?:src|href)="([^"]*)', page)) == {"data:,"}


@pytest.mark.parametrize("broken", [
    r"\frac{a}{b", r"\frac{a}", r"\unheard_of{a}", "x^", r"\left( a", r"\href{javascript:a}{x}"])
def test_a_formula_becomes_mathml_and_a_broken_one_stays_latex(broken: str) -> None:
    page = render_page([run(violated("lib/attend", "core.a"), outcome("lib/attend", "core.b", Verdict.NO_CLAIM),
                            clauses=(clause("core.a"), clause("core.b", formula=broken)))])
    assert page.count("<math") == 1
    assert f"<code>{broken}</code>" in page


@pytest.mark.parametrize("latex", [
    HOSTILE, "<script>", r"\text{<img src=x onerror=alert(1)>}", r"\text{<img/>}", r"\text{<b onclick='a()'>b</b>}",
    "a < b"])
def test_mathml_lets_no_markup_through(latex: str) -> None:
    tags = Tags()
    tags.feed(str(formula_markup(latex) or ""))
    assert tags.names <= {"math", "mrow", "mi", "mo", "mn", "mtext", "mspace", "mstyle", "msup"}


def test_a_chinese_quote_says_its_language() -> None:
    source = QuotedSource(title="notes", quote="每一行之和为 1")
    undecided = outcome("lib/attend", "core.a", Verdict.NO_CLAIM)
    page = render_page([run(undecided, clauses=(clause("core.a", because=(source,)),))])
    assert '<blockquote lang="zh">每一行之和为 1</blockquote>' in page
    assert "In English:" not in page


def test_a_quote_stands_above_its_translation() -> None:
    source = QuotedSource(title="notes", quote="每一行之和为 1", translation="each row sums to 1")
    undecided = outcome("lib/attend", "core.a", Verdict.NO_CLAIM)
    page = render_page([run(undecided, clauses=(clause("core.a", because=(source,)),))])
    assert '每一行之和为 1</blockquote><p class="translation">In English: each row sums to 1</p>' in page


def test_joined_runs_in_different_environments_stand_side_by_side() -> None:
    page = render_page([run(outcome("lib/attend", "core.a"), environment={"numpy": "1.26"}),
                        run(violated(name="core.a"), environment={"numpy": "2.4"})])
    assert "1 of 2 implementations × environments conform" in words(page)
    assert "seed 7; numpy 1.26" in words(page)
    assert "lib/attend (A)" in words(page)
    assert "lib/attend (B)" in words(page)
    assert re.search(r"numpy ≠ ?1\.26 ?2\.4", words(section(page, "environment")))


def test_a_page_says_with_how_many_cases_further_dtypes_were_tried() -> None:
    whole, sampled = (run(outcome("lib/attend", "core.a"), sample=sample) for sample in (0, 4))
    told = r"further dtypes ?4 cases of each clause whose verdict does not depend on the dtype ?all cases"
    assert re.search(told, words(section(render_page([sampled, whole]), "environment")))
    assert "further dtypes" not in words(section(render_page([whole]), "environment"))


def test_known_and_new_stand_apart_in_every_environment() -> None:
    finding = KnownFinding("lib/flag_ignored", "It ignores the flag.", ("core.*",), (), "", "no", "")
    known = [outcome("lib/attend", "core.a", Verdict.EXPECTED, dtype, finding=finding.id)
             for dtype in (DType.FLOAT32, DType.FLOAT16)]
    changes = [violated(name="core.b", change=Change(Novelty.NEW, "is violated (agree)", Verdict.VIOLATED)),
               outcome("lib/attend", "core.c", Verdict.UNEXPECTED, change=Change(Novelty.MENDED, "now", Verdict.HELD)),
               outcome("lib/attend", "core.d", Verdict.EXPECTED)]
    red = run(*known, *changes, environment={"python": "3.11"}, baseline="lists/numpy2.yaml")
    red = replace(red, subjects=(card("lib/attend", library="Lib", findings=(finding,)),))
    green = run(outcome("lib/attend", "core.a"), environment={"python": "3.12"}, baseline="lists/numpy126.yaml")
    told = words(section(render_page([red, green]), "known"))
    assert "ALib 2.4 3.11lists/numpy2.yaml3100010" in told
    assert "Bnumpy 2.4 3.12lists/numpy126.yaml0000000" in told
    assert "New in run A: 1 item lib/attend core.b f32 · must is violated (agree)" in told
    assert "Mended in run A: 1 item lib/attend core.c f32 · must now" in told
    assert "3 known failures in run A lib/flag_ignored It ignores the flag. lib/attend core.a f32 f16" in told
    assert "no finding No finding explains these. lib/attend core.d f32" in told
    assert "Changed in" not in told


def test_the_headline_and_the_standing_tell_known_failures() -> None:
    known = [outcome("lib/attend", "core.a", Verdict.EXPECTED, dtype) for dtype in (DType.FLOAT32, DType.FLOAT64)]
    held = outcome("lib/attend", "core.b", Verdict.HELD)
    assert "lib/attend conforms, but for 2 known failures" in words(render_page([run(*known, held)]))
    other = outcome("lib/other", "core.b", Verdict.HELD)
    both = words(render_page([run(*known, held, other)]))
    assert "2 of 2 implementations conform, but for 2 known failures" in both
    assert "✓ conforms, but for 2 known failures" in both
    assert "✓ conforms " in both


def test_a_page_of_runs_without_a_baseline_has_no_section_for_them() -> None:
    assert 'id="known"' not in render_page([run(outcome("lib/attend", "core.a"))])


def test_shards_of_one_run_are_one_subject() -> None:
    page = words(render_page([run(outcome("lib/attend", "core.a")), run(outcome("lib/attend", "core.b"))]))
    assert "lib/attend conforms" in page
    assert "2 of 2 applicable clauses held by lib/attend" in page


def test_outcomes_told_twice_are_pointed_out() -> None:
    page = words(render_page([run(outcome("lib/attend", "core.a"))] * 2))
    assert "Repeated. 1 outcome occurred in several records of the same environment" in page


def test_different_laws_are_flagged_loudly() -> None:
    page = words(render_page([
        run(outcome("lib/attend", "core.a")),
        run(outcome("lib/attend", "core.a"), spec_digest="eeee", clauses=(clause("core.a", says="Otherwise."),))]))
    assert "Different specs." in page
    assert "1 clause changed in wording or sources" in page
    assert "The joined runs have different wordings of this clause" in page


def test_a_declared_convention_that_the_probe_contradicts_stands_out() -> None:
    record = run(outcome("lib/attend", "core.a"))
    probed = {"hidden_row": "nan", "grouped_heads": "tile", "mask_with_causal": "undefined"}
    told = card("lib/attend", conventions={"hidden_row": "zeros"}, probed=probed)
    conventions = words(section(render_page([replace(record, subjects=(told,))]), "conventions"))
    assert "zeros✗ probed: nan" in conventions
    assert "not declared→ probed: tile" in conventions
    assert "not declared→ probed: none of the known answers" in conventions


def test_parameters_that_are_left_alone_stand_beside_the_limits() -> None:
    record = run(outcome("lib/attend", "core.a"))
    told = card("lib/attend", defaults={"block": "64", "is_causal": "False"})
    cell = section(render_page([replace(record, subjects=(told,))]),
                   "conventions").partition("left at their defaults:")[2]
    assert words(f"<b>{cell}").startswith("block=64, is_causal=False (attnspec&#39;s keyword is causal: ")
    assert "left at" not in render_page([record])


def test_a_broken_adapter_is_named_at_the_top() -> None:
    record = run(outcome("lib/attend", "core.a", Verdict.NOT_RUN, reason="adapter broken", cases=0))
    page = words(render_page([replace(record, subjects=(replace(card("lib/attend"), broken="cannot import lib"),))]))
    assert "adapter broken: cannot import lib" in page
    assert "lib/attend was not judged" in page


def test_a_subject_that_was_never_introduced_is_shown_by_its_id() -> None:
    record = run(outcome("lib/attend", "core.a"))
    assert "lib/attend conforms" in words(render_page([replace(record, subjects=())]))


def test_a_deviation_that_is_not_as_listed_is_a_finding() -> None:
    passing = outcome("lib/attend", "core.a", Verdict.UNEXPECTED, level=Level.MAY, reason="it passes now")
    page = words(render_page([run(passing)]))
    assert "lib/attend does not conform" in page
    assert "1 listed deviation of lib/attend not as listed" in page


def test_the_trust_matrix_flags_a_missing_refutation_and_an_escaped_fault() -> None:
    laws = (clause("core.a", refuted_by=("unscaled", "uniform",)), clause("core.b", refuted_by=("absent_one",)))
    page = render_page([run(
        outcome("lib/attend", "core.a"), violated("fault/unscaled", "core.a"), violated("fault/unscaled", "core.b"),
        outcome("fault/uniform", "core.a"), outcome("fault/uniform", "core.b"), clauses=laws)])
    trust = words(section(page, "trust"))
    assert "1 promised refutation missing, 1 fault not detected." in trust
    assert "core.a: uniform held at f32" in trust
    assert "Not detected by any clause: uniform." in trust
    assert "not tested here: absent_one." in trust
    assert "lib/attend conforms" in words(page)
    assert "1 of 2 known faults detected; 1 of 2 promised detections missing" in words(page)


def test_a_refutation_at_some_dtypes_only_breaks_the_promise() -> None:
    page = render_page([run(
        violated("fault/unscaled", "core.a"), outcome("fault/unscaled", "core.a", dtype=DType.BFLOAT16),
        clauses=(clause("core.a", refuted_by=("unscaled",)),))])
    assert "core.a: unscaled detected at f32, held at bf16" in words(section(page, "trust"))
    assert "1 known fault tested" in words(page)


def test_a_promise_that_was_not_put_to_trial_is_no_broken_one() -> None:
    laws = (clause("core.a", refuted_by=("unscaled",)), clause("core.b", refuted_by=("unscaled",)))
    trust = words(section(render_page([run(
        violated("fault/unscaled", "core.a"), violated("fault/other", "core.b"), clauses=laws)]), "trust"))
    assert "Every one of 2 faults is detected, and all 1 promised detections were made." in trust
    assert "1 promise not tested" in trust


def test_faults_that_are_all_refuted_earn_a_quiet_sentence() -> None:
    page = render_page([run(violated("fault/unscaled", "core.a"),
                            clauses=(clause("core.a", refuted_by=("unscaled",)),))])
    assert "Every one of 1 fault is detected, and all 1 promised detections were made." in words(section(page, "trust"))


def test_a_page_without_faults_has_no_trust_section() -> None:
    assert 'id="trust"' not in render_page([run(outcome("lib/attend", "core.a"))])


def test_an_outcome_of_an_unknown_clause_is_shown_all_the_same() -> None:
    page = render_page([run(outcome("lib/attend", "core.a"), outcome("lib/attend", "new.b"),
                            clauses=(clause("core.a"),))])
    assert "2 of 2 applicable clauses held" in words(page)


def test_a_page_writes_its_folder(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "page.html"
    write_page([run(outcome("lib/attend", "core.a"))], path)
    assert path.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_a_large_audit_stays_small() -> None:
    items = [outcome(f"lib/subject_{n}", f"theme{c % 8}.clause_{c}", dtype=dtype, worst=replace(MEASURED, margin=0.3))
             for n in range(6) for c in range(80) for dtype in DType]
    assert len(render_page([run(*items)]).encode()) < 5_000_000 / (30 / 6)


def test_pictures_beyond_the_room_of_the_page_are_left_to_the_record() -> None:
    large = Picture("weights", "T", "S", ((0.5,) * 40,) * 40)
    evidence = replace(EVIDENCE, pictures=(large,) * 4)
    page = render_page([run(*(violated(name=f"core.c{n}", evidence=evidence) for n in range(3)))])
    assert page.count("<figure") == 4
    assert words(page).count("4 pictures left out to keep the page small") == 2


def test_the_pictures_of_a_failure_say_what_they_show_and_where_it_begins() -> None:
    seen = Picture("seen: output of `original`", "query", "feature", ((0.5, 1.0),), Panel.SEEN, (64, 0), (130, 2),
                   (64, 1))
    told = replace(EVIDENCE, pictures=(seen,), caption="Output of `original`, batch 1, head 3.",
                   begins="Fails where T ≥ 65; holds at T = 64.")
    found = section(render_page([run(violated(evidence=told))]), "findings")
    caption = "Output of original, batch 1, head 3. Fails where T ≥ 65; holds at T = 64. seen: output of original"
    assert caption in words(found)
    assert "<title>seen: output of `original`</title><desc>query 64 to 64 down, feature 0 to 1 across; " in found
    assert "1 × 2 of 130 × 2 entries" in found
    assert found.count('class="over worst"') == 2  # the entry and its sign in the legend


def test_a_large_array_is_cropped_around_the_worst_difference() -> None:
    far = [[0.0] * 100 for _ in range(50)]
    far[45][90] = 3.0
    weights = Picture("weights", "T", "S", ((0.5,) * 100,) * 50)
    drawn, difference = make_grids((weights, Picture("difference", "T", "S", tuple(map(tuple, far)))))
    assert drawn.crop_text == "16 × 16 of 50 × 100 entries"
    assert any(cell.title == "(45, 90) = 3" for cell in difference.cells)
    assert any(cell.title == "(45, 90) = 0.5" for cell in drawn.cells)


def test_entries_that_are_no_numbers_are_hatched_and_named() -> None:
    cells = make_grid(PICTURES[1]).cells
    assert [(cell.css, cell.text) for cell in cells] == [("z", "0"), ("nan", "NaN"), ("inf", "∞"), ("n8", "−0.5")]


def test_weights_are_drawn_on_one_arm_and_differences_on_two() -> None:
    assert [cell.css for cell in make_grid(PICTURES[0]).cells] == ["s2", "s6", "s8", "z"]
    assert not make_grid(PICTURES[0]).is_diverging
    assert make_grid(PICTURES[1]).is_diverging


@pytest.mark.parametrize(("number", "text"), [
    (0.0, "0"), (0.119, "0.119"), (2e-6, "2.00×10⁻⁶"), (-0.8808, "−0.881"), (59500.0, "59500"), (99999.9, "100000"),
    (1234.5, "1234"), (3.1e9, "3.10×10⁹"), (math.inf, "∞"), ("-inf", "−∞"), ("nan", "NaN"),
])
def test_figures_read_well(number: float | str, text: str) -> None:
    assert format_figure(number) == text


def test_durations_times_and_counts_read_well() -> None:
    assert [format_duration(s) for s in (0.012, 1.25, 240.0)] == ["12 ms", "1.2 s", "4.0 min"]
    assert [format_moment(t) for t in ("2026-01-02T03:04:05+00:00", "long ago")] == ["2026-01-02 03:04 UTC", "long ago"]
    assert [count_noun(n, "entry") for n in (0, 1, 2)] == ["0 entries", "1 entry", "2 entries"]


def test_a_gauge_is_linear_to_the_allowance_and_logarithmic_beyond() -> None:
    assert [gauge_margin(m) for m in (0.0, 0.5, 1.0, 1e3, 1e6, 1e9, math.inf, math.nan)] == [0, 30, 60, 80, 100, 100,
                                                                                             100, 100]


def test_what_a_subject_refuses_stands_beside_its_limits() -> None:
    record = run(outcome("lib/attend", "core.a"))
    told = card("lib/attend", refused={"grouped heads (Hkv < H)": "ValueError: one key head a query head"})
    cell = section(render_page([replace(record, subjects=(told,))]), "conventions").partition("refuses grouped")[2]
    assert words(f"<b>{cell}").startswith("heads (Hkv &lt; H): ValueError: one key head a query head")


def test_the_headline_names_what_is_refused() -> None:
    met = replace(outcome("lib/attend", "core.a"), refused={"D > 200": "ValueError: too wide"})
    record = replace(run(met), subjects=(card("lib/attend", refused={"T ≠ S": "ValueError: equal lengths"}),))
    assert "lib/attend conforms; refuses T ≠ S, D &gt; 200" in words(render_page([record]))


def test_the_page_shows_the_contract() -> None:
    record = run(outcome("lib/attend", "core.a"))
    held_to = replace(record, header=replace(record.header, must_take="causal D128"))
    assert "must takecausal D128" in words(section(render_page([held_to]), "environment"))


def test_the_headline_says_the_likely_cause_as_the_console_does() -> None:
    evidence = replace(EVIDENCE, like=(), located="a query attends to keys that the mask excludes (mask)")
    one = run(violated("mine:attend", evidence=evidence))
    told = "Likely one bug: a query attends to keys that the mask excludes (mask)."
    page = render_page([one])
    assert f"mine:attend does not conform {told}" in words(page)
    both = words(render_page([run(violated("a:f", evidence=evidence), outcome("b:f", "core.agrees"))]))
    assert "1 of 2 implementations conform" in both
    assert told.rstrip(".") in both
    assert "Likely one" not in words(render_page([run(outcome("b:f", "core.agrees"))]))
