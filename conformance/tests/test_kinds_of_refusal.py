"""What else a function may refuse clearly, in which words: layouts, calls without a flag, axes by their letters; what a
limit says that is refused; and what the console says of it.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from attnspec.core.declaration import Limits, narrowed_by
from attnspec.core.nouns import DType, Effort, Verdict
from attnspec.core.plan import Plan
from attnspec.core.sizes import read_refusal
from attnspec.engine.engine import Engine
from attnspec.engine.subject_run import SubjectRun
from attnspec.engine.summon import load_subject
from attnspec.questions.undeclared import probe_conventions
from attnspec.record.outcome import Outcome
from attnspec.subjects.registry import load_target
from attnspec.subjects.subject import Subject
from attnspec.trials.sizes import requested_sizes
from helpers.law import checks
from helpers.subjects import module_of
from test_console import held, told, undecided
from test_diagnosis import ALWAYS
from test_refused_sizes import HEAD

target_in = partial(module_of, HEAD)


def subject(folder: Path, check: str, more: str = "") -> Subject:
    return load_subject(target_in(folder, check, more), Plan(()))


def judged(target: str, clause: str) -> Outcome:
    engine = Engine(Plan((target,), (clause,), in_process=(target,), effort=Effort.QUICK, dtypes=(DType.FLOAT32,)))
    return next(engine.try_item(item) for item in engine.items())


@pytest.mark.family(1)
@pytest.mark.parametrize(("check", "refused"), [
    ('if B != 1: raise ValueError(f"B must be 1, got {B}")', ["B > 1"]),
    ('assert Dv == D, "Dv must equal D"', ["values of another width (Dv ≠ D)"]),
    ('assert Hkv == H, "Hkv must equal H"', ["grouped heads (Hkv < H)"]),
    ('if D > 64: raise RuntimeError("D is too large")', ["D > 64"]),
    ('if S % 64: raise ValueError("Lk in blocks of 64")', ["S % 64 ≠ 0"]),
    ('if T % 64: raise ValueError("Tq in blocks of 64")', ["T % 64 ≠ 0"])])
def test_an_axis_is_named_by_its_letter(check: str, refused: list[str], tmp_path: Path) -> None:
    assert sorted(subject(tmp_path, check).refused_words) == refused


def test_flax_refuses_widths_by_an_exception_of_its_own(tmp_path: Path) -> None:
    check = """class FlaxError(Exception): pass
    if Dv != D: raise FlaxError('For parameter "kernel" the initializer is expected to generate shape (1, 1)')"""
    assert list(subject(tmp_path, check).refused_words) == ["values of another width (Dv ≠ D)"]


def test_other_letters_name_no_axis(tmp_path: Path) -> None:
    assert not subject(tmp_path, 'if D > 64: raise ValueError("option A or plan X")').refused_words


@pytest.mark.nightly
def test_groups_of_four_and_eight_are_no_refusal_of_groups(tmp_path: Path) -> None:
    target = target_in(tmp_path, 'if H // Hkv not in (1, 4, 8): raise ValueError(f"group of {H // Hkv} heads")')
    found = load_subject(target, Plan(()))
    assert list(found.refused_words) == ["G not in (1, 4, 8)"]
    assert probe_conventions(found, DType.FLOAT32)["grouped_heads"] == "repeat"
    assert judged(target, "grouped.definition").verdict is Verdict.HELD


# Layouts

CONTIGUOUS = 'if not (query.flags.c_contiguous and value.flags.c_contiguous): raise ValueError("not contiguous")'
FEATURES = 'if query.strides[-1] != query.itemsize: raise ValueError("the last stride must be 1")'


@pytest.mark.family(1)
@pytest.mark.parametrize(("check", "name", "limits"), [
    (CONTIGUOUS, "inputs that are not contiguous", Limits(contiguous=True)),
    (FEATURES, "inputs with gaps along their last axis", Limits(contiguous_features=True)),
    ('assert query.flags.c_contiguous, "inputs must be contiguous"', "inputs that are not contiguous",
     Limits(contiguous=True))])
def test_a_layout_that_is_refused_is_a_limit(check: str, name: str, limits: Limits, tmp_path: Path) -> None:
    found = subject(tmp_path, check)
    assert list(found.refused_words) == [name]
    assert found.declaration.limits == replace(limits, grouped=True)  # which it takes without saying so


def test_clauses_about_layouts_do_not_apply_to_who_refuses_them(tmp_path: Path) -> None:
    outcome = judged(target_in(tmp_path, CONTIGUOUS), "purity.strided_inputs")
    assert outcome.verdict is Verdict.INAPPLICABLE
    assert "takes contiguous inputs only (ValueError: not contiguous)" in outcome.reason


def test_clauses_about_gaps_do_not_apply_to_who_refuses_these(tmp_path: Path) -> None:
    target = target_in(tmp_path, FEATURES)
    outcome = judged(target, "purity.strided_inputs")
    assert "takes inputs that are contiguous along their last axis only (ValueError: the last stride" in outcome.reason
    assert judged(target, "purity.transposed_inputs").verdict is Verdict.HELD


def test_an_accident_on_a_layout_is_a_failure(tmp_path: Path) -> None:
    target = target_in(tmp_path, 'if not query.flags.c_contiguous: raise ValueError("boom")')
    assert judged(target, "purity.strided_inputs").verdict is Verdict.ERRORED


# Calls without a flag


def test_who_refuses_calls_without_the_causal_flag_is_always_causal(tmp_path: Path) -> None:
    found = subject(tmp_path, 'assert causal, "causal must be True"')
    assert found.declaration.limits.causal_only
    assert found.refused_words == {"calls without the causal flag": "AssertionError: causal must be True"}


def test_clauses_that_need_a_call_without_it_do_not_apply(tmp_path: Path) -> None:
    target = target_in(tmp_path, 'if not causal: raise NotImplementedError("only causal attention")')
    outcome = judged(target, "causal.is_not_ignored")
    assert outcome.verdict is Verdict.INAPPLICABLE
    assert "is always causal (NotImplementedError: only causal attention)" in outcome.reason
    assert judged(target, "causal.no_lookahead").verdict is Verdict.HELD


def test_who_is_causal_without_a_flag_is_told_how_to_say_so(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(ALWAYS.replace(", *, causal=True", "").replace(" if causal else logits", ""),
                                      encoding="utf-8")
    target = f"{tmp_path}/mine.py:always"
    subject_run = SubjectRun(load_target(target), Plan((target,), effort=Effort.QUICK), lambda _: None)
    evidence = subject_run.try_clause(checks()["attention.worked_example"], DType.FLOAT32).evidence
    assert evidence
    assert evidence.explained
    assert evidence.explained.cause == "it is causal, and has no causal flag (`causal_always`)"
    assert evidence.explained.advice == (
        "Let it take `causal`. If every call is meant to be causal, wrap it: def attend(query, key, value, *, "
        "causal=True): return always(query, key, value), and declare it: attend.causal_only = True")


# Limits


@pytest.mark.parametrize(("text", "limits"), [
    ("T != S", Limits(lengths="equal")), ("S != T", Limits(lengths="equal")),
    ("T > S", Limits(lengths="no_more_queries")), ("causal with T != S", Limits(causal_lengths="equal")),
    ("causal with T > S", Limits(causal_lengths="no_more_queries")), ("Dv != D", Limits(ties_value_width=True)),
    ("G > 1", Limits(grouped=False)), ("Hkv != H", Limits(grouped=False)),
    ("D > 64", Limits(refuses=(read_refusal("D > 64"),)))])
def test_a_refusal_that_a_limit_says_is_that_limit(text: str, limits: Limits) -> None:
    assert narrowed_by(Limits(), [read_refusal(text)]) == limits


def test_a_limit_that_is_said_stays_as_it_is() -> None:
    narrow = narrowed_by(Limits(lengths="no_more_queries"), [read_refusal("T != S")] * 2)
    assert narrow == Limits(lengths="no_more_queries", refuses=(read_refusal("T != S"),))


OWN_SLOPES_REFUSED = """
import numpy as np

def attend(query, key, value, alibi_slopes=None):
    if alibi_slopes is not None and alibi_slopes.ndim > 1:
        raise NotImplementedError("slopes of each batch entry")
    logits = query @ key.swapaxes(-1, -2) / np.sqrt(query.shape[-1]).astype(query.dtype)
    if alibi_slopes is not None:
        away = np.arange(logits.shape[-2])[:, None] - np.arange(logits.shape[-1])
        logits = logits - (alibi_slopes[:, None, None] * np.abs(away)).astype(query.dtype)
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ value

attend.grouped = False
attend.conventions = {"causal_alignment": "top_left"}
"""


def test_slopes_of_each_batch_entry_may_be_refused_and_no_others_are_put(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(OWN_SLOPES_REFUSED)
    target = f"{tmp_path / 'mine.py'}:attend"
    assert list(load_subject(target, Plan(())).refused_words) == ["alibi_slopes (B,H)"]
    assert judged(target, "slopes.each_head_its_own").verdict is Verdict.HELD
    assert judged(target, "slopes.each_entry_its_own").verdict is Verdict.INAPPLICABLE


ONE_ARRAY_OF_SEGMENTS = """
import numpy as np

def attend(query, key, value, query_segments=None, key_segments=None):
    logits = query @ key.swapaxes(-1, -2) / np.sqrt(query.shape[-1]).astype(query.dtype)
    if query_segments is not None:  # and the other array is not looked at
        logits = np.where(query_segments[:, None, :, None] == query_segments[:, None, None], logits, -np.inf)
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ value

attend.grouped = False
attend.segments_are_shared = True
attend.refuses = ["query_segments with T ≠ S"]
"""


def test_who_takes_one_array_of_segments_has_no_key_segments_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(ONE_ARRAY_OF_SEGMENTS)
    target = f"{tmp_path / 'mine.py'}:attend"
    assert judged(target, "segments.definition").verdict is Verdict.HELD
    apart = judged(target, "segments.content_of_others_is_irrelevant")
    assert apart.verdict is Verdict.INAPPLICABLE
    assert "takes one array of segments, for queries and keys" in apart.reason


def test_the_step_is_the_least_of_which_all_that_is_taken_is_a_multiple(tmp_path: Path) -> None:
    check = 'if T % 64 or S % 64 or T > S: raise ValueError("length")'  # of 64, 128 and 256, half are not asked
    assert sorted(subject(tmp_path, check).refused_words) == ["S % 64 ≠ 0", "T % 64 ≠ 0", "T > S"]


def test_one_length_that_is_taken_is_not_taken_for_the_only_one(tmp_path: Path) -> None:
    check = 'if T != S or T % 128 or D != 128: raise ValueError("length or head_dim")'
    assert "S % 128 ≠ 0" in subject(tmp_path, check).refused_words


# What a user is told


def test_the_words_of_an_exception_stay_what_they_are() -> None:
    dtypes = (DType.FLOAT64, DType.BFLOAT16)
    reasons = (f"mine:attend refuses {dtype.value}: TypeError: got {dtype.value}" for dtype in dtypes)
    left_out = [replace(undecided("a.b", reason), dtype=dtype) for reason, dtype in zip(reasons, dtypes, strict=True)]
    assert ("Not judged at float64, bfloat16: mine:attend refuses them: TypeError: got float64"
            in told(held("a.b"), *left_out, code=0))


@pytest.mark.parametrize(("away", "first"), [(1, "Conforms."), (2, "Conforms, on 1 of 3 clauses.")])
def test_a_verdict_on_little_says_so(away: int, first: str) -> None:
    refused = [undecided(f"a.{number}", "mine:attend refuses T > 16 (ValueError: T); here T=17")
               for number in range(away)]
    assert told(held("b.c"), *refused, undecided("d.e", "mine:attend takes no bias"), code=0)[0] == first


def test_sizes_beside_ones_own_are_ones_that_are_taken(tmp_path: Path) -> None:
    narrow = subject(tmp_path, 'if T % 16 or S % 64: raise ValueError("length")')
    asked = requested_sizes(checks()["attention.definition"], narrow, ["T32 S128 D64"])
    assert [(each.sizes.T, each.sizes.S, each.why_not) for each in asked] == [(32, 128, ""), (48, 192, "")]
