"""What a violation is like: the fault that explains it is named first, and what none explains is located."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attnspec.core.nouns import DType, Effort, Verdict
from attnspec.core.plan import Plan
from attnspec.diagnosis.candidate import FailingCase
from attnspec.diagnosis.diagnose import Diagnosis, Examiner
from attnspec.diagnosis.locate import MASK_IS_INVERTED, RawExponentials
from attnspec.diagnosis.tolerance import Aspect, ComparisonStandard
from attnspec.engine.subject_run import SubjectRun
from attnspec.faults import staged as sound
from attnspec.faults.catalogue import ALL, CATALOGUE
from attnspec.faults.fault import Fault
from attnspec.faults.softmax import OF_OTHER_SIZES
from attnspec.faults.staged import attention, staged
from attnspec.faults.staged_work import HandedOver
from attnspec.faults.subject import SoundArithmetic, double, own_subject
from attnspec.problems.make import make_problem
from attnspec.problems.problem import Array, Recipe
from attnspec.record.outcome import Explanation, Outcome
from attnspec.runner.judge import format_violation
from attnspec.spec.load import load_spec
from attnspec.subjects.callee import InProcess
from attnspec.subjects.registry import load_target
from attnspec.subjects.subject import Subject
from attnspec.trials.compile import Check, compile_spec
from attnspec.trials.evaluator import Evaluator
from attnspec.trials.judging import log_call
from attnspec.trials.trial import Trial
from evaluation.power.measure import diagnose_double

SPEC = load_spec()
CHECKS = compile_spec(SPEC)
A_FEW = ALL[::8]  # for speed, where none of all is like the subject
# One of each stage, with the clause that convicts it.
NAMED = (
    ("scale_none", "attention.definition"), ("gqa_tiled", "grouped.definition"),
    ("logits_clipped_50", "attention.definition"), ("bias_heads_reversed", "bias.definition"),
    ("mask_inverted", "masking.definition"), ("causal_off_by_one", "causal.no_lookahead"),
    ("softmax_over_queries", "attention.definition"), ("blocks_start_at_zero", "numerics.far_below_zero"),
    ("weights_uniform", "attention.definition"), ("output_zeros", "attention.definition"),
    ("key_last_dropped", "attention.definition"), ("inputs_float8", "attention.definition"),
    ("later_calls_halved", "purity.same_call_same_answer"), ("key_cleared", "purity.inputs_are_left_alone"),
    ("layout_of_query", "purity.strided_inputs"), ("layer_value_bias_twice", "layers.biases"),
    ("layer_split_interleaved", "layers.definition"), ("layer_merge_interleaved", "layers.definition"))


def trial_of(check: Check, subject: Subject, dtype: DType = DType.FLOAT32) -> Trial:
    """A clause against a subject, without shrinking."""
    return Trial(check, Evaluator(subject, dtype), Effort.DEFAULT, 0, lambda _: None, shrinks=False)


def failing(check: Check, subject: Subject) -> Recipe:
    """The first case that convicts the subject."""
    failure = trial_of(check, subject).hold()
    recipe = getattr(failure.failure, "recipe", failure.last_recipe)
    assert isinstance(recipe, Recipe)
    return recipe


def diagnosed(subject: Subject, clause: str = "attention.definition", among: Sequence[Fault] = ALL) -> Diagnosis:
    """What is said of the first case on which a clause convicts a subject."""
    return Examiner().diagnose(trial_of(CHECKS[clause], subject), failing(CHECKS[clause], subject), among=among)


def own(answer: Callable[[HandedOver], Any]) -> Subject:
    """A sound subject with another function."""
    return replace(own_subject("sound/naive"), id="mine", callee=InProcess(sound.as_attend(answer)))


def of_stages(**stages: Any) -> Subject:  # noqa: ANN401  (as dataclasses.replace)
    """A subject with a mistake that the catalogue does not know."""
    return replace(own_subject("sound/naive"), id="mine", callee=InProcess(staged(**stages)()))


@pytest.mark.family(1)
@pytest.mark.parametrize(("name", "clause"), NAMED)
def test_a_fault_in_another_arithmetic_is_named_first(name: str, clause: str) -> None:
    subject = own_subject(f"fault/{name}")
    recipe = failing(CHECKS[clause], subject)
    like = diagnose_double(subject, DType.FLOAT32, CHECKS[clause], recipe,
                           arithmetic=SoundArithmetic.REORDERED).likely_faults
    assert like[0].fault == name
    assert 2 * like[0].agreed > like[0].tried


def test_every_stage_of_the_catalogue_is_told_of_by_its_story_and_link() -> None:
    like = diagnosed(own_subject("fault/causal_off_by_one"), "causal.no_lookahead").likely_faults[0]
    fault = CATALOGUE["causal_off_by_one"]
    assert (like.stage, like.story, like.link) == (fault.stage, fault.story, fault.link)
    assert like.link


@pytest.mark.family(3)
@pytest.mark.parametrize(("subject", "place"), [
    (of_stages(scale=lambda work: sound.scale(work) * 1.41), "the logits are wrong by the factor 1.41 (scale)"),
    (of_stages(logits=lambda work, factor: sound.logits(work.but(query=np.roll(work.query, 1, axis=-1)), factor)),
     "the logits are wrong, and not by one factor (logits)"),
    (of_stages(masked=lambda work: sound.masked(work) | (np.arange(work.shape[3]) % 3 == 0)),
     "a query attends to keys that the mask excludes (mask)"),
    (of_stages(softmax=lambda logits, work: sound.softmax(logits, work) * np.float32(0.9)),
     "rows of weights sum to 0.9"),
    (of_stages(softmax=lambda logits, _: sound.normalise(sound.exponentials(logits) ** 2 + sound.exponentials(logits))),
     "the weights depend on the logits alone, but are not their softmax (softmax)"),
    (of_stages(finish=lambda output, _: np.roll(output, 1, axis=1) if output.shape[1] == 3 else output + 1),
     "the heads come out in the order 2, 0, 1 (merge)"),
    (of_stages(mix=lambda weights, work: weights @ (work.value + 0.5 * work.value * (work.value - 1))),
     "the weights are right, but the output is not weights @ value (values, merge)"),
    (of_stages(add_bias=lambda logits, work: logits if work.bias is None else logits + np.float32(0.37) * work.bias),
     "the bias terms of the logits are wrong by the factor 0.37 (bias)"),
], ids=("scale", "logits", "mask", "sum", "softmax", "merge", "values", "bias"))
def test_a_mistake_outside_the_catalogue_is_located_at_its_stage(subject: Subject, place: str) -> None:
    said = diagnosed(subject, among=A_FEW)
    assert said.likely_faults == ()
    assert said.located_stage.startswith(place)


def test_an_answer_that_changes_from_call_to_call_is_called_so() -> None:
    count = itertools.count()

    def answer(call: HandedOver) -> Array | tuple[Array, ...]:
        found = attention(call)
        gain = np.float32(1 + next(count))
        return (found[0] * gain, found[1]) if isinstance(found, tuple) else found * gain

    said = diagnosed(own(answer), among=A_FEW)
    assert said.located_stage == ("the same call gives another answer the second time "
                                  "(memory of earlier calls, or chance)")


@pytest.mark.nightly
def test_where_no_read_out_shows_it_nothing_is_made_up() -> None:
    def answer(call: HandedOver) -> Array | tuple[Array, ...]:
        found = attention(call)
        output = found[0] if isinstance(found, tuple) else found
        output[:] += np.float32(call.query.shape[2] == 2)  # no problem that is read is so short
        return found

    assert diagnosed(own(answer), among=A_FEW).located_stage.startswith("no small test input shows it")


def raising(*, only_with: str = "") -> Subject:
    """It divides by nought, on every small square problem or on those with a keyword."""
    def answer(call: HandedOver) -> Array | tuple[Array, ...]:
        if call.query.shape[2] > 2 and (not only_with or getattr(call, only_with) is not None):
            raise ZeroDivisionError(only_with or "always")
        found = attention(call)
        output = found[0] if isinstance(found, tuple) else found
        output[:] += np.float32(call.query.shape[2] == 2)
        return found

    return own(answer)


@pytest.mark.parametrize(("only_with", "said"), [
    ("", "no small test input could be tried, since the function raises ZeroDivisionError: always"),
    ("bias", "no small test input that could be tried shows it; on others the function raises ZeroDivisionError: "
             "bias")])
def test_read_outs_that_raise_are_not_said_to_be_right(only_with: str, said: str) -> None:
    assert diagnosed(raising(only_with=only_with), among=A_FEW).located_stage == said


def inverted(*, empty: float) -> Subject:
    """The mask read the wrong way round; what rows hold that then see no key is `empty`."""
    def answer(call: HandedOver) -> Array | tuple[Array, ...]:
        if call.mask is None:
            return attention(call)
        sees_none = call.mask.all(axis=-1, keepdims=True)
        found = attention(call.but(mask=~call.mask))
        return (np.where(sees_none, np.float32(empty), found[0]), found[1]) if isinstance(found, tuple) else (
            np.where(sees_none, np.float32(empty), found))

    return own(answer)


@pytest.mark.nightly
def test_an_inverted_mask_is_named_also_where_rows_become_nan() -> None:
    said = diagnosed(inverted(empty=np.nan))
    told = [each.fault for each in said.likely_faults] or [said.located_stage]
    assert told == ["the mask is read the wrong way round: True means that a query may attend (`mask_inverted`)"]


def test_an_inverted_mask_with_zeros_is_the_fault_of_that_name() -> None:
    [first, *_] = diagnosed(inverted(empty=0.0)).likely_faults
    assert (first.fault, first.story.partition(":")[0]) == ("mask_inverted", "The mask is read the wrong way round")


def test_keywords_that_spoil_a_case_together_are_told() -> None:
    def answer(call: HandedOver) -> Array | tuple[Array, ...]:
        found = attention(call)
        output = found[0] if isinstance(found, tuple) else found
        output[:] += np.float32(np.nan if call.causal and call.mask is not None else 0)
        return found

    said = diagnosed(own(answer), among=A_FEW)
    assert said.located_stage == "the answer is not finite here, and right once mask or causal is left out"


@pytest.mark.parametrize(("spoils", "needed"), [
    (lambda scale: scale < 0, "causal or a scale ≤ 0"), (lambda scale: abs(scale) > 1e-9, "causal or scale")],
    ids=["negative", "any"])
def test_a_scale_that_is_not_positive_is_told_from_any(spoils: Callable[[float], bool], needed: str) -> None:
    def answer(call: HandedOver) -> Array | tuple[Array, ...]:
        found = attention(call)
        output = found[0] if isinstance(found, tuple) else found
        output[:] += np.float32(np.nan if call.causal and call.scale is not None and spoils(call.scale) else 0)
        return found

    said = diagnosed(own(answer), clause="scale.explicit", among=())
    assert said.located_stage == f"the answer is not finite here, and right once {needed} is left out"


def test_a_layer_that_attends_to_itself_alone_is_diagnosed_too() -> None:
    found = diagnosed(load_target("numpy/msa"), clause="masking.hidden_nan_is_irrelevant", among=())
    assert found.located_stage == "the answer is not finite here, and right once mask is left out"


def test_a_recommendation_that_is_not_followed_is_not_diagnosed() -> None:
    subject_run = SubjectRun(load_target("numpy/msa"), Plan(("numpy/msa",), effort=Effort.QUICK), lambda _: None)
    evidence = subject_run.try_clause(CHECKS["masking.hidden_nan_is_irrelevant"], DType.FLOAT32).evidence
    assert evidence
    assert (evidence.located, evidence.like) == ("", ())


def test_no_read_out_is_asked_why_a_dtype_is_wrong() -> None:
    wide = own(lambda call: np.asarray(attention(call)).astype(np.float64))
    assert diagnosed(wide, clause="attention.dtype", among=()).located_stage == ""


def test_a_sound_subject_gets_no_diagnosis_in_its_evidence() -> None:
    plan = Plan(("sound/naive",), effort=Effort.QUICK)
    outcome = SubjectRun(own_subject("sound/naive"), plan, lambda _: None).try_clause(
        CHECKS["attention.worked_example"], DType.FLOAT32)
    assert (outcome.verdict, outcome.evidence) == (Verdict.HELD, None)


def test_a_right_answer_is_not_rounded_again_to_become_a_wrong_one() -> None:
    """That is most of what a diagnosis costs where the failing case is large."""
    subject, check = own_subject("fault/scale_none"), CHECKS["attention.definition"]
    trial = trial_of(check, subject)
    problem, evaluator = trial.scene(failing(check, subject)).problem("original"), trial.evaluator
    wrong, right = (log_call(each, problem) for each in (subject, own_subject("sound/naive")))
    towards = right.answer_given.output + np.float32(1e-6) * (wrong.answer_given.output - right.answer_given.output)
    nearer = replace(right, answer=replace(right.answer_given, output=towards))
    ruler = ComparisonStandard(subject, evaluator.precision, evaluator.conventions, Aspect.NONE).ruler(problem)
    assert ruler.call_nearness(wrong, nearer) < 1
    assert not ruler.are_alike(wrong, nearer, pytest.fail)


def test_a_fault_that_holds_where_the_subject_fails_does_not_explain_it() -> None:
    """Whatever it answered: here no call is compared, so that any fault answers as the subject did."""
    subject, check = own_subject("fault/scale_none"), CHECKS["attention.definition"]
    trial = trial_of(check, subject)
    bar = ComparisonStandard(subject, trial.evaluator.precision, trial.evaluator.conventions, Aspect.NONE)
    case = FailingCase(trial, failing(check, subject), bar, (), fails=True)
    assert case.is_explained_by(CATALOGUE["scale_none"])
    assert not case.is_explained_by(CATALOGUE["scale_root_in_float32"])


@pytest.mark.nightly
def test_a_double_of_a_sound_subject_is_sound() -> None:
    for arithmetic in SoundArithmetic:
        subject = double(own_subject("sound/naive"), arithmetic)
        assert trial_of(CHECKS["attention.definition"], subject).hold().failure is None


def test_a_double_answers_otherwise_than_its_fault() -> None:
    fault = own_subject("fault/scale_none")
    trial = trial_of(CHECKS["attention.definition"], fault)
    problem = trial.scene(failing(CHECKS["attention.definition"], fault)).problem("original")
    answers = [double(fault, each).answer(problem).output for each in (SoundArithmetic.REORDERED, SoundArithmetic.WIDE)]
    assert all((answer != fault.answer(problem).output).any() for answer in answers)


def test_the_second_clause_is_told_by_what_was_found_at_the_first() -> None:
    subject, examiner = own_subject("fault/scale_none"), Examiner()
    first, second = (CHECKS[name] for name in ("attention.definition", "masking.definition"))
    like = examiner.diagnose(trial_of(first, subject), failing(first, subject)).likely_faults
    again = examiner.diagnose(trial_of(second, subject), failing(second, subject), among=()).likely_faults
    assert again == like


def test_a_fault_that_is_not_among_those_asked_for_is_not_named() -> None:
    subject, check = own_subject("fault/scale_none"), CHECKS["attention.definition"]
    others = [fault for fault in ALL if "scale" not in fault.name]
    said = Examiner().diagnose(trial_of(check, subject), failing(check, subject), among=others)
    assert "scale_none" not in {each.fault for each in said.likely_faults}


def test_a_diagnosis_that_fails_costs_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> Diagnosis:
        raise RuntimeError("no wonder")

    monkeypatch.setattr(Examiner, "diagnose", fails)
    outcome = _heard("fault/scale_none")
    assert outcome.verdict is Verdict.VIOLATED
    assert outcome.evidence.located == "the diagnosis itself failed: RuntimeError: no wonder"


def test_the_console_says_what_a_violation_is_like() -> None:
    outcome = _heard("fault/scale_none")
    like = outcome.evidence.like[0]
    said = format_violation(outcome, says="", where="")
    assert f"  like: scale_none (in {like.agreed} of {like.tried} cases): {like.story}" in said
    assert "  where:" not in said


def _heard(target: str) -> Any:  # noqa: ANN401  (an outcome whose evidence is known to be there)
    subject_run_of = SubjectRun(own_subject(target), Plan((target,), effort=Effort.QUICK), lambda _: None)
    return subject_run_of.try_clause(CHECKS["scale.unit_variance"], DType.FLOAT32)


ALWAYS = """
import numpy as np
def always(query, key, value, *, causal=True):
    logits = query @ key.swapaxes(-1, -2) / np.sqrt(query.shape[-1])
    logits = np.where(np.tri(*logits.shape[-2:], dtype=bool), logits, -np.inf) if causal else logits
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True) @ value
"""


def test_a_flag_that_is_ignored_is_named(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(ALWAYS.replace("if causal", "if True"), encoding="utf-8")
    target = f"{tmp_path}/mine.py:always"
    subject_run = SubjectRun(load_target(target), Plan((target,), effort=Effort.QUICK), lambda _: None)
    evidence = subject_run.try_clause(CHECKS["attention.worked_example"], DType.FLOAT32).evidence
    assert evidence
    assert evidence.like[0].fault == "causal_always"


@pytest.mark.nightly
@pytest.mark.parametrize("size", [32, 64])
def test_a_forgotten_rescale_is_named_whatever_the_size_of_blocks(size: int) -> None:
    fault = next(each for each in OF_OTHER_SIZES if each.name == f"blocks_output_not_rescaled@{size}")
    subject = replace(own_subject("sound/naive"), id="mine", callee=InProcess(fault.function))
    assert diagnosed(subject, clause="attention.permuting_keys").likely_faults[0].fault == "blocks_output_not_rescaled"


def test_what_is_declared_causal_only_is_put_no_call_without_the_flag(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(f"{ALWAYS}always.causal_only = True\n", encoding="utf-8")
    target = f"{tmp_path}/mine.py:always"
    subject_run = SubjectRun(load_target(target), Plan((target,), effort=Effort.QUICK), lambda _: None)
    assert subject_run.try_clause(CHECKS["attention.definition"], DType.FLOAT32).verdict is Verdict.HELD
    assert subject_run.try_clause(CHECKS["causal.is_not_ignored"], DType.FLOAT32).verdict is Verdict.INAPPLICABLE
    problem = make_problem(Recipe.parse("B1,H1,Hkv1,T2,S2,D1,Dv1;mask=none;families=integers;seed=0"), DType.FLOAT32)
    assert "causal" in subject_run.subject.refuses(problem)
    assert subject_run.subject.refuses(problem.but(causal=True)) == ""


STUDENT = """
import numpy as np
def attend(query, key, value, *, causal=False):
    logits = query @ key.swapaxes(-1, -2) / query.dtype.type(np.sqrt(query.shape[-1]))
    if causal:
        logits = np.where(np.tri(*logits.shape[-2:], dtype=bool), logits, -np.inf)
    weights = np.exp(logits)
    weights = weights / weights.sum(axis=-1, keepdims=True)
    return weights @ value
"""


def heard(tmp_path: Path, text: str, clause: str, dtype: DType = DType.FLOAT32) -> Outcome:
    """The verdict of a clause on `attend` in a file of this text."""
    (tmp_path / "mine.py").write_text(text, encoding="utf-8")
    target = f"{tmp_path}/mine.py:attend"
    return SubjectRun(load_target(target), Plan((target,), dtypes=(dtype,), effort=Effort.QUICK),
                      lambda _: None).try_clause(
        CHECKS[clause], dtype)


@pytest.mark.family(1)
@pytest.mark.parametrize("dtype", [DType.FLOAT64, DType.FLOAT32, DType.FLOAT16])
@pytest.mark.parametrize("clause", ["attention.finite", "attention.permuting_queries"])
def test_a_softmax_without_maximum_is_told_at_every_dtype(tmp_path: Path, clause: str, dtype: DType) -> None:
    evidence = heard(tmp_path, STUDENT, clause, dtype).evidence
    assert evidence
    assert [each.fault for each in evidence.like] == ["softmax_without_maximum"]
    assert evidence.explained
    assert evidence.explained.cause == (
        "exp overflows: the maximum of the logits is not subtracted before it (`softmax_without_maximum`)")
    assert evidence.explained.advice == "Subtract it from each row: exp(logits - logits.max(axis=-1, keepdims=True))"


def test_whoever_masks_with_a_finite_number_is_told_what_to_write(tmp_path: Path) -> None:
    text = STUDENT.replace("-np.inf", "-1e9").replace("np.exp(logits)", "np.exp(logits - logits.max(-1)[..., None])")
    evidence = heard(tmp_path, text.replace("causal", "mask").replace("=False", "=None").replace(
        "if mask", "if mask is not None").replace("np.tri(*logits.shape[-2:], dtype=bool)", "mask"),
        "masking.constant_is_low_enough").evidence
    assert evidence
    assert evidence.explained
    assert evidence.explained.cause == (
        "masked logits get a finite number, and visible ones may lie lower (`mask_constant_1e9`)")
    assert evidence.explained.advice.startswith("Use -inf: it is lower than any logit.")


def test_no_overflow_is_told_of_who_subtracts_the_maximum(tmp_path: Path) -> None:
    text = STUDENT.replace("np.exp(logits)", "np.exp(logits - logits.max(axis=-1, keepdims=True))")
    assert heard(tmp_path, text, "attention.finite").verdict is Verdict.HELD
    subject = load_target(f"{tmp_path}/mine.py:attend")
    for dtype in DType:
        bar = ComparisonStandard(subject, Evaluator(subject, dtype).precision, {}, Aspect.NONE)
        assert RawExponentials.measure_subject(bar, dtype) is None


@pytest.mark.nightly
@pytest.mark.parametrize(("right", "wrong"), [
    ("weights @ value", "(weights @ value)[..., ::-1]"), ("swapaxes(-1, -2) /", "swapaxes(-1, -2) * 2 /")])
def test_an_overflow_does_not_explain_what_is_wrong_without_it(tmp_path: Path, right: str, wrong: str) -> None:
    evidence = heard(tmp_path, STUDENT.replace(right, wrong), "scale.unit_variance").evidence
    assert evidence
    assert "softmax_without_maximum" not in {each.fault for each in evidence.like}


@pytest.mark.nightly
def test_an_inverted_mask_of_ones_own_is_told_what_writes_an_adapter(tmp_path: Path) -> None:
    text = STUDENT.replace("causal=False", "mask=None").replace("if causal", "if mask is not None").replace(
        "np.where(np.tri(*logits.shape[-2:], dtype=bool), logits, -np.inf)", "np.where(mask, -np.inf, logits)").replace(
        "np.exp(logits)", "np.exp(logits - logits.max(axis=-1, keepdims=True))")
    outcome = heard(tmp_path, text, "masking.definition")
    assert outcome.evidence
    assert outcome.evidence.explained
    assert outcome.evidence.explained.cause == MASK_IS_INVERTED
    assert outcome.evidence.explained.advice.startswith(
        "Invert it. If your library documents that True hides a key, keep it: `attnspec init ")
    assert outcome.evidence.explained.advice.endswith("` writes an adapter that turns the mask")
    assert format_violation(outcome, says="", where="").count(MASK_IS_INVERTED) == 1


GROUPED = """
import numpy as np
def attend(query, key, value, *, mask=None):
    H, Hkv = query.shape[1], key.shape[1]
    key, value = (array[:, np.arange(H)[::-1] // (H // Hkv)] if Hkv < H else array for array in (key, value))
    logits = query @ key.swapaxes(-1, -2) / query.dtype.type(np.sqrt(query.shape[-1]))
    visible = np.ones(logits.shape, bool) if mask is None else mask
    weights = np.where(visible, np.exp(logits - logits.max(axis=-1, keepdims=True)), 0)
    total = weights.sum(axis=-1, keepdims=True)
    return np.where(total > 0, weights / np.where(total > 0, total, 1) @ value, 7).astype(query.dtype)
"""


@pytest.mark.family(1)
@pytest.mark.parametrize(("clause", "cause", "recommended"), [
    ("grouped.definition", "grouped_heads is undefined: what it does is neither repeat (head h // (H / Hkv)) nor tile "
                           "(head h % Hkv)", "repeat"),
    ("grouped.order_is_repeat", "grouped_heads is undefined: what it does is neither repeat (head h // (H / Hkv)) nor "
                                "tile (head h % Hkv)", "repeat"),
    ("masking.hidden_row_is_zeros", "hidden_row is undefined: what it does is neither zeros (a row of zeros) nor "
                                    "uniform (the mean of all values, those of masked keys included) nor nan (not a "
                                    "number)",
     "zeros")])
def test_an_answer_that_is_none_of_a_convention_is_the_cause(
    tmp_path: Path, clause: str, cause: str, recommended: str,
) -> None:
    evidence = heard(tmp_path, GROUPED, clause).evidence
    assert evidence
    assert evidence.explained == Explanation(cause, f"Make it one of these; {recommended} is recommended", "")
    name = cause.partition(" ")[0]
    declared = heard(tmp_path, f'{GROUPED}attend.conventions = {{"{name}": "undefined"}}\n', clause).evidence
    assert declared
    assert declared.explained is None


def test_a_clause_that_hangs_on_an_undefined_convention_says_so(tmp_path: Path) -> None:
    outcome = heard(tmp_path, GROUPED, "grouped.repeated_heads")
    assert outcome.verdict is Verdict.NO_CLAIM
    assert outcome.reason.startswith(
        "its 16 cases show nothing either way, since grouped_heads is undefined: none is declared, and no known")


def test_a_call_without_a_right_answer_is_like_no_fault() -> None:
    clause, subject = "attention.a_value_for_every_key", own_subject("fault/values_read_beyond")
    assert diagnosed(subject, clause) == Diagnosis()
