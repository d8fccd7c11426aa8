"""Which sizes and keywords a function of one's own refuses is found out, told, and kept to; accidents are failures."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from attnspec.core.declaration import Limits, with_groups
from attnspec.core.errors import TargetError, UsageError
from attnspec.core.nouns import DType, Effort, Verdict, does_gate_run
from attnspec.core.plan import Plan
from attnspec.core.sizes import RefusalCondition, read_refusal
from attnspec.engine.engine import Engine
from attnspec.engine.summon import load_subject
from attnspec.problems.choices import shapes_for
from attnspec.problems.demand import fit_to_limits
from attnspec.problems.domain import domain
from attnspec.problems.problem import Problem, Recipe, Sizes
from attnspec.record.outcome import Outcome
from attnspec.subjects.subject import Subject
from attnspec.trials.evaluator import Evaluator
from attnspec.trials.judging import fit_to_domain

HEAD = """
import numpy as np
calls = []
def attend(query, key, value, *, causal=False, mask=None, window=None):
    B, H, T, D = query.shape
    Hkv, S, Dv = value.shape[1:]
    {check}
    group = H // Hkv
    key, value = np.repeat(key, group, axis=1), np.repeat(value, group, axis=1)
    logits = (query @ key.swapaxes(-1, -2)).astype(np.float32) / np.sqrt(D)
    seen = np.tri(T, S, dtype=bool) if causal else np.ones((T, S), bool)
    if window is not None:
        apart = np.arange(S) - np.arange(T)[:, None]
        seen = seen & ((window[0] is None) | (-apart <= (window[0] or 0))) & (
            (window[1] is None) | (apart <= (window[1] or 0)))
    logits = np.where(seen if mask is None else seen & mask, logits, np.finfo(np.float32).min)
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    weights = weights / weights.sum(axis=-1, keepdims=True)
    return (weights @ value.astype(np.float32)).astype(query.dtype)
attend.dtypes = ["float32"]
attend.conventions = {{"hidden_row": "uniform", "causal_alignment": "top_left", "mask_with_causal": "both"}}
{more}
"""


def plan(folder: Path, check: str, more: str = "") -> Plan:
    """A function that checks its arguments so, in this process."""
    path = folder / "mine.py"
    path.write_text(HEAD.format(check=check, more=more), encoding="utf-8")
    target = f"{path}:attend"
    return Plan((target,), in_process=(target,), effort=Effort.QUICK, dtypes=(DType.FLOAT32,))


def subject(folder: Path, check: str, more: str = "") -> Subject:
    asked = plan(folder, check, more)
    return load_subject(asked.targets[0], asked)


def judged(asked: Plan, clause: str) -> Outcome:
    engine = Engine(Plan(asked.targets, clauses=(clause,), in_process=asked.in_process, effort=asked.effort,
                         dtypes=asked.dtypes))
    [item] = engine.items()
    return engine.try_item(item)


REFUSED = {
    'if D > 256: raise ValueError(f"head_dim {D}")': ["D > 256"],
    'if D > 200: raise ValueError("head_dim is too large")': ["D > 200"],
    'if D % 8: raise ValueError("head_dim is no multiple of 8")': ["D % 8 ≠ 0"],
    'if D % 16 or D > 128: raise ValueError("head_dim")': ["D % 16 ≠ 0", "D > 128"],
    'if D not in (16, 32, 64, 128): raise ValueError("head_dim")': ["D not in (16, 32, 64, 128)"],
    'if D % 8 or D > 256: raise ValueError("head_dim")': ["D % 8 ≠ 0", "D > 256"],
    'if D == 96: raise ValueError("head_dim of 96")': ["D = 96"],
    'if Dv > D: raise ValueError("value is wider than key")': ["Dv > D"],
    'if B != 1: raise ValueError("a batch of one")': ["B > 1"],
    'if T == 1: raise ValueError("one query")': ["T = 1"],
    'if T % 128 or S % 128: raise ValueError("lengths in blocks of 128")': ["S % 128 ≠ 0", "T % 128 ≠ 0"],
    'if S > 2048: raise RuntimeError("too many keys")': ["S > 2048"],
    'if T != S: raise ValueError("lengths")\n    if T > 300: raise ValueError("length")': ["S > 300", "T ≠ S"],
    'if T != S or D > 256: raise NotImplementedError(f"lengths {T} and {S}, head_dim {D}")': ["D > 256", "T ≠ S"],
    'if Dv != D or T != S or S > 200: raise ValueError("value width or key length")': [
        "S > 200", "T ≠ S", "values of another width (Dv ≠ D)"],
    'if H > 64: raise NotImplementedError("heads")': ["H > 64"],
    'if H // Hkv > 4: raise ValueError("group size")': ["G > 4"],
    'if mask is not None: raise NotImplementedError("no mask yet")': ["mask"],
    'if window is not None: raise NotImplementedError("no sliding_window yet")': ["window"],
    'if mask is not None and S > 8: raise ValueError("a mask of few keys")': ["mask with S > 8"],
    'if mask is not None and D > 8: raise ValueError("a mask of narrow heads, head_dim")': ["mask with D > 8"],
    'assert D <= 64': ["D > 64"],
}


@pytest.mark.family(3)
@pytest.mark.parametrize("check", REFUSED)
def test_where_it_begins_to_refuse_is_found(check: str, tmp_path: Path) -> None:
    assert sorted(subject(tmp_path, check).refused_words) == REFUSED[check]


ACCIDENTS = (
    'if D > 200: raise IndexError("head_dim")', 'if D > 200: raise ValueError("boom")', 'if D > 200: 1 / 0',
    'calls.append(1)\n    if len(calls) % 3 == 0: raise ValueError("shape")',
    'if D > 200:\n        calls.append(1)\n        if len(calls) == 1: raise ValueError("shape")')


@pytest.mark.parametrize("check", ACCIDENTS)
def test_an_accident_is_no_limit(check: str, tmp_path: Path) -> None:
    assert not subject(tmp_path, check).refused_words


def test_what_is_claimed_is_no_limit(tmp_path: Path) -> None:
    check = 'if mask is not None: raise NotImplementedError("no mask yet")'
    claimed = 'attend.claims = ["masking"]'
    assert not subject(tmp_path, check, claimed).refused_words
    assert judged(plan(tmp_path, check, claimed), "masking.definition").verdict is Verdict.ERRORED


def test_grouped_heads_that_are_promised_are_all_promised(tmp_path: Path) -> None:
    assert not subject(tmp_path, 'if H // Hkv > 4: raise ValueError("group size")',
                       "attend.grouped = True").refused_words


def test_problems_are_kept_within_what_it_takes(tmp_path: Path) -> None:
    asked = plan(tmp_path, 'if D % 8: raise ValueError("head_dim is no multiple of 8")')
    assert judged(asked, "attention.definition").verdict is Verdict.HELD


def test_a_wrong_answer_within_it_is_a_violation(tmp_path: Path) -> None:
    asked = plan(tmp_path, 'if D % 8: raise ValueError("head_dim")\n    value = value * 2')
    assert judged(asked, "attention.definition").verdict is Verdict.VIOLATED


def test_a_keyword_that_is_refused_is_one_that_it_lacks(tmp_path: Path) -> None:
    asked = plan(tmp_path, 'if mask is not None: raise NotImplementedError("no mask yet")')
    outcome = judged(asked, "masking.definition")
    assert outcome.verdict is Verdict.INAPPLICABLE
    assert outcome.reason == f"{asked.targets[0]} refuses mask (NotImplementedError: no mask yet)"


LATE = 'if window is not None and T != S: raise ValueError("a window needs as many queries as keys")'


def test_what_comes_up_in_a_case_is_a_limit_as_well(tmp_path: Path) -> None:
    assert not subject(tmp_path, LATE).refused_words
    outcome = judged(plan(tmp_path, LATE), "window.definition")
    assert outcome.verdict is Verdict.HELD
    assert outcome.refused == {"window with T ≠ S": "ValueError: a window needs as many queries as keys"}


def test_a_clause_that_needs_what_came_up_does_not_apply(tmp_path: Path) -> None:
    asked = plan(tmp_path, LATE)
    outcome = judged(asked, "window.alignment")
    assert outcome.verdict is Verdict.INAPPLICABLE
    assert "window with T ≠ S: ValueError: a window needs as many queries as keys" in outcome.reason


BESIDE = 'if window is not None and {other}: raise ValueError("a window needs {word}")'
OTHERS = [("not causal", "causal"), ("mask is None", "mask")]


@pytest.mark.family(1)
@pytest.mark.parametrize(("other", "word"), OTHERS)
@pytest.mark.parametrize(("wrong", "verdict"), [
    ("", Verdict.HELD), ("\n    value = value if window is None else value * 2", Verdict.VIOLATED)])
def test_a_keyword_taken_beside_another_only_is_judged_beside_it(
        tmp_path: Path, other: str, word: str, wrong: str, verdict: Verdict) -> None:
    check = BESIDE.format(other=other, word=word)
    assert subject(tmp_path, check).refused_words == {f"window without {word}": f"ValueError: a window needs {word}"}
    assert judged(plan(tmp_path, check + wrong), "window.definition").verdict is verdict


def test_a_contract_puts_a_keyword_beside_what_it_needs(tmp_path: Path) -> None:
    asked = plan(tmp_path, BESIDE.format(other="not causal", word="causal"))
    assert judged(asked, "contract.window").verdict is Verdict.HELD


def test_a_clause_that_does_not_offer_what_a_keyword_needs_does_not_apply(tmp_path: Path) -> None:
    outcome = judged(plan(tmp_path, BESIDE.format(other="not causal", word="causal")), "window.alone")
    assert (outcome.verdict, outcome.cases) == (Verdict.INAPPLICABLE, 0)
    assert "window without causal: ValueError: a window needs causal" in outcome.reason


@pytest.mark.parametrize(("raises", "verdict"), [
    ('raise ValueError("value holds what is no number")', Verdict.VIOLATED),
    ("np.ones(2) + np.ones(3)", Verdict.ERRORED)])
def test_entries_that_are_refused_in_words_are_no_failure(raises: str, verdict: Verdict, tmp_path: Path) -> None:
    outcome = judged(plan(tmp_path, f"if not np.isfinite(value).all(): {raises}"), "masking.hidden_nan_is_irrelevant")
    assert outcome.verdict is verdict
    assert does_gate_run(outcome.verdict, outcome.level, strict=False) is (verdict is Verdict.ERRORED)
    assert not outcome.refused


def test_two_judges_find_the_same_in_any_order(tmp_path: Path) -> None:
    asked = plan(tmp_path, LATE)
    engine = Engine(Plan(asked.targets, clauses=("window.definition", "window.alignment"), effort=Effort.QUICK,
                         in_process=asked.in_process, dtypes=asked.dtypes))
    items = engine.items()
    forwards = {item: engine.try_item(item) for item in items}
    again = Engine(engine.plan)
    assert {item: again.try_item(item) for item in reversed(items)} == forwards


@pytest.mark.parametrize(("joint", "always", "features"), [
    ("mask", ("causal",), {"causal"}), ("mask", (), {"causal", "mask"}),
    ("mask", ("causal", "mask"), {"causal", "mask"}), ("causal", ("mask",), {"mask"}),
    ("causal", ("causal",), {"causal", "mask"}), ("both", ("causal",), {"causal", "mask"})])
def test_a_clause_about_one_is_put_without_what_makes_it_ignored(
        tmp_path: Path, joint: str, always: tuple[str, ...], features: set[str]) -> None:
    either = subject(tmp_path, LATE, f'attend.conventions = {{"mask_with_causal": "{joint}"}}')
    recipe = Recipe(Sizes(1, 1, 1, 2, 2, 4, 4), ("normal",), "all_true", frozenset({"causal", "mask"}), 0)
    found = fit_to_domain(recipe, domain(always=always, sometimes=("causal", "mask")), Evaluator(either, DType.FLOAT32))
    assert found.features == features


@pytest.mark.parametrize(("always", "features"), [((), frozenset({"mask"})), (("window",), {"mask", "window"})])
def test_a_keyword_is_left_out_where_it_is_refused_and_not_needed(
        tmp_path: Path, always: tuple[str, ...], features: frozenset[str]) -> None:
    late = subject(tmp_path, LATE, 'attend.refuses = ["window with T != S"]')
    recipe = Recipe(Sizes(1, 1, 1, 2, 3, 4, 4), ("normal",), "all_true", frozenset({"mask", "window"}), 0)
    asked = domain(always=always, sometimes=("mask", "window"))
    assert fit_to_domain(recipe, asked, Evaluator(late, DType.FLOAT32)).features == features
    square = replace(recipe, sizes=replace(recipe.sizes, S=2))
    assert fit_to_domain(square, asked, Evaluator(late, DType.FLOAT32)).features == {"mask", "window"}


# --- what is declared

@pytest.mark.parametrize(("text", "told"), [
    ("D > 256", "D > 256"), ("B != 1", "B ≠ 1"), ("D%8!=0", "D % 8 ≠ 0"), ("D not in (64,128)", "D not in (64, 128)"),
    ("window with T != S", "window with T ≠ S"), ("window without causal", "window without causal"),
    ("window with T>S without mask and causal", "window with T > S without causal and mask"),
    ("mask and causal", "causal and mask"), ("T <= S and D == 3", "T ≤ S and D = 3")])
def test_a_refusal_is_written_as_it_is_told(text: str, told: str) -> None:
    assert str(read_refusal(text)) == told
    assert read_refusal(told) == read_refusal(text)


@pytest.mark.parametrize(("text", "message"), [
    ("Q > 3", "'Q' is not a known axis. Known: B, D, Dv, G, H, Hkv, S, T."),
    ("masc", "'masc' is not a known keyword. Did you mean 'mask'?"),
    ("window without masc", "'masc' is not a known keyword. Did you mean 'mask'?"),
    ("D over 3", "'D over 3' is no condition on sizes. Write it as 'D > 256', 'T != S', 'D % 8 != 0' or 'D not in "
                 "(64, 128)'."),
    ("D % 0 != 0", "'D % 0 != 0' divides by 0.")])
def test_a_refusal_that_makes_no_sense_is_told(text: str, message: str) -> None:
    with pytest.raises(UsageError) as told:
        read_refusal(text)
    assert str(told.value) == message


def test_a_declared_refusal_is_a_limit_that_is_not_asked_for(tmp_path: Path) -> None:
    declared = subject(tmp_path, "calls.append(D)\n    if D > 64: raise KeyError", 'attend.refuses = ["D > 64"]')
    sizes = Sizes(1, 1, 1, 2, 2, 65, 65)
    entries = np.zeros((1, 1, 2, 65), np.float32)
    assert declared.refuses(Problem(DType.FLOAT32, entries, entries, entries)) == (
        f"{declared.id} refuses D > 64; here {sizes}")


def test_a_declared_refusal_that_makes_no_sense_is_told_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match=r"mine.py:4: 'refuses' of 'limits' has 'D': 'D' is not a known key"):
        subject(tmp_path, "pass", 'attend.refuses = ["D"]')


# --- limits for whoever draws sizes

def test_limits_say_why_sizes_are_not_taken() -> None:
    limits = Limits(refuses=(read_refusal("D > 64"), read_refusal("window with T != S")), min_head_width=8)
    sizes = Sizes(1, 1, 1, 2, 3, 64, 64).by_axis
    assert limits.misfit_of(sizes) == ""
    assert limits.misfit_of(sizes, {"window"}) == "refuses window with T ≠ S"
    assert limits.misfit_of({**sizes, "D": 65}) == "refuses D > 64"
    assert limits.misfit_of({**sizes, "D": 4}) == "takes only heads of width 8 or more"


def test_the_nearest_size_that_is_taken_is_known() -> None:
    limits = Limits(refuses=(read_refusal("D % 8 != 0"), read_refusal("D > 64"), read_refusal("causal with D > 8")))
    assert [limits.nearest("D", size) for size in (1, 13, 64, 99)] == [8, 16, 64, 64]
    assert limits.nearest("T", 99) == 99


def test_sizes_are_moved_to_what_is_taken() -> None:
    limits = Limits(refuses=(read_refusal("B > 1"), read_refusal("D % 8 != 0")), ties_value_width=True, lengths="equal")
    assert fit_to_limits(Sizes(3, 2, 2, 1, 9, 7, 5), limits) == Sizes(1, 2, 2, 9, 9, 8, 8)


@pytest.mark.family(3)
@pytest.mark.parametrize("text", ["B > 1", "D % 8 != 0", "T > S", "H = 1", "S > 100", "Dv != D"])
@pytest.mark.parametrize("effort", Effort)
def test_no_shape_is_put_that_is_refused(text: str, effort: Effort) -> None:
    limits = Limits(refuses=(read_refusal(text),))
    shapes = shapes_for(domain(), limits, effort)
    assert shapes
    assert not any(limits.misfit_of(sizes.by_axis) for sizes in shapes)


def test_groups_follow_from_heads() -> None:
    assert RefusalCondition("G", ">", 2).holds_at(with_groups(Sizes(1, 6, 2, 1, 1, 1, 1).by_axis))
