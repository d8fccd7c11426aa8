"""Failures that one bug explains are told as one: boundaries that fit one block, and an arithmetic's consequences."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from attnspec.cli.digest import Digest
from attnspec.cli.findings import rank_bugs
from attnspec.core.nouns import DType, Verdict
from attnspec.record.boundaries import Span, common_spans, read_spans_told, suggest_blocks
from attnspec.record.events import ItemFinished
from attnspec.record.outcome import MAGNITUDE_CAUSE, Evidence, Explanation, Likeness, Outcome
from attnspec.report.bugs import LAYOUT_CAUSES, explain_bugs, likely_in_short, likely_words
from attnspec.report.joined import join_records
from attnspec.report.likely_cause import EMPTY_ROWS_CLAUSE
from attnspec.report.page import make_findings
from attnspec.spec.load import load_spec
from attnspec.vocabulary.tables import WORDS
from helpers.outcomes import evidence, outcome, run
from helpers.records import run_started

SEEN = evidence(10.0)


def begun(*words: str) -> list[Outcome]:
    """Failures that begin so, and that no fault explains."""
    return [outcome(Verdict.VIOLATED, f"a.c{number}", seen=replace(SEEN, begins=f"Fails where {each}; holds at S = 1."))
            for number, each in enumerate(words)]


@pytest.mark.parametrize(("span", "ends"), [
    (Span("S", 65), 0), (Span("S", 65, 127), 128), (Span("S", 65, block=32), 32)])
def test_a_block_ends_where_a_range_does_and_not_without_an_end(span: Span, ends: int) -> None:
    assert span.ends == ends


@pytest.mark.parametrize(("words", "read"), [
    ("S ≥ 65", (Span("S", 65),)), ("65 ≤ S ≤ 127", (Span("S", 65, 127),)), ("S ≤ 32", (Span("S", 1, 32),)),
    ("T (= S) = 129", (Span("T (= S)", 129),)), ("D = 64", (Span("D", 64, 64),)),
    ("S = 129, though not at every S beyond", (Span("S", 129, is_open=True),)),
    ("S is not a multiple of 64 and ≥ 601", (Span("S", 601, block=64),)),
    ("S is not a multiple of 64", (Span("S", 65, block=64),)),
    ("D ≥ 5 and 78 ≤ S ≤ 127", (Span("D", 5), Span("S", 78, 127))),
    ("D > Dv + 2 and S is a multiple of 80 and ≥ 81 and T ≥ 3", (Span("T", 3),)), ("T·S ≥ 406", ()), ("T < S", ())])
def test_a_boundary_is_read_back_from_its_sentence(words: str, read: tuple[Span, ...]) -> None:
    assert read_spans_told(f"Fails where {words}; holds at S = 1.") == read
    assert read_spans_told(f"Fails where {words}") == read


ONE_BLOCK = "fails where S > 64 and S is not a multiple of 64"


@pytest.mark.parametrize(("words", "said"), [
    (("65 ≤ S ≤ 127", "69 ≤ S ≤ 191"), ONE_BLOCK),
    (("D ≥ 5 and 78 ≤ S ≤ 127", "65 ≤ S ≤ 127", "B ≥ 3 and S is not a multiple of 64 and ≥ 601",
      "D > Dv + 2 and 132 ≤ S ≤ 191", "D = 7, though not at every D beyond and S = 129, though not at every S beyond"),
     ONE_BLOCK),
    (("49 ≤ S ≤ 95", "50 ≤ S ≤ 143"), "fails where S > 48 and S is not a multiple of 48"),
    (("S ≥ 70", "S ≥ 133"), "fails where S ≥ 70"),
    (("D ≥ 129", "D ≥ 33", "D ≥ 129", "D ≥ 129"), "fails where D ≥ 129"),
    (("65 ≤ S ≤ 127", "69 ≤ S ≤ 191", "65 ≤ S ≤ 127"), ONE_BLOCK),
    (("S is not a multiple of 64", "S = 70, though not at every S beyond", "S is not a multiple of 64"),
     "fails where S is not a multiple of 64"),
    (("S ≥ 66", "T (= S) ≥ 65"), "fails where S ≥ 65"),
    (("40 ≤ S ≤ 61", "45 ≤ S ≤ 66"), "fails where 40 ≤ S ≤ 66"),
    (("S = 38, though not at every S beyond", "38 ≤ S ≤ 45"), "fails where S ≥ 38, though not at every S beyond")])
def test_boundaries_that_fit_one_bug_are_one_with_what_they_share(words: tuple[str, ...], said: str) -> None:
    [group] = explain_bugs(begun(*words))
    assert group.cause
    assert group.cause.says == said
    assert len(group.failures) == len(words)


@pytest.mark.parametrize("words", [
    ("65 ≤ S ≤ 127", "T ≥ 65"), ("S ≥ 65", "S ≥ 5"), ("33 ≤ S ≤ 40", "65 ≤ S ≤ 70"), ("D ≥ 5 and S ≥ 65", "D ≥ 5"),
    ("H ≥ 2", "H ≥ 3"), ("65 ≤ S ≤ 127", "S = 130")])
def test_boundaries_that_do_not_fit_stay_two_bugs(words: tuple[str, ...]) -> None:
    assert len(explain_bugs(begun(*words))) == 2


def test_a_group_that_fits_two_others_makes_them_one() -> None:
    [group] = explain_bugs(begun("T ≥ 65", "S ≥ 65", "T (= S) ≥ 65"))
    assert len(group.failures) == 3


def test_what_begins_in_the_same_block_as_a_named_fault_is_that_fault() -> None:
    like = Likeness("blocks_sum_not_rescaled", "blocks", "The running sum is not rescaled.", "", 2, 2)
    first, second = begun("65 ≤ S ≤ 127", "69 ≤ S ≤ 191")
    named = replace(first, evidence=replace(first.evidence or SEEN, like=(like,)))
    [group] = explain_bugs([named, second])
    assert group.cause
    assert (group.cause.fault, group.cause.says) == ("blocks_sum_not_rescaled", "the running sum is not rescaled")


def test_nothing_is_common_to_no_boundary() -> None:
    assert common_spans(()) == ()


@pytest.mark.parametrize(("words", "suggested"), [
    ("S ≥ 65", (64, 32, 128)), ("69 ≤ S ≤ 191", (192, 96, 64, 384)), ("T (= S) ≥ 49", (48, 24, 16, 96)),
    ("D ≥ 65", ()), ("S ≥ 70", ())])
def test_a_boundary_suggests_the_blocks_at_its_edges_and_near(words: str, suggested: tuple[int, ...]) -> None:
    assert tuple(suggest_blocks(f"Fails where {words}; holds at S = 1.")) == suggested


DECLARE = 'attend.precision = {"float64": {"softmax": "float32"}}'
ROUNDED = replace(SEEN, explained=Explanation("it computes in float32 throughout", "Compute in float64", DECLARE))


def like(stage: str) -> Evidence:
    return replace(SEEN, like=(Likeness("float64_narrowed", stage, "Float64 is not enabled.", "", 1, 1),))


@pytest.mark.parametrize(("clause", "without", "bugs"), [
    ("gradients.of_key", "mask", 1), ("gradients.of_key", "causal or mask", 1), ("gradients.of_key", "causal", 2),
    ("numerics.ties", "mask", 2)])
def test_gradients_of_what_a_keyword_spoils_are_the_same_bug(clause: str, without: str, bugs: int) -> None:
    ignored = replace(SEEN, like=(Likeness("mask_ignored", "mask", "The mask is never used.", "", 1, 1),))
    located = replace(SEEN, located=f"the answer is wrong here, and right once {without} is left out")
    others = [outcome(Verdict.VIOLATED, clause, dtype=dtype, seen=located) for dtype in (DType.FLOAT32, DType.FLOAT16)]
    groups = explain_bugs([outcome(Verdict.VIOLATED, "masking.definition", seen=ignored), *others])
    assert len(groups) == bugs
    assert bugs == 2 or (groups[0].cause and groups[0].cause.fault) == "mask_ignored"


def test_among_equals_what_explains_the_rarest_case_comes_first() -> None:
    told = (("ignored", "dropped", "at_most"), ("ignored", "dropped"), ("at_most",))
    every = [outcome(Verdict.VIOLATED, f"a.c{number}", seen=replace(SEEN, like=tuple(
        Likeness(fault, "query_segments", "A story.", "", 1, 1) for fault in faults)))
        for number, faults in enumerate(told)]
    assert [group.cause and group.cause.fault for group in explain_bugs(every)] == ["at_most", "ignored"]


@pytest.mark.parametrize(("stage", "dtype", "bugs"), [
    ("precision", DType.FLOAT64, 1), ("mask", DType.FLOAT64, 2), ("precision", DType.FLOAT32, 2)])
def test_a_fault_that_rounds_is_the_arithmetic_that_explains_more(stage: str, dtype: DType, bugs: int) -> None:
    every = [outcome(Verdict.VIOLATED, f"a.c{number}", dtype=DType.FLOAT64, seen=ROUNDED) for number in range(2)]
    groups = explain_bugs([*every, outcome(Verdict.VIOLATED, "a.z", dtype=dtype, seen=like(stage))])
    assert len(groups) == bugs
    assert groups[0].cause
    assert groups[0].cause.declare == DECLARE


def test_the_case_on_a_card_is_of_a_dtype_that_its_title_is_about() -> None:
    worse = replace(evidence(900.0), begins="Fails where S ≥ 65; holds at S = 64.")
    rounded = replace(ROUNDED, measured=evidence(2.0).measured)
    failed = [outcome(Verdict.VIOLATED, "a.definition", dtype=DType.FLOAT64, seen=rounded),
              outcome(Verdict.VIOLATED, "a.other", dtype=DType.FLOAT64, seen=rounded),
              outcome(Verdict.VIOLATED, "a.definition", dtype=DType.FLOAT32, seen=worse)]
    [card] = make_findings(join_records([run(*failed)]), strict=False)
    assert card.cause
    assert card.cause.says == "it computes in float32 throughout"
    assert [each.dtype for each in card.outcomes] == [DType.FLOAT64, DType.FLOAT32]


def test_a_page_without_causes_begins_with_a_definition() -> None:
    failed = [outcome(Verdict.VIOLATED, name, seen=evidence(margin)) for name, margin in (
        ("numerics.ties", 900.0), ("causal.no_lookahead", 5.0), ("causal.definition", 2.0))]
    first, second, last = make_findings(join_records([run(*failed)]), strict=False)
    assert [first.clause.id, second.clause.id, last.clause.id] == [
        "causal.definition", "causal.no_lookahead", "numerics.ties"]


def test_the_page_begins_with_the_bug_that_the_console_names_first() -> None:
    mask = replace(SEEN, like=(replace(like("mask").like[0], fault="mask_dropped"),))
    few = [outcome(Verdict.VIOLATED, name, seen=mask) for name in ("a.b", "a.c")]
    many = [outcome(Verdict.VIOLATED, "a.z", dtype=dtype, seen=like("scale"))
            for dtype in (DType.FLOAT64, DType.FLOAT16, DType.BFLOAT16)]
    cards = make_findings(join_records([run(*few, *many)]), strict=False)
    assert [(card.failures, card.clauses) for card in cards] == [(3, 1), (2, 2)]


def ranked_clauses(*failed: Outcome) -> list[str]:
    """The clauses that lead the console's bugs, in their order."""
    digest = Digest()
    digest.add(run_started())
    for each in failed:
        digest.add(ItemFinished(each))
    return [bug.clauses[0].clause for bug in rank_bugs(digest)]


def test_the_console_begins_with_a_definition_where_few_have_a_cause() -> None:
    ties = replace(SEEN, begins="Fails where B·H ≥ 3; holds at B·H = 2.")
    failed = [outcome(Verdict.VIOLATED, "numerics.ties", seen=ties),
              *(outcome(Verdict.VIOLATED, name, seen=SEEN) for name in ("numerics.one_hot", "causal.no_lookahead",
                                                                       "attention.definition"))]
    assert ranked_clauses(*failed) == ["attention.definition", "causal.no_lookahead", "numerics.ties",
                                       "numerics.one_hot"]
    assert ranked_clauses(*failed[:2]) == ["numerics.ties", "numerics.one_hot"]


def test_the_console_begins_with_the_cause_of_most_failures() -> None:
    named = [outcome(Verdict.VIOLATED, f"numerics.c{number}", seen=like("mask")) for number in range(2)]
    assert ranked_clauses(*named, outcome(Verdict.VIOLATED, "attention.definition", seen=SEEN)) == [
        "numerics.c0", "attention.definition"]


def located(failure: Outcome, text: str, case: str = "") -> Outcome:
    seen = failure.evidence or SEEN
    return replace(failure, evidence=replace(seen, located=text, case=case or seen.case))


BOTH = "B1,H1,Hkv1,T1,S65,D1,Dv1;mask=none;families=integers;with=causal+scale;scale=0.5;seed=0"


@pytest.mark.parametrize(("others", "says", "recipe"), [
    (["", "no small test input shows it"], "fails where S ≥ 65, with causal and scale", BOTH),
    (["", "no small test input shows it"], "fails where S ≥ 65", BOTH.replace("causal+", "")),
    (["the answer is wrong here, and right once causal is left out"], "fails where S ≥ 65", BOTH),
    (["a query attends to keys that the mask hides (mask)"], "fails where S ≥ 65", BOTH)])
def test_keywords_without_which_it_is_right_stand_beside_the_sizes(
        others: list[str], says: str, recipe: str) -> None:
    """All its cases have them: what fails without one does not need it."""
    needed = "the answer is not finite here, and right once causal or scale is left out"
    failed = [with_recipe(located(failure, text), recipe) for failure, text in
              zip(begun(*["S ≥ 65"] * (1 + len(others))), [needed, *others], strict=True)]
    [group] = explain_bugs(failed)
    assert group.cause
    assert group.cause.says == says


def with_recipe(failure: Outcome, recipe: str) -> Outcome:
    assert failure.evidence
    return replace(failure, evidence=replace(failure.evidence, recipe=recipe))


def test_what_begins_at_a_size_is_the_fault_of_the_stage_that_is_blamed() -> None:
    fault = Likeness("window_left_one_wider", "window", "A window keeps one key more.", "", 2, 2)
    one, [other] = outcome(Verdict.VIOLATED, "a.x", seen=replace(SEEN, like=(fault,))), begun("S ≥ 5")
    [group] = explain_bugs([one, located(other, "a query attends to keys that the window excludes (window)")])
    assert group.cause
    assert group.cause.fault == "window_left_one_wider"
    assert len(explain_bugs([one, located(other, "a query attends to keys that the mask hides (mask)")])) == 2


@pytest.mark.parametrize(("case", "groups"), [("T=1 S=2 D=3 Dv=4 float32", 1), ("T=1 S=2 D=3 Dv=3 float32", 2),
                                              ("T=1 S=2 D=3 float32", 2)])
def test_what_nothing_explains_is_of_the_bug_that_fails_at_its_case(case: str, groups: int) -> None:
    known = begun("D ≠ Dv", "D ≠ Dv")
    unknown = located(outcome(Verdict.VIOLATED, "a.z", seen=SEEN), "no small test input shows it", case)
    assert len(explain_bugs([*known, unknown])) == groups


def test_a_length_alone_claims_no_failure_that_nothing_explains() -> None:
    unknown = located(outcome(Verdict.VIOLATED, "a.z", seen=SEEN), "no small test input shows it", "S=90 D=3 float32")
    assert len(explain_bugs([*begun("S ≥ 65", "S ≥ 65"), unknown])) == 2


@pytest.mark.parametrize(("seen", "relation", "groups"), [
    (math.nan, EMPTY_ROWS_CLAUSE, 1), (0.5, EMPTY_ROWS_CLAUSE, 2), (math.nan, "agrees_with_definition", 2)])
def test_a_query_without_a_key_is_one_bug_whatever_hides_the_keys(seen: float, relation: str, groups: int) -> None:
    def failure(clause: str, answer: float, fault: tuple[Likeness, ...] = ()) -> Outcome:
        assert SEEN.measured
        measured = replace(SEEN.measured, relation=relation, seen=answer, expected=0.0)
        return outcome(Verdict.VIOLATED, clause, seen=replace(SEEN, measured=measured, like=fault))

    known = failure("masking.rows", math.nan, (Likeness("hidden_row_nan", "mask", "A row becomes NaN.", "", 3, 3),))
    assert EMPTY_ROWS_CLAUSE in WORDS["relation"]
    assert len(explain_bugs([known, failure("causal.rows", seen)])) == groups


def test_a_bug_is_shown_by_a_failure_that_is_like_its_fault() -> None:
    seen = located(outcome(Verdict.VIOLATED, "mask.definition", seen=SEEN), "a query attends to other keys (mask)")
    alike = outcome(Verdict.VIOLATED, "mask.prefix", seen=like("mask"))
    [group] = explain_bugs([replace(seen, evidence=replace(seen.evidence or SEEN, begins="Fails where T ≠ S.")), alike])
    assert [each.clause for each in group.failures] == ["mask.prefix", "mask.definition"]


def test_failures_on_how_inputs_lie_in_memory_are_one_bug_of_that_name() -> None:
    failed = [outcome(Verdict.VIOLATED, clause, seen=SEEN) for clause in LAYOUT_CAUSES]
    assert likely_words(failed) == ("Likely one bug: the answer changes with how the inputs lie in memory "
                                    f"(explains {len(LAYOUT_CAUSES)} of {len(LAYOUT_CAUSES)})")


def test_each_clause_on_how_inputs_lie_in_memory_is_there() -> None:
    assert LAYOUT_CAUSES.keys() <= {clause.id for clause in load_spec().clauses}


@pytest.mark.parametrize(("dtype", "first"), [
    (DType.FLOAT32, "fails where S ≥ 65"), (DType.FLOAT64, "fails where S ≥ 65")])
def test_what_an_arithmetic_explains_comes_last(dtype: DType, first: str) -> None:
    words = {"softmax": "float32"}
    rounded = replace(SEEN, explained=Explanation("it computes in float32 throughout", "Compute in float64", DECLARE,
                                                  words, {"float64": words}))
    every = [outcome(Verdict.VIOLATED, f"a.c{number}", dtype=DType.FLOAT64, seen=rounded) for number in range(2)]
    [wrong] = begun("S ≥ 65")
    groups = explain_bugs([*every, replace(wrong, dtype=dtype)])
    assert len(groups) == 2
    assert groups[0].cause
    assert groups[0].cause.says == first


ONLY_ONE = "Only the log-sum-exp is wrong; the output is right."


@pytest.mark.parametrize(("beside", "says"), [
    ((ONLY_ONE, ONLY_ONE), "fails where S ≥ 65, only the log-sum-exp"), ((ONLY_ONE, ""), "fails where S ≥ 65")])
def test_what_alone_is_wrong_is_said_where_all_failures_say_so(beside: tuple[str, str], says: str) -> None:
    failed = [replace(each, evidence=replace(each.evidence or SEEN, wrong=wrong))
              for each, wrong in zip(begun("S ≥ 65", "S ≥ 65"), beside, strict=True)]
    [group] = explain_bugs(failed)
    assert group.cause
    assert group.cause.says == says


def test_the_last_line_says_how_many_bugs_there_are_as_the_first_does() -> None:
    failed = begun("65 ≤ S ≤ 127", "T ≥ 65")
    assert likely_words(failed).startswith("Likely 2 bugs, the first: fails where")
    assert likely_in_short(failed).startswith("Likely 2 bugs, the first: fails where")


@pytest.mark.parametrize(("agreed", "begin"), [(3, "Likely one bug: "), (2, "Looks like one bug: ")])
def test_a_fault_that_answers_some_calls_otherwise_is_what_it_looks_like(agreed: int, begin: str) -> None:
    fault = Likeness("mask_dropped", "mask", "The mask is dropped.", "", agreed, 3)
    assert likely_words([outcome(Verdict.VIOLATED, "a.b", seen=replace(SEEN, like=(fault,)))]).startswith(begin)


SCALE = Likeness("scale_by_value_width", "scale", "The scale uses the width of the values.", "", 3, 3)


@pytest.mark.parametrize(("begins", "said"), [
    (("D ≠ Dv", "D ≠ Dv", ""), ", where D ≠ Dv"), (("D ≠ Dv", "", ""), ""), (("D ≠ Dv", "D ≥ 9", ""), "")])
def test_a_named_fault_is_told_with_the_sizes_at_which_alone_it_is_seen(begins: tuple[str, ...], said: str) -> None:
    failed = [outcome(Verdict.VIOLATED, f"a.c{number}", seen=replace(
        SEEN, like=(SCALE,), begins=f"Fails where {each}." if each else "")) for number, each in enumerate(begins)]
    words = likely_words(failed)
    assert words == (f"Likely one bug: the scale uses the width of the values{said} (`scale_by_value_width`, "
                     "explains 3 of 3)")
    assert likely_in_short(failed) == f"Likely: `scale_by_value_width`{said.removeprefix(',')}, 3 of 3"


def right_without(name: str, sizes: str, given: str) -> Outcome:
    """A failure of which nobody knows where it begins, but that it needs a keyword."""
    seen = replace(SEEN, located=f"the answer is wrong here, and right once {name} is left out",
                   recipe=f"B1,H1,Hkv1,{sizes},D1,Dv1;mask=none;families=normal;with={given};seed=1")
    return outcome(Verdict.VIOLATED, "a.z", seen=seen)


@pytest.mark.parametrize(("name", "sizes", "bugs"), [("causal", "T1,S2", 1), ("causal", "T2,S2", 2),
                                                     ("bias", "T1,S2", 2)])
def test_what_needs_the_same_keyword_where_a_bug_is_seen_is_that_bug(name: str, sizes: str, bugs: int) -> None:
    known = [replace(each, evidence=replace(each.evidence or SEEN, recipe=right_without("", "T1,S3", "causal").evidence
                                            .recipe)) for each in begun("T < S", "T < S")]  # type: ignore[union-attr]
    assert len(explain_bugs([*known, right_without(name, sizes, name)])) == bugs


def test_a_fault_that_another_failure_of_the_same_bug_refutes_is_not_named() -> None:
    chunk = Likeness("size_chunk_keys_twice", "blocks", "A short chunk takes its last block twice.", "", 3, 3)
    alike, other = begun("S ≥ 65", "S ≥ 65")
    alike = replace(alike, evidence=replace(alike.evidence or SEEN, like=(chunk,)))
    assert likely_words([alike, other]).startswith("Likely one bug: a short chunk takes its last block twice, where S")
    looked_for = located(other, "no small test input shows it")
    assert likely_words([alike, looked_for]) == "Likely one bug: fails where S ≥ 65 (explains 2 of 2)"
    assert likely_words([alike, alike, looked_for]).startswith("Likely one bug: a short chunk takes its last block")


def test_what_holds_in_some_case_of_a_bug_is_told_as_needed_alone() -> None:
    [weak] = begun("S ≥ 65")
    weak = replace(weak, clause="a.z", evidence=replace(weak.evidence or SEEN, begins=(
        "Fails only where S ≥ 65 (not in every case); holds at S = 64.")))
    assert likely_words([*begun("S ≥ 65", "S ≥ 65"), weak]) == (
        "Likely one bug: fails only where S ≥ 65 (explains 3 of 3)")
    narrower = replace(weak, evidence=replace(weak.evidence or SEEN, begins=(
        "Fails only where S ≥ 65 and T ≤ 4 (not in every case); holds at S = 64 and at T = 5.")))
    assert likely_words([*begun("S ≥ 65", "S ≥ 65"), narrower]) == (
        "Likely one bug: fails only where S ≥ 65 (explains 3 of 3)")


def test_what_a_wrong_softmax_breaks_by_magnitude_is_the_same_bug() -> None:
    zero = Likeness("blocks_start_at_zero", "blocks", "The running maximum starts at 0.", "", 3, 3)
    named = [outcome(Verdict.VIOLATED, f"attention.{name}", seen=replace(SEEN, like=(zero,))) for name in "abc"]
    other = outcome(Verdict.VIOLATED, "attention.d", seen=SEEN)
    logits = located(other, f"{MAGNITUDE_CAUSE}logit is 92 or more, and right where it is 91 (logits)")
    values = located(other, f"{MAGNITUDE_CAUSE}value is 92 or more, and right where it is 91 (values)")
    rounding = outcome(Verdict.VIOLATED, "numerics.small_numbers", seen=replace(SEEN, explained=Explanation(
        "it treats subnormal numbers as 0", "Keep them", "attend.precision = {}", {"flushes_subnormals": True})))
    unknown = outcome(Verdict.VIOLATED, "numerics.heavy_tails", seen=SEEN)
    assert likely_words([*named, logits, rounding, unknown]) == (
        "Likely one bug: the running maximum starts at 0 (`blocks_start_at_zero`, explains 6 of 6)")
    assert len(explain_bugs([*named, values])) == len(explain_bugs([named[0], rounding])) == 2


def test_one_length_alone_is_a_boundary_as_most_tell_it() -> None:
    failed = begun(*["T = 1 and S ≥ 257"] * 3, "S ≥ 257")
    case = "B1,H1,Hkv1,T1,S300,D1,Dv1;mask=none;families=normal;with=;seed=1"
    failed = [replace(each, evidence=replace(each.evidence or SEEN, recipe=case)) for each in failed]
    [group] = explain_bugs(failed)
    assert group.cause
    assert group.cause.says == "fails where T = 1 and S ≥ 257"


def test_a_range_that_ends_where_all_say_so_is_a_boundary() -> None:
    case = "B1,H1,Hkv1,T1,S300,D1,Dv1;mask=none;families=normal;with=;seed=1"
    failed = [replace(each, evidence=replace(each.evidence or SEEN, recipe=case))
              for each in begun("257 ≤ S ≤ 512", "257 ≤ S ≤ 512", "S ≥ 257")]
    assert likely_words(failed) == "Likely one bug: fails where 257 ≤ S ≤ 512 (explains 3 of 3)"


@pytest.mark.parametrize(("given", "bugs"), [("bias", 1), ("mask", 2)])
def test_an_arithmetic_that_shows_with_a_keyword_alone_is_its_fault(given: str, bugs: int) -> None:
    case = f"B1,H1,Hkv1,T1,S3,D1,Dv1;mask=none;families=normal;with={given};seed=1"
    rounded = [outcome(Verdict.VIOLATED, f"a.c{number}", seen=replace(ROUNDED, recipe=case)) for number in range(2)]
    groups = explain_bugs([*rounded, outcome(Verdict.VIOLATED, "a.z", seen=like("bias"))])
    assert len(groups) == bugs
    assert {group.cause.fault for group in groups if group.cause} == {"float64_narrowed", *[""] * (bugs - 1)}
