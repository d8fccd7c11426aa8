"""Sizes that a user names are tried whatever the effort: `--sizes "B4 H32 Hkv8 T2048 D128"`; blocks weigh more."""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import pytest
from attnspec.cli import main
from attnspec.cli.outputs import LiveProgress, PlainProgress
from attnspec.core.declaration import Declaration
from attnspec.core.effort import EFFORTS
from attnspec.core.errors import ManifestError, TargetError, UsageError
from attnspec.core.nouns import DType, Effort, Verdict
from attnspec.core.plan import Plan
from attnspec.core.sizes import estimate_cost, foretell_costs, read_all, read_sizes, sizes_beside, spell_lengths
from attnspec.engine.engine import Engine
from attnspec.faults.subject import own_subject
from attnspec.problems.demand import Demand, length_distributions
from attnspec.problems.domain import domain
from attnspec.problems.problem import Recipe
from attnspec.problems.size_plan import plan_for
from attnspec.record.outcome import Outcome
from attnspec.report.coverage import coverage_at_sizes
from attnspec.report.page import render_page
from attnspec.runner.gate import GateCost, gate
from attnspec.subjects.attributes import declaration_of
from attnspec.subjects.registry import registered_subjects
from attnspec.trials import trial as trials
from attnspec.trials.sizes import is_of_one_call, requested_sizes
from helpers.law import checks
from helpers.pages import section, words
from helpers.subjects import module_of
from test_manifests import MANIFEST, library
from test_page import card, outcome, run
from test_refused_sizes import HEAD

AT_192 = "T192 D16"
ONLY_AT_192 = "value = value * 1.5 if T == 192 else value"
DEFINITION = "attention.definition"


target_in = partial(module_of, HEAD)


def judged(folder: Path, *sizes: str, clause: str = DEFINITION, check: str = "pass", more: str = "",
           dtype: DType = DType.FLOAT32, effort: Effort = Effort.GLANCE) -> Outcome:
    target = target_in(folder, check, more)
    engine = Engine(Plan((target,), (clause,), in_process=(target,), effort=effort, sizes=read_all(sizes)))
    return engine.try_item(next(item for item in engine.items() if item.dtype == dtype.value))


# --- how they are read

def test_axes_stand_in_any_order_and_what_is_left_out_follows() -> None:
    assert spell_lengths(read_sizes("D128 S2048 Hkv8, H32 B4")) == "B4 H32 Hkv8 T2048 S2048 D128 Dv128"
    assert spell_lengths(read_sizes("T=1 S=7 D=3 Dv=5")) == "B1 H1 Hkv1 T1 S7 D3 Dv5"


@pytest.mark.parametrize(("text", "message"), [
    ("T8 Hvk8 D8", "'Hvk8' of the sizes names no axis. Did you mean 'Hkv'?"),
    ("T8 D8 large", "'large' is not a size. Write an axis and a number, as in 'B4 H32 Hkv8 T2048 S2048 D128'."),
    ("T0 D8", "'T0' of the sizes: no axis is shorter than 1."),
    ("T8 T9 D8", "the sizes 'T8 T9 D8' say T twice."),
    ("B2 H4", "the sizes 'B2 H4' say nothing of D and T or S. Write them as in"),
    ("H6 Hkv4 T8 D8", "the sizes 'H6 Hkv4 T8 D8' have 6 query heads, which is not a multiple of 4 key/value heads."),
    ("B999 H99 T1 D1", "have 98,901 head slices (B·H); at most 16,384 are tested."),
    ("B8 H32 T4096 D8", "have 4,294,967,296 scores (B·H·T·S); at most 1,073,741,824 are tested."),
    ("H9999 T1 D99999", "have more than 1,073,741,824 entries of query, key and value."),
    (" ", "no sizes are named. Write them as in"),
])
def test_what_makes_no_sense_is_told_with_the_way_out(text: str, message: str) -> None:
    with pytest.raises(UsageError) as told:
        read_all([text])
    assert message in str(told.value)
    with pytest.raises(UsageError):
        gate("numpy/msa", sizes=text)


def test_a_file_has_one_a_line_and_its_mistakes_have_a_place(tmp_path: Path) -> None:
    file = tmp_path / "mine.sizes"
    file.write_text("# prefill\n\nB2 T8 D4   # small\nT8 B2 D4\n", encoding="utf-8")
    assert read_all([str(file), "T1 S9 D4"]) == ("B2 H1 Hkv1 T8 S8 D4 Dv4", "B1 H1 Hkv1 T1 S9 D4 Dv4")
    file.write_text("T8 D4\n\nT8 X4\n", encoding="utf-8")
    with pytest.raises(UsageError, match=r"mine\.sizes:3: 'X4' of the sizes names no axis"):
        read_all([str(file)])
    with pytest.raises(UsageError, match=r"absent\.txt: the sizes cannot be read: No such file or directory\."):
        read_all([str(tmp_path / "absent.txt")])


@pytest.mark.parametrize(("text", "lengths"), [
    ("T128 D8", (129, 129)), ("T1 S128 D8", (1, 129)), ("T64 S128 D8", (65, 129)),
    ("B2 H32 T4096 D8", (4095, 4095)),  # one more, and it would have no recipe
])
def test_beside_lies_past_the_end_of_a_block(text: str, lengths: tuple[int, int]) -> None:
    found = sizes_beside(read_sizes(text))
    assert (found["T"], found["S"]) == lengths


# --- what they cost

def test_what_they_cost_is_told_with_the_deadline_that_may_not_do() -> None:
    texts = read_all(["B4 H32 Hkv8 T2048 S2048 D128"])
    line = ("sizes: B4 H32 Hkv8 T2048 S2048 D128 Dv128: 1.4e+11 multiply-adds a call, 5.6 GB (2.1 of them one array of "
            "scores), about 48 s a case, up to 4 cases a clause")
    assert list(foretell_costs(texts, 300)) == [line]
    assert list(foretell_costs(texts, 100)) == [
        line, "sizes: a clause may take 191 s at them; the deadline of 100 s should be longer"]


def test_scores_of_no_weight_are_left_out_of_the_cost() -> None:
    assert "GB, about" in str(estimate_cost(read_sizes("B1 H1 T64 D16")))


def test_more_of_anything_costs_more() -> None:
    small = estimate_cost(read_sizes("B2 H2 T64 D16"))
    for text in ("B4 H2 T64 D16", "B2 H4 T64 D16", "B2 H2 T128 D16", "B2 H2 T64 D32"):
        large = estimate_cost(read_sizes(text))
        assert large.work > small.work
        assert large.seconds > small.seconds
        assert large.bytes + large.scores > small.bytes + small.scores


def test_the_command_tells_what_they_cost_before_it_judges(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    target_in(tmp_path, ONLY_AT_192)
    options = ["check", "mine.py:attend", "--clause", DEFINITION, "--dtype", "float32", "--effort", "glance",
               "-n", "1", "--no-record"]
    assert main([*options, "--sizes", AT_192, "--deadline", "3"]) == 1
    out, err = capsys.readouterr()
    assert "sizes: B1 H1 Hkv1 T192 S192 D16 Dv16: 1.2e+06 multiply-adds a call" in err
    assert "your sizes: 1 clause at B1 H1 Hkv1 T192 S192 D16 Dv16" in out
    assert main([*options, "--sizes", "T192 X2"]) == 2


# --- where they are tried

def test_what_fails_at_no_drawn_size_fails_at_the_one_that_is_named(tmp_path: Path) -> None:
    assert judged(tmp_path, check=ONLY_AT_192).verdict is Verdict.HELD
    failed = judged(tmp_path, AT_192, check=ONLY_AT_192)
    assert failed.verdict is Verdict.VIOLATED
    assert failed.evidence is not None
    assert failed.evidence.begins.startswith("Fails where T = 192; holds at")
    assert Recipe.parse(failed.evidence.recipe).sizes.D < 16  # shrunk, though at a glance


def test_the_size_beside_is_tried_too(tmp_path: Path) -> None:
    assert judged(tmp_path, "T191 D16", check=ONLY_AT_192).verdict is Verdict.VIOLATED
    held = judged(tmp_path, "T193 D16", check=ONLY_AT_192)
    assert held.verdict is Verdict.HELD
    assert held.asked == {"B1 H1 Hkv1 T193 S193 D16 Dv16": "", "B1 H1 Hkv1 T194 S194 D16 Dv16": ""}
    assert held.spans["T"][1] >= 194


@pytest.mark.parametrize("check", [f"value = value * 1.5 if T == 192 and {flag} else value"
                                   for flag in ("causal", "not causal")])
def test_each_is_tried_with_the_causal_flag_and_without(check: str, tmp_path: Path) -> None:
    assert judged(tmp_path, AT_192, check=check).verdict is Verdict.VIOLATED


def test_a_function_declares_its_own(tmp_path: Path) -> None:
    more = f'attend.sizes = "{AT_192}"'
    assert judged(tmp_path, check=ONLY_AT_192, more=more).verdict is Verdict.VIOLATED


def test_they_are_tried_at_the_dtypes_in_which_models_compute() -> None:
    engine = Engine(Plan(("sound/eager",), (DEFINITION,), effort=Effort.GLANCE, sizes=read_all([AT_192])))
    assert {item.dtype: bool(engine.try_item(item).asked) for item in engine.items()} == {
        "float64": False, "float32": True, "float16": True, "bfloat16": True}
    assert Declaration(dtypes=(DType.FLOAT64,)).main_dtypes == (DType.FLOAT64,)


def test_the_clauses_are_those_that_judge_one_call() -> None:
    found = {name for name, check in checks().items() if is_of_one_call(check)}
    of_codes = {name for name in found if name.startswith(("quantised.", "quantised_blocks.", "quantised_cache."))}
    assert of_codes > {"quantised.keys", "quantised.values", "quantised.queries", "quantised.keys_by_block"}
    assert not of_codes & {"quantised.scale_of_one", "quantised.one_query_with_zeros"}, "they compare two calls"
    assert found - of_codes == {
        "attention.definition", "attention.one_visible_key", "bias.definition", "causal.alignment",
        "decoder.definition", "decoder.grouped_heads", "decoder.keeps_its_precision", "grouped.definition",
        "layers.identity_projections", "lengths.both_kinds", "lengths.definition", "lengths.queries_definition",
        "masking.definition", "past.definition", "past.grouped_heads", "past.keeps_its_precision",
        "packed.definition", "paged.definition", "scale.explicit", "segments.definition", "sinks.definition",
        "sinks.row_without_keys_is_zero", "slopes.definition", "softcap.after_scale", "softcap.definition",
        "window.definition", "window.own_place_alone"}


@pytest.mark.parametrize(("clause", "grouped", "kv_heads"), [
    (DEFINITION, True, 2), (DEFINITION, False, 4), ("grouped.definition", True, 2)])
def test_query_heads_share_a_key_head_where_clause_and_subject_speak_of_it(
    clause: str, *, grouped: bool, kv_heads: int,
) -> None:
    subject = own_subject("sound/eager")
    declaration = replace(subject.declaration, limits=replace(subject.declaration.limits, grouped=grouped))
    asked, _ = requested_sizes(checks()[clause], replace(subject, declaration=declaration), ["B1 H4 Hkv2 T8 D8"])
    assert (asked.sizes.H, asked.sizes.Hkv) == (4, kv_heads)


def test_a_slow_call_is_no_reason_to_leave_them_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attnspec.trials.evaluator.Evaluator.expected_seconds", lambda *_: 1e9)
    assert judged(tmp_path, AT_192, check=ONLY_AT_192).verdict is Verdict.VIOLATED


# --- where they are not

@pytest.mark.parametrize(("clause", "check", "more", "reason"), [
    (DEFINITION, "pass", 'attend.refuses = ["T > 100"]', "mine.py:attend refuses T > 100; here B=1 H=1 Hkv=1 T=192"),
    (DEFINITION, 'if T > 150: raise ValueError("query length above 150")', "",
     "mine.py:attend refuses T > 150 (ValueError: query length above 150); here B=1"),
    ("causal.alignment", "pass", "", "the clause is about other sizes"),
    ("grouped.definition", "pass", "", "the clause is about other sizes"),
])
def test_what_cannot_be_put_there_is_told(clause: str, check: str, more: str, reason: str, tmp_path: Path) -> None:
    found = judged(tmp_path, AT_192, clause=clause, check=check, more=more)
    assert found.verdict is Verdict.HELD
    assert reason in found.asked["B1 H1 Hkv1 T192 S192 D16 Dv16"]


def test_a_mask_that_would_fill_the_memory_is_not_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attnspec.trials.sizes.LARGEST_ARRAYS", 2**15)
    found = judged(tmp_path, AT_192, clause="masking.definition", check=ONLY_AT_192)
    assert found.verdict is Verdict.HELD
    assert found.asked["B1 H1 Hkv1 T192 S192 D16 Dv16"] == "a mask would have 3.7e+04 entries; up to 3.3e+04 are made"


def test_where_nothing_is_claimed_nothing_was_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials.Trial, "judge", lambda *_: None)
    assert set(judged(tmp_path, AT_192).asked.values()) == {trials.NOTHING_CLAIMED}


def test_clauses_of_other_kinds_are_not_put_there(tmp_path: Path) -> None:
    assert not judged(tmp_path, AT_192, clause="attention.finite").asked


def test_a_layer_is_put_what_is_drawn_alone() -> None:
    layer = own_subject("fault/layer_value_bias_dropped")
    found = requested_sizes(checks()[DEFINITION], layer, [AT_192])
    assert {each.why_not for each in found} == {f"{layer.id} is a layer, and layers are tested at drawn sizes only"}


# --- where they fail and cannot be made small

def test_a_large_case_that_fails_is_told_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(EFFORTS, Effort.QUICK, replace(EFFORTS[Effort.QUICK], shrinking=0))
    monkeypatch.setitem(EFFORTS, Effort.THOROUGH, replace(EFFORTS[Effort.THOROUGH], largest=0))
    failed = judged(tmp_path, AT_192, check=ONLY_AT_192, effort=Effort.QUICK)
    assert failed.evidence is not None
    assert not failed.evidence.like
    assert not failed.evidence.located


# --- what is told

def test_record_console_and_page_tell_where_it_was_tried(tmp_path: Path) -> None:
    target = target_in(tmp_path, more=f'attend.sizes = ["{AT_192}"]')
    engine = Engine(Plan((target,), in_process=(target,)))
    assert engine.card(target).sizes == ("B1 H1 Hkv1 T192 S192 D16 Dv16",)
    tried = outcome("lib/attend", "core.a", asked={"T8": "", "T9": ""})
    lacking = outcome("lib/attend", "core.b", asked={"T8": "the clause is about other sizes"})
    found = coverage_at_sizes([tried, lacking])
    assert found is not None
    assert found.sentence == "1 clause at T8 and T9; not core.b: the clause is about other sizes"
    none = coverage_at_sizes([lacking])
    assert none is not None
    assert none.sentence == "nothing was tried; not core.b: the clause is about other sizes"
    assert coverage_at_sizes([outcome("lib/attend", "core.a")]) is None


def test_the_page_says_which_sizes_were_named() -> None:
    told = outcome("lib/attend", "core.a", asked={"T8": ""})
    page = render_page([run(told, sizes=("T8",))])
    assert "sizes namedT8" in words(section(page, "environment"))
    assert "At the sizes that you named, lib/attend: 1 clause at T8." in words(section(page, "sizes"))


@pytest.mark.parametrize("handler", [PlainProgress, LiveProgress])
def test_the_console_tells_what_declared_sizes_cost(handler: type[PlainProgress | LiveProgress]) -> None:
    text = io.StringIO()
    shown = handler(text)
    record = run(outcome("lib/attend", "core.a"), sizes=("B1 H1 Hkv1 T8 S8 D4 Dv4",))
    shown.handle(replace(record.header, environment={"attnspec": "1", "workers": "1"}))
    shown.handle(card("lib/attend", sizes=("B1 H1 Hkv1 T8 S8 D4 Dv4", "B1 H1 Hkv1 T9 S9 D4 Dv4")))
    assert re.findall(r"sizes: (B1[^:]*): ", text.getvalue()) == ["B1 H1 Hkv1 T9 S9 D4 Dv4"]


# --- blocks

def share_at(blocks: tuple[tuple[str, tuple[int, ...]], ...], axis: str, block: int) -> float:
    """The share of an axis's weight that lies at the ends of a block."""
    table = length_distributions(blocks=blocks)[axis]
    drawn = [table.length_at(step / 4096) for step in range(4096)]
    return sum(min(length % block, -length % block) <= 1 for length in drawn) / len(drawn)


def test_blocks_put_half_of_the_weight_on_their_ends() -> None:
    assert share_at((), "S", 96) < 0.2
    assert share_at((("S", (96,)),), "S", 96) > 0.5
    assert length_distributions(blocks=(("S", (96,)),))["T"] == length_distributions()["T"]


def test_a_subject_with_blocks_has_a_plan_of_its_own() -> None:
    demand = Demand(domain())
    at_ends = Counter[bool]()
    for seed, is_cut in product(range(30), (False, True)):
        plan = plan_for((demand,), Declaration().limits, Effort.DEFAULT, seed, DType.FLOAT32, compiles=False,
                        flip_sizes=0, blocks=(("T", (48,)),) if is_cut else ())
        at_ends[is_cut] += sum(min(row.T % 48, -row.T % 48) <= 1 and row.T > 1 for row in plan.rows(demand))
    assert at_ends[True] > 4 * at_ends[False] > 0


def test_what_a_function_says_of_its_blocks_reaches_its_cases(tmp_path: Path) -> None:
    plain, cut = (judged(tmp_path, effort=Effort.QUICK, more=more) for more in ("", 'attend.blocks = {"T": 48}'))
    assert plain.spans != cut.spans


def attributes(**given: object) -> Declaration:
    def attend(query: object, key: object, value: object) -> object:
        """Nothing is asked of it."""

    vars(attend).update(given)
    return declaration_of(attend, "attend")


def test_one_length_or_several_are_a_blocks_lengths() -> None:
    assert attributes(blocks={"S": [128, 64], "T": 128}).blocks == {"T": (128,), "S": (64, 128)}
    assert attributes(sizes=("T8 D4", "D4 S8")).sizes == ("B1 H1 Hkv1 T8 S8 D4 Dv4",)


@pytest.mark.parametrize(("given", "message"), [
    ({"blocks": {"K": 64}}, "K"),
    ({"blocks": {"T": 1}}, "'T' of the blocks should be one block's length, or a list of them, each from 2 to 4096."),
    ({"blocks": {"T": []}}, "should be one block's length"),
    ({"blocks": {"T": "64"}}, "should be a whole number"),
    ({"blocks": {"T": [64, "8"]}}, "'T[1]' of the blocks should be a whole number, not "),
    ({"sizes": ["T8 D4", "T8 Dx4"]}, "'Dx4' of the sizes names no axis. Did you mean 'D'?"),
    ({"sizes": 8}, "should be a list of texts"),
])
def test_what_is_declared_wrongly_is_told_as_it_should_be(given: Mapping[str, object], message: str) -> None:
    with pytest.raises(TargetError) as told:
        attributes(**given)
    assert message in str(told.value)
    assert "Write it as in attend." in str(told.value)


def test_a_manifest_names_sizes_and_blocks_and_its_mistakes_have_a_place(tmp_path: Path) -> None:
    said = MANIFEST + "    sizes: [T8 D4]\n    blocks: {T: 64, S: [64, 128]}\n"
    library(tmp_path / "mine_at_sizes", manifest=said)
    declared = registered_subjects([tmp_path])["mine_at_sizes/attention"].declaration
    assert (declared.sizes, declared.blocks) == (("B1 H1 Hkv1 T8 S8 D4 Dv4",), {"T": (64,), "S": (64, 128)})
    library(tmp_path / "mine_at_none", manifest=said.replace("[T8 D4]", "\n      - T8 D4\n      - T8 Q4"))
    line = said.count("\n", 0, said.index("sizes:")) + 3
    with pytest.raises(ManifestError, match=rf"manifest\.yaml:{line}: 'Q4' of the sizes names no axis\."):
        registered_subjects([tmp_path], library="mine_at_none")


def test_a_gate_tells_what_they_cost_when_tests_are_collected() -> None:
    function = gate("numpy/msa", clauses=[DEFINITION], sizes=["T8 D4"])
    item = SimpleNamespace(nodeid="test_a.py::test_attention[x]", function=function)
    told = GateCost(SimpleNamespace(cache=None)).pytest_report_collectionfinish([item])  # type: ignore[arg-type,list-item]  # all that it reads
    assert told[1:] == list(foretell_costs(read_all(["T8 D4"]), 300))
