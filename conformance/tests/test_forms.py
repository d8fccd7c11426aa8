"""What holds of functions of every form: ordinary mistakes are named, and mistakes of other forms are not."""

from __future__ import annotations

from pathlib import Path

import pytest
from attnspec.core.nouns import DType, Effort
from attnspec.core.plan import Plan
from attnspec.core.surroundings import Surroundings
from attnspec.diagnosis.diagnose import Examiner
from attnspec.engine.engine import Engine
from attnspec.faults.catalogue import CATALOGUE
from attnspec.faults.subject import fault_subject
from attnspec.problems.problem import Recipe
from attnspec.scaffold.written_adapter import WrittenAdapter, write_for
from attnspec.spec.load import load_spec
from attnspec.trials.compile import compile_spec
from attnspec.trials.evaluator import Evaluator
from attnspec.trials.trial import Trial

DENSE = """
import numpy as np

def dense(query, key, value, causal, lengths):
    logits = query @ key.swapaxes(-1, -2)
    hidden = np.arange(key.shape[2]) >= np.asarray(lengths)[:, None, None, None]
    logits = np.where(hidden | (causal & ~np.tri(*logits.shape[2:], dtype=bool)), -np.inf, logits)
    top = logits.max(axis=-1, keepdims=True, initial=-1e30)
    weights = np.exp(logits - top)
    value = np.where(np.arange(key.shape[2])[:, None] < np.asarray(lengths)[:, None, None, None], value, 0)
    return weights @ value / np.maximum(weights.sum(axis=-1, keepdims=True), 1e-300)
"""
"""Attention without its scale."""

FORMED = {
    "packed": """
def attend(query, key, value, *, cu_query, cu_key, causal=False):
    output = np.zeros((*query.shape[:2], value.shape[-1]), query.dtype)
    for b in range(len(cu_query) - 1):
        rows, keys = slice(*cu_query[b:b + 2]), slice(*cu_key[b:b + 2])
        arrays = (array.swapaxes(0, 1)[None] for array in (query[rows], key[keys], value[keys]))
        output[rows] = dense(*arrays, causal, [cu_key[b + 1] - cu_key[b]])[0].swapaxes(0, 1)
    return output
""",
    "paged": """
def attend(query, key, value, *, block_table, key_lengths, causal=False):
    place = np.arange(block_table.shape[1] * key.shape[1])
    pages = np.where(place < key_lengths[:, None], block_table[:, place // key.shape[1]], 0)
    arrays = (array[pages, place % key.shape[1]].swapaxes(1, 2) for array in (key, value))
    return dense(query, *arrays, causal, key_lengths)
"""}


@pytest.mark.family(1)
@pytest.mark.parametrize("form", FORMED)
def test_an_ordinary_mistake_is_named_in_every_form(tmp_path: Path, form: str) -> None:
    declared = "attend.dtypes, attend.grouped = ['float64'], False\n"
    (tmp_path / "mine.py").write_text(DENSE + FORMED[form] + declared, encoding="utf-8")
    engine = Engine(Plan((f"{tmp_path / 'mine.py'}:attend",), clauses=("attention.definition",),
                         dtypes=(DType.FLOAT64,), effort=Effort.QUICK))
    [outcome] = [engine.try_item(item) for item in engine.items()]
    assert outcome.evidence
    assert outcome.evidence.like[0].fault == "scale_none"


@pytest.mark.parametrize(("name", "is_named"), [("causal_bottom_right", True), ("pages_causal_from_the_end", False)])
def test_a_dense_function_is_not_said_to_mistake_its_pages(name: str, is_named: bool) -> None:
    check = compile_spec(load_spec())["attention.definition"]
    trial = Trial(check, Evaluator(fault_subject("fault/causal_bottom_right"), DType.FLOAT64), Effort.QUICK, 0,
                  lambda _: None)
    case = Recipe.parse("B1,H1,Hkv1,T2,S5,D4,Dv4;mask=none;families=normal;with=causal;seed=1")
    found = Examiner().diagnose(trial, case, among=[CATALOGUE[name]]).likely_faults
    assert [each.fault for each in found] == [name] * is_named


# What `attnspec init` writes

PAGED = """
import numpy as np

def paged_attention(q, k_cache, v_cache, block_tables, cache_seqlens, softmax_scale=None, causal=False):
    assert k_cache.shape[1] % MULTIPLE == 0, k_cache.shape
    B, T, H, D = q.shape
    out = np.zeros((B, T, H, v_cache.shape[-1]), q.dtype)
    for b, length in enumerate(cache_seqlens):
        pages = block_tables[b, : -(-length // k_cache.shape[1])]
        k, v = (np.repeat(pool[pages].reshape(-1, *pool.shape[2:])[:length], H // pool.shape[2], axis=1)
                for pool in (k_cache, v_cache))
        logits = np.einsum("thd,shd->hts", q[b], k) * (D ** -0.5 if softmax_scale is None else softmax_scale)
        if causal:
            logits = np.where(np.tri(T, length, length - T, dtype=bool), logits, -np.inf)
        weights = np.exp(logits - np.maximum(logits.max(axis=-1, keepdims=True, initial=-np.inf), -1e30))
        weights /= np.maximum(weights.sum(axis=-1, keepdims=True), 1e-30)
        out[b] = np.einsum("hts,shv->thv", weights, v)
    return out
"""


def written(folder: Path, source: str, name: str) -> WrittenAdapter:
    """What `init` writes for a function of a module of this text."""
    (folder / "theirs.py").write_text(source, encoding="utf-8")
    return write_for(f"theirs:{name}", Surroundings())


@pytest.mark.nightly
@pytest.mark.parametrize("multiple", [1, 16])
def test_a_foreign_function_over_pages_is_handed_its_table(here: Path, multiple: int) -> None:
    made = written(here, PAGED.replace("MULTIPLE", str(multiple)), "paged_attention")
    assert "block_tables=block_table,\n        cache_seqlens=key_lengths," in made.adapter
    assert "Query (B,H,T,D), key (pages,page,Hkv,D), value (pages,page,Hkv,Dv) to (B,H,T,Dv)." in made.adapter
    assert "It takes NumPy arrays (B,T,H,D), key and value (pages,page,H,D)." in made.sentences[0]
    assert "claims: [paged, key_lengths, causal, scale, grouped]" in made.manifest_entry
    assert "causal_alignment: bottom_right" in made.manifest_entry
    assert ("page_multiple: 16" in made.manifest_entry) is (multiple == 16)


def test_a_packed_function_gets_the_borders_as_they_are(here: Path) -> None:
    made = written(here, DENSE.replace("swapaxes(-1, -2)", "swapaxes(-1, -2) / query.shape[-1] ** 0.5")
                   + FORMED["packed"], "attend")
    assert "cu_query=cu_query, cu_key=cu_key" in made.adapter
