"""`attnspec init` hands on the borders between sequences, so that a check puts ragged batches to a kernel."""

from __future__ import annotations

import pytest
from helpers.commands import Cli
from helpers.forms import form_found

KERNELS = '''
import numpy as np

def right(q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, softmax_scale=None):
    """One behind the other."""
    scale = q.shape[-1] ** -0.5 if softmax_scale is None else softmax_scale
    output = np.zeros((*q.shape[:2], v.shape[2]), q.dtype)
    for sequence in range(len(cu_seqlens_q) - 1):
        queries, keys = (slice(*borders[sequence:sequence + 2]) for borders in (cu_seqlens_q, cu_seqlens_k))
        logits = np.einsum("thd,shd->hts", q[queries], k[keys]) * scale
        weights = np.exp(logits - logits.max(-1, keepdims=True, initial=-1e30))
        total = weights.sum(-1, keepdims=True)
        output[queries] = np.einsum("hts,shd->thd", weights / np.where(total == 0, 1, total), v[keys])
    return output

def all_as_the_first(q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, softmax_scale=None):
    """Every sequence is as long as the first."""
    first = [np.minimum(np.arange(len(each)) * each[1], len(array))
             for each, array in ((cu_seqlens_q, q), (cu_seqlens_k, k))]
    return right(q, k, v, *first, max_seqlen_q, max_seqlen_k, softmax_scale)

def of_one_border(q, k, v, cu_seqlens_q, max_seqlen_q):
    """It has none of keys, which are as many as queries."""
    return right(q, k, v, cu_seqlens_q, cu_seqlens_q, max_seqlen_q, max_seqlen_q)
'''

pytestmark = pytest.mark.usefixtures("kernels")


def test_borders_are_handed_on() -> None:
    form = form_found("kernels:right")
    assert [(each.keyword, each.parameter) for each in form.bindings] == [
        ("cu_query", "cu_seqlens_q"), ("cu_key", "cu_seqlens_k"), ("max_query", "max_seqlen_q"),
        ("max_key", "max_seqlen_k"), ("scale", "softmax_scale")]
    assert form.remarks == ()


@pytest.mark.parametrize(("name", "code"), [
    pytest.param("right", 0, marks=pytest.mark.nightly), ("all_as_the_first", 1)])
def test_ragged_batches_are_judged(cli: Cli, name: str, code: int) -> None:
    assert cli("init", f"kernels:{name}")[0] == 0
    found, out, _ = cli("check", f"kernels/{name}", "--implementations", "implementations", "--dtype", "float32",
                        "--clause", "lengths.both_kinds", "--effort", "glance", "--no-record")
    assert (found, "lengths.both_kinds (spec/lengths.yaml" in out) == (code, bool(code))


def test_what_is_wrong_with_ragged_batches_is_said_at_once() -> None:
    form = form_found("kernels:all_as_the_first")
    assert form.remarks[0].startswith("With sequences of unequal lengths, its output is ")


def test_a_kernel_that_is_given_equal_lengths_only_is_told_so() -> None:
    remarks = form_found("kernels:of_one_border").remarks
    assert "Its sequences are all of one length: ragged batches are not judged." in remarks
