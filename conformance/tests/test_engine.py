"""The engine end to end: one clause, one subject, one dtype, one verdict, and the reasons for it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from attnspec.core.conventions import unfound_message
from attnspec.core.effort import EFFORTS
from attnspec.core.errors import TargetError, UsageError
from attnspec.core.nouns import DType, Effort, Panel, Verdict
from attnspec.core.plan import Item, Plan
from attnspec.engine.engine import Engine
from attnspec.engine.subject_run import SubjectRun
from attnspec.engine.summon import load_subject
from attnspec.faults.subject import own_subject
from attnspec.numerics import bound
from attnspec.problems.problem import Recipe
from attnspec.record.outcome import Outcome
from attnspec.spec.load import load_spec
from attnspec.subjects.subject import SubjectAnswer
from attnspec.trials.compile import compile_spec
from attnspec.trials.evaluator import MAX_REMEMBERED, Evaluator, Memory
from attnspec.trials.judging import Violated
from attnspec.trials.trial import Trial
from attnspec.vocabulary.relations import SCREENED
from helpers.law import checks
from helpers.places import SMALL_SPEC

CLAUSE = '''  - id: own.{name}
    level: {level}
    profile: {profile}
    says: Something holds.
    because:
      - {{cite: vaswani2017, note: equation 1}}
    given: {given}
    runs: {runs}
    then: [{then}]
    refuted_by: [scale_none]
'''
ROWS = (
    ("definition", "must", "core", "{problem: plain}", "{original: []}", "{agrees_with_definition: {observe: output}}"),
    ("twice", "must", "core", "{problem: plain}", "{once: [], twice: [{again: {}}]}",
     "{agree: {runs: [once, twice], observe: output, within: exact}}"),
    ("masked", "must", "masking", "{problem: plain, always: [mask]}", "{original: []}",
     "{agrees_with_definition: {observe: output}}"),
    ("advice", "should", "masking", "{problem: plain, always: [mask]}", "{original: []}",
     "{agrees_with_definition: {observe: output}}"),
    ("shown", "must", "core", "{problem: plain}", "{original: [{show_all: {}}]}",
     "{agrees_with_definition: {observe: output}}"),
    ("cross", "must", "core", "{problem: plain, lengths: cross}", "{original: []}", "{leaves_inputs: {}}"),
    ("many_keys", "must", "core", "{problem: plain, min_keys: 9999}", "{original: []}", "{leaves_inputs: {}}"),
    ("layer", "must", "layers", "{problem: plain, kind: layer}", "{original: []}",
     "{agrees_with_definition: {observe: output}}"),
    ("no_bias", "must", "core", "{problem: plain, draw: {step: small_step}}",
     "{original: [{shift_bias: {by: step}}]}", "{leaves_inputs: {}}"),
    ("long_sums", "must", "core", "{problem: plain, min_keys: 300}", "{original: []}",
     "{agrees_with_definition: {observe: output}}"),
    ("switches", "must", "core", "{problem: plain}", "{original: []}", "{variants_agree: {observe: output}}"),
)
SUBJECTS = '''
import numpy as np

def sound(query, key, value):
    logits = query @ np.swapaxes(key, -1, -2) / query.dtype.type(np.sqrt(query.shape[-1]))
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True) @ value

def unscaled(query, key, value):
    return sound(query * query.dtype.type(np.sqrt(query.shape[-1])), key, value)

def wrong_at_255(query, key, value):
    output = sound(query, key, value).copy()
    if len(output[0, 0]) > 255:
        output[1, 0, 255, 3] += query.dtype.type(0.5)
    return output

def claims_masking(query, key, value):
    return sound(query, key, value)

def sums_in_bfloat16(query, key, value):
    return sound(query, key, value)

sums_in_bfloat16.precision = {"bfloat16": {"grade": "G4", "reason": "a test",
                                           "accumulate": "bfloat16", "row_sum": "bfloat16"}}

claims_masking.claims = ["masking"]
claims_masking.dtypes = ["float32"]

def self_only(query, key, value):
    return sound(query, key, value)

def counted(query, key, value):
    with open(__file__ + ".calls", "a") as told:
        print(query.tobytes().hex(), file=told)
    return sound(query, key, value)

def raises(query, key, value):
    raise ValueError("not built")
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    spec = Path(shutil.copytree(SMALL_SPEC, tmp_path / "spec"))
    names = ("name", "level", "profile", "given", "runs", "then")
    clauses = "".join(CLAUSE.format(**dict(zip(names, row, strict=True))) for row in ROWS)
    (spec / "own.yaml").write_text(f"theme: own\nclauses:\n{clauses}")
    (spec / "causal.yaml").unlink()
    (spec / "scale.yaml").unlink()
    problems = spec / "problems.yaml"
    problems.write_text(problems.read_text() + "  plain: {kind: attention}\n")
    (tmp_path / "subjects.py").write_text(SUBJECTS)
    return tmp_path


def engine(folder: Path, function: str = "sound", **plan: object) -> Engine:
    return Engine(Plan((f"{folder / 'subjects.py'}:{function}",), spec=str(folder / "spec"),
                      **{"effort": Effort.QUICK, **plan}))  # type: ignore[arg-type]  # fields of a plan


def judged(folder: Path, clause: str, function: str = "sound", dtype: DType = DType.FLOAT32, **plan: object) -> Outcome:
    trial = engine(folder, function, **plan)
    return trial.try_item(Item(trial.plan.targets[0], f"own.{clause}", dtype.value))


# --- what is on trial

def test_items_come_by_target_dtype_and_clause(folder: Path) -> None:
    trial = engine(folder, clauses=("own.twice", "own.definition"), dtypes=(DType.FLOAT16, DType.FLOAT64))
    assert [(item.dtype, item.clause) for item in trial.items()] == [
        ("float64", "own.definition"), ("float64", "own.twice"),
        ("float16", "own.definition"), ("float16", "own.twice")]


def test_a_profile_names_its_clauses(folder: Path) -> None:
    trial = engine(folder, profiles=("masking",), dtypes=(DType.FLOAT32,))
    assert [item.clause for item in trial.items()] == ["own.masked", "own.advice"]


def test_a_pattern_names_the_clauses_that_it_fits(folder: Path) -> None:
    trial = engine(folder, clauses=("own.ma*", "own.shown"), dtypes=(DType.FLOAT32,))
    assert [item.clause for item in trial.items()] == ["own.masked", "own.shown", "own.many_keys"]


def test_at_a_glance_a_pattern_asks_for_no_more_than_is_due(folder: Path) -> None:
    def items(*clauses: str) -> int:
        glance = engine(folder, clauses=clauses, effort=Effort.GLANCE)
        return sum(map(glance.applies, glance.items()))

    assert items("own.*") == items() < 4 * items("own.*", "own.shown")
    assert (items("own.sho*"), items("own.shown")) == (1, 4)


@pytest.mark.parametrize(("plan", "message"), [
    (Plan((), clauses=("owm.*",)), "'owm.*' is not a known clause. Did you mean 'own.*'?"),
    (Plan((), clauses=("own.defintion",)), "'own.defintion' is not a known clause. Did you mean 'own.definition'?"),
    (Plan((), profiles=("maskng",)), "'maskng' is not a known profile. Did you mean 'masking'?")])
def test_what_does_not_exist_is_not_tried(folder: Path, plan: Plan, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        engine(folder, clauses=plan.clauses, profiles=plan.profiles).items()
    assert str(caught.value).startswith(message)


def test_a_subject_that_cannot_be_had_is_a_target_error(folder: Path) -> None:
    with pytest.raises(TargetError):
        engine(folder, "nobody").card(f"{folder / 'subjects.py'}:nobody")


def test_a_card_tells_what_was_probed(folder: Path) -> None:
    trial = engine(folder)
    card = trial.card(trial.plan.targets[0])
    assert card.id == trial.plan.targets[0]
    assert set(card.precision) == {dtype.value for dtype in DType}


# --- verdicts

@pytest.mark.family(1)
@pytest.mark.parametrize("dtype", DType, ids=lambda dtype: dtype.value)
def test_a_sound_subject_holds(folder: Path, dtype: DType) -> None:
    is_named = dtype is DType.FLOAT64  # else effort quick does not try it there
    outcome = judged(folder, "definition", dtype=dtype, dtypes=(dtype,) if is_named else ())
    assert outcome.verdict is Verdict.HELD
    numbers = EFFORTS[Effort.QUICK]
    assert outcome.cases == (numbers.cases if is_named or dtype is DType.FLOAT32 else numbers.sample)
    assert outcome.worst
    assert 0 < outcome.worst.margin <= 1
    assert outcome.instrument == "worst-case rounding bound"
    assert outcome.evidence is None


def test_a_violation_shows_the_simplest_case_with_pictures(folder: Path) -> None:
    outcome = judged(folder, "definition", "unscaled")
    assert outcome.verdict is Verdict.VIOLATED
    assert outcome.evidence
    assert outcome.evidence.measured
    assert outcome.evidence.measured.margin > 1
    assert outcome.evidence.sentence == outcome.reason
    assert "families=integers" in outcome.evidence.recipe
    assert [picture.panel for picture in outcome.evidence.pictures] == [Panel.EXPECTED, Panel.SEEN, Panel.DIFFERENCE]


def test_a_subject_that_raises_errored_with_the_case_and_the_traceback(folder: Path) -> None:
    outcome = judged(folder, "definition", "raises")
    assert (outcome.verdict, outcome.reason) == (Verdict.ERRORED, "ValueError: not built")
    assert outcome.evidence
    assert outcome.evidence.traceback.endswith("ValueError: not built\n")
    assert outcome.evidence.case.startswith("B=1 H=1 Hkv=1 T=1 S=1 D=1 Dv=1 float32")


@pytest.mark.family(2)
@pytest.mark.parametrize(("clause", "reason"), [
    ("masked", "takes no mask"),
    ("shown", "takes no mask"),
    ("layer", "it is not a layer: it has no projections"),
    ("many_keys", "no size that is drawn at this effort has what the clause asks for under `given`"),
    ("switches", "it declares no variant")])
def test_what_cannot_be_put_to_a_subject_is_inapplicable_and_says_why(folder: Path, clause: str, reason: str) -> None:
    outcome = judged(folder, clause)
    assert outcome.verdict is Verdict.INAPPLICABLE
    assert outcome.reason.endswith(reason)


def test_a_subject_without_switches_is_put_no_case_of_a_clause_about_them() -> None:
    crumbs: list[str] = []
    naive = own_subject("sound/naive")
    run = SubjectRun(naive, Plan((naive.id,), effort=Effort.QUICK), crumbs.append)
    outcome = run.try_clause(checks()["layers.switches"], DType.FLOAT32)
    assert (outcome.verdict, outcome.reason, crumbs) == (Verdict.INAPPLICABLE, "it declares no variant", [])


def test_what_declared_limits_exclude_is_inapplicable_and_says_so() -> None:
    naive = own_subject("sound/naive")
    limits = replace(naive.declaration.limits, single_head=True)
    single = replace(naive, declaration=replace(naive.declaration, limits=limits))
    run = SubjectRun(single, Plan((single.id,), effort=Effort.QUICK), lambda _: None)
    outcome = run.try_clause(checks()["attention.heads_are_independent"], DType.FLOAT32)
    assert (outcome.verdict, outcome.reason) == (
        Verdict.INAPPLICABLE, "the subject's declared limits exclude every shape that this clause needs")


def test_a_dtype_that_is_not_supported_is_inapplicable(folder: Path) -> None:
    outcome = judged(folder, "definition", "claims_masking", DType.FLOAT64)
    assert (outcome.verdict, outcome.reason) == (Verdict.INAPPLICABLE, "the subject does not take float64")


def test_a_claimed_profile_without_its_keyword_violates_must_clauses_only(folder: Path) -> None:
    must, should = judged(folder, "masked", "claims_masking"), judged(folder, "advice", "claims_masking")
    assert must.verdict is Verdict.VIOLATED
    assert must.reason.startswith("the subject claims 'masking', but ")
    assert must.reason.endswith("takes no mask")
    assert should.verdict is Verdict.INAPPLICABLE


def test_where_every_case_says_nothing_no_claim_is_made(folder: Path) -> None:
    outcome = judged(folder, "no_bias")
    assert (outcome.verdict, outcome.reason) == (
        Verdict.NO_CLAIM, "its 16 cases show nothing either way, since there is no bias")


def test_what_the_bound_does_not_cover_is_told_as_nobody_s_fault(folder: Path) -> None:
    outcome = judged(folder, "long_sums", "sums_in_bfloat16", DType.BFLOAT16)
    assert (outcome.verdict, outcome.reason) == (
        Verdict.NO_CLAIM, "its 11 cases show nothing either way, since what the clause is about did not come up, or "
                          "rounding or overflow may change that by any amount")


# --- again

@pytest.mark.nightly
def test_the_same_seed_gives_the_same_outcomes(folder: Path) -> None:
    first, second = (judged(folder, "definition", "unscaled") for _ in range(2))
    assert first == second


@pytest.mark.nightly
def test_another_seed_tries_other_cases(folder: Path) -> None:
    crumbs: list[list[str]] = []
    for seed in (0, 0, 1):
        told: list[str] = []
        trial = Engine(engine(folder, seed=seed).plan, breadcrumb=told.append)
        trial.try_item(Item(trial.plan.targets[0], "own.definition", "float32"))
        crumbs.append(told)
    assert crumbs[0] == crumbs[1] != crumbs[2]


TELL = """
import sys
from attnspec.engine.engine import Engine
from attnspec.core.plan import Item, Plan
from attnspec.core.nouns import Effort
trial = Engine(Plan((sys.argv[1],), spec=sys.argv[2], effort=Effort.QUICK), breadcrumb=print)
trial.try_item(Item(sys.argv[1], "own.masked_and_biased", "float32"))
"""


def test_every_process_tries_the_same_cases(folder: Path) -> None:
    """Sets have another order in every process: the seed must not depend on it."""
    own = folder / "spec" / "own.yaml"
    own.write_text(own.read_text().replace("own.definition", "own.masked_and_biased").replace(
        "{problem: plain}", "{problem: plain, sometimes: [mask, bias, causal, scale]}", 1))
    command = [sys.executable, "-c", TELL, f"{folder / 'subjects.py'}:sound", str(folder / "spec")]
    said = [subprocess.run(command, env={**os.environ, "PYTHONHASHSEED": seed}, check=True, capture_output=True,
                           text=True).stdout for seed in ("1", "2")]
    assert said[0]
    assert said[0] == said[1]


@pytest.mark.nightly
def test_a_replayed_recipe_measures_the_same(folder: Path) -> None:
    outcome = judged(folder, "definition", "unscaled")
    assert outcome.evidence
    trial = engine(folder, "unscaled")
    again = trial.replay(Item(trial.plan.targets[0], "own.definition", "float32"), outcome.evidence.recipe)
    assert again.evidence == outcome.evidence
    assert (again.verdict, again.cases) == (Verdict.VIOLATED, 1)


def test_a_replay_of_a_sound_subject_holds_and_a_mistyped_one_is_refused(folder: Path) -> None:
    trial = engine(folder)
    item = Item(trial.plan.targets[0], "own.definition", "float32")
    recipe = "B1,H1,Hkv1,T1,S1,D1,Dv1;mask=none;families=integers;seed=0"
    assert trial.replay(item, recipe).verdict is Verdict.HELD
    with pytest.raises(UsageError, match="this is no recipe"):
        trial.replay(item, "B1")
    with pytest.raises(UsageError, match=r"this is no recipe: 'nope' .* Did you mean 'none'\?$"):
        trial.replay(item, recipe.replace("mask=none", "mask=nope"))
    with pytest.raises(UsageError, match=r"'own\.defintion' is not a known clause"):
        trial.replay(replace(item, clause="own.defintion"), recipe)


# --- what is remembered, and which rows are judged

def trial_of(folder: Path, clause: str, function: str = "counted", *, dtype: DType = DType.FLOAT32) -> Trial:
    subject = load_subject(f"{folder / 'subjects.py'}:{function}", Plan(()))
    check = compile_spec(load_spec(folder / "spec"))[f"own.{clause}"]
    return Trial(check, Evaluator(subject, dtype), Effort.QUICK, 0, lambda _: None)


RECIPE = Recipe.parse("B1,H2,Hkv2,T3,S4,D2,Dv2;mask=none;families=integers;seed=5")


def calls(trial: Trial, *runs: str) -> int:
    scene = trial.scene(RECIPE)  # the first one probes the conventions
    before = count(trial)
    for run in runs:
        scene.answers(scene.runs[run])
    return count(trial) - before


def count(trial: Trial) -> int:
    """How many calls the subject has written down."""
    told = Path(f"{trial.evaluator.subject.id.rpartition(':')[0]}.calls")
    return len(told.read_text().splitlines()) if told.exists() else 0


def test_an_answer_is_remembered_and_a_repeated_call_is_not(folder: Path) -> None:
    trial = trial_of(folder, "twice")
    assert calls(trial, "once") == 1
    assert calls(trial, "once") == 0
    assert calls(trial, "twice", "twice") == 2


NAN_ROWS = """
import numpy as np
def attend(query, key, value, *, mask=None):
    output = np.broadcast_to(value.mean(axis=2, keepdims=True), (*query.shape[:3], value.shape[-1])).copy()
    return output if mask is None else np.where(mask.any(axis=-1, keepdims=True), output, np.nan)
attend.conventions = {"hidden_row": "uniform"}
"""


def test_a_declared_convention_stands_above_a_probe_of_one_of_its_forms(tmp_path: Path) -> None:
    (tmp_path / "rows.py").write_text(NAN_ROWS)
    found = Evaluator(load_subject(f"{tmp_path / 'rows.py'}:attend", Plan(())), DType.FLOAT32).conventions
    assert {name: answer for name, answer in found.items() if "hidden_row" in name} == {"hidden_row": "uniform"}


EITHER = """
import numpy as np
def attend(query, key, value, *, mask=None, causal=False):
    logits = query @ key.swapaxes(-1, -2) / np.sqrt(query.shape[-1]).astype(query.dtype)
    seen = np.broadcast_to(np.tri(*logits.shape[-2:], dtype=bool) if causal else True, logits.shape)
    seen = seen if mask is None else (seen | mask if causal else mask)
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True)) * seen
    return weights / weights.sum(axis=-1, keepdims=True) @ value
attend.dtypes = ["float32"]
"""


@pytest.mark.parametrize(("declared", "reason"), [
    ("", "mask_with_causal could not be found out: a probe saw none of the known answers. Declare "
         'attend.conventions = {"mask_with_causal": "both"} (or mask, causal, raises); then the subject is judged by '
         'what it declares'),
    pytest.param('attend.conventions = {"mask_with_causal": "undefined"}',
                 "it does not say what mask or bias do together with the causal flag", marks=pytest.mark.nightly),
])
def test_a_convention_that_no_probe_can_tell_is_to_be_declared(tmp_path: Path, declared: str, reason: str) -> None:
    (tmp_path / "either.py").write_text(f"{EITHER}{declared}\n")
    engine = Engine(Plan((f"{tmp_path / 'either.py'}:attend",), clauses=("causal.with_mask",), dtypes=(DType.FLOAT32,)))
    [outcome] = [engine.try_item(item) for item in engine.items()]
    assert (outcome.verdict, outcome.reason) == (Verdict.INAPPLICABLE, reason)
    (tmp_path / "both.py").write_text(f'{EITHER}attend.conventions = {{"mask_with_causal": "both"}}\n')
    engine = Engine(Plan((f"{tmp_path / 'both.py'}:attend",), clauses=("causal.with_mask",), dtypes=(DType.FLOAT32,)))
    assert [engine.try_item(item).verdict for item in engine.items()] == [Verdict.VIOLATED]


def test_what_a_manifest_can_declare_is_told_as_it_stands_there() -> None:
    message = unfound_message("grouped_heads", "a/b")
    assert "Declare conventions: {grouped_heads: repeat} in its manifest (or tile);" in message


def test_large_values_are_not_remembered_for_long() -> None:
    memory: Memory[SubjectAnswer] = Memory(max_bytes=1000)
    for number in range(4):
        memory.recall(str(number), lambda: SubjectAnswer(np.zeros(50), weights=np.zeros(10)))
    assert list(memory) == ["2", "3"]
    memory.recall("large", lambda: SubjectAnswer(np.zeros(1000)))
    assert list(memory) == ["large"]


def test_what_is_remembered_does_not_grow_without_end() -> None:
    memory: Memory[int] = Memory()
    for number in range(2 * MAX_REMEMBERED):
        assert memory.recall(str(number), lambda number=number: number) == number  # type: ignore[misc]  # bound at once
    assert len(memory) == MAX_REMEMBERED
    assert memory.recall(str(number), lambda: -1) == number
    assert memory.recall("0", lambda: -1) == -1
    assert memory.recall("", lambda: 1) == 1
    assert memory.recall("", lambda: 2) == 2


LARGE = Recipe.parse("B2,H2,Hkv2,T257,S257,D4,Dv4;mask=none;families=normal;seed=5")


@pytest.mark.family(2, each="screens")
@pytest.mark.parametrize("screens", [False, True])
@pytest.mark.parametrize("dtype", list(DType))
def test_one_wrong_entry_of_a_large_case_is_found(
    folder: Path, monkeypatch: pytest.MonkeyPatch, dtype: DType, screens: bool,
) -> None:
    for name in ("SHARP_UP_TO", "LONG_DOUBLE_UP_TO"):
        monkeypatch.setattr(bound, name, 0 if screens else 2**40)
    failure = trial_of(folder, "definition", "wrong_at_255", dtype=dtype).judge_recipe(LARGE).failure
    assert isinstance(failure, Violated)
    assert failure.measured.index == (1, 0, 255, 3)
    assert (failure.measured.wrong, failure.measured.claimed) == (1, 2 * 2 * 257 * 4)


@pytest.mark.family(1)
@pytest.mark.parametrize("dtype", [DType.FLOAT64, DType.FLOAT32])
def test_a_screened_case_says_how_its_rows_were_judged(
    folder: Path, monkeypatch: pytest.MonkeyPatch, dtype: DType,
) -> None:
    for name in ("SHARP_UP_TO", "LONG_DOUBLE_UP_TO"):
        monkeypatch.setattr(bound, name, 2**17)
    small, large = (trial_of(folder, "definition", dtype=dtype).judge_recipe(recipe) for recipe in (RECIPE, LARGE))
    assert small.failure is large.failure is None
    assert (list(small.readings), list(large.readings)) == ([], [SCREENED])


@pytest.mark.nightly
@pytest.mark.parametrize("clause", ["scale.inverse_root_width", "layers.definition", "layers.returned_weights"])
def test_a_counterexample_has_pictures_whatever_its_shape(clause: str) -> None:
    fault = "layer_unscaled" if clause.startswith("layers") else "scale_none"
    outcome = Engine(Plan((f"fault/{fault}",), clauses=(clause,))).try_item(Item(f"fault/{fault}", clause, "float32"))
    assert outcome.verdict is Verdict.VIOLATED
    assert outcome.evidence is not None
    assert [picture.panel for picture in outcome.evidence.pictures][:3] == [
        Panel.EXPECTED, Panel.SEEN, Panel.DIFFERENCE]


def test_a_fault_that_looks_like_rounding_at_a_dtype_is_not_tried_there() -> None:
    item = Item("fault/inputs_tf32", "attention.definition", "bfloat16")
    outcome = Engine(Plan((item.target,))).try_item(item)
    assert outcome.verdict is Verdict.INAPPLICABLE
    assert outcome.reason.startswith("no wrong answer at bfloat16: ")


OVERFLOWING = """
import math
import numpy as np
def attend(query, key, value, *, mask=None):
    logits = query @ key.swapaxes(-1, -2) / math.sqrt(query.shape[-1])
    if mask is not None:
        with np.errstate(over="ignore"):
            logits = np.where(mask, logits, np.float64(-1e9).astype(query.dtype))
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return ((weights / weights.sum(axis=-1, keepdims=True)) @ value).astype(query.dtype)
"""


def test_each_dtype_is_held_to_what_it_does_with_hidden_rows(tmp_path: Path) -> None:
    """-1e9 hides a key in float32, and in float16 it is -inf, so that a row without keys is NaN there alone."""
    (tmp_path / "mine.py").write_text(OVERFLOWING, encoding="utf-8")
    engine = Engine(Plan((f"{tmp_path}/mine.py:attend",), clauses=("masking.hidden_row_convention",)))
    assert {engine.try_item(item).verdict for item in engine.items()} == {Verdict.HELD}


@pytest.mark.nightly
def test_a_mask_that_is_not_low_enough_is_no_stored_logsumexp(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(OVERFLOWING, encoding="utf-8")
    plan = Plan((f"{tmp_path}/mine.py:attend",), clauses=("masking.constant_is_low_enough",), dtypes=(DType.FLOAT32,))
    engine = Engine(plan)
    [outcome] = [engine.try_item(item) for item in engine.items()]
    assert outcome.evidence is not None
    assert outcome.evidence.explained is not None
    assert "`mask_constant_1e9`" in outcome.evidence.explained.cause
    assert outcome.evidence.like[0].fault == "mask_constant_1e9"


def test_what_no_case_can_ask_does_not_apply_though_some_cases_say_nothing() -> None:
    engine = Engine(Plan(("numpy/msa",), effort=Effort.GLANCE))
    outcome = engine.try_item(Item("numpy/msa", "purity.strided_inputs", "float32"))
    assert (outcome.verdict, outcome.reason) == (
        Verdict.INAPPLICABLE, "a layer's inputs are made by the lowering, so it is not asked about their layout")
    assert outcome.no_claims


def test_a_dtype_that_nobody_takes_is_told_with_those_that_are() -> None:
    plan = Plan(("jax/dot_product_attention_jit",), dtypes=(DType.FLOAT16,))
    with pytest.raises(UsageError, match=r"^nothing is tested at float16: jax/dot_product_attention_jit takes float64, "
                                         r"float32, bfloat16\.$"):
        Engine(plan).items()
