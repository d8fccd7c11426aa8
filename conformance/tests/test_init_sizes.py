"""`attnspec init` finds widths and numbers of heads of any name: a layer is made with each, at two widths."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from attnspec.core.errors import TargetError
from attnspec.core.surroundings import Surroundings
from attnspec.scaffold import search
from attnspec.scaffold.callee_process import CalleeProcess
from attnspec.scaffold.form import SQUARE_SIDE, CallForm
from attnspec.scaffold.trial_adapter import Trier
from attnspec.scaffold.writing.source import write_source
from attnspec.subjects.target import host_of

LAYERS = """
import torch
from torch import nn

class Required(nn.Module):
    def __init__(self, breadth, ways, far=512):
        super().__init__()
        assert far > 100
        self.ways = ways
        self.q, self.k, self.v, self.o = (nn.Linear(breadth, breadth) for _ in range(4))

    def forward(self, x):
        B, T, M = x.shape
        q, k, v = (each(x).reshape(B, T, self.ways, -1).transpose(1, 2) for each in (self.q, self.k, self.v))
        weights = (q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5).softmax(-1)
        return self.o((weights @ v).transpose(1, 2).reshape(B, T, M))

class Defaulted(Required):
    def __init__(self, breadth=512, ways=2):
        super().__init__(breadth, ways)

class OfTwoHeads(Required):
    def __init__(self, breadth):
        super().__init__(breadth, 2)

class OneHead(nn.Module):
    def __init__(self, feats):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(feats, feats) for _ in range(3))

    def forward(self, x):
        return (self.q(x) @ self.k(x).transpose(-1, -2) / x.shape[-1] ** 0.5).softmax(-1) @ self.v(x)

class MultiQuery(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads, self.width = num_heads, dim // num_heads
        self.c_attn, self.c_proj = nn.Linear(dim, dim + 2 * self.width), nn.Linear(dim, dim)

    def forward(self, x):
        q, k, v = self.c_attn(x).split((x.shape[-1], self.width, self.width), -1)
        q = q.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        weights = (q @ k.unsqueeze(1).mT / self.width ** 0.5).softmax(-1)
        return self.c_proj((weights @ v.unsqueeze(1)).transpose(1, 2).flatten(2))

class InSquares(Required):
    # Its tokens fill a square window, and each pair of places has a bias
    def __init__(self, dim, window_size, num_heads):
        super().__init__(dim, num_heads)
        self.position_bias = nn.Parameter(torch.randn(window_size ** 2, window_size ** 2))

    def forward(self, x):
        B, T, M = x.shape
        q, k, v = (each(x).reshape(B, T, self.ways, -1).transpose(1, 2) for each in (self.q, self.k, self.v))
        weights = (q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5 + self.position_bias).softmax(-1)
        return self.o((weights @ v).transpose(1, 2).reshape(B, T, M))
"""


def find_form(folder: Path, name: str) -> CallForm:
    pytest.importorskip("torch")
    (folder / "layers.py").write_text(LAYERS, encoding="utf-8")
    target = f"layers:{name}"
    return search.find_form(target, Trier(CalleeProcess(host_of(target, Surroundings()))))


@pytest.mark.parametrize(("name", "construction"), [
    ("Required", {"breadth": "M", "ways": "heads"}),
    pytest.param("Defaulted", {"breadth": "M", "ways": "heads"}, marks=pytest.mark.nightly),
    pytest.param("OneHead", {"feats": "M"}, marks=pytest.mark.nightly)])
def test_sizes_of_any_name_are_found_by_trying(here: Path, name: str, construction: Mapping[str, str]) -> None:
    assert find_form(here, name).construction == construction


def test_a_window_of_two_axes_is_as_wide_as_its_tokens_fill_a_square(here: Path) -> None:
    form = find_form(here, "InSquares")
    assert form.construction == {"dim": "M", "window_size": SQUARE_SIDE, "num_heads": "heads"}
    assert (form.zero_tensors, form.untried_parameters["position_bias"]) == (("position_bias",), "0")
    assert "its tokens fill a square" in write_source(form)


def test_one_head_of_keys_and_values_serves_all_query_heads(here: Path) -> None:
    form = find_form(here, "MultiQuery")
    assert (form.one_kv_head, form.construction) == (True, {"dim": "M", "num_heads": "heads"})
    assert form.remarks == ("It has one head of keys and values for all query heads.",)


def test_a_layer_that_is_right_at_one_number_of_heads_only_is_no_proof(here: Path) -> None:
    with pytest.raises(TargetError, match="does not compute attention in any of the"):
        find_form(here, "OfTwoHeads")
