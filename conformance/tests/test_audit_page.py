"""The page and the text of an audit: one finding for all that has one cause, and what everybody does side by side."""

from __future__ import annotations

import json
import lzma
import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from attnspec.cli.group import attnspec
from attnspec.core.declaration import Harm
from attnspec.core.nouns import DType, Level, Verdict
from attnspec.record.codec import to_line
from attnspec.record.events import Event, Found, RunFinished, SubjectKnown, SubjectProbed
from attnspec.record.outcome import (
    ClauseText,
    Evidence,
    Explanation,
    KnownFinding,
    Measured,
    Outcome,
    Picture,
    QuotedSource,
    Reading,
    Seen,
    SubjectCard,
)
from attnspec.record.read import RunRecord, pack_text, read_records
from attnspec.report.audit.conventions import COLUMNS, ManifestWord, collect_answers
from attnspec.report.audit.explained import PICTURED_CELLS, FailureCause
from attnspec.report.audit.markdown import audit_text, write_audit_text
from attnspec.report.audit.view import AUDIT_SUBJECTS, Audit, MissingSubject, make_audit
from attnspec.report.joined import join_records
from attnspec.report.page import render_page
from attnspec.report.summary import find_silences
from click.testing import CliRunner
from helpers.pages import section, spaced_words, words
from helpers.places import CHECKOUT
from helpers.records import run_started

HOSTILE = "</script><script>alert(1)</script>"
MEASURED = Measured("agree", "agree", 3.0, 0.5, 0.125, 1.0, 0.5, (0, 0), 4, 4, 1)
EVIDENCE = Evidence("1 of 4 entries differ", "B=1 T=2 float32", "B1;T2", MEASURED)
SCRIPT = 'print("nan")\nraise SystemExit(1)\n'
FINDING = KnownFinding("lib/nan_row", "A hidden row is `NaN`", ("masking.*",), (), SCRIPT, "no", "")


def outcome(subject: str, clause: str = "core.agrees", verdict: Verdict = Verdict.HELD, *, margin: float = 0.5,
            dtype: DType = DType.FLOAT32, level: Level = Level.MUST, reason: str = "") -> Outcome:
    is_bad = verdict in (Verdict.VIOLATED, Verdict.EXPECTED)
    worst = replace(MEASURED, margin=3.0 if is_bad else margin) if verdict in (Verdict.HELD, Verdict.VIOLATED) else None
    return Outcome(subject, clause, dtype, level, verdict, reason, 4 if worst else 0, 0, worst,
                   EVIDENCE if is_bad else None, repeat=f"attnspec replay '{subject} {clause}'")


def card(subject: str, *findings: KnownFinding, broken: str = "", version: str = "1.2", note: str = "",
         **conventions: str) -> SubjectKnown:
    library = subject.partition("/")[0]
    known = SubjectCard(subject, f"the {subject}", "attention", library, version, "https://example.org/home",
                        conventions, {}, {}, ("core",), library=library.upper(), install=f"pip install {library}",
                        issues="https://example.org/issues", note=note, findings=findings)
    return SubjectKnown(known, broken)


def run(cards: Iterable[SubjectKnown], *outcomes: Outcome, probes: Iterable[SubjectProbed] = ()) -> RunRecord:
    levels = {each.clause: each.level for each in outcomes}
    clauses = tuple(ClauseText(name, level=level, says=f"{name} holds.") for name, level in levels.items())
    header = run_started(command=("attnspec", "audit"), items=len(outcomes), clauses=clauses)
    return RunRecord(header, tuple(cards), outcomes, RunFinished("", 1.0, {}, 0), probes=tuple(probes))


def crowd(number: int = AUDIT_SUBJECTS + 1) -> list[str]:
    return [f"lib/subject{place:02}" for place in range(number)]


def crowded(*more: Outcome, cards: Iterable[SubjectKnown] = (), probes: Iterable[SubjectProbed] = ()) -> RunRecord:
    """So many subjects that they make an audit, all sound."""
    return run([*map(card, crowd()), *cards], *(outcome(name) for name in crowd()), *more, probes=probes)


def looked(record: RunRecord) -> Audit:
    return make_audit(join_records([record]))


def probe(subject: str, *found: tuple[str, str], variant: str = "", dtype: DType = DType.FLOAT32,
          claimed: str = "") -> SubjectProbed:
    told = tuple(Found(question, f"What of {question}?", answer, "seen 0.25", claimed) for question, answer in found)
    return SubjectProbed(subject, variant, dtype, told)


def test_many_subjects_make_an_audit_and_few_a_run() -> None:
    assert audit_text([crowded()]).startswith("# What attention layers really do: an audit\n")
    assert audit_text([run([card("lib/a")], outcome("lib/a"))]).startswith("# `lib/a`: what was found\n")
    page = render_page([crowded(outcome("other/one"))])
    assert "14 implementations of attention from 2 libraries tested" in words(page)
    few = run(map(card, crowd(AUDIT_SUBJECTS)), *map(outcome, crowd(AUDIT_SUBJECTS)))
    assert "12 of 12 implementations conform" not in words(render_page([crowded()]))
    assert "12 of 12 implementations conform" in words(render_page([few]))


def test_an_audit_counts_its_probes_beside_its_items() -> None:
    assert ("1 clause, 13 items (subject × clause × dtype) and 1 probe, 52 cases"
            in words(render_page([crowded(probes=[probe("lib/subject00")])])))


def test_one_finding_stands_for_all_complaints_of_it() -> None:
    failures = [outcome(subject, clause, Verdict.VIOLATED, dtype=dtype)
                for subject in ("lib/a", "lib/b") for clause in ("masking.row", "masking.nan")
                for dtype in (DType.FLOAT32, DType.FLOAT16)]
    (told,) = looked(run([card("lib/a", FINDING), card("lib/b", FINDING)], *failures)).findings
    assert (told.says, told.items, told.libraries) == ("A hidden row is `NaN`", 8, ("LIB 1.2",))
    (concern,) = told.concerns
    assert [subject.label for subject in concern.subjects] == ["lib/a", "lib/b"]
    assert [(each.clause.id, each.dtypes) for each in concern.complaints] == [
        ("masking.row", "f32 f16"), ("masking.nan", "f32 f16")]


def test_a_finding_speaks_of_its_own_clauses_and_dtypes_only() -> None:
    narrow = replace(FINDING, clauses=("masking.row",), dtypes=("float16",))
    audited = looked(run(
        [card("lib/a", narrow)], outcome("lib/a", "masking.row", Verdict.VIOLATED, dtype=DType.FLOAT16),
        outcome("lib/a", "masking.row", Verdict.VIOLATED), outcome("lib/a", "core.x", Verdict.VIOLATED)))
    assert [told.items for told in audited.findings] == [1]
    assert [(told.cause, told.says) for told in audited.unexplained] == [
        (FailureCause.UNKNOWN, "core.x holds."), (FailureCause.UNKNOWN, "masking.row holds.")]


def test_what_nothing_explains_is_marked_so() -> None:
    page = render_page([crowded(outcome("lib/a", "masking.row", Verdict.VIOLATED), cards=[card("lib/a")])])
    assert "None of the 1 failure is explained yet." in words(page)
    assert "Not yet explained. masking.row holds." in words(section(page, "unexplained"))
    assert "unexplained" not in render_page([crowded()])


def test_a_finding_says_what_it_is_if_it_is_documented_and_how_to_see_it() -> None:
    said = replace(FINDING, documented="Yes: https://example.org/docs says so.", issue="https://github.com/a/b/issues/7")
    page = render_page([crowded(outcome("lib/a", "masking.row", Verdict.VIOLATED), cards=[card("lib/a", said)])])
    found = section(page, "findings")
    for piece in ("A hidden row is NaN", "LIB 1.2 · 1 implementation · 1 must clause · documented", "a/b#7",
                  "B=1 T=2 float32", "attnspec replay 'lib/a masking.row'", 'raise SystemExit(1)',
                  "lib/a: masking.row f32"):
        assert piece in words(found.replace("&#39;", "'").replace("&#34;", '"'))
    assert "<code>NaN</code>" in found
    assert '<a href="https://example.org/docs" rel="noreferrer noopener">example.org/docs</a> says so.' in found
    assert "1 finding explains every failure" in words(page)


def test_the_most_important_findings_come_first() -> None:
    known = [replace(FINDING, id=f"lib/{name}", says=name, clauses=(f"{name}.*",), documented=documented)
             for name, documented in (("advised", "no"), ("told", "in its manual"), ("raised", "no"), ("untold", "no"),
                                      ("died", "no"), ("silent", "no"))]
    audited = looked(run(
        [card("lib/a", *known)], outcome("lib/a", "advised.x", Verdict.VIOLATED, level=Level.SHOULD),
        outcome("lib/a", "told.x", Verdict.VIOLATED), outcome("lib/a", "untold.x", Verdict.VIOLATED),
        outcome("lib/a", "raised.x", Verdict.ERRORED), outcome("lib/a", "died.x", Verdict.CRASHED)))
    assert [told.says for told in audited.findings] == ["died", "untold", "told", "raised", "advised", "silent"]
    assert [told.shown_outcome is None for told in audited.findings] == [False] * 5 + [True]


def test_what_does_most_harm_comes_first() -> None:
    harms = (Harm.EXTREME, Harm.DOCUMENTED_CHOICE, Harm.FUTURE, Harm.FOREIGN_MEMORY)
    known = [replace(FINDING, id=f"lib/{harm.value}", says=harm.value, clauses=(f"{harm.value}.*",), harm=harm)
             for harm in harms]
    failures = [outcome("lib/a", f"{harm.value}.x", Verdict.VIOLATED) for harm in harms]
    advised = replace(failures[-1], level=Level.SHOULD)
    audited = looked(run([card("lib/a", *known)], *failures[:-1], advised))
    assert [told.harm for told in audited.explaining_findings] == [
        Harm.FOREIGN_MEMORY, Harm.FUTURE, Harm.EXTREME, Harm.DOCUMENTED_CHOICE]
    assert audited.leading == audited.explaining_findings[:3]
    assert audited.lines[0].verdict == "breaks a must clause: a query sees later keys"


CHOICE = replace(FINDING, id="lib/chosen", clauses=("scale.*",), harm=Harm.DOCUMENTED_CHOICE,
                 says="It is `not` scaled.", documented='"Luong-style", its manual')


def test_a_documented_choice_is_a_convention_and_breaks_nothing() -> None:
    chosen = [outcome("lib/a", "scale.x", Verdict.VIOLATED), outcome("lib/a", "core.x")]
    record = crowded(*chosen, cards=[card("lib/a", CHOICE)], probes=[probe("lib/a", ("scale", "1"))])
    audited = looked(record)
    assert audited.sentence.startswith(
        "13 keep every `must` clause, 1 keeps every `must` clause apart from documented choices.")
    assert audited.sentence.endswith("; 1 of them is a documented choice.")
    (line,) = (line for line in audited.lines if line.subject.label == "lib/a")
    assert (line.counts.must, line.counts.chosen, line.counts.share) == (0, 1, "1 of 1")
    assert line.verdict == "keeps every must clause, apart from a documented choice"
    said = "Documented choice. It is not scaled. \"Luong-style\", its manual"
    assert said in words(section(render_page([record]), "conventions").replace("&#34;", '"'))
    assert '- `lib/a`: Documented choice: It is `not` scaled. "Luong-style", its manual' in audit_text([record])
    assert {square.sign for _, squares in audited.cells.rows for square in squares} == {"", "✓", "≠"}


def test_a_choice_excuses_neither_another_cause_nor_another_dtype() -> None:
    both = replace(CHOICE, dtypes=("float32",))
    broken = [outcome("lib/a", "scale.x", Verdict.VIOLATED),
              outcome("lib/a", "scale.x", Verdict.VIOLATED, dtype=DType.FLOAT16)]
    (line,) = looked(run([card("lib/a", both)], *broken)).lines
    assert (line.counts.must, line.counts.chosen) == (1, 0)
    (line,) = looked(run([card("lib/a", CHOICE, replace(FINDING, clauses=("scale.*",)))], broken[0])).lines
    assert (line.counts.must, line.counts.chosen) == (1, 0)


def test_what_was_not_judged_to_the_end_keeps_nothing_and_is_counted() -> None:
    audited = looked(run(map(card, ("lib/a", "lib/b", "lib/c")), outcome("lib/a"),
                         outcome("lib/a", "core.lost", Verdict.NOT_RUN), outcome("lib/b"),
                         outcome("lib/b", "core.open", Verdict.NO_CLAIM), outcome("lib/c"),
                         outcome("lib/c", "c.bad", Verdict.VIOLATED), outcome("lib/c", "core.lost", Verdict.NOT_RUN)))
    assert audited.sentence.startswith(
        "1 breaks at least one `must` clause, 2 were not judged to the end.")
    assert [line.subject.label for line in audited.lines] == ["lib/c", "lib/a", "lib/b"]


def test_the_counts_of_the_page_agree() -> None:
    seen = replace(FINDING, seen=(Seen(needs=("bias",)),))
    other = replace(FINDING, id="lib/read", clauses=("other.*",))
    failures = [outcome("lib/a", "masking.row", Verdict.VIOLATED), outcome("lib/a", "masking.nan", Verdict.VIOLATED)]
    told = replace(EVIDENCE, recipe="B1,H1,Hkv1,T2,S2,D1,Dv1;mask=none;families=normal;with=bias;bias=normal;seed=0")
    record = crowded(replace(failures[0], evidence=told), failures[1], cards=[card("lib/a", seen, other)])
    page = words(render_page([record]))
    assert "1 finding explains all but 1 of the failures" in page
    assert "Not yet explained. No finding covers 1 failure. The library is wrong, its adapter, or what attnspec" in page
    assert [(found.says, found.items) for found in looked(record).unexplained] == [("masking.nan holds.", 1)]
    assert looked(record).lines[0].verdict == "breaks a must clause: not yet explained"


def test_the_smallest_case_of_the_strictest_clause_is_shown() -> None:
    large = replace(outcome("lib/a", "masking.b", Verdict.VIOLATED),
                    evidence=replace(EVIDENCE, measured=replace(MEASURED, entries=400)))
    advised = outcome("lib/a", "masking.a", Verdict.VIOLATED, level=Level.SHOULD)
    small = outcome("lib/a", "masking.c", Verdict.VIOLATED)
    (told,) = looked(run([card("lib/a", FINDING)], advised, large, small)).findings
    assert told.shown_outcome == small


def test_listed_deviations_stand_apart_unless_a_finding_explains_them() -> None:
    audited = looked(run(
        [card("lib/a", FINDING)], outcome("lib/a", "core.x", Verdict.EXPECTED, reason="it is like that"),
        outcome("lib/a", "masking.row", Verdict.EXPECTED)))
    assert [(told.says, told.sign.word) for told in audited.listed_findings] == [("it is like that", "known deviation")]
    assert [told.items for told in audited.findings] == [1]
    assert audited.unexplained == ()


def test_pictures_have_a_limit() -> None:
    entries = tuple(tuple(0.5 for _ in range(12)) for _ in range(12))
    drawn = replace(EVIDENCE, pictures=(Picture("weights", "T", "S", entries),))
    failures = [replace(outcome(f"lib{n}/a", "masking.row", Verdict.VIOLATED), evidence=drawn) for n in range(20)]
    cards = [card(f"lib{n}/a", replace(FINDING, id=f"lib{n}/x")) for n in range(20)]
    audited = looked(run(cards, *failures))
    assert sum(bool(told.pictures) for told in audited.findings) == PICTURED_CELLS // 144
    assert sum(told.omitted for told in audited.findings) == 20 - PICTURED_CELLS // 144


def test_the_table_counts_clauses_as_the_gravest_of_their_dtypes() -> None:
    f16 = DType.FLOAT16
    audited = looked(run(
        [card("lib/a")], outcome("lib/a", "c.held", margin=0.9),
        outcome("lib/a", "c.held", Verdict.INAPPLICABLE, dtype=f16),
        outcome("lib/a", "c.half", margin=0.1), outcome("lib/a", "c.half", Verdict.VIOLATED, dtype=f16),
        outcome("lib/a", "c.should", Verdict.ERRORED, level=Level.SHOULD),
        outcome("lib/a", "c.may", Verdict.VIOLATED, level=Level.MAY), outcome("lib/a", "c.known", Verdict.EXPECTED),
        outcome("lib/a", "c.odd", Verdict.UNEXPECTED), outcome("lib/a", "c.never", Verdict.INAPPLICABLE),
        outcome("lib/a", "c.open", Verdict.NO_CLAIM), outcome("lib/a", "c.lost", Verdict.NOT_RUN),
        outcome("lib/a", "c.open", Verdict.INAPPLICABLE, dtype=f16)))
    (line,) = audited.lines
    c = line.counts
    assert (c.held, c.must, c.should, c.may, c.known, c.odd, c.inapplicable, c.undecided) == (1, 1, 1, 1, 1, 1, 1, 2)
    assert (c.applicable, c.share) == (8, "1 of 8")
    assert line.closest is not None
    assert line.closest.margin == 0.9


def test_the_table_tells_the_grade_that_was_read() -> None:
    graded = replace(outcome("lib/a"), readings=(Reading("precision grade", "G1", 0.0, "so precise"),))
    assert looked(run([card("lib/a")], graded)).lines[0].grades == (("f32", "G1"),)
    probed = looked(run([card("lib/a")], outcome("lib/a"), probes=[probe("lib/a", ("precision", "G2"))]))
    assert probed.lines[0].grades == (("f32", "G2"),)


def test_subjects_of_one_library_in_two_versions_stand_on_two_shelves() -> None:
    audited = looked(run([card("lib/a"), card("lib/b", version="2.0")], outcome("lib/a"), outcome("lib/b")))
    assert [shelf.library for shelf in audited.shelves] == ["LIB 1.2", "LIB 2.0"]


def test_who_could_not_be_judged_breaks_nothing_and_keeps_nothing() -> None:
    audited = looked(run([card("lib/a"), card("lib/b", broken="ImportError: no")], outcome("lib/a")))
    assert audited.sentence.startswith("1 keeps every `must` clause, 1 was not judged to the end.")
    assert audited.absent == (MissingSubject("lib/b", "LIB 1.2", "the lib/b", "ImportError: no"),)


def test_the_page_opens_with_a_square_for_each_implementation() -> None:
    """Those that fail come first, the one that breaks most clauses before the others; each leads to its line."""
    broken = [outcome(crowd()[at], f"masking.c{number}", Verdict.VIOLATED) for at, number in ((1, 0), (2, 0), (2, 1))]
    head = render_page([crowded(*broken)]).partition("What matters most")[0]
    assert "2 break at least one must clause" in words(head)
    assert "11 keep every must clause" in words(head)
    squares = re.findall(r'href="#subject-(\d+)" title="([^"]*)"', head)
    assert [int(number) for number, _ in squares[:3]] == [2, 1, 0]
    assert squares[0][1] == "lib/subject02: breaks 2 must clauses, holds 1 of 3"


def test_the_head_of_the_page_tells_three_findings_and_no_more() -> None:
    told = [replace(FINDING, id=f"n{at}",
                    says=f"It fails in way {at}.", clauses=(f"masking.c{at}",)) for at in range(4)]
    failing = [outcome("lib/a", f"masking.c{at}", Verdict.VIOLATED) for at in range(4)]
    head = render_page([crowded(*failing, cards=[card("lib/a", *told)])]).partition("<nav")[0]
    assert head.count("It fails in way") == 3


def test_a_subject_that_could_not_run_is_listed_unless_judged_elsewhere() -> None:
    absent = tuple({"subject": name, "library": "X", "title": "a kernel", "reason": "needs `CUDA`"}
                   for name in ("x/kernel", "lib/a"))
    record = crowded(outcome("lib/a"), cards=[card("lib/a")])
    record = replace(record, header=replace(record.header, absent=absent))
    assert looked(record).absent == (MissingSubject("x/kernel", "X", "a kernel", "needs `CUDA`"),)
    assert "x/kernelX a kernelneeds CUDA" in words(section(render_page([record]), "silence"))
    assert "- `x/kernel` (X, a kernel): needs `CUDA`" in audit_text([record])


def columns(record: RunRecord) -> dict[str, list[str]]:
    """The cells of the first subject by column: answers, with the forms that they are about."""
    row = looked(record).habits.customs[0]
    return {column.title: [f"{a.answer} {', '.join(a.forms)}".strip() for a in cell]
            for column, cell in zip(COLUMNS, row.cells, strict=True) if cell}


def test_forms_with_the_same_answer_share_a_line() -> None:
    probes = [probe("lib/a", ("hidden_row.mask", "zeros"), ("hidden_row.bias", "nan"), ("hidden_row.causal", "zeros"),
                    ("scale.default", "1"), ("grouped", "no"), ("hidden_key.nan.mask", "nan"),
                    ("hidden_value.nan.mask", "harmless"))]
    assert columns(run([card("lib/a")], outcome("lib/a"), probes=probes)) == {
        "hidden row": ["zeros mask, causal", "nan bias"], "scale": ["1"], "grouped heads": ["no"],
        "hidden NaN": ["nan key", "harmless value"]}


def test_conventions_of_the_manifest_fill_what_was_not_probed() -> None:
    record = run([card("lib/a", hidden_row="zeros", causal_alignment="top_left")], outcome("lib/a"),
                 probes=[probe("lib/a", ("hidden_row.mask", "zeros"))])
    assert columns(record) == {"hidden row": ["zeros"], "causal, T ≠ S": ["top_left"]}
    alignment = looked(record).habits.customs[0].cells[2][0]
    assert not alignment.is_probed


def test_an_answer_against_the_manifest_is_marked() -> None:
    probes = [probe("lib/a", ("hidden_row.mask", "nan"), claimed="zeros"), probe("lib/a", ("mutated", "none"))]
    record = crowded(outcome("lib/a"), cards=[card("lib/a")], probes=probes)
    assert [row.contradictions[0].answer for row in looked(record).habits.customs if row.contradictions] == ["nan"]
    assert "nan ✗ declared: zeros" in words(section(render_page([record]), "conventions"))
    assert "nan ✗ declared: zeros" in audit_text([record])


def test_questions_without_a_column_are_told_by_answer() -> None:
    probes = [probe(name, ("mutated", "none")) for name in crowd()[1:]]
    record = crowded(probes=[probe(crowd()[0], ("mutated", "inputs")), *probes])
    (question,) = collect_answers(looked(record).habits).further
    assert [(group.answer.answer, group.subject_names) for group in question.groups] == [
        ("none", "all 12 others that were asked"), ("inputs", "lib/subject00")]
    assert "What of mutated? none all 12 others that were asked inputs lib/subject00" in spaced_words(
        section(render_page([record]), "conventions"))


def test_what_an_answer_looks_like_is_told_once() -> None:
    seen = [replace(probe(name, ("hidden_row.mask", "zeros")), found=(
        Found("hidden_row.mask", "What of it?", "zeros", detail),)) for name, detail in zip(
            crowd()[:3], ("[0 0]", "[0 -0]", "[0 0]"), strict=True)]
    record = crowded(probes=seen)
    (question,) = collect_answers(looked(record).habits).examples
    assert [(group.answer.answer, group.detail) for group in question.groups] == [("zeros", "What of it? [0 0]")]
    assert section(render_page([record]), "conventions").count("[0 0]") == 1


def test_parameters_that_are_left_alone_are_listed_with_the_notes() -> None:
    known = card("lib/a", note="It is `slow`.")
    record = run([replace(known, card=replace(known.card, defaults={"block": "64"}))], outcome("lib/a"),
                 probes=[probe("lib/a", ("scale", "1"))])
    assert "- `lib/a`: It is `slow`. Left at their defaults: block=64.\n" in audit_text([record])
    assert "It is slow. Left at their defaults: block=64." in words(section(render_page([record]), "conventions"))


def test_float64_is_asked_about_at_float64() -> None:
    probes = [probe("lib/a", ("precision", "G0")), probe("lib/a", ("precision", "float32"), dtype=DType.FLOAT64)]
    assert columns(run([card("lib/a")], outcome("lib/a"), probes=probes)) == {"float64": ["float32"]}


def test_an_answer_that_is_another_at_other_dtypes_says_so() -> None:
    probes = [probe("lib/a", ("mask.polarity", "keep")),
              *(probe("lib/a", ("mask.polarity", "drop"), dtype=dtype) for dtype in (DType.FLOAT16, DType.BFLOAT16))]
    (answer,) = looked(run([card("lib/a")], outcome("lib/a"), probes=probes)).habits.customs[0].cells[0]
    assert (answer.answer, answer.other_answers) == ("keep", (("f16 bf16", "drop"),))


def test_a_switch_that_makes_a_difference_is_told_with_both_answers() -> None:
    probes = [probe("lib/a", ("hidden_row.mask", "zeros")), probe("lib/a", ("hidden_row.mask", "nan"), variant="eval"),
              probe("lib/a", ("hidden_row.mask", "zeros"), variant="compiled")]
    (panel,) = looked(run([card("lib/a")], outcome("lib/a"), probes=probes)).habits.switches
    assert [(flip.variant, flip.plain, flip.flipped_answer, flip.dtypes) for flip in panel.flips] == [
        ("eval", "zeros", "nan", "f32")]
    assert panel.quiet == ("compiled",)


def test_problems_put_to_both_tell_what_each_gave() -> None:
    same = Found("switch.plain", "Does the variant give the same answer as the subject itself: T = S = 4?", "agree")
    apart = replace(same, answer="differ", detail="at b=0: 1, and in the variant 2")
    told = [replace(apart, claimed="agree"), replace(apart, question="switch.mask", asks="Does it: a mask?"), same]
    record = crowded(outcome("lib/a"), cards=[card("lib/a")],
                     probes=[SubjectProbed("lib/a", "eval", DType.FLOAT32, tuple(told))])
    (panel,) = looked(record).habits.switches
    assert [(flip.question_text, flip.plain, flip.flipped_answer, flip.manifest_word) for flip in panel.flips] == [
        ("T = S = 4", "at b=0: 1", "2", ManifestWord.AGAINST), ("a mask", "at b=0: 1", "2", ManifestWord.DECLARED)]
    assert "at b=0: 1 2 f32 ✗ says otherwise" in words(
        section(render_page([record]), "switches").replace("<td", " <td"))


def test_what_a_switch_is_there_to_change_is_no_disagreement() -> None:
    probes = [probe("lib/a", ("gradient.flow", "no")), probe("lib/a", ("gradient.flow", "yes"), variant="gradient")]
    assert looked(run([card("lib/a")], outcome("lib/a"), probes=probes)).habits.switches[0].quiet == ("gradient",)


def test_a_switch_that_could_not_be_probed_says_why() -> None:
    lost = SubjectProbed("lib/a", "eval", DType.FLOAT32, (), lost="it died")
    (panel,) = looked(run([card("lib/a")], outcome("lib/a"), probes=[lost])).habits.switches
    assert (panel.lost_variants, panel.quiet) == ((("eval", "it died"),), ())


def behind(record: RunRecord) -> dict[str, Any]:
    held: dict[str, Any] = json.loads(looked(record).cells.cell_data)
    return held


def test_a_square_tells_its_dtypes_margins_reasons_and_findings() -> None:
    f16 = DType.FLOAT16
    told = behind(run(
        [card("lib/a", FINDING)], outcome("lib/a", "c.held", margin=0.123), outcome("lib/a", "c.held", dtype=f16),
        outcome("lib/a", "c.never", Verdict.INAPPLICABLE, reason="no mask"),
        outcome("lib/a", "c.never", Verdict.INAPPLICABLE, reason="no mask", dtype=f16),
        outcome("lib/a", "masking.x", Verdict.VIOLATED, margin=3.0), outcome("lib/a", "masking.x", dtype=f16)))
    assert told["cells"] == ["9.5;8~0;23|9.5@0"]  # of dtypes that say the same, the largest margin
    assert told["reasons"] == ["no mask"]
    assert told["dtypes"] == [["f32", "f16"]]
    assert told["findings"] == ["finding-lib-nan_row"]


def test_a_square_like_the_one_before_it_takes_no_room() -> None:
    f16 = DType.FLOAT16
    told = behind(run(
        [card("lib/a")], outcome("lib/a", "c.a"), outcome("lib/a", "c.a", dtype=f16), outcome("lib/a", "c.b"),
        outcome("lib/a", "c.b", dtype=f16), outcome("lib/a", "c.c", dtype=f16), outcome("lib/b", "c.d")))
    assert told["cells"] == ["9.5;;b9.5;-", "-;;;9.5"]


def test_a_reason_that_names_its_subject_is_told_once_for_all() -> None:
    record = run(map(card, ("lib/a", "lib/ab")), *(
        outcome(name, f"c.{name[-1]}", Verdict.INAPPLICABLE, reason=f"{name} takes no window")
        for name in ("lib/a", "lib/ab")))
    assert behind(record)["reasons"] == ["it takes no window"]
    told = [(found.reason, found.items) for found in find_silences(join_records([record]))]
    assert told == [("it takes no window", 2)]


def test_squares_that_are_blank_side_by_side_are_one() -> None:
    record = crowded(*(outcome("lib/a", f"c.{name}", Verdict.INAPPLICABLE) for name in "xyz"), cards=[card("lib/a")])
    rows = {subject.label: [(square.css, square.sign, square.columns) for square in squares]
            for subject, squares in looked(record).cells.rows}
    assert rows["lib/a"] == [("x", "", 1), ("", "", 3)]
    assert rows["lib/subject00"] == [("", "✓", 1), ("x", "", 3)]
    assert '<td class="x"><td colspan="3">' in section(render_page([record]), "matrix")


def test_squares_mark_dtypes_that_disagree() -> None:
    audited = looked(run([card("lib/a")], outcome("lib/a"), outcome("lib/a", dtype=DType.FLOAT16),
                         outcome("lib/a", "c.x"), outcome("lib/a", "c.x", Verdict.VIOLATED, dtype=DType.FLOAT16)))
    ((_, squares),) = audited.cells.rows
    assert [(square.css, square.sign) for square in squares] == [("", "✓"), ("v m", "✗")]


def test_nothing_that_a_record_holds_breaks_out_of_the_page() -> None:
    evil = replace(FINDING, says=HOSTILE, documented=HOSTILE, script=HOSTILE, issue=f"javascript:{HOSTILE}")
    cards = [card("lib/a", evil, note=HOSTILE, broken=HOSTILE, hidden_row=HOSTILE)]
    page = render_page([crowded(outcome("lib/a", "masking.row", Verdict.VIOLATED),
                                outcome("lib/a", "masking.no", Verdict.INAPPLICABLE, reason=HOSTILE), cards=cards,
                                probes=[probe("lib/a", ("scale.default", HOSTILE))])])
    assert "<script>alert" not in page
    assert 'href="javascript' not in page
    assert page.count("</script>") == 3  # the page's, the audit's, and the data of the matrix


def test_the_text_tells_each_finding_with_its_script_under_its_library() -> None:
    record = run([card("lib/a", FINDING)], outcome("lib/a", "masking.row", Verdict.VIOLATED))
    told = audit_text([record])
    found = told[told.index("### Findings in LIB 1.2"):]
    for piece in ("#### A hidden row is `NaN`", "- Versions: LIB 1.2", "- Documented: no",
                  "- Strictest clause: `masking.row` (must) of `lib/a` at float32", "- Seen: 1 of 4 entries differ",
                  "- Case: `B=1 T=2 float32`", "- Margin: 3", "- Complaining: `lib/a` under `masking.row` f32",
                  f"```python\n{SCRIPT}```"):
        assert piece in found
    assert "| `lib/a` the lib/a | breaks a must clause | 0 of 1 | 1 | 0 | 0 | 0 | 0 | 0 | 0 | – |  |" in told


def test_the_text_says_in_which_language_a_script_is() -> None:
    record = run([card("lib/a", replace(FINDING, language="javascript"))], outcome("lib/a", "a.b", Verdict.VIOLATED))
    assert f"```javascript\n{SCRIPT}```" in audit_text([record])


def test_the_text_tells_a_wider_arithmetic_before_what_was_seen() -> None:
    explained = Explanation("it rounds to float16", "Accumulate in float32, or declare it:", "attend.x = 1")
    seen = replace(outcome("lib/a", "masking.row", Verdict.VIOLATED), evidence=replace(EVIDENCE, explained=explained))
    assert ("- Cause: it rounds to float16. Accumulate in float32, or declare it:\n- Paste: `attend.x = 1`\n- Seen: "
            in audit_text([run([card("lib/a", FINDING)], seen)]))


def test_signs_that_mean_something_in_markdown_are_escaped() -> None:
    evil = replace(FINDING, says="a | b_c *d* <e> _f_")
    seen = replace(outcome("lib/a", "masking.row", Verdict.VIOLATED), evidence=replace(EVIDENCE, sentence="x | <y>"))
    told = audit_text([run([card("lib/a", evil)], seen)])
    assert r"- Seen: x \| \<y>" in told
    assert r"#### a \| b_c \*d\* \<e> \_f\_" in told


def test_the_command_writes_the_text(tmp_path: Path) -> None:
    record = run([card("lib/a")], outcome("lib/a"))
    assert record.footer is not None
    lines: list[Event] = [record.header, *record.subjects]
    (tmp_path / "run.jsonl.gz").write_bytes(
        pack_text(Path("run.gz"), "".join(f"{to_line(event)}\n" for event in lines)))
    made = CliRunner().invoke(
        attnspec, ["report", str(tmp_path / "run.jsonl.gz"), "--markdown", str(tmp_path / "docs" / "audit.md")])
    assert made.exit_code == 0, made.output
    assert f"page: {tmp_path / 'run.html'}" in made.output
    assert f"markdown: {tmp_path / 'docs' / 'audit.md'}" in made.output
    assert (tmp_path / "docs" / "audit.md").read_text(encoding="utf-8").startswith("# `lib/a`: what was found")


def test_the_text_is_written_where_it_is_wanted(tmp_path: Path) -> None:
    write_audit_text([run([card("lib/a")], outcome("lib/a"))], tmp_path / "new" / "audit.md")
    assert (tmp_path / "new" / "audit.md").is_file()


def test_text_and_page_say_on_which_device_it_was(tmp_path: Path) -> None:
    known = card("lib/a")
    on_gpu = replace(known, card=replace(known.card, lives_in={"device": "cuda:1", "gpu": "NVIDIA H200"}))
    record = run([on_gpu], outcome("lib/a"))
    write_audit_text([record], tmp_path / "audit.md")
    assert ", on cuda:1 (NVIDIA H200)." in (tmp_path / "audit.md").read_text(encoding="utf-8")
    assert "<dt>device</dt><dd>cuda:1 (NVIDIA H200)</dd>" in render_page([record])


FOLDER = CHECKOUT / "reports" / "audit"
RECORD = FOLDER / "audit.jsonl.xz"
ON_CUDA, TEXT_ON_CUDA = FOLDER / "cuda.jsonl.gz", CHECKOUT / "docs" / "audit-cuda.md"


@pytest.fixture(scope="module")
def published() -> tuple[RunRecord, ...]:
    if not RECORD.exists():
        pytest.skip("no audit is published in this checkout")
    return read_records(RECORD)


@pytest.mark.skipif(not RECORD.exists(), reason="no audit is published in this checkout")
def test_the_published_page_names_what_the_published_record_judged() -> None:
    page = (FOLDER / "index.html").read_text(encoding="utf-8")
    with lzma.open(RECORD, "rt", encoding="utf-8") as record:  # of 80,000 lines those alone: all take 16 s to read
        cards = [json.loads(line)["card"] for line in record if line.startswith('{"event": "subject_known"')]
    assert cards
    assert [card["id"] for card in cards if card["id"] not in page] == [], (
        f"attnspec report {RECORD.relative_to(CHECKOUT)} --html reports/audit/index.html writes it anew")


@pytest.mark.nightly
@pytest.mark.skipif(not ON_CUDA.exists(), reason="no run on a GPU is published in this checkout")
def test_the_published_text_of_a_gpu_is_that_of_its_record() -> None:
    assert TEXT_ON_CUDA.read_text(encoding="utf-8") == audit_text(read_records(ON_CUDA))


def test_the_published_page_is_small() -> None:
    assert (FOLDER / "index.html").stat().st_size < 3_000_000


@pytest.mark.nightly
def test_nothing_in_the_published_audit_is_left_unexplained(published: tuple[RunRecord, ...]) -> None:
    assert [(told.says, told.folders) for told in make_audit(join_records(published)).unexplained] == []


LARGE = (70, 120)  # subjects and clauses: what a published audit holds


@pytest.fixture(scope="module")
def large() -> RunRecord:
    subjects = [f"lib{place % 14}/subject{place}" for place in range(LARGE[0])]
    cards = [card(name, *(replace(FINDING, id=f"{name.partition('/')[0]}/{n}", clauses=(f"c{n}.*",),
                                  script=SCRIPT * 12) for n in range(5))) for name in subjects]
    said = [f"it does not take the keyword {word!r}" for word in ("mask", "bias", "window", "softcap")]
    items = []
    for place, name in enumerate(subjects):
        for number in range(LARGE[1]):
            verdict = Verdict.INAPPLICABLE if (place + number) % 4 == 0 else \
                Verdict.VIOLATED if (place * number) % 23 == 1 else Verdict.HELD
            items += [outcome(name, f"c{number % 5}.clause_{number}", verdict, margin=(place + number) / 200,
                              dtype=dtype, reason=said[number % 4] if verdict is Verdict.INAPPLICABLE else "")
                      for dtype in DType]
    return run(cards, *items)


def test_a_whole_audit_is_a_small_page(large: RunRecord) -> None:
    assert len(large.outcomes) == 33_600
    assert len(render_page([large]).encode()) < 1_000_000


def test_the_address_of_a_work_is_told_once_however_many_clauses_cite_it() -> None:
    record = crowded(outcome("lib/a", "core.other"), cards=[card("lib/a")])
    cited = QuotedSource("paper", "3.2", "the quote", title="The Paper", url="https://example.org/paper")
    clauses = tuple(replace(clause, because=(cited,)) for clause in record.header.clauses)
    page = section(render_page([replace(record, header=replace(record.header, clauses=clauses))]), "clauses")
    assert page.count("https://example.org/paper") == 1
    assert page.count('<a href="#work-0">The Paper</a>, <span>3.2</span>') == len(clauses) == 2


def test_a_record_of_probes_alone_has_a_page_of_its_own() -> None:
    page = words(render_page([run([card("lib/a")], probes=[
        probe("lib/a", ("hidden_row.mask", "nan"), claimed="zeros"),
        probe("lib/a", ("hidden_row.mask", "zeros"), variant="eval")])]))
    assert "lib/a probed: 1 answer against the manifest" in page
    assert "Nothing was executed" not in page
    assert "nan ✗ declared: zeros" in page
    assert "Switches" in page
    assert "lib/a probed: no answer against the manifest" in words(
        render_page([run([card("lib/a")], probes=[probe("lib/a", ("mutated", "none"))])]))


def test_the_page_of_a_run_shows_probes_and_what_is_known_of_failures() -> None:
    page = render_page([run([card("lib/a", FINDING)], outcome("lib/a", "masking.row", Verdict.VIOLATED),
                            probes=[probe("lib/a", ("hidden_row.mask", "nan"))])])
    assert "known A hidden row is NaN documented no" in words(section(page, "findings"))
    assert "raise SystemExit(1)" in section(page, "findings")
    assert "What a probe found" in words(section(page, "conventions"))
