"""`attnspec init` finds kernels that read pages, by whatever names, and those of one query a sequence."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.commands import Cli
from helpers.forms import form_found

KERNELS = '''
import numpy as np

def decode(q, k_cache, v_cache, block_tables, context_lens, more=0):
    """q (B,H,D); caches (pages,page,Hkv,D)."""
    output = np.zeros((*q.shape[:2], v_cache.shape[-1]), q.dtype)
    for entry, count in enumerate(context_lens):
        pages = block_tables[entry, :-(-int(count) // k_cache.shape[1])]
        rows = [each[pages].reshape(-1, *each.shape[2:])[:int(count) + more] for each in (k_cache, v_cache)]
        key, value = (each.repeat(q.shape[1] // each.shape[1], 1) for each in rows)
        logits = np.einsum("hd,shd->hs", q[entry], key) * q.shape[-1] ** -0.5
        weights = np.exp(logits - logits.max(-1, keepdims=True, initial=-1e30))
        if count:
            output[entry] = np.einsum("hs,shd->hd", weights / weights.sum(-1, keepdims=True), value)
    return output

def decode_beyond(q, k_cache, v_cache, block_tables, context_lens):
    """It reads one slot too many, of the last page, where there are more than two."""
    return decode(q, k_cache, v_cache, block_tables, context_lens, more=int(block_tables.shape[1] > 2))

def with_axis(query, key_cache, value_cache, block_table, cache_seqlens):
    """query (B,1,H,D)."""
    return decode(query[:, 0], key_cache, value_cache, block_table, cache_seqlens)[:, None]

def of_all_pages(q, k_cache, v_cache, block_tables, context_lens):
    """q (B,H,D), a head of keys for each; it fetches every page that the table names."""
    key, value = (each[block_tables].reshape(len(q), -1, *each.shape[2:]) for each in (k_cache, v_cache))
    used = (np.arange(key.shape[1]) < context_lens[:, None])[:, None]
    logits = np.where(used, np.einsum("bhd,bshd->bhs", q, key) * q.shape[-1] ** -0.5, -1e30)
    weights = np.where(used, np.exp(logits - logits.max(-1, keepdims=True)), 0)
    value = np.where(used[:, 0, :, None, None], value, 0)
    return np.einsum("bhs,bshd->bhd", weights / np.maximum(weights.sum(-1, keepdims=True), 1e-30), value)

def of_other_names(q, kc, vc, table_of_blocks, filled):
    return decode(q, kc, vc, table_of_blocks, filled)
'''

pytestmark = pytest.mark.usefixtures("kernels")


@pytest.mark.parametrize(("name", "query", "table", "lengths"), [
    ("of_other_names", "(B,H,D)", "table_of_blocks", "filled"),
    pytest.param("decode", "(B,H,D)", "block_tables", "context_lens", marks=pytest.mark.nightly),
    pytest.param("with_axis", "(B,1,H,D)", "block_table", "cache_seqlens", marks=pytest.mark.nightly)])
def test_a_kernel_of_one_query_is_found_by_what_it_does(name: str, query: str, table: str, lengths: str) -> None:
    form = form_found(f"kernels:{name}")
    assert form.arrangement.shape == f"{query}, key and value (pages,page,H,D)"
    assert (form.parameter_for("block_table"), form.parameter_for("key_lengths")) == (table, lengths)
    assert form.remarks[0] == "It takes one query a sequence only: T = 1."


@pytest.mark.parametrize(("name", "code"), [
    pytest.param("decode", 0, marks=pytest.mark.nightly), ("decode_beyond", 1)])
def test_it_is_judged_at_one_query(cli: Cli, name: str, code: int) -> None:
    assert cli("init", f"kernels:{name}")[0] == 0
    assert 'refuses: ["T ≠ 1"]' in Path("implementations/kernels/manifest.yaml").read_text(encoding="utf-8")
    judged, out, _ = cli("check", f"kernels/{name}", "--implementations", "implementations", "--dtype", "float32",
                         "--clause", "lengths.definition", "--effort", "glance", "--no-record")
    assert (judged, "lengths.definition (spec/lengths.yaml" in out) == (code, bool(code))


def test_who_fetches_every_page_needs_pages_beyond_the_keys(cli: Cli) -> None:
    code, out, _ = cli("init", "kernels:of_all_pages")
    assert code == 0
    assert "It raises unless every number in its block_tables names a page, also beyond an entry's keys." in out
    assert "table_names_pages: true" in Path("implementations/kernels/manifest.yaml").read_text(encoding="utf-8")
    judged, _, _ = cli("check", "kernels/of_all_pages", "--implementations", "implementations", "--dtype", "float32",
                       "--clause", "paged.*", "--effort", "glance", "--no-record")
    assert judged == 0
