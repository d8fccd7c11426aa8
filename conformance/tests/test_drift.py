"""The clauses of drift: what they convict, what they only report, and what they say nothing of."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping

import numpy as np
import pytest
from attnspec.core.declaration import Limits
from attnspec.core.nouns import DType, Effort
from attnspec.faults import precision, staged
from attnspec.faults.catalogue import RECOMMENDED
from attnspec.faults.fault import Fault
from attnspec.faults.sound import SOUND
from attnspec.faults.staged import Attend
from attnspec.faults.subject import own_subject
from attnspec.problems.make import make_problem
from attnspec.problems.problem import Array
from attnspec.spec.clause import read_refutations
from attnspec.spec.load import load_spec
from attnspec.subjects.subject import Subject
from attnspec.trials.covering_cases import fixed_recipes
from attnspec.trials.evaluator import Evaluator
from attnspec.trials.judging import Tally
from attnspec.trials.trial import Trial
from attnspec.vocabulary.chance import has_no_drift
from attnspec.vocabulary.scene import Posed, Scene
from helpers.law import checks
from helpers.subjects import subject_of

MATRIX = read_refutations(load_spec())
CLAUSES = ("drift.temperature", "drift.gain", "drift.mixing", "drift.bias")
VOUCHED: Mapping[DType, Mapping[str, object]] = {
    dtype: {"grade": "G0", "systematic": "accumulator"} for dtype in (DType.FLOAT16, DType.BFLOAT16)}
UNVOUCHED: Mapping[DType, Mapping[str, object]] = {dtype: {"grade": "G0"} for dtype in VOUCHED}


def subject(attend: Attend, precision: Mapping[DType, Mapping[str, object]], *, single_head: bool = False) -> Subject:
    """A function whose scale, mask and all else are at their defaults."""
    return subject_of(attend, conventions=RECOMMENDED, precision=precision, limits=Limits(single_head=single_head))


def scaled(factor: float) -> Attend:
    return staged.staged(scale=lambda work: staged.scale(work) * factor)()


def gained(factor: float) -> Attend:
    return staged.staged(finish=lambda output, _: output * output.dtype.type(factor))()


def tried(clause: str, on: Subject, dtype: DType, seed: int = 0) -> Tally:
    return held(clause, Evaluator(on, dtype), seed)


def held(clause: str, evaluator: Evaluator, seed: int = 0) -> Tally:
    return Trial(checks()[clause], evaluator, Effort.QUICK, seed, lambda _: None).hold()


@functools.cache
def own_evaluator(name: str, dtype: DType) -> Evaluator:
    """One for all clauses: it remembers the answer and what the definition says."""
    return Evaluator(own_subject(name), dtype)


def tells(clause: str, fault: Fault) -> bool:
    """Whether the clause convicts the fault at every dtype where it can be told from rounding."""
    return {*MATRIX.convictions[clause].get(fault.name, ()), *fault.equivalents} == set(DType)


def where() -> Iterator[tuple[Fault, DType]]:
    """At float32 and bfloat16 the clauses' own test has the faults detected that a clause names."""
    for fault in precision.DRIFT_FAULTS:
        yield from ((fault, dtype) for dtype in {DType.FLOAT64: 0, DType.FLOAT16: 0, **fault.equivalents})


@pytest.mark.family(5)
@pytest.mark.parametrize(("fault", "dtype"), list(where()), ids=[f"{one.name}-{dtype.value}" for one, dtype in where()])
def test_a_drift_is_convicted_by_what_tells_it_and_nowhere_else(
        fault: Fault, dtype: DType) -> None:
    telling = [clause for clause in CLAUSES if tells(clause, fault)]
    assert telling
    for clause in telling:
        tally = held(clause, own_evaluator(f"fault/{fault.name}", dtype))
        assert (tally.failure is None) is (dtype in fault.equivalents)


@pytest.mark.family(4)
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(("factor", "dtype", "precision"), [
    (1 + 1e-5, DType.FLOAT32, {}), (1 - 1e-5, DType.FLOAT32, {}), (1 + 1e-5, DType.FLOAT64, {}),
    (1 + 1e-4, DType.BFLOAT16, VOUCHED), (1 - 1e-4, DType.BFLOAT16, VOUCHED), (1 + 1e-4, DType.FLOAT16, VOUCHED),
    (1 + 1e-3, DType.BFLOAT16, UNVOUCHED), (1 - 1e-3, DType.FLOAT16, UNVOUCHED)])
def test_the_drifts_of_the_scale_that_are_promised_to_be_convicted_are(
        factor: float, dtype: DType, precision: Mapping[DType, Mapping[str, object]], seed: int) -> None:
    assert tried("drift.temperature", subject(scaled(factor), precision), dtype, seed).failure is not None


@pytest.mark.family(2)
@pytest.mark.parametrize("clause", CLAUSES)
@pytest.mark.parametrize(("name", "dtype"), [("online_blocks", DType.FLOAT32), ("eager", DType.BFLOAT16)])
def test_a_sound_formulation_drifts_nowhere(name: str, dtype: DType, clause: str) -> None:
    assert name in SOUND
    tally = held(clause, own_evaluator(f"sound/{name}", dtype))
    assert tally.failure is None
    assert tally.cases == 3


def in_bfloat16_throughout(scale: float = 1.0, gain: float = 1.0) -> Attend:
    """Every product, sum and quotient is rounded to bfloat16; sums run in order."""
    def attend(query: Array, key: Array, value: Array) -> Array:
        half = query.dtype

        def rounded(array: Array) -> Array:
            return np.asarray(array, np.float32).astype(half).astype(np.float32)

        def product(one: Array, other: Array) -> Array:
            total = np.zeros((*one.shape[:-1], other.shape[-1]), np.float32)
            for index in range(one.shape[-1]):
                total = rounded(total + rounded(one[..., index, None] * other[..., index, None, :]))
            return total

        query, key, value = (array.astype(np.float32) for array in (query, key, value))
        logits = rounded(product(query, key.swapaxes(-1, -2)) * rounded(np.array(1 / np.sqrt(query.shape[-1]))) * scale)
        grown = rounded(np.exp(rounded(logits - logits.max(axis=-1, keepdims=True))))
        weights = rounded(grown / product(grown, np.ones((grown.shape[-1], 1), np.float32)))
        return (product(weights, value) * gain).astype(half)
    return attend  # type: ignore[return-value]  # no keywords: none declared


@pytest.mark.parametrize(("clause", "attend", "is_convicted"), [
    ("drift.temperature", in_bfloat16_throughout(), False), ("drift.gain", in_bfloat16_throughout(), False),
    ("drift.mixing", in_bfloat16_throughout(), False),
    ("drift.temperature", in_bfloat16_throughout(scale=1.02), True),
    ("drift.gain", in_bfloat16_throughout(gain=1.01), True)])
def test_a_scale_or_a_gain_is_told_from_sums_that_lose_terms(clause: str, attend: Attend, is_convicted: bool) -> None:
    declared = {"grade": "G4", "accumulate": "bfloat16", "row_sum": "bfloat16", "reason": "a test"}
    tally = tried(clause, subject(attend, {DType.BFLOAT16: declared}), DType.BFLOAT16)
    assert (tally.failure is not None) is is_convicted


def test_a_bias_within_what_is_declared_is_a_reading_and_no_violation() -> None:
    """What the float16 flash kernel of a library on CPU shows."""
    tally = tried("drift.gain", subject(gained(1.00002), UNVOUCHED), DType.FLOAT16)
    assert tally.failure is None
    first, second, third = tally.readings
    assert [each.quantity for each in (first, second, third)] == [
        "gain drift at width 16", "gain drift at width 24", "gain drift at width 16, 4 keys"]
    for reading in (first, second, third):
        assert isinstance(reading.value, float)
        assert abs(reading.value - 2e-5) < 6 * reading.spread
        assert reading.spread < 4e-6
    assert "over 480 head slices; T = +" in first.sentence
    assert "and without any drift chance gives as much at a rate of at most " in first.sentence


def test_the_same_bias_is_a_violation_for_who_vouches() -> None:
    tally = tried("drift.gain", subject(gained(1.00002), VOUCHED), DType.FLOAT16)
    assert tally.worst
    assert tally.worst.margin > 1
    assert tally.worst.sentence.startswith("gain drift at width 16 is 1.9e-05 ± ")
    assert "and up to 7.2e-07 is declared: |T| = " in tally.worst.sentence
    assert tally.worst.sentence.endswith(" over 480 head slices, where 6.71 is allowed")


def test_a_subject_of_one_head_has_as_many_head_slices() -> None:
    check, limits = checks()["drift.temperature"], Limits(single_head=True)
    cases = fixed_recipes(check.domain, limits, Effort.QUICK, 0)
    assert [(recipe.sizes.B, recipe.sizes.H) for recipe in cases] == [(480, 1)] * 3
    assert tried("drift.temperature", subject(scaled(1.0001), VOUCHED, single_head=True), DType.BFLOAT16).failure


def test_fewer_head_slices_than_can_convict_are_no_claim() -> None:
    """Values that may overflow leave rows unclaimed: a float16 accumulator, and values of 3e4 in most of the batch."""
    declared = {DType.FLOAT16: {"grade": "G4", "accumulate": "float16", "reason": "a test"}}
    evaluator = Evaluator(subject(scaled(1.5), declared), DType.FLOAT16)
    recipe = fixed_recipes(checks()["drift.temperature"].domain, Limits(), Effort.QUICK, 0)[0]
    problem = make_problem(recipe, DType.FLOAT16)
    for claimed, is_judged in ((10, False), (11, True)):  # 4 heads each: 40 or 44 slices, and 43 are needed
        large = np.arange(recipe.sizes.B)[:, None, None, None] >= claimed
        value = np.where(large, np.float16(3e4), problem.value)
        runs = {"original": Posed((problem.but(value=value),), key=str(claimed), conventions=RECOMMENDED)}
        scene = Scene(evaluator.subject, DType.FLOAT16, RECOMMENDED, runs, evaluator)
        found = has_no_drift(scene, direction="temperature", false_alarm=1e-9)
        assert bool(found.claimed) is is_judged
        told = "40 head slices can be judged; at this rate of false alarms, more than 43 are needed"
        assert is_judged or found.sentence == told


def test_an_answer_that_is_not_finite_is_no_answer() -> None:
    def attend(query: Array, key: Array, value: Array) -> Array:
        output = np.asarray(staged.staged()()(query, key, value))
        output[0, 0, 0, 0] = np.nan
        return output

    tally = tried("drift.gain", subject(attend, {}), DType.FLOAT32)  # type: ignore[arg-type]  # no keywords: none declared
    assert tally.worst
    assert tally.worst.sentence == "the output is not finite"
    assert tally.failure is not None


def test_the_verdict_names_its_instrument_and_its_rate() -> None:
    for clause in CLAUSES:
        assert checks()[clause].instrument == "self-normalised score test, at most 1e-09 false alarms per clause"
