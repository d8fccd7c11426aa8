"""The kinds of mistakes that once got through are met by clauses, and the right functions beside them hold."""

from __future__ import annotations

import ast

import pytest
from attnspec.core.nouns import FAILURES, DType, Effort, Verdict
from attnspec.core.plan import Plan
from attnspec.engine.engine import Engine
from attnspec.record.outcome import Outcome
from attnspec.trials.sizes import Dealer
from helpers.law import checks
from helpers.subjects import subject_of
from kinds import FOLDER, Judged, Posed, posed_functions, table


def judge_clause(function: str, clause: str) -> Outcome:
    target = f"{FOLDER}/{function}"
    engine = Engine(Plan((target,), (clause,), dtypes=(DType.FLOAT32,), effort=Effort.QUICK, in_process=(target,)))
    [item] = engine.items()
    return engine.try_item(item)


@pytest.mark.family(1)
@pytest.mark.parametrize(("clause", "wrong", "right"), [
    ("paged.every_slot_is_read", "pages.py:slots_lost_in_pages_of_64", "pages.py:right_pages"),
    ("past.nan_before_the_window_is_irrelevant", "cached.py:what_the_window_left_times_zero", "cached.py:right_window"),
    ("attention.nan_of_another_entry", "accidents.py:nan_in_the_data", "accidents.py:right"),
    ("attention.dtype_with_keywords", "shapes.py:promoted_by_an_explicit_scale", "shapes.py:right"),
    ("window.definition", "refusals.py:window_of_one_query_ignored", "refusals.py:right_window_of_one_query"),
    ("masking.definition", "refusals.py:mask_of_few_keys_ignored", "refusals.py:right_mask_of_few_keys")])
def test_a_clause_convicts_the_wrong_one_and_holds_for_the_right_one(clause: str, wrong: str, right: str) -> None:
    assert judge_clause(wrong, clause).verdict in FAILURES
    assert judge_clause(right, clause).verdict is Verdict.HELD


def test_what_raises_while_it_is_differentiated_is_told_with_its_own_line() -> None:
    pytest.importorskip("torch")
    evidence = judge_clause("tensors.py:view_of_what_is_expanded", "gradients.grouped_heads").evidence
    assert evidence
    assert evidence.explained
    assert "kinds/tensors.py:30 where" in evidence.explained.cause


@pytest.mark.parametrize("seed", range(3))
def test_a_clause_about_groups_meets_several_of_several_heads(seed: int) -> None:
    says_nothing_of_groups = subject_of(lambda *arrays, **_: arrays[2], frozenset({"mask", "causal"}))
    shapes = Dealer(says_nothing_of_groups, checks, Effort.QUICK, seed).shapes(
        checks()["grouped.definition"], DType.FLOAT32)
    assert shapes
    assert any(sizes.H > sizes.Hkv > 1 for sizes in shapes[:8])


def test_every_function_of_the_kinds_is_posed() -> None:
    posed = {each.function: each for each in posed_functions()}
    functions = [(path.name, node) for path in FOLDER.glob("*.py") for node in ast.parse(path.read_text("utf-8")).body
                 if isinstance(node, ast.FunctionDef)]
    takes_arrays = {f"{file}:{node.name}" for file, node in functions
                    if node.args.kwonlyargs and node.name != "attended"}
    assert posed.keys() == takes_arrays
    assert all(("right" in name.partition(":")[2].split("_")) is each.is_right for name, each in posed.items())


def test_a_wrong_one_has_to_fail_at_each_dtype_and_a_right_one_at_none() -> None:
    wrong, right = (Posed("a kind", "mine.py:attend", is_right=is_right, is_strict=False) for is_right in (False, True))
    failing = [Outcome("mine.py:attend", "attention.shape", dtype, checks()["attention.shape"].clause.level,
                       Verdict.VIOLATED, "it differs") for dtype in (DType.FLOAT32, DType.FLOAT16)]
    assert Judged(wrong, 0, failing, 1.0).is_as_it_should
    assert not Judged(wrong, 0, failing[:1], 1.0).is_as_it_should
    assert not Judged(right, 0, failing[:1], 1.0).is_as_it_should
    assert "| a kind | mine.py:attend | 2 of 2 | 1 of 2 |" in "\n".join(
        table([Judged(wrong, 0, failing, 1.0), Judged(wrong, 1, failing[:1], 1.0)]))
