"""What the console says at the end of a run: verdict and likely cause first and last, and what fits between them."""

from __future__ import annotations

import io
import math
from collections import Counter
from dataclasses import replace

import click
import pytest
from attnspec.cli import baseline, outputs
from attnspec.cli.conclusion import Detail, Verdicts
from attnspec.cli.digest import Digest, format_applicable
from attnspec.cli.outputs import LiveProgress, PlainProgress
from attnspec.core.effort import CUT_SHORT, LEFT_OUT
from attnspec.core.nouns import DType, Level, Novelty, Verdict
from attnspec.diagnosis.locate import MASK_IS_INVERTED, NONE_TAKEN, NOTHING_SHOWS, SOME_TAKEN, SPOILT_BEGINNING
from attnspec.faults.catalogue import ALL, CATALOGUE
from attnspec.record.events import (
    Event,
    Found,
    ItemFinished,
    ItemStarted,
    RunFinished,
    RunStarted,
    SubjectCompiles,
    SubjectKnown,
    SubjectProbed,
)
from attnspec.record.outcome import (
    A_CHOICE,
    Change,
    ClauseText,
    Evidence,
    Explanation,
    Likeness,
    Measured,
    Outcome,
    SubjectCard,
)
from attnspec.report.bugs import UNLOCATED, explain_bugs, shorten_story
from attnspec.runner.session import INTERRUPTED

CLAUSES = ("attention.definition", "causal.no_lookahead", "causal.flag_is_mask", "masking.definition", "scale.explicit")
OFF_BY_ONE = "each query sees one later key (`causal_off_by_one`)"


def explains(share: str, bugs: str = "one bug") -> str:
    return f"Likely {bugs}: each query sees one later key (`causal_off_by_one`, explains {share})"



SEEN = "output against the definition in higher precision: 24 of 24 entries differ; worst at (0, 0, 0, 2), apart by 0.8"


def like(*faults: str, agreed: int = 3) -> Evidence:
    found = tuple(Likeness(name, CATALOGUE[name].stage, CATALOGUE[name].story, CATALOGUE[name].link, agreed, 3)
                  for name in faults)
    return Evidence(SEEN, "B=2 H=2 Hkv=2 T=3 S=3 D=2 Dv=2 float32 causal", "B2,H2,Hkv2,T3,S3,D2,Dv2;seed=0", like=found)


def failed(clause: str = "causal.no_lookahead", evidence: Evidence | None = None, *, subject: str = "mine:attend",
           dtype: DType = DType.FLOAT32, level: Level = Level.MUST, verdict: Verdict = Verdict.VIOLATED) -> Outcome:
    evidence = evidence or like("causal_off_by_one")
    again = f"attnspec replay '{subject} {clause} {dtype.value} {evidence.recipe}'"
    return Outcome(subject, clause, dtype, level, verdict, evidence.sentence, evidence=evidence, repeat=again)


def undecided(clause: str, reason: str, verdict: Verdict = Verdict.INAPPLICABLE) -> Outcome:
    return Outcome("mine:attend", clause, DType.FLOAT32, Level.MUST, verdict, reason)


def held(clause: str = "attention.shape", subject: str = "mine:attend") -> Outcome:
    return Outcome(subject, clause, DType.FLOAT32, Level.MUST, Verdict.HELD)


def events(*happened: Outcome | Event, code: int, effort: str = "quick", interrupted: bool = False) -> list[Event]:
    outcomes = [each for each in happened if isinstance(each, Outcome)]
    planned = dict.fromkeys((each.subject for each in outcomes), len(outcomes))
    laws = tuple(ClauseText(name, says=f"{name} holds.", where="spec/theme.yaml:1")
                 for name in dict.fromkeys([*CLAUSES, *(each.clause for each in outcomes)]))
    header = RunStarted("", (), "1", "d" * 64, 0, effort, False, len(outcomes), ("float32",),
                        {"attnspec": "1", "workers": "2"}, laws, planned)
    inner = [ItemFinished(each) if isinstance(each, Outcome) else each for each in happened]
    return [header, *inner, RunFinished("", 1, {}, code, interrupted)]


def told(*happened: Outcome | Event, code: int = 1, effort: str = "quick", detail: Detail = Detail.SHORT,
         is_coloured: bool = False, interrupted: bool = False, must_take: str = "",
         are_files_written: bool = True) -> list[str]:
    text = io.StringIO()
    handler = Verdicts(text, is_coloured=is_coloured, places=("record: run.jsonl",), detail=detail,
                       are_files_written=lambda: are_files_written)
    for event in events(*happened, code=code, effort=effort, interrupted=interrupted):
        handler.handle(replace(event, must_take=must_take) if isinstance(event, RunStarted) else event)
    handler.shutdown()
    first, *lines = text.getvalue().splitlines()
    assert not first
    return lines


# --- the first line and the last

def test_verdict_and_likely_cause_stand_first_and_last() -> None:
    lines = told(failed(), failed("causal.flag_is_mask"), held())
    assert lines[0] == f"Does not conform. {explains('2 of 2')}."
    assert lines[1] == "mine:attend: 1 of 3 applicable items held, 2 violated"
    assert lines[-2:] == ["record: run.jsonl",
                          "Does not conform. Likely: `causal_off_by_one`, 2 of 2. (exit code 1)"]


def test_what_could_not_be_written_whole_has_exit_code_2() -> None:
    for outcome, code in ((held(), 0), (failed(), 1)):
        assert told(outcome, code=code, are_files_written=False)[-1].endswith(
            ". But not all of it could be written. (exit code 2)")


def test_several_bugs_are_counted_and_the_commonest_is_told() -> None:
    lines = told(failed("a.a"), failed("a.b"), failed("scale.c", like("scale_none")))
    assert lines[0] == f"Does not conform. {explains('2 of 3', '2 bugs, the first')}."


def test_what_is_like_nothing_known_is_not_counted_as_a_bug() -> None:
    assert told(failed("a.a"), failed("a.b", like()))[0] == (
        "Does not conform. Likely: each query sees one later key (`causal_off_by_one`, explains 1 of 2).")


def test_what_applies_is_the_whole_of_which_a_share_is_held() -> None:
    without = [undecided(f"c.{number}", "it takes no bias") for number in range(9)]
    lines = told(held("a.a"), held("a.b"), *without, code=0)
    assert lines[:2] == ["Conforms.", "mine:attend: 2 of 2 applicable items held"]
    assert told(undecided("a.b", "gone", Verdict.NOT_RUN), code=2)[1] == "mine:attend: 1 not run"


def test_the_fault_that_a_bug_is_named_after_is_told_first() -> None:
    both = like("mask_shifted", "causal_off_by_one")
    lines = told(failed("a.a", both), failed("a.b"), failed("a.c"))
    assert next(line for line in lines if line.startswith("  like: ")).startswith("  like: causal_off_by_one (")
    assert "        or mask_shifted" in lines


def test_the_verdict_is_green_or_red_or_yellow() -> None:
    for outcome, code, colour in ((held(), 0, 32), (failed(), 1, 31), (undecided("a.b", "", Verdict.NOT_RUN), 2, 33)):
        lines = told(outcome, code=code, is_coloured=True)
        assert lines[0].startswith(f"\x1b[{colour}m")
        assert lines[-1].startswith(f"\x1b[{colour}m")


def test_the_cause_is_what_explains_most_failures() -> None:
    other, both = like("scale_none"), like("mask_shifted", "causal_off_by_one")
    lines = told(failed("a.a", other), failed("a.b", both), failed("a.c"))
    assert lines[0] == f"Does not conform. {explains('2 of 3', '2 bugs, the first')}."


def test_of_equal_causes_the_one_that_is_likeliest_more_often_is_told() -> None:
    both = like("causal_ignored", "causal_off_by_one"), like("causal_off_by_one", "causal_ignored")
    lines = told(failed("a.a", both[1]), failed("a.b", both[0]), failed("a.c", both[1]))
    assert explains("3 of 3") in lines[0]


def test_a_wider_arithmetic_comes_first_with_what_to_do() -> None:
    declare = 'attend.precision = {"float32": {"grade": "G4"}}'
    rounded = Explanation("every step is rounded to float16", "Accumulate in float32", declare)
    lines = told(failed(evidence=replace(like(), explained=rounded)))
    assert lines[:3] == ["Does not conform to float32 arithmetic. Likely one cause: every step is rounded to "
                         "float16 (explains 1 of 1).", "  Accumulate in float32, or declare it:", f"  {declare}"]
    [cause] = [line for line in lines if line.startswith("  cause: ")]
    assert lines[lines.index(cause) - 1] == "causal.no_lookahead (spec/theme.yaml:1) is violated"
    assert lines[lines.index(cause) + 1:][:2] == [
        "  do: Accumulate in float32", f"  paste: {declare}"]


def test_a_choice_is_called_one_and_no_bug_in_the_first_line_and_the_last() -> None:
    declare = 'attend.precision = {"float32": {"logsumexp_roundings": 1}}'
    stored = Explanation(f"its weights come from a stored log-sum-exp{A_CHOICE}", "Divide by the sum", declare)
    lines = told(failed(evidence=replace(like(), explained=stored)))
    assert lines[:3] == ["Does not conform as it is declared. Likely one choice, no bug: its weights come from a "
                         "stored log-sum-exp (explains 1 of 1).", "  Divide by the sum, or declare it:", f"  {declare}"]
    assert lines[-1] == ("Does not conform as it is declared. Likely one choice, no bug: its weights come from a "
                         "stored log-sum-exp, 1 of 1. (exit code 1)")


def test_wider_arithmetic_at_several_dtypes_is_one_cause_and_one_line() -> None:
    def rounded(dtype: DType, form: str) -> Outcome:
        words = {"flushes": True} if "precision" in form else {}
        explained = Explanation(f"every step is rounded to {dtype.value}", "Accumulate in float32", form % dtype.value,
                                words, {dtype.value: words} if words else {})
        return failed(dtype=dtype, evidence=replace(like(), explained=explained))

    for form, line in (('f.precision = {"%s": {"flushes": True}}',
                        "f.precision = {'float16': {'flushes': True}, 'bfloat16': {'flushes': True}}"),
                       ("under 'precision' of mine/f (m.yaml:3) write: %s: {flushes: true}",
                        "under 'precision' of mine/f (m.yaml:3) write:\n"
                        "    float16: {flushes: true}\n    bfloat16: {flushes: true}"),
                       ('f.lift = "torch"%.0s', 'f.lift = "torch"')):
        lines = told(*(rounded(dtype, form) for dtype in (DType.FLOAT16, DType.BFLOAT16)))
        assert "Likely one cause: every step is rounded to the inputs' dtype (explains 2 of 2)." in lines[0]
        assert "\n".join(lines[2:]).startswith(f"  {line}\n")
        assert lines[0].startswith("Does not conform to float16 and bfloat16 arithmetic.") is ("precision" in form)


def test_a_remedy_without_a_declaration_is_a_sentence() -> None:
    told_to = Explanation("it rounds", "Round less", "")
    assert told(failed(evidence=replace(like(), explained=told_to)))[1] == "  Round less."


def test_what_to_do_about_a_few_of_many_is_not_told_at_the_top() -> None:
    rounded = replace(like(), explained=Explanation("it rounds", "Round less", "f.precision = {}"))
    lines = told(failed("a.a", rounded), failed("a.b", like()), failed("a.c", like()))
    assert "  Round less, or declare it:" not in lines


def test_a_clause_with_a_cause_a_dtype_is_one_finding() -> None:
    lines = told(failed(dtype=DType.FLOAT32), failed(dtype=DType.FLOAT16, evidence=like("scale_none")))
    assert "  by: mine:attend, float32 (also float16)" in lines
    assert not any(line.startswith("also violated") for line in lines)


def test_wider_arithmetic_that_allows_only_some_failures_is_only_likely() -> None:
    rounded = replace(like(), explained=Explanation("it rounds", "Round less", "f.precision = {}"))
    lines = told(failed("a.a", rounded), failed("a.b", rounded), failed("a.c"))
    assert lines[0] == "Does not conform. Likely 2 bugs, the first: it rounds (explains 2 of 3)."


LONG = "B1,H8,Hkv8,T65,S65,D2,Dv2;mask=none;families=integers;with=;seed=0"
"""A case that meets the boundaries which are told here."""


def test_where_no_fault_explains_it_the_place_is_told() -> None:
    place = "a query attends to keys that the mask excludes (mask)"
    lines = told(failed(evidence=replace(like(), located=place)))
    assert lines[0] == f"Does not conform. Likely one bug: {place} (explains 1 of 1)."


def test_where_no_fault_explains_it_the_sizes_are_told() -> None:
    lines = told(failed(evidence=replace(like(), begins="Fails where T ≥ 65; holds at T = 64.", recipe=LONG)))
    assert lines[0] == "Does not conform. Likely one bug: fails where T ≥ 65 (explains 1 of 1)."


@pytest.mark.parametrize("located", [NOTHING_SHOWS, NONE_TAKEN.format("ValueError"), SOME_TAKEN.format("ValueError"),
                                     "the diagnosis itself failed: ValueError: no", ""])
def test_a_diagnosis_that_found_nothing_is_no_cause(located: str) -> None:
    assert not located or located.startswith(UNLOCATED)
    lines = told(failed(evidence=replace(like(), located=located)))
    assert lines[0] == "Does not conform: 1 failure, which no known fault explains."


def test_a_cause_of_few_is_none_where_most_are_unexplained() -> None:
    lines = told(failed("a.a"), *(failed(f"b.{number}", like()) for number in range(3)))
    assert lines[0] == "Does not conform: 4 failures, 3 of which no known fault explains."


def test_at_a_glance_it_is_said_once_that_nobody_looked_for_causes() -> None:
    head, remark, *rest = told(failed(evidence=like()), effort="glance")
    assert head == "Does not conform: 1 failure."
    assert remark == ("  Effort glance does not look for causes. To see them, use --effort quick or run a replay "
                      "line.")
    assert not any("does not look for" in line for line in rest)
    assert not any("does not look for" in line for line in told(failed(evidence=like())))
    assert not any("does not look for" in line for line in told(held(), code=0, effort="glance"))


def test_at_a_glance_sizes_are_what_is_seen_and_no_likely_cause() -> None:
    begun, unknown = failed("a.a", replace(like(), begins="Fails at S = 5; holds at S = 4.")), failed("a.b", like())
    head, remark, *rest = told(begun, unknown, effort="glance")
    assert head == "Does not conform. It fails at S = 5 (1 of 2 failures)."
    assert "does not look for causes" in remark
    assert rest[-1] == "Does not conform. It fails at S = 5, 1 of 2. (exit code 1)"
    assert told(begun, unknown)[0] == "Does not conform. Likely: fails at S = 5 (explains 1 of 2)."


def test_what_fails_in_float32_stands_before_what_fails_in_half() -> None:
    place = replace(like(), begins="Fails at S = 5; holds at S = 4.")
    half = [failed(name, place, dtype=DType.FLOAT16) for name in ("a.definition", "a.b")]
    assert told(*half, failed("z.z"))[0] == f"Does not conform. {explains('1 of 3', '2 bugs, the first')}."
    unknown = [failed("a.definition", like(), dtype=DType.FLOAT16), failed("z.z", like())]
    assert next(line for line in told(*unknown) if line.startswith("  by: ")) == "  by: mine:attend, float32"


@pytest.mark.parametrize(("verdict", "sentence", "cause"), [
    (Verdict.ERRORED, "ValueError: head_dim 17 is odd", "it raises ValueError: head_dim … is odd"),
    (Verdict.ERRORED, "TypeError: got float32, not float16", "it raises TypeError: got float32, not float16"),
    (Verdict.CRASHED, "the process died (SIGABRT)", "the process died (SIGABRT)")])
def test_what_raises_or_dies_says_so_itself(verdict: Verdict, sentence: str, cause: str) -> None:
    lines = told(failed(evidence=Evidence(sentence, "", "B1"), verdict=verdict))
    assert lines[0] == f"Does not conform. Likely one bug: {cause} (explains 1 of 1)."


def test_what_was_not_put_to_the_subject_has_its_reason() -> None:
    broken = Outcome("mine:attend", "bias.definition", DType.FLOAT32, Level.MUST, Verdict.VIOLATED,
                     "the subject claims 'bias', but it takes no bias")
    assert "Likely one bug: the subject claims 'bias', but it takes no bias (explains 1 of 1)" in told(broken)[0]


def test_every_failure_has_one_cause() -> None:
    failures = [failed("a.a", like("causal_off_by_one", "causal_ignored")), failed("a.b", like("causal_ignored")),
                failed("a.c", like("causal_ignored")), failed("a.d", like())]
    groups = explain_bugs(failures)
    assert [(group.cause and group.cause.fault, len(group.failures)) for group in groups] == [
        ("causal_ignored", 3), (None, 1)]


def test_a_story_is_told_in_one_short_clause() -> None:
    clauses = {fault.name: shorten_story(Likeness(fault.name, "", fault.story, "", 1, 1)) for fault in ALL}
    assert len(clauses) > 900
    assert {name: clause for name, clause in clauses.items() if not (
        3 < len(clause) <= 80) or clause.endswith(".") or clause.startswith(("The ", "A "))} == {}


# --- what conforms

def test_what_conforms_says_nothing_of_violations() -> None:
    advice = [failed(f"a.{number}", level=Level.SHOULD) for number in range(3)]
    lines = told(held(), *advice, code=0)
    assert lines == ["Conforms.", "mine:attend: 1 of 4 applicable items held, 3 not as recommended",
                     "3 recommendations (should) are not followed: a.0, a.1, a.2 (not counted; -v shows them)",
                     "record: run.jsonl",
                     "Conforms. (exit code 0)"]


def test_a_recommendation_at_several_dtypes_is_one() -> None:
    advice = [failed("a.b", level=Level.MAY, dtype=dtype) for dtype in DType]
    assert "1 recommendation (may) is not followed: a.b (not counted; -v shows it)" in told(held(), *advice, code=0)


def of_convention(clause: str, explained: Explanation | None = None) -> Outcome:
    measured = Measured("convention_is", "causal_alignment is 'bottom_right'; 'top_left' is recommended", math.inf, 1,
                        0, 1, 0, (), 1, 1)
    evidence = Evidence(measured.sentence, "", "", measured, explained=explained)
    return failed(clause, evidence, level=Level.SHOULD)


def test_a_convention_that_is_in_use_is_no_recommendation_ignored() -> None:
    lines = told(held(), of_convention("a.b"), failed("a.c", level=Level.SHOULD), code=0)
    assert "1 recommendation (should) is not followed: a.c (not counted; -v shows it)" in lines
    assert ("1 convention (should) is another than recommended, which libraries use, too: causal_alignment is "
            "'bottom_right' (not counted; -v shows it)") in lines
    both = told(held(), of_convention("a.b"), of_convention("a.c"), code=0)
    assert ("2 conventions (should) are others than recommended, which libraries use, too: causal_alignment is "
            "'bottom_right', causal_alignment is 'bottom_right' (not counted; -v shows them)") in both
    full = told(held(), of_convention("a.b"), code=0, detail=Detail.FULL)
    assert "a.b (spec/theme.yaml:1) recommends another convention; libraries use both [should]" in full


def test_another_convention_than_recommended_stands_in_the_verdict() -> None:
    """Its author alone knows whether it is meant."""
    both = told(held(), of_convention("a.b"), of_convention("a.c"), code=0)
    assert both[0] == ("Conforms. With the causal flag, the last query sees the last key, whatever T and S are "
                       "('bottom_right').")


def test_what_no_library_does_is_no_convention_in_use() -> None:
    strange = of_convention("a.b", Explanation("it is undefined", "Make it one of these", ""))
    assert "1 recommendation (should) is not followed: a.b (not counted; -v shows it)" in told(held(), strange, code=0)


def test_what_it_refuses_stands_in_the_verdict() -> None:
    card = SubjectCard("mine:attend", "", "attention", "", "", "", {}, {}, {}, (),
                       refused={"grouped heads": "ValueError: no", "cross lengths": "TypeError: no"})
    reason = "the function refuses the inputs that this clause needs (grouped heads: ValueError: no)"
    refusals: list[Outcome | Event] = [SubjectKnown(card), *(undecided(f"a.{number}", reason) for number in range(3))]
    lines = told(*map(held, ("b.a", "b.b", "b.c")), *refusals, code=0)
    assert lines[0] == "Conforms; refuses grouped heads, cross lengths."
    assert lines[1] == "  What it refuses was not judged, and is no failure (--must-take WORDS makes it one)."
    assert lines[-1] == "Conforms; refuses grouped heads, cross lengths. (exit code 0)"
    assert "3 clauses do not apply: the function refuses the inputs that some of them need (-v lists them)" in lines
    wrong = told(failed(), *refusals)
    assert wrong[0].startswith("Does not conform; refuses grouped heads, cross lengths. Likely one")
    assert not any("is no failure" in line for line in [*wrong, *told(held(), code=0)])


def test_what_compilers_left_no_time_for_stands_in_the_verdict() -> None:
    short = replace(held("attention.finite"), reason=CUT_SHORT.format(0.42))
    left = undecided("causal.one_query", LEFT_OUT.format(0.42), Verdict.NO_CLAIM)
    assert told(held(), short, left, code=0)[0] == (
        "Conforms, on 2 of 3 items, 1 of them with fewer cases: each new shape takes 0.4 s to compile (--effort "
        "thorough puts all).")
    assert told(held(), left, code=0)[0].startswith("Conforms, on 1 of 2 items: each new shape")


def test_gradients_that_were_left_out_are_told_below_the_verdict() -> None:
    apart = undecided("gradients.of_key", "gradients of mine:attend are judged with --profile +gradients")
    said = "  Gradients were not judged (--profile +gradients judges them)."
    assert told(held(), apart, code=0)[:2] == ["Conforms.", said]
    assert said not in [*told(failed(), apart), *told(held(), code=0)]


def test_what_came_up_in_a_case_stands_in_the_verdict_too() -> None:
    met: Outcome | Event = replace(held(), refused={"D > 200": "ValueError: too wide"})
    assert told(met, code=0)[0] == "Conforms; refuses D > 200."


def test_a_contract_that_is_met_stands_below_the_verdict() -> None:
    assert "must take: causal D128" in told(held(), code=0, must_take="causal D128")


def test_a_broken_contract_stands_in_the_verdict() -> None:
    broken = [failed("contract.D128"), failed("contract.all")]
    lines = told(held(), *broken, must_take="causal D128")
    assert lines[0] == "Does not conform: it must take D128, all of the contract together."
    assert "must take: causal D128" not in lines
    assert told(*broken[:1], failed(), must_take="D128")[0].startswith(
        "Does not conform: it must take D128. ")


def test_what_is_left_at_its_default_stands_near_the_verdict() -> None:
    card = SubjectCard("mine:attend", "", "attention", "", "", "", {}, {}, {}, (), defaults={"block": "64", "eps": "0"})
    assert told(held(), SubjectKnown(card), code=0)[2] == "left at their defaults: block=64, eps=0"


def test_a_keyword_that_hides_behind_another_name_stands_in_the_verdict() -> None:
    card = SubjectCard("mine:attend", "", "attention", "", "", "", {}, {}, {}, (),
                       defaults={"is_causal": "False", "attn_mask": "None", "block": "64"})
    assert told(held(), SubjectKnown(card), code=0)[0] == "Conforms; is_causal, attn_mask, block were never tried."


def test_a_keyword_by_which_nothing_is_promised_stands_in_the_verdict() -> None:
    probed = {"beyond_length": "unspecified", "lse_base": "two"}
    card = replace(SubjectCard("mine:attend", "", "attention", "", "", "", {}, {}, {}, ()), probed=probed)
    assert told(held(), SubjectKnown(card), code=0)[0] == (
        "Conforms. A row beyond the number of queries may hold anything ('unspecified').")


def test_how_large_an_error_passes_stands_in_the_verdict() -> None:
    card = replace(SubjectCard("mine:attend", "", "attention", "", "", "", {}, {}, {}, ()), passing_error="much passes")
    assert told(held(), SubjectKnown(card), code=0)[0] == "Conforms; much passes."


def test_what_does_not_apply_is_one_line() -> None:
    reasons = ["mine:attend takes no bias", "mine:attend takes no bias and no window", "mine:attend takes no window",
               "mine:attend takes no bias", "it is not a layer: it has no projections", "mine:attend takes no params"]
    lines = told(held(), *(undecided(f"a.{number}", reason) for number, reason in enumerate(reasons)), code=0)
    assert "6 clauses do not apply: it takes no bias, no window; it is not a layer (-v lists them)" in lines


def test_a_dtype_at_which_nothing_was_judged_is_told() -> None:
    left_out = [replace(undecided(clause, "the subject does not take float16"), dtype=DType.FLOAT16)
                for clause in ("a.b", "a.c")]
    lines = told(held("a.b"), undecided("a.c", "mine:attend takes no bias"), *left_out, code=0)
    assert "Not judged at float16: the subject does not take float16" in lines
    assert "1 clause does not apply: it takes no bias (-v lists it)" in lines


def test_each_dtype_at_which_nothing_was_judged_has_its_reason() -> None:
    reasons = {DType.BFLOAT16: "it does not take bfloat16", DType.FLOAT16: "it overflows in float16",
               DType.FLOAT64: "it does not take float64"}
    left_out = [replace(undecided("a.b", reason), dtype=dtype) for dtype, reason in reasons.items()]
    lines = told(held("a.b"), *left_out, code=0)
    assert [line for line in lines if line.startswith("Not judged")] == [
        "Not judged at float64, bfloat16: it does not take them", "Not judged at float16: it overflows in float16"]


def test_a_reason_of_several_clauses_does_not_speak_of_one() -> None:
    reason = "the subject's declared limits exclude every shape that this clause needs"
    lines = told(held(), undecided("a.b", reason), undecided("a.c", "mine:attend takes no bias"), code=0)
    assert ("2 clauses do not apply: it takes no bias; the subject's declared limits exclude every shape that some of "
            "them need (-v lists them)") in lines


def test_a_clause_that_applies_at_another_dtype_is_not_counted_as_left_out() -> None:
    wide = replace(undecided("a.b", "mine:attend takes no bias"), dtype=DType.FLOAT16)
    assert "1 clause does not apply: " in "\n".join(told(held("a.b"), wide, undecided("a.c", "so it is"), code=0))


# --- findings

def test_at_most_three_bugs_are_told_in_full() -> None:
    short = [failed(f"a.{number}", Evidence("they differ", "", "")) for number in range(4)]
    lines = told(*short)
    assert sum(" is violated" in line for line in lines) == 3
    assert "also violated: a.3 (-v shows it)" in lines


def shown(lines: list[str]) -> list[str]:
    """The clauses that are told in full."""
    return [line.partition(" ")[0] for line in lines if " is violated" in line or " ended in " in line]


def test_one_bug_is_told_once_and_the_other_clauses_are_named() -> None:
    lines = told(failed("causal.a"), failed("causal.b"), failed("causal.c"), failed("scale.d", like("scale_none")))
    assert shown(lines) == ["causal.a", "scale.d"]
    assert "  also: causal.b, causal.c (-v shows them)" in lines
    assert not any(line.startswith("also violated") for line in lines)


def test_the_definition_of_the_cause_s_theme_is_told_before_what_follows() -> None:
    names = ("attention.definition", "masking.a", "masking.definition")
    [group] = explain_bugs([failed(name, like("mask_shifted")) for name in names])
    assert [failure.clause for failure in group.failures] == ["masking.definition", "masking.a", "attention.definition"]
    tiled = told(failed("attention.definition", like("gqa_tiled")), failed("grouped.definition", like("gqa_tiled")))
    assert shown(tiled) == ["grouped.definition"]


def test_numbers_are_told_before_what_is_not_finite() -> None:
    def measured(gap: float) -> Evidence:
        return replace(like(), measured=Measured("agree", "", math.inf, gap, 0.0, 1.0, 2.0, (0,), 1, 1), located="here")

    gaps = {"a.definition": math.inf, "b.b": math.nan, "c.c": 1.0}
    lines = told(*(failed(clause, measured(gap)) for clause, gap in gaps.items()))
    assert shown(lines) == ["c.c"]


def test_a_clause_that_must_hold_is_told_before_one_that_should() -> None:
    [group] = explain_bugs([failed(f"causal.{level.value}", level=level) for level in (Level.SHOULD, Level.MUST)])
    assert [failure.clause for failure in group.failures] == ["causal.must", "causal.should"]


def test_failures_that_begin_at_the_same_sizes_are_one_bug() -> None:
    begins = "Fails where T ≥ 65; holds at T = 64."
    named, bare = (replace(like(*faults), begins=begins, recipe=LONG) for faults in (("causal_off_by_one",), ()))
    every = (bare, bare, named, like("scale_none"))
    groups = explain_bugs([failed(f"a.{number}", each) for number, each in enumerate(every)])
    assert [(group.cause and group.cause.fault, len(group.failures)) for group in groups] == [
        ("causal_off_by_one", 3), ("scale_none", 1)]


@pytest.mark.parametrize(("elsewhere", "bugs"), [(1, 1), (2, 1), (3, 2)])
def test_one_bug_begins_at_the_same_sizes_in_half_of_its_failures(elsewhere: int, bugs: int) -> None:
    here, there = "Fails where H ≥ 2; holds at H = 1.", "Fails where H ≥ {}; holds at H = 1."
    named = [replace(like("scale_none"), begins=begins, recipe=LONG)
             for begins in (here, here, *(there.format(3 + number) for number in range(elsewhere)))]
    every = (*named, replace(like(), begins=here, recipe=LONG))
    assert len(explain_bugs([failed(f"a.{number}", each) for number, each in enumerate(every)])) == bugs


def test_failures_that_need_the_same_keyword_are_one_bug() -> None:
    located = [replace(like(), located=f"{SPOILT_BEGINNING}{what} here, and right once {names} is left out")
               for what, names in (("wrong", "causal or mask"), ("not finite", "scale or causal"), ("wrong", "causal"))]
    lines = told(*(failed(f"a.{number}", each) for number, each in enumerate(located)))
    assert "Likely one bug: the answer is right once causal is left out (explains 3 of 3)." in lines[0]
    alone = told(failed(evidence=located[0]))[0]
    assert f"Likely one bug: {located[0].located} (explains 1 of 1)" in alone


def test_a_read_out_that_blames_the_fault_s_stage_is_the_same_bug() -> None:
    blamed = [replace(like(), located=f"a query attends to keys that the {what} excludes ({what})")
              for what in ("causal flag", "causal flag", "mask")]
    every = (*blamed, like("causal_off_by_one"))
    groups = explain_bugs([failed(f"a.{number}", each) for number, each in enumerate(every)])
    assert [(str(group.cause), len(group.failures)) for group in groups] == [
        (OFF_BY_ONE, 3), ("a query attends to keys that the mask excludes (mask)", 1)]


def test_the_bug_of_most_failures_comes_first_when_all_are_joined() -> None:
    blamed = replace(like(), located="a query attends to keys that the causal flag excludes (causal flag)")
    begun = replace(like(), begins="Fails where T ≥ 65; holds at T = 64.")
    every = (begun, begun, begun, blamed, blamed, *[like("causal_off_by_one")] * 2)
    groups = explain_bugs([failed(f"a.{number}", each) for number, each in enumerate(every)])
    assert [len(group.failures) for group in groups] == [4, 3]


def test_two_faults_of_one_stage_are_two_bugs() -> None:
    groups = explain_bugs([failed("a.a"), failed("a.b", like("causal_ignored"))])
    assert len(groups) == 2


def test_two_faults_that_begin_at_the_same_sizes_are_two_bugs() -> None:
    begins = "Fails where H ≥ 2; holds at H = 1."
    every = [replace(like(fault), begins=begins) for fault in ("causal_off_by_one", "scale_none")]
    assert len(explain_bugs([failed(f"a.{number}", each) for number, each in enumerate(every)])) == 2


def test_one_fault_is_one_bug_with_what_to_do_however_it_was_found() -> None:
    overflow = Explanation("exp overflows (`softmax_without_maximum`)", "Subtract the maximum", "")
    named = like("softmax_without_maximum")
    every = (named, named, replace(like(), explained=overflow))
    [group] = explain_bugs([failed(f"a.{number}", each) for number, each in enumerate(every)])
    assert group.cause
    assert (group.cause.fault, group.cause.advice) == ("softmax_without_maximum", "Subtract the maximum")


def test_an_arithmetic_that_may_be_meant_explains_what_it_allows_alone() -> None:
    begins = "Fails where S ≥ 65; holds at S = 64."
    rounded = replace(like(), begins=begins, explained=Explanation("it rounds", "Round less", "f.precision = {}"))
    groups = explain_bugs([failed("a.a", rounded), failed("a.b", replace(like(), begins=begins))])
    assert [len(group.failures) for group in groups] == [1, 1]


def test_bugs_without_room_are_told_in_a_line_each() -> None:
    loud = "\n".join(f"line {number}" for number in range(30))
    faults = ("causal_off_by_one", "mask_ignored", "scale_none")
    lines = told(*(failed(f"a.{fault}_{number}", replace(like(fault), sentence=SEEN * 5, traceback=loud, stderr=loud))
                   for fault in faults for number in range(2)), failed("b.b", Evidence("they differ", "", "")))
    assert shown(lines) == ["a.causal_off_by_one_0"]
    assert ("also likely: the mask is accepted and never used (`mask_ignored`): a.mask_ignored_0, a.mask_ignored_1 "
            "(-v shows them)") in lines
    assert sum(line.startswith("also likely: ") for line in lines) == 2
    assert "also violated: b.b (-v shows it)" in lines


def test_a_fault_that_a_sentence_ends_with_is_named_once() -> None:
    lines = told(failed(evidence=replace(like(), located=MASK_IS_INVERTED)))
    says = MASK_IS_INVERTED.rpartition(" (")[0]
    assert lines[0] == f"Does not conform. Likely one bug: {says} (`mask_inverted`, explains 1 of 1)."


def test_the_order_does_not_hang_on_which_worker_ended_first() -> None:
    failures = [failed(clause, dtype=dtype) for clause in CLAUSES for dtype in DType]
    assert told(*failures) == told(*reversed(failures))


def test_dtypes_that_fail_alike_are_one_finding() -> None:
    lines = told(*(failed(dtype=dtype) for dtype in DType))
    assert "  by: mine:attend, float32 (also float64, float16, bfloat16)" in lines
    assert sum(line.startswith("causal.no_lookahead") for line in lines) == 1


@pytest.mark.parametrize("width", [80, 100])
def test_one_bug_takes_at_most_40_lines_of_a_screen(width: int) -> None:
    trace = "\n".join(f"  File 'mine.py', line {number}, in attend\n    x = y\n    ^^^^^" for number in range(30))
    loud = replace(like("causal_off_by_one"), sentence=SEEN * 2, traceback=trace, stderr="a warning\n" * 30)
    failures = [failed(f"{clause}_{number}", loud, dtype=dtype)
                for clause in CLAUSES for number in range(20) for dtype in DType]
    advice = [failed(f"b.advice_{number}", level=Level.SHOULD) for number in range(30)]
    others = [undecided(f"c.{number}", f"mine:attend takes no {'x' * number}") for number in range(40)]
    lines = told(*failures, *advice, *others)
    opening, first_failure, thirds = 2, 2, 2
    assert sum(max(1, math.ceil(len(line) / width)) for line in lines) + opening + first_failure + thirds <= 40
    assert any("is violated" in line for line in lines)


def test_verbose_tells_everything() -> None:
    failures = [failed(f"a.{number}") for number in range(9)]
    lines = told(*failures, failed("b.advice", level=Level.SHOULD), undecided("c.d", "so it is"), detail=Detail.FULL)
    assert sum("is violated" in line for line in lines) == 9
    assert "b.advice (spec/theme.yaml:1) is a recommendation that is not followed [should]" in lines
    assert "     1 inapplicable: so it is (c.d)" in lines
    assert not any("-v" in line for line in lines)


def test_verbose_lists_the_clauses_that_do_not_apply_to_one_subject() -> None:
    without = [undecided(f"window.{number}", "mine:attend takes no window") for number in range(3)]
    lines = told(held(), *without, code=0, detail=Detail.FULL)
    assert lines[-4] == "     3 inapplicable: it takes no window (window.0, window.1, window.2)"
    several = told(held(), held(subject="b:b"), *without, code=0, detail=Detail.FULL)
    assert several[-4] == "     3 inapplicable: mine:attend takes no window (mine:attend)"


def test_carets_under_code_are_left_out_of_a_traceback() -> None:
    traceback = "Traceback:\n  File 'a.py', line 1\n    x = y[0]\n        ~^^^\nE: no"
    raised = Evidence("E: no", "", "B1", traceback=traceback)
    lines = told(failed(evidence=raised, verdict=Verdict.ERRORED))
    assert not any("^" in line for line in lines)
    assert "            x = y[0]" in lines


def test_an_interrupted_run_says_first_what_it_found_so_far() -> None:
    lines = told(failed(), failed("causal.flag_is_mask"), held(), code=2, interrupted=True)
    assert lines[0] == ("Interrupted with 2 failures so far; the rest was not run. "
                        f"{explains('2 of 2')}.")
    assert lines[-1] == ("Interrupted with 2 failures so far; the rest was not run. "
                         "Likely: `causal_off_by_one`, 2 of 2. (exit code 2)")


def test_an_interrupted_run_of_several_says_whose_cause_is_which() -> None:
    lines = told(failed(subject="a:a"), failed("masking.definition", like("mask_ignored"), subject="b:b"),
                 held(subject="c:c"), code=2, interrupted=True)
    assert lines[0] == ("Interrupted with 2 failures so far; the rest was not run. Likely: "
                        f"{OFF_BY_ONE} (a:a); the mask is accepted and never used (`mask_ignored`) (b:b).")


# --- several subjects

def test_each_subject_shows_a_failure_before_any_shows_a_second() -> None:
    short = Evidence("they differ", "", "")
    many = [failed(clause, replace(short, located=place), subject="a:a") for clause, place in
            (("causal.no_lookahead", "here"), ("masking.definition", "there"), ("scale.explicit", "nowhere"))]
    lines = told(*many, failed("masking.definition", like("mask_ignored"), subject="b:b"))
    by = [line for line in lines if line.startswith("  by: ")]
    assert by[:2] == ["  by: a:a, float32", "  by: b:b, float32"]


def test_subjects_whose_causes_differ_are_told_with_both() -> None:
    lines = told(failed(subject="a:a"), failed("masking.definition", like("mask_ignored"), subject="b:b"))
    assert lines[0] == (f"Does not conform: 2 of 2 subjects (a:a, b:b). Likely: {OFF_BY_ONE} (a:a); "
                        "the mask is accepted and never used (`mask_ignored`) (b:b).")
    same = told(failed(subject="a:a"), failed(subject="b:b"))
    assert same[0] == f"Does not conform: 2 of 2 subjects (a:a, b:b). Likely: {OFF_BY_ONE} (a:a, b:b)."


def test_of_several_subjects_each_has_a_line() -> None:
    lines = told(failed(subject="a:a"), held(subject="b:bb"), undecided("x.y", "it is gone", Verdict.NOT_RUN))
    assert lines[:4] == [
        f"Does not conform: 1 of 3 subjects (a:a). {explains('1 of 1')}.",
        f"a:a          does not conform. {explains('1 of 1')}",
        "b:bb         conforms (1 of 1 applicable item held)", "mine:attend  was not judged: it is gone."]
    assert lines[-1] == ("Does not conform: 1 of 3 subjects (a:a). Likely: `causal_off_by_one`, 1 of 1. "
                         "(exit code 1)")


def test_several_that_do_not_conform_are_named() -> None:
    lines = told(*(failed(subject=f"library/subject_{number}") for number in range(9)))
    assert lines[0].startswith("Does not conform: 9 of 9 subjects (library/subject_0, library/subject_1, ")
    assert lines[0].endswith(" and 6 more).")


def test_answers_against_a_manifest_are_told() -> None:
    against = Found("hidden_row.mask", "what a hidden row gives", "nan", claimed="zeros")
    probe = SubjectProbed("mine:attend", "", DType.FLOAT32, (against,))
    lines = told(held(), probe)
    assert lines[0] == "Does not conform: 1 answer against the manifest (mine:attend)."
    assert "  mine:attend, float32: hidden_row.mask nan, not zeros" in lines


def test_an_interrupted_run_says_so() -> None:
    assert told(held(), code=2, interrupted=True)[-1] == (
        "Interrupted with no failure so far; the rest was not run. (exit code 2)")


def held_against(*outcomes: Outcome, command: tuple[str, ...] = ()) -> str:
    digest = Digest()
    for event in events(*outcomes, code=2):
        digest.add(replace(event, baseline="known.yaml", command=command) if isinstance(event, RunStarted) else event)
    return "\n".join(baseline.held_against(digest))


def test_a_baseline_says_nothing_of_what_was_not_judged() -> None:
    lost = [undecided(f"a.{number}", "interrupted", Verdict.NOT_RUN) for number in range(2)]
    assert held_against(held()) == "Held against known.yaml: no known failure, nothing new."
    assert held_against(held(), *lost) == (
        "Held against known.yaml: no known failure; 2 items could not be judged.")
    assert held_against(*lost) == "Held against known.yaml: nothing was judged, so nothing could be compared."


def test_whoever_updates_a_baseline_is_not_told_to_do_so() -> None:
    new = replace(held(), verdict=Verdict.VIOLATED, change=Change(Novelty.NEW, "is violated", Verdict.VIOLATED))
    advice = "If a change is intended, run with --update-baseline"
    assert advice in held_against(new)
    assert advice not in held_against(new, command=("attnspec", "check", "mine:attend", "--update-baseline"))


def test_reasons_for_not_running_beyond_a_dozen_are_counted() -> None:
    lost = [undecided(f"a.{number}", f"reason {number % 14}", Verdict.NOT_RUN) for number in range(70)]
    text = "\n".join(told(held(), *lost, code=2))
    assert "     5 not run: reason 0 (mine:attend)" in text
    assert "and 2 further reasons, in the record" in text


# --- in a pipe

def plain(*happened: Outcome | Event) -> list[str]:
    pipe = io.StringIO()
    handler = PlainProgress(pipe)
    for event in events(*happened, code=1):
        handler.handle(event)
    return pipe.getvalue().splitlines()[1:]


def test_a_pipe_is_told_as_soon_as_something_fails_and_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outputs, "SECONDS_BETWEEN_LINES", -1)
    assert plain(held(), *(failed(f"a.{number}") for number in range(8))) == [
        f"First failure: a.0 (mine:attend, float32) is violated. Likely: {OFF_BY_ONE}.",
        "3 of 9 items; 2 failures so far", "6 of 9 items; 5 failures so far"]


def test_the_first_failure_is_told_at_once() -> None:
    alone = plain(failed("a.0"))
    assert alone == [f"First failure: a.0 (mine:attend, float32) is violated. Likely: {OFF_BY_ONE}."]
    first, *rest = told_of({"a:a": 1, "b:b": 1}, held(subject="a:a"), replace(failed("a.1"), subject="b:b"))
    assert (first, rest[0][:14]) == ("a:a: done, 1 of 2 subjects", "First failure:")


def test_a_pipe_hears_that_a_compiler_takes_the_time() -> None:
    assert plain(SubjectCompiles("mine:attend", 75.2)) == [
        "mine:attend is being compiled for each new shape: that has taken 75 s so far (--effort glance tries fewer "
        "shapes)."]


def test_a_failure_in_half_waits_for_its_clause_at_a_wide_dtype() -> None:
    half, wide = failed("a.0", dtype=DType.FLOAT16), failed("a.1")
    assert plain(half, wide) == [f"First failure: a.1 (mine:attend, float32) is violated. Likely: {OFF_BY_ONE}."]
    assert plain(half, held("a.0"))[0].startswith("First failure: a.0 (mine:attend, float16)")


def test_a_pipe_calls_nobody_done_who_was_not_judged() -> None:
    lost = [undecided(f"a.{number}", "interrupted", Verdict.NOT_RUN) for number in range(2)]
    each = [replace(outcome, subject=subject) for subject in ("a:a", "b:b") for outcome in lost]
    assert told_of({"a:a": 2, "b:b": 3, "c:c": 1}, *each, held(subject="b:b"), held(subject="c:c")) == [
        "a:a: was not judged", "b:b: was judged in part", "c:c: done, 3 of 3 subjects"]


def told_of(planned: dict[str, int], *happened: Outcome) -> list[str]:
    """The lines in a pipe of a run that was to judge so many items of each subject."""
    pipe = io.StringIO()
    handler = PlainProgress(pipe)
    for event in events(*happened, code=1):
        handler.handle(replace(event, planned=planned) if isinstance(event, RunStarted) else event)
    return pipe.getvalue().splitlines()[1:]


def test_a_pipe_hears_of_no_failure_where_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outputs, "SECONDS_BETWEEN_LINES", -1)
    advice = [failed(f"b.{number}", level=Level.SHOULD) for number in range(5)]
    assert plain(held("a.1"), *advice, held("a.2")) == ["3 of 7 items", "5 of 7 items"]


def test_a_terminal_shows_failures_and_their_cause_while_the_run_goes_on() -> None:
    screen = io.StringIO()
    live = LiveProgress(screen, is_coloured=False)
    for event in events(failed(), failed("causal.flag_is_mask"), held(), code=1)[:3]:
        live.handle(event)
        live._drawing_time = 0.0
    assert screen.getvalue().count(f"(mine:attend, float32) is violated. Likely: {OFF_BY_ONE}.\n") == 1
    live.handle(ItemStarted("mine:attend", "attention.shape", "float32"))
    assert screen.getvalue().endswith(f"\n2 failures so far\nLikely: {OFF_BY_ONE}\n")


def test_what_cannot_be_judged_is_told_with_its_first_item() -> None:
    lost = [undecided(f"a.{number}", "attend takes (q, k)", Verdict.NOT_RUN) for number in range(3)]
    assert plain(*lost) == ["mine:attend cannot be judged: attend takes (q, k)"]
    assert plain(held(), *lost) == []
    assert plain(undecided("a.1", INTERRUPTED, Verdict.NOT_RUN)) == []


def test_a_short_run_tells_a_pipe_its_first_failure_and_no_more() -> None:
    assert len(plain(*(failed(f"a.{number}") for number in range(9)))) == 1
    assert plain(*(held(f"a.{number}") for number in range(9))) == []


def test_what_was_not_run_is_no_part_of_what_applies() -> None:
    told = click.unstyle(format_applicable(Counter({"held": 3, "inapplicable": 2, "not run": 348})))
    assert told == "3 of 3 applicable items held, 348 not run"
    assert click.unstyle(format_applicable(Counter({"inapplicable": 2, "not run": 5}))) == "2 inapplicable, 5 not run"
