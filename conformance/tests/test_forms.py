"""What holds of functions of every form: ordinary mistakes are named, and mistakes of other forms are not."""

from __future__ import annotations

from pathlib import Path

import pytest
from attnspec.core.forms import Form
from attnspec.core.nouns import DType, Effort
from attnspec.core.plan import Plan
from attnspec.engine.engine import Engine
from attnspec.faults.catalogue import CATALOGUE

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


@pytest.mark.parametrize("form", FORMED)
def test_an_ordinary_mistake_is_named_in_every_form(tmp_path: Path, form: str) -> None:
    declared = "attend.dtypes, attend.grouped = ['float64'], False\n"
    (tmp_path / "mine.py").write_text(DENSE + FORMED[form] + declared, encoding="utf-8")
    engine = Engine(Plan((f"{tmp_path / 'mine.py'}:attend",), clauses=("attention.definition",),
                         dtypes=(DType.FLOAT64,), effort=Effort.QUICK))
    [outcome] = [engine.try_item(item) for item in engine.items()]
    assert outcome.evidence
    assert outcome.evidence.like[0].fault == "scale_none"


def test_a_dense_function_is_not_said_to_mistake_its_pages() -> None:
    engine = Engine(Plan(("fault/causal_bottom_right",), clauses=("causal.alignment",),
                         dtypes=(DType.FLOAT64,), effort=Effort.QUICK))
    [outcome] = [engine.try_item(item) for item in engine.items()]
    assert outcome.evidence
    named = {each.fault for each in outcome.evidence.like}
    assert "causal_bottom_right" in named
    assert {CATALOGUE[name].form for name in named} == {Form.DENSE}
