"""Features meet in threes, in small problems: every three that a subject takes, used and left out."""

from __future__ import annotations

from functools import reduce
from itertools import combinations, product
from operator import or_
from pathlib import Path

import numpy as np
import pytest
from attnspec.core.coverage import SINGLE_QUERY, triple_behind, triples_of, write_pairs
from attnspec.core.declaration import Limits
from attnspec.core.nouns import DType, Effort, Verdict
from attnspec.core.plan import Plan
from attnspec.engine.engine import Engine
from attnspec.problems.choices import FEW_LENGTHS, FeatureArray, deal_rows
from attnspec.problems.make import make_problem
from attnspec.problems.problem import Recipe, count_work
from attnspec.record.outcome import Outcome
from attnspec.report.coverage import measure_coverage
from attnspec.subjects.registry import load_target
from attnspec.trials.covering_cases import MAX_TRIES, _TripleRedealing, acting_features, acting_triples, feature_recipes
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
    "a bias that is lost where there is one query in several groups of heads":
        "if T == 1 and 1 < Hkv < H and bias is not None: logits = logits - bias.astype(np.float32)",
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


@pytest.mark.parametrize("seed", [0, 3])
def test_nearly_all_triples_act_at_a_subject_that_takes_everything(seed: int) -> None:
    check = checks()[TOGETHER]
    limits = Limits(grouped=True)
    recipes = feature_recipes(check.domain, limits, Effort.QUICK, seed, check.domain.sometimes)
    array = FeatureArray(check.domain, limits, tuple(sorted(check.domain.sometimes)), seed)
    acting = reduce(or_, map(acting_triples, recipes)) & array.triples
    in_array = reduce(or_, map(acting_triples, array.recipes(3))) & array.triples
    assert acting.bit_count() >= 0.96 * array.triples.bit_count()
    assert in_array.bit_count() < 0.9 * array.triples.bit_count()  # so much is owed to what is dealt again
    assert len(recipes) < 70


def test_nothing_is_dealt_again_at_a_glance() -> None:
    domain = checks()[TOGETHER].domain
    array = FeatureArray(domain, Limits(), ("causal", "mask"), 0)
    assert [each.text for each in feature_recipes(domain, Limits(), Effort.GLANCE, 0, frozenset({"causal", "mask"}))
            ] == [each.text for each in array.recipes(2)]


def test_a_single_query_has_the_causal_flag_only_where_it_acts() -> None:
    domain = checks()[TOGETHER].domain
    for recipe in FeatureArray(domain, Limits(), tuple(sorted(domain.sometimes)), 0).recipes(3):
        assert not (recipe.sizes.T == 1 and "causal" in recipe.features and "past_key" not in recipe.features)
    recipes = feature_recipes(domain, Limits(), Effort.QUICK, 0, frozenset({"causal", "mask"}))
    acting = reduce(or_, map(acting_triples, recipes))
    assert acting & triples_of(frozenset({"causal", SINGLE_QUERY, "T ≠ S"}))


def features_with(text: str, **changes: int) -> frozenset[str]:
    """The features that act in a case, with other contents of its keywords."""
    recipe = Recipe.parse(text)
    problem = make_problem(recipe, DType.FLOAT32)
    return acting_features(recipe, problem.but(**{name: np.full_like(getattr(problem, name), value)
                                                  for name, value in changes.items()}), {})


def test_a_feature_that_does_not_act_does_not_count() -> None:
    masked = "B2,H4,Hkv2,T5,S6,D8,Dv6;mask=random;families=normal;with=mask+softcap;softcap=8.0;seed=3"
    assert features_with(masked) >= {"mask", "softcap", "B > 1", "1 < Hkv < H"}
    assert "mask" not in features_with(masked, mask=True)
    assert not features_with(masked, mask=False)
    assert "softcap" not in features_with(masked.replace("S6", "S1"), mask=True)
    many = "B1,H1,Hkv1,T67,S70,D8,Dv8;mask=none;families=normal;with=query_lengths;query_lengths=ragged;seed=3"
    assert "T > 64" in features_with(many, query_lengths=66)
    assert "T > 64" not in features_with(many, query_lengths=64)
    assert "query_lengths" not in features_with(many, query_lengths=67)


def test_three_features_that_are_missed_often_enough_are_given_up() -> None:
    left = triples_of(frozenset({"bias", "causal", "mask"}))
    redealing = _TripleRedealing(FeatureArray(checks()[TOGETHER].domain, Limits(), (), 0), left, 0)
    for _ in range(MAX_TRIES):
        assert redealing.cases_left == left
        redealing._remember(triple_behind(left, 0.0))
    assert redealing.cases_left == 0


def test_what_features_cost_is_little() -> None:
    check = checks()[TOGETHER]
    recipes = feature_recipes(check.domain, Limits(grouped=True), Effort.QUICK, 3, check.domain.sometimes)
    assert sum(count_work(recipe.sizes) for recipe in recipes) < 1e8  # some 0.1 s, as two large cases of another clause


def test_limits_are_kept_and_their_triples_left_out() -> None:
    check = checks()[TOGETHER]
    limits = Limits(lengths="equal", ties_value_width=True, single_head=True)
    array = FeatureArray(check.domain, limits, ("causal", "mask"), 1)
    assert all(recipe.sizes.T == recipe.sizes.S and recipe.sizes.Dv == recipe.sizes.D and recipe.sizes.H == 1
               for recipe in array.recipes(3))
    assert not {"T ≠ S", "D ≠ Dv", "Hkv > 1", "grouped heads"} & set(array.factors)


@pytest.mark.family(1)
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
    found = measure_coverage([outcome], card)
    assert found
    assert found.share_of_triples.endswith("triples of features tried")
    assert int(found.share_of_triples.split()[0]) >= 95
    assert outcome.triples == write_pairs(found.triples)


@pytest.mark.nightly
def test_a_failing_case_of_features_is_made_small(tmp_path: Path) -> None:
    target = module_of(KERNEL, tmp_path, "if softcap is not None and bias is not None: logits = logits * 2")
    evidence = judged(target, 4, DType.FLOAT32).evidence
    assert evidence
    sizes = Recipe.parse(evidence.recipe).sizes
    assert sizes.D == sizes.Dv == 1
    assert FEW_LENGTHS[1] > sizes.S


def test_a_sample_of_the_cases_stands_for_all_at_further_dtypes(tmp_path: Path) -> None:
    target = module_of(KERNEL, tmp_path)
    engine = Engine(Plan((target,), clauses=(TOGETHER,), effort=Effort.QUICK, in_process=(target,), seed=4))
    first, further = (each for each in map(engine.try_item, engine.items()) if each.verdict is Verdict.HELD)
    assert not first.sample
    assert 0 < further.cases <= further.sample < first.cases


@pytest.mark.nightly
def test_pages_of_any_length_and_number_are_read() -> None:
    for fault in ("pages_numbered_in_16_bits", "pages_tail_of_32_lost"):
        engine = Engine(Plan((f"fault/{fault}",), clauses=("paged.features_together",), effort=Effort.QUICK,
                             dtypes=(DType.FLOAT32,)))
        assert [engine.try_item(item).verdict for item in engine.items()] == [Verdict.VIOLATED]
    assert "block_table" in load_target("numpy/paged").declaration.keywords
