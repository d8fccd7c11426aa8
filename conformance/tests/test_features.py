"""Features meet in threes, in small problems: every three that a subject takes, used and left out."""

from __future__ import annotations

from functools import reduce
from itertools import combinations, product
from operator import or_
from pathlib import Path

import pytest
from attnspec.core.coverage import written
from attnspec.core.declaration import Limits
from attnspec.core.feature_coverage import describe_triple, triples_in, triples_of, triples_taken
from attnspec.core.nouns import DType, Effort, Verdict
from attnspec.core.plan import Plan
from attnspec.engine.engine import Engine
from attnspec.problems.demand import work
from attnspec.problems.feature_array import FeatureArray, deal_rows, feature_recipes, features_of, traits_within
from attnspec.record.outcome import Outcome
from attnspec.report.coverage import covered
from attnspec.subjects.registry import load
from helpers.law import checks
from helpers.subjects import module_of

TOGETHER = "attention.features_together"

KERNEL = """
import numpy as np
def attend(query, key, value, *, causal=False, mask=None, bias=None, scale=None, softcap=None, window=None):
    B, H, T, D = query.shape
    Hkv, S, Dv = value.shape[1:]
    dtype = query.dtype
    query, key, value = (np.asarray(each, np.float32) for each in (query, key, value))
    group = H // Hkv
    key, value = np.repeat(key, group, axis=1), np.repeat(value, group, axis=1)
    logits = query @ key.swapaxes(-1, -2) * np.float32(1 / np.sqrt(D) if scale is None else scale)
    if softcap is not None:
        logits = np.float32(softcap) * np.tanh(logits / np.float32(softcap))
    if bias is not None:
        logits = logits + bias.astype(np.float32)
    seen = np.ones((T, S), bool)
    if causal:
        seen = np.tri(T, S, dtype=bool)
    if window is not None:
        apart = np.arange(S) - np.arange(T)[:, None]
        seen = seen & ((window[0] is None) | (-apart <= (window[0] or 0))) & (
            (window[1] is None) | (apart <= (window[1] or 0)))
    {check}
    seen = seen if mask is None else seen & mask
    logits = np.where(seen, logits, -np.inf)
    top = logits.max(axis=-1, keepdims=True)
    weights = np.exp(logits - np.where(np.isinf(top), 0, top))
    total = weights.sum(axis=-1, keepdims=True)
    return (weights / np.where(total == 0, 1, total) @ value).astype(dtype)
attend.dtypes = ["float32", "float16"]
attend.grouped = True
{more}
"""

# mistakes that need three features at once, none of which holdings of two would show
MIXED_UP = {
    "a bias that is lost where there is a mask and a softcap":
        "if mask is not None and softcap is not None and bias is not None: logits = logits - bias.astype(np.float32)",
    "a mask that meets groups along the wrong axis where B is several":
        "if mask is not None and group > 1 and B > 1: mask = np.broadcast_to(mask, (B, H, T, S))[:, ::-1]",
    "a window that is lost beside a bias where there are many queries":
        "if bias is not None and window is not None and T > 64: seen = np.ones((T, S), bool)",
    "a scale that is lost beside groups and many keys":
        "if scale is not None and group > 1 and S > 64: logits = logits * np.float32(1 / np.sqrt(D) / scale)",
}


def judged(target: str, seed: int, dtype: DType) -> Outcome:
    engine = Engine(Plan((target,), clauses=(TOGETHER,), effort=Effort.QUICK, in_process=(target,), dtypes=(dtype,),
                         seed=seed))
    [item] = engine.items()
    return engine.try_item(item)


def test_any_three_factors_meet_in_every_combination() -> None:
    factors = tuple("abcdefgh")
    rows = deal_rows(factors, 3, 7)
    for three in combinations(factors, 3):
        assert {tuple(row[name] for name in three) for row in rows} == set(product((False, True), repeat=3))
    assert len(rows) < 40  # of 2**8


def test_a_subject_that_takes_everything_meets_every_triple() -> None:
    check = checks()[TOGETHER]
    keywords, limits = check.domain.sometimes, Limits(grouped=True)
    recipes = feature_recipes(check.domain, limits, Effort.QUICK, 3, keywords)
    met = reduce(or_, (triples_of(features_of(recipe)) for recipe in recipes))
    taken = triples_taken(keywords, frozenset(traits_within(limits, keywords)))
    assert [describe_triple(each) for each in triples_in(taken & ~met)] == []
    assert len(recipes) < 50


def test_what_features_cost_is_little() -> None:
    check = checks()[TOGETHER]
    recipes = feature_recipes(check.domain, Limits(grouped=True), Effort.QUICK, 3, check.domain.sometimes)
    assert sum(work(recipe.sizes) for recipe in recipes) < 4e7  # some 50 ms: a large case of another clause has as many


def test_limits_are_kept_and_their_triples_left_out() -> None:
    check = checks()[TOGETHER]
    limits = Limits(lengths="equal", ties_value_width=True, single_head=True)
    array = FeatureArray(check.domain, limits, ("causal", "mask"), 1)
    assert all(recipe.sizes.T == recipe.sizes.S and recipe.sizes.Dv == recipe.sizes.D and recipe.sizes.H == 1
               for recipe in array.recipes(3))
    assert not {"T ≠ S", "D ≠ Dv", "Hkv > 1", "grouped heads"} & set(array.factors)


@pytest.mark.parametrize("mistake", MIXED_UP)
def test_a_mistake_that_needs_three_features_is_found(mistake: str, tmp_path: Path) -> None:
    target = module_of(KERNEL, tmp_path, MIXED_UP[mistake])
    assert judged(target, 4, DType.FLOAT32).verdict is Verdict.VIOLATED


@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.FLOAT16])
def test_the_right_one_beside_them_holds_and_its_triples_are_counted(dtype: DType, tmp_path: Path) -> None:
    target = module_of(KERNEL, tmp_path)
    outcome = judged(target, 4, dtype)
    assert outcome.verdict is Verdict.HELD
    card = Engine(Plan((target,), in_process=(target,))).card(target)
    found = covered([outcome], card)
    assert found
    assert found.share_of_triples.endswith("triples of features tried")
    assert int(found.share_of_triples.split()[0]) >= 95
    assert outcome.triples == written(found.triples)


def test_pages_of_any_length_and_number_are_read() -> None:
    for fault in ("pages_numbered_in_16_bits", "pages_tail_of_32_lost"):
        engine = Engine(Plan((f"fault/{fault}",), clauses=("paged.features_together",), effort=Effort.QUICK,
                             dtypes=(DType.FLOAT32,)))
        assert [engine.try_item(item).verdict for item in engine.items()] == [Verdict.VIOLATED]
    assert "block_table" in load("numpy/paged").declaration.keywords
