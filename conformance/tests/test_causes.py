"""Functions with one mistake each are told the right cause, and never one that cannot be theirs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from attnspec.core.declaration import Limits
from attnspec.core.nouns import DType, Effort, Level, Verdict
from attnspec.core.plan import Plan
from attnspec.diagnosis.candidate import Matrix, Witnesses
from attnspec.diagnosis.diagnose import Examiner
from attnspec.engine.engine import Engine
from attnspec.faults.catalogue import CATALOGUE
from attnspec.faults.fault import Fault
from attnspec.faults.softmax import BLOCK_FAULTS, SIZE, of_size
from attnspec.faults.subject import own_subject
from attnspec.problems.problem import Array, Recipe
from attnspec.record.outcome import Outcome
from attnspec.report.bugs import explain_bugs, likely_words
from attnspec.spec.clause import Refutations, read_refutations
from attnspec.spec.load import load_spec
from attnspec.subjects.subject import Subject
from attnspec.trials.compile import Check
from attnspec.trials.covering_cases import seed_of
from attnspec.trials.evaluator import Evaluator
from attnspec.trials.judging import Tally
from attnspec.trials.trial import Trial
from helpers.law import checks
from helpers.subjects import softmax_of, subject_of

REFUTATIONS = read_refutations(load_spec())
WITNESSES = Witnesses(Matrix(checks, lambda: REFUTATIONS))


def seen(logits: Array, ahead: int) -> Array:
    """(T,S): query i sees the keys up to i + ahead."""
    return np.tri(logits.shape[-2], logits.shape[-1], ahead).astype(bool)


def over_d(query: Array, key: Array, value: Array, *, causal: bool = False) -> Array:
    """Divides by the width and not by its root."""
    logits = query @ key.swapaxes(-1, -2) / query.dtype.type(query.shape[-1])
    return softmax_of(np.where(seen(logits, 0), logits, -np.inf) if causal else logits) @ value


def one_ahead(query: Array, key: Array, value: Array, *, causal: bool = False) -> Array:
    """Sees one later key."""
    logits = query @ key.swapaxes(-1, -2) / np.sqrt(query.shape[-1]).astype(query.dtype)
    return softmax_of(np.where(seen(logits, 1), logits, -np.inf).astype(query.dtype) if causal else logits) @ value


def decoder(query: Array, key: Array, value: Array, *, causal: bool = False, key_lengths: Array | None = None,
            past_key: Array | None = None, past_value: Array | None = None) -> Array:
    """Its lengths count new keys alone."""
    past = 0 if past_key is None else past_key.shape[2]
    if past_key is not None and past_value is not None:
        key, value = (np.concatenate(pair, axis=2) for pair in ((past_key, key), (past_value, value)))
    logits = query @ key.swapaxes(-1, -2) / np.sqrt(query.shape[-1]).astype(query.dtype)
    visible = seen(logits, past if causal else logits.shape[-1])
    if key_lengths is not None:
        own = (np.arange(key.shape[2]) - past < key_lengths[:, None])[:, None, None]
        visible, value = visible & own, np.where(own.swapaxes(-1, -2), value, 0)
    logits = np.where(visible, logits, -np.inf).astype(query.dtype)
    top = logits.max(axis=-1, keepdims=True)
    weights = np.exp(logits - np.where(np.isneginf(top), 0, top))
    return np.asarray(weights @ value / np.maximum(weights.sum(axis=-1, keepdims=True), np.finfo(query.dtype).tiny))


def hiding_queries(query: Array, key: Array, value: Array, *, mask: Array | None = None) -> Array:
    """Padding of keys is laid along the rows, with the lowest number."""
    logits = query @ key.swapaxes(-1, -2) / np.sqrt(query.shape[-1]).astype(query.dtype)
    if mask is not None:
        logits = np.where(np.broadcast_to(mask, logits.shape)[:, :, 0, :, None], logits, np.finfo(logits.dtype).min)
    return softmax_of(logits) @ value


def blockwise(query: Array, key: Array, value: Array, size: int) -> Array:
    """Online softmax; a last block that is shorter does not rescale the row's sum."""
    logits = query @ key.swapaxes(-1, -2) / np.sqrt(query.shape[-1]).astype(query.dtype)
    top = np.full((*logits.shape[:-1], 1), -np.inf, query.dtype)
    total, output = np.zeros_like(top), np.zeros((*logits.shape[:-1], value.shape[-1]), query.dtype)
    for start in range(0, key.shape[2], size):
        block = logits[..., start:start + size]
        before, top = top, np.maximum(top, block.max(axis=-1, keepdims=True))
        grown, shrunk = np.exp(block - top), np.exp(before - top)
        total = (total if start > 0 and block.shape[-1] < size else total * shrunk) + grown.sum(axis=-1, keepdims=True)
        output = output * shrunk + grown @ value[:, :, start:start + size]
    return np.asarray(output / total)


def of_64(query: Array, key: Array, value: Array) -> Array:
    return blockwise(query, key, value, 64)


def of_48(query: Array, key: Array, value: Array) -> Array:
    return blockwise(query, key, value, 48)


for function in (over_d, one_ahead, decoder, of_64, of_48):
    function.dtypes = ["float32"]  # type: ignore[attr-defined]  # as users declare it
    function.grouped = False  # type: ignore[attr-defined]
decoder.conventions = {"causal_alignment": "top_left", "hidden_row": "zeros"}  # type: ignore[attr-defined]


def failures(name: str, *clauses: str) -> list[Outcome]:
    target = f"{__name__}:{name}"
    engine = Engine(Plan((target,), clauses=clauses, effort=Effort.QUICK, in_process=(target,)))
    outcomes = [engine.try_item(item) for item in engine.items()]
    return [outcome for outcome in outcomes if outcome.verdict is Verdict.VIOLATED and outcome.level is Level.MUST]


@pytest.mark.family(1)
@pytest.mark.parametrize(("name", "clauses", "fault"), [
    ("over_d", ("attention.definition", "scale.inverse_root_width", "numerics.ties"), "scale_by_width"),
    ("one_ahead", ("causal.*",), "causal_off_by_one"),
    ("decoder", ("past.lengths_count_it", "past.slots_beyond_are_irrelevant"), "past_not_in_lengths"),
    ("of_64", ("attention.definition", "numerics.cancellation"), "blocks_sum_not_rescaled"),
    ("of_48", ("attention.definition", "attention.ones_in_ones_out", "numerics.one_hot"), "blocks_sum_not_rescaled")])
def test_one_mistake_is_told_as_one_bug_of_the_right_name(name: str, clauses: tuple[str, ...], fault: str) -> None:
    failed = failures(name, *clauses)
    assert len(failed) > 1
    assert likely_words(failed).startswith("Likely one bug: ")
    assert [group.cause and group.cause.fault for group in explain_bugs(failed)] == [fault]


def trial_of(clause: str, subject: Subject) -> Trial:
    check = checks()[clause]
    return Trial(check, Evaluator(subject, DType.FLOAT32), Effort.QUICK, seed_of(0, check.domain), lambda _: None,
                 shrinks=False)


ONE_AHEAD = "causal_off_by_one"


@pytest.mark.parametrize(("clause", "is_named"), [("causal.no_lookahead", True), ("masking.definition", False)])
def test_a_fault_is_named_only_where_what_it_needs_is_in_use(clause: str, is_named: bool) -> None:
    subject = subject_of(one_ahead, frozenset({"causal"}), dtypes=(DType.FLOAT32,),
                         conventions={"causal_alignment": "top_left"})
    trial = trial_of("causal.no_lookahead", subject)
    failing = trial.hold().failing_recipe
    assert failing
    witnesses = Witnesses(Matrix(checks, lambda: Refutations({clause: {ONE_AHEAD: (DType.FLOAT32,)}})))
    like = Examiner(witnesses=witnesses).diagnose(trial, failing, among=(CATALOGUE[ONE_AHEAD],)).likely_faults
    assert bool(like) is is_named


def test_calls_with_a_past_tell_faults_apart_that_agree_on_one_case() -> None:
    subject = subject_of(decoder, frozenset({"causal", "key_lengths", "past_key", "past_value"}),
                         dtypes=(DType.FLOAT32,), conventions=decoder.conventions)  # type: ignore[attr-defined]  # as above
    case = Recipe.parse("B1,H1,Hkv1,T1,S3,D1,Dv1;mask=none;families=integers;with=key_lengths+past_key+past_value;"
                        "key_lengths=ragged;past_key=new_as_queries;seed=0")
    like = Examiner().diagnose(trial_of("past.lengths_count_it", subject), case).likely_faults
    assert [each.fault for each in like] == ["past_not_in_lengths"]


def test_a_fault_needs_what_all_clauses_need_that_convict_it() -> None:
    needs = {name: WITNESSES.matrix.needed_keywords(CATALOGUE[name]) for name in (
        "mask_overflows_twice", "past_not_in_lengths", "causal_dropped_when_square", "causal_always", "scale_none")}
    assert needs == {"mask_overflows_twice": {"mask"}, "causal_dropped_when_square": {"causal"},
                     "past_not_in_lengths": {"key_lengths", "past_key", "past_value"},
                     "causal_always": frozenset(), "scale_none": frozenset()}


@pytest.mark.parametrize(("name", "keyword"), [
    ("window_wraps_round", "window"), ("softcap_twice", "softcap"), ("grad_key_scaled_twice", "grad_output")])
def test_a_fault_needs_the_keyword_that_it_gets_wrong(name: str, keyword: str) -> None:
    """`grouped.definition`, which convicts them, needs none of these keywords; but it may draw them."""
    assert WITNESSES.matrix.needed_keywords(CATALOGUE[name]) == {keyword}


def test_a_fault_that_breaks_what_the_subject_holds_is_no_suspect() -> None:
    subject = own_subject("fault/causal_off_by_one")
    suspects = [CATALOGUE[name] for name in ("scale_none", "causal_off_by_one")]
    trial = trial_of("causal.no_lookahead", subject)
    assert WITNESSES.keep_consistent(suspects, trial, subject) == {"causal_off_by_one": 0}
    assert Witnesses().keep_consistent(suspects, trial, subject) == {"scale_none": 0, "causal_off_by_one": 0}


def test_it_is_counted_how_many_broken_clauses_a_suspect_leaves_whole() -> None:
    subject, names = own_subject("fault/causal_ignored"), ("causal_dropped_for_one_query", "causal_ignored")
    witnesses = Witnesses(Matrix(checks, lambda: Refutations({"causal.no_lookahead": {names[1]: (DType.FLOAT32,)}})))
    found = witnesses.keep_consistent([CATALOGUE[name] for name in names],
                                      trial_of("causal.alignment", subject), subject)
    assert found == {names[0]: 1, names[1]: 0}


def test_clauses_that_convict_other_suspects_are_asked_first() -> None:
    one, other = "scale_none", "causal_off_by_one"
    convictions = {clause: {name: (DType.FLOAT32,)} for clause, name in (
        ("attention.definition", one), ("attention.worked_example", one), ("numerics.ties", one),
        ("scale.read_out", one), ("causal.alignment", other))}
    asked = list[str]()

    @dataclass(frozen=True, slots=True)
    class Noted(Witnesses):
        def _try_subject(self, check: Check, trial: Trial, subject: Subject) -> Tally:
            del trial, subject
            asked.append(check.clause.id)
            return Tally()

    subject = own_subject("sound/naive")
    Noted(Matrix(checks, lambda: Refutations(convictions))).keep_consistent(
        [CATALOGUE[one], CATALOGUE[other]], trial_of("causal.no_lookahead", subject), subject)
    assert len(asked) == 4
    assert "causal.alignment" in asked


PAST = frozenset({"causal", "past_key", "past_value"})


@pytest.mark.parametrize(("clause", "given", "order"), [
    ("past.definition", PAST, ("past_offset_forgotten", "decoder_place_restarts", "causal_window")),
    ("decoder.definition", PAST, ("decoder_place_restarts", "past_offset_forgotten")),
    ("attention.features_together", PAST - {"causal"}, ("past_offset_forgotten", "causal_window")),
    ("segments.numbers_are_names", frozenset({"key_segments", "query_segments"}),
     ("segments_at_most", "segments_ignored"))])
def test_a_fault_is_the_nearer_the_more_a_clause_is_about_it(
        clause: str, given: frozenset[str], order: tuple[str, ...]) -> None:
    far = [WITNESSES.matrix.measure_remoteness(CATALOGUE[name], checks()[clause], given) for name in order]
    assert far == sorted(set(far))


def test_of_causes_that_tie_the_one_the_clause_is_about_is_first() -> None:
    subject = subject_of(hiding_queries, frozenset({"mask"}), dtypes=(DType.FLOAT32,), limits=Limits(mask_axes="BS"),
                         conventions={"hidden_row": "uniform"})
    suspects = tuple(CATALOGUE[name] for name in ("mask_transposed", "mask_hides_queries"))
    examiner = Examiner(witnesses=Witnesses(Matrix(checks, lambda: REFUTATIONS)))
    of_padding = "B1,H1,Hkv1,T2,S2,D1,Dv1;mask=padding;families={};with=mask;seed=6364936"
    named = {clause: [each.fault for each in examiner.diagnose(
        trial_of(clause, subject), Recipe.parse(of_padding.format(families)), among=suspects).likely_faults]
        for clause, families in (("masking.read_out", "zero_query"), ("attention.weights_definition", "constant"))}
    assert named == {"masking.read_out": ["mask_transposed", "mask_hides_queries"],
                     "attention.weights_definition": ["mask_hides_queries", "mask_transposed"]}


def test_padding_of_queries_is_told_whatever_an_empty_row_answers() -> None:
    subject = subject_of(hiding_queries, frozenset({"mask"}), dtypes=(DType.FLOAT32,), limits=Limits(mask_axes="BS"),
                         conventions={"hidden_row": "uniform"})
    case = Recipe.parse("B1,H1,Hkv1,T3,S3,D1,Dv1;mask=padding;families=integers;with=mask;seed=0")
    suspects = tuple(CATALOGUE[name] for name in ("mask_ignored", "mask_hides_queries"))
    like = Examiner().diagnose(trial_of("masking.definition", subject), case, among=suspects).likely_faults
    assert [each.fault for each in like] == ["mask_hides_queries"]


def test_faults_of_blocks_come_in_the_size_that_a_boundary_suggests() -> None:
    assert {fault.name.partition("@")[0] for fault in of_size(48)} == {fault.name for fault in BLOCK_FAULTS}
    [dropped] = [fault for fault in of_size(48) if fault.name == "blocks_tail_dropped@48"]
    assert dropped.story == "The keys after the last whole block are lost: there are S // 48 blocks."


@pytest.mark.family(4)
@pytest.mark.parametrize("fault", BLOCK_FAULTS, ids=lambda fault: fault.name)
def test_a_fault_of_blocks_is_itself_at_its_own_size(fault: Fault) -> None:
    size = 64 if "64" in fault.name else SIZE
    [again] = [each for each in of_size(size) if each.name == f"{fault.name}@{size}"]
    rng = np.random.default_rng(1)
    query, key, value = (rng.normal(size=(1, 2, length, 4)).astype(np.float32) for length in (70, 70, 70))
    mask = rng.random((1, 2, 70, 70)) < 0.5
    answers: list[Any] = [each.make()(query, key, value, mask=mask) for each in (fault, again)]  # type: ignore[call-arg]  # no layer
    assert np.array_equal(answers[0], answers[1], equal_nan=True)


@pytest.mark.family(1)
@pytest.mark.parametrize(("name", "clause"), [
    ("lse_negated", "lse.definition"), ("lse_of_hidden_row_nan", "lse.hidden_row"),
    ("window_dropped_with_causal", "window.definition"), ("slopes_of_first_head", "slopes.definition")])
def test_a_fault_of_an_uncommon_keyword_is_told_from_its_likes(name: str, clause: str) -> None:
    subject = own_subject(f"fault/{name}")
    trial = replace(trial_of(clause, subject), cases=15)
    failing = trial.hold().failing_recipe
    assert failing
    assert [each.fault for each in Examiner().diagnose(trial, failing).likely_faults] == [name]


def test_a_clause_of_dtypes_is_put_only_the_faults_that_it_can_see() -> None:
    seen = {name for name in ("output_promoted", "mask_ignored", "output_zeros")
            if WITNESSES.matrix.may_convict("attention.dtype", CATALOGUE[name])}
    assert seen == {"output_promoted"}
    assert WITNESSES.matrix.may_convict("mine.dtype", CATALOGUE["mask_ignored"])
