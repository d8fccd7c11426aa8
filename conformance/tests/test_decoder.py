"""Decoders: the calls that a problem with a past becomes, who takes them so, and the words that speak of caches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from attnspec.aspects.decoder import words as steps
from attnspec.aspects.decoder.faults import MISTAKES
from attnspec.aspects.decoder.keyword import STEP_PATTERNS, USUAL_STEPS
from attnspec.aspects.decoder.words import QUESTIONS
from attnspec.core.errors import TargetError, UsageError
from attnspec.core.forms import InputForm
from attnspec.core.keyword import Acts, StepPattern
from attnspec.core.keywords import KEYWORDS
from attnspec.core.nouns import DType, Effort, Kind
from attnspec.core.plan import Plan
from attnspec.core.surroundings import Surroundings
from attnspec.engine.engine import Engine
from attnspec.faults.sound import SOUND, sound_named
from attnspec.faults.sound_forms import FORGETFUL
from attnspec.faults.subject import fault_subject, sound_subject
from attnspec.numerics.expectation import expect
from attnspec.numerics.precision import declared_precision
from attnspec.problems.keyword_arrays import fill_cache, last_keys
from attnspec.problems.make import make_problem
from attnspec.problems.problem import Problem, Recipe
from attnspec.questions.asker import Asker, reply_to
from attnspec.subjects.registry import load_target
from attnspec.subjects.serving_forms import MOST_STEPS, NO_CACHE, OTHER_CACHE, OWN_CACHE, TRIED_CACHE, Step, in_steps
from attnspec.subjects.subject import Subject, SubjectRaised, UnusableAnswer
from attnspec.trials.evaluator import Evaluator
from attnspec.trials.judging import Tally
from attnspec.trials.trial import Trial
from attnspec.vocabulary.scene import OutsideLimits, Posed
from helpers.law import checks
from helpers.subjects import load_source

HALVES = (DType.FLOAT16, DType.BFLOAT16)
TOP_LEFT = {"causal_alignment": "top_left", "mask_with_causal": "both"}
DECODERS = [name for name, sound in SOUND.items() if sound.form is InputForm.DECODER]


def problem(more: str = "", dtype: DType = DType.FLOAT32, *, steps: str = "halves", past: str = "half",
            sizes: str = "B3,H4,Hkv2,T4,S9,D4,Dv3", seed: int = 3) -> Problem:
    used = sorted({*more.split(), "past_key", "past_value", "cache"})
    values = {"key_lengths": "key_lengths=ragged;", "window": "window=2+0;", "softcap": "softcap=2.0;",
              "alibi_slopes": "alibi_slopes=powers;", "sinks": "sinks=normal;"}
    text = (f"{sizes};mask={'random' if 'mask' in used else 'none'};families=normal;with={'+'.join(used)};"
            f"{''.join(values.get(each, '') for each in used)}past_key={past};cache={steps};seed={seed}")
    return make_problem(Recipe.parse(text), dtype)


def tried(clause: str, subject: Subject, dtype: DType = DType.FLOAT32) -> Tally:
    """What came of a clause, at effort quick."""
    return Trial(checks()[clause], Evaluator(subject, dtype), Effort.QUICK, 0, lambda _: None, shrinks=False).hold()


def of(name: str, calls: tuple[Step, ...]) -> list[Step]:
    """The calls of one sequence."""
    return [each for each in calls if each.makes == name]


# The calls


@pytest.mark.parametrize("pattern", STEP_PATTERNS)
@pytest.mark.parametrize("keys", [2, 5, 9, 40])
def test_the_calls_before_store_the_whole_past_in_its_order(pattern: StepPattern, keys: int) -> None:
    made = problem(sizes=f"B3,H4,Hkv2,T4,S{keys},D4,Dv3")
    own = of(OWN_CACHE, in_steps(made, pattern).earlier)
    for name, past in (("key", made.past_key), ("value", made.past_value)):
        np.testing.assert_array_equal(np.concatenate([getattr(each.problem, name) for each in own], axis=2), past)
    assert [each.takes for each in own] == [NO_CACHE, *[OWN_CACHE] * (len(own) - 1)]


@pytest.mark.parametrize(("pattern", "lengths"), [
    ("at_once", [10]), ("halves", [5, 5]), ("growing", [1, 2, 3, 4]), ("token_by_token", [1] * 10)])
def test_a_pattern_says_in_which_calls_the_past_comes(pattern: StepPattern, lengths: list[int]) -> None:
    made = problem(sizes="B3,H4,Hkv2,T4,S20,D4,Dv3")
    assert [each.problem.key.shape[2] for each in in_steps(made, pattern).earlier] == lengths


@pytest.mark.parametrize(("pattern", "calls"), [("token_by_token", MOST_STEPS + 1), ("growing", 8)])
def test_a_long_past_comes_in_no_more_calls_than_are_said(pattern: StepPattern, calls: int) -> None:
    made = problem(sizes="B1,H2,Hkv2,T4,S200,D4,Dv3")
    assert len(in_steps(made, pattern).earlier) == calls


def test_without_a_past_the_judged_call_is_the_first() -> None:
    made = problem().but(past_key=None, past_value=None)
    calls = in_steps(made, "at_once")
    assert (calls.earlier, calls.last.takes) == ((), NO_CACHE)


@pytest.mark.parametrize("pattern", STEP_PATTERNS)
def test_the_judged_call_is_the_problem_without_its_past(pattern: StepPattern) -> None:
    made = problem("mask causal key_lengths")
    calls = in_steps(made, pattern)
    assert calls.last.takes == OWN_CACHE
    assert set(calls.last.problem.given) == {"mask", "causal", "key_lengths"}
    for name in ("query", "key", "value", "mask", "key_lengths"):
        np.testing.assert_array_equal(getattr(calls.last.problem, name), getattr(made, name))


def test_calls_before_have_as_many_queries_as_keys_and_no_rows() -> None:
    made = problem("mask bias causal key_lengths sinks").but(return_weights=True, return_lse=True)
    for number, each in enumerate(in_steps(made, "token_by_token").earlier):
        assert each.problem.query.shape == (3, 4, 1, 4)
        assert set(each.problem.given) == {"causal", "key_lengths", "sinks"}
        assert each.problem.key_lengths is not None
        assert made.key_lengths is not None
        np.testing.assert_array_equal(each.problem.key_lengths, np.minimum(made.key_lengths, number + 1))


def test_another_sequence_is_decoded_by_turns_and_differs() -> None:
    calls = in_steps(problem(), "beside_another").earlier
    assert [each.makes for each in calls] == [OWN_CACHE, OTHER_CACHE, OWN_CACHE, OTHER_CACHE]
    for mine, others in zip(of(OWN_CACHE, calls), of(OTHER_CACHE, calls), strict=True):
        assert mine.problem.key.shape == others.problem.key.shape
        assert (mine.problem.key != others.problem.key).all()


def test_another_sequence_before_is_as_long_as_past_and_new_keys() -> None:
    first, *own = in_steps(problem(), "after_another").earlier
    assert (first.makes, first.takes, first.problem.key.shape[2]) == (OTHER_CACHE, NO_CACHE, 9)
    assert [each.makes for each in own] == [OWN_CACHE]


def test_a_trial_takes_the_cache_that_the_judged_call_takes() -> None:
    calls = in_steps(problem("mask causal"), "tried_before")
    tried = calls.earlier[-1]
    assert (tried.takes, tried.makes, calls.last.takes) == (OWN_CACHE, TRIED_CACHE, OWN_CACHE)
    assert tried.problem.query.shape == calls.last.problem.query.shape
    assert set(tried.problem.given) == {"causal"}


def test_a_pattern_of_calls_that_does_not_exist_is_refused() -> None:
    with pytest.raises(UsageError, match=r"cache=twice names no pattern\. Known: after_another, at_once, "):
        problem(steps="twice")


def test_trying_before_is_drawn_only_where_a_clause_asks_for_it() -> None:
    assert set(STEP_PATTERNS) - set(USUAL_STEPS) == {"tried_before"}


# Who is called so


APPENDS = """
import numpy as np

class Cache:
    def __init__(self, key, value):
        self.key, self.value = key, value

def attend(query, key, value, cache, *, causal=False, scale=None):
    if cache is not None:
        key, value = (np.concatenate(pair, axis=2) for pair in ((cache.key, key), (cache.value, value)))
    logits = query @ key.swapaxes(2, 3) * (query.shape[-1] ** -0.5 if scale is None else scale)
    if causal:
        past = 0 if cache is None else cache.key.shape[2]
        logits = np.where(np.tri(*logits.shape[2:], past, dtype=bool), logits, -np.inf)
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return weights @ value / weights.sum(axis=-1, keepdims=True), Cache(key, value)

attend.dtypes = ["float64"]
attend.grouped = False
"""
ALIKE = "B3,H2,Hkv2,T4,S9,D4,Dv3"


def test_a_decoder_is_recognised_by_its_parameter(tmp_path: Path) -> None:
    declared = load_source(tmp_path, APPENDS).declaration
    assert declared.form is InputForm.DECODER
    assert declared.keywords == {"past_key", "past_value", "cache", "causal", "scale"}


@pytest.mark.family(5)
@pytest.mark.parametrize("pattern", STEP_PATTERNS)
@pytest.mark.parametrize("more", ["", "causal"])
def test_a_decoder_answers_dense_problems(tmp_path: Path, pattern: str, more: str) -> None:
    made = problem(more, DType.FLOAT64, steps=pattern, sizes=ALIKE)
    expected = expect(made, declared_precision(None, made.dtype), conventions=TOP_LEFT).output
    np.testing.assert_allclose(load_source(tmp_path, APPENDS).answer(made).output, expected, rtol=1e-12)


def test_a_decoder_answers_problems_without_a_past(tmp_path: Path) -> None:
    made = problem("causal", DType.FLOAT64, sizes=ALIKE).but(past_key=None, past_value=None, cache=None)
    expected = expect(made, declared_precision(None, made.dtype), conventions=TOP_LEFT).output
    np.testing.assert_allclose(load_source(tmp_path, APPENDS).answer(made).output, expected, rtol=1e-12)


@pytest.mark.parametrize(("parameters", "unfit"), [
    ("past_key=None, past_value=None", "past_key"), ("query_segments, key_segments", "query_segments"),
    ("cu_query, cu_key", "cu_query")])
def test_what_has_no_place_beside_a_cache_is_refused(tmp_path: Path, parameters: str, unfit: str) -> None:
    message = rf"attend is a decoder \(it takes cache\) and takes '{unfit}', which has no place beside a cache\. "
    with pytest.raises(TargetError, match=message + "A decoder may take alibi_slopes, bias, causal, "):
        load_source(tmp_path, f"def attend(query, key, value, *, cache, {parameters}):\n    return query\n")


def test_who_hands_back_no_cache_has_no_usable_answer(tmp_path: Path) -> None:
    subject = load_source(tmp_path, "def attend(query, key, value, cache):\n    return query\nattend.grouped = False\n")
    said = r"returned a ndarray where \(output, cache\) is expected: a decoder hands its cache back\."
    with pytest.raises(UnusableAnswer, match=said):
        subject.answer(problem(sizes=ALIKE))


def test_an_exception_of_an_earlier_call_is_that_of_the_call(tmp_path: Path) -> None:
    source = APPENDS.replace("    logits =", "    assert query.shape[2] != 1, 'one query'\n    logits =", 1)
    with pytest.raises(SubjectRaised, match="AssertionError: one query"):
        load_source(tmp_path, source).answer(problem("", DType.FLOAT64, steps="token_by_token", sizes=ALIKE))


def test_a_dense_function_is_not_given_a_cache() -> None:
    assert sound_subject("naive").refuses(problem()).endswith("naive takes no cache")


@pytest.mark.nightly
@pytest.mark.parametrize("said", ["past_lengths = 'equal'", "self_attention_only = True"])
def test_who_takes_as_many_new_keys_as_queries_is_given_no_others(tmp_path: Path, said: str) -> None:
    subject = load_source(tmp_path, f"{APPENDS}attend.{said}\n")
    refused = "takes only as many new keys as queries where there is a past; here B=3 H=2 Hkv=2 T=4 S=5 D=4 Dv=3"
    assert subject.refuses(problem("", DType.FLOAT64, sizes=ALIKE)).endswith(refused)
    assert not subject.refuses(problem("", DType.FLOAT64, sizes=ALIKE, past="new_as_queries"))
    for clause in ("decoder.definition", "decoder.any_chunks", "past.definition"):
        tally = tried(clause, subject, DType.FLOAT64)
        assert tally.failure is None
        assert tally.cases > 5


def test_more_keys_than_a_cache_holds_are_not_put(tmp_path: Path) -> None:
    subject = load_source(tmp_path, f"{APPENDS}attend.cache = 8\n")
    assert "refuses S > 8" in subject.refuses(problem("", DType.FLOAT64, sizes=ALIKE))
    assert not subject.refuses(problem("", DType.FLOAT64, sizes=ALIKE.replace("S9", "S8")))


def test_only_decoders_have_an_attribute_of_that_name_read(tmp_path: Path) -> None:
    source = "def attend(query, key, value): ...\nattend.cache = {}\n"
    assert load_source(tmp_path, source).declaration.limits.cache == 0
    assert load_source(tmp_path, f"{APPENDS}attend.cache = 64\n").declaration.limits.cache == 64


def test_a_layer_may_be_a_decoder() -> None:
    subject = load_target("numpy/decoder_layer", surroundings=Surroundings())
    assert (subject.declaration.kind, subject.declaration.form) == (Kind.LAYER, InputForm.DECODER)
    made = problem("causal", DType.FLOAT64, past="new_as_queries", steps="growing")
    expected = expect(made, declared_precision(None, made.dtype), conventions=TOP_LEFT).output
    np.testing.assert_allclose(subject.answer(made).output, expected, rtol=1e-10)


# Words


def posed(made: Problem, **conventions: str) -> Posed[Problem]:
    return Posed((made,), conventions=conventions)


def test_nothing_is_tried_before_where_a_cache_may_be_used_once() -> None:
    for said in ({}, {"used_cache": "changed"}, {"used_cache": "undefined"}):
        with pytest.raises(OutsideLimits, match="it does not promise that a cache can be continued a second time"):
            steps.with_steps(posed(problem(), **said), to="tried_before")
    assert steps.with_steps(posed(problem(), used_cache="kept"), to="tried_before").one.cache == "tried_before"


def test_a_filled_cache_holds_all_keys_but_the_last() -> None:
    made = fill_cache(problem("mask bias causal window"), 12)
    assert made.past_key is not None
    assert (made.past_key.shape[2], made.key.shape[2], made.query.shape[2]) == (11, 1, 1)
    assert set(made.given) == {"causal", "past_key", "past_value"}
    np.testing.assert_array_equal(last_keys(made, 5).key[:, :, -1:], made.key)
    assert last_keys(made, 5).key.shape[2] == 5


CAPACITIES: Mapping[str, Mapping[str, str]] = {
    "sound/decoder_preallocated": {"decoder.overfull_cache": "held", "decoder.full_cache": "held"},
    "sound/decoder_forgetting": {"decoder.overfull_cache": "held", "decoder.full_cache": "held"},
    "sound/decoder_concatenating": {"decoder.overfull_cache": "outside", "decoder.full_cache": "outside"},
    "fault/decoder_overfull_clamped": {"decoder.overfull_cache": "violated", "decoder.full_cache": "held"},
    "fault/decoder_overfull_forgets": {"decoder.overfull_cache": "violated", "decoder.full_cache": "held"},
    "fault/decoder_overfull_mute": {"decoder.overfull_cache": "violated", "decoder.full_cache": "held"},
    "fault/decoder_full_one_early": {"decoder.full_cache": "violated"},
}


def subject_of(target: str) -> Subject:
    return fault_subject(target) if target.startswith("fault") else sound_subject(target)


@pytest.mark.parametrize(("target", "clause"), [
    (target, name) for target, known in CAPACITIES.items() for name in known])
def test_a_cache_is_filled_to_its_end_and_beyond(target: str, clause: str) -> None:
    tally = tried(clause, subject_of(target))
    assert ("violated" if tally.failure else "held" if tally.cases else "outside") == CAPACITIES[target][clause]


def test_who_forgets_the_newest_key_is_no_decoder_that_forgets_the_oldest() -> None:
    subject = sound_subject("decoder_preallocated")
    said = {**subject.declaration.conventions, "overfull_cache": "forgets_oldest"}
    wrong = replace(subject, declaration=replace(subject.declaration, conventions=said))
    assert tried("decoder.overfull_cache", wrong).failure is not None


# Probes


ANSWERS = {
    "sound/decoder_concatenating": {"cache.steps": "all", "cache.overfull": "grows", "cache.used": "kept"},
    "sound/decoder_preallocated": {"cache.overfull": "refuses"},
    "sound/decoder_forgetting": {"cache.overfull": "forgets_oldest"},
    "fault/decoder_chunk_sees_itself_only": {"cache.steps": "new_only"},
    "fault/decoder_keeps_first_call_only": {"cache.steps": "other"},
    "fault/decoder_overfull_clamped": {"cache.overfull": "unspecified"},
    "fault/decoder_grows_in_place": {"cache.used": "changed"},
}


@pytest.mark.parametrize(("target", "question"), [
    (target, name) for target, known in ANSWERS.items() for name in known])
def test_a_probe_says_what_a_cache_does(target: str, question: str) -> None:
    ask = next(each.ask for each in QUESTIONS if each.name == question)
    reply = reply_to(lambda: ask(Asker(subject_of(target), DType.FLOAT32)))
    assert reply is not None
    assert reply.answer == ANSWERS[target][question]


def test_who_takes_no_cache_is_not_asked_about_one() -> None:
    for question in QUESTIONS[1:]:
        assert reply_to(partial(question.ask, Asker(sound_subject("naive"), DType.FLOAT32))) is None


# Sound formulations and faults


@pytest.mark.family(1, each="dtype")
@pytest.mark.parametrize("dtype", DType)
@pytest.mark.parametrize("name", DECODERS)
def test_sound_decoders_stay_within_the_bound(name: str, dtype: DType) -> None:
    subject = sound_subject(name)
    precision = declared_precision({"grade": sound_named(name).grade} if dtype in HALVES else None, dtype)
    for seed, pattern in enumerate(STEP_PATTERNS):
        more = ("", "causal mask", "key_lengths", "window causal", "softcap causal alibi_slopes")[seed % 5]
        made = problem(more, dtype, steps=pattern, seed=seed, sizes=f"B3,H4,Hkv2,T4,S{FORGETFUL},D4,Dv3")
        expected = expect(made, precision, conventions=TOP_LEFT)
        error = np.abs(subject.answer(made).output.astype(np.longdouble) - expected.output)
        assert (error <= expected.output_allowance)[expected.claimed].all()


def test_there_are_four_sound_decoders() -> None:
    assert len(DECODERS) == 4


def test_every_fault_of_a_cache_is_one_of_a_decoder() -> None:
    faults = MISTAKES.about["cache"]
    assert {fault_subject(f"fault/{each.name}").declaration.form for each in faults} == {InputForm.DECODER}


def test_a_decoder_takes_all_that_has_a_place_beside_a_cache() -> None:
    taken = sound_subject("decoder_concatenating").declaration.keywords
    assert {name for name, word in KEYWORDS.items() if Kind.ATTENTION in word.kinds} - taken == {
        "query_segments", "key_segments", "dropout_rate", "seed"}
    assert KEYWORDS["cache"].acts is Acts.LAYOUT


@pytest.mark.family(1)
@pytest.mark.parametrize("fault", ["decoder_keeps_new_only", "decoder_place_restarts", "decoder_values_one_late"])
def test_a_diagnosis_names_what_is_wrong_with_a_cache(fault: str) -> None:
    engine = Engine(Plan((f"fault/{fault}",), clauses=("decoder.*",), dtypes=(DType.FLOAT32,), effort=Effort.QUICK))
    evidence = (engine.try_item(item).evidence for item in engine.items())  # until it is named
    assert any(fault == each.fault for found in evidence if found for each in found.like)
