"""`attnspec init` finds what turns queries and keys by the calls in a layer's source, and puts nothing in its place."""

from __future__ import annotations

from pathlib import Path

import pytest
from attnspec.scaffold.replaced import list_replacements
from helpers.commands import Cli

DECODER = """
from dataclasses import dataclass

import torch
from torch import nn

@dataclass
class Cache:
    keys: torch.Tensor
    values: torch.Tensor

def rotate(x, positions):
    half = x.shape[-1] // 2
    angles = positions[:, None] * 10000.0 ** (-torch.arange(half) / half)
    cos, sin, a, b = angles.cos().to(x.dtype), angles.sin().to(x.dtype), x[..., :half], x[..., half:]
    return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)

class Attention(nn.Module):
    def __init__(self, hidden_size, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (
            nn.Linear(hidden_size, hidden_size, bias=False) for _ in range(4))

    def forward(self, x, cache: Cache | None = None):
        q, k, v = (each(x).unflatten(-1, (self.n_heads, -1)).transpose(1, 2)
                   for each in (self.q_proj, self.k_proj, self.v_proj))
        start = 0 if cache is None else cache.keys.shape[2]
        places = torch.arange(START, START + x.shape[1])
        q, k = rotate(q, places), rotate(k, places)
        if cache is not None:
            k, v = torch.cat([cache.keys, k], 2), torch.cat([cache.values, v], 2)
        seen = torch.arange(k.shape[2]) <= torch.arange(start, start + x.shape[1])[:, None]
        out = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=seen)
        return self.o_proj(out.transpose(1, 2).flatten(2)), Cache(k, v)
"""


def layer(*lines: str) -> str:
    return "\n".join(["class Layer:", "    def forward(self, q, k, freqs):", *(f"        {line}" for line in lines)])


@pytest.mark.parametrize(("source", "places"), [
    (layer("q = rotate(q, 1)", "k = rotate(k, 1)"),
     {'sys.modules[Layer.__module__], "rotate"': "lambda a0, *_more, **_named: a0"}),
    (layer("q, k = apply_rotary_pos_emb(q, k, freqs)"),
     {'sys.modules[Layer.__module__], "apply_rotary_pos_emb"': "lambda a0, a1, *_more, **_named: (a0, a1)"}),
    (layer("q = apply_rope(freqs, q)"),
     {'sys.modules[Layer.__module__], "apply_rope"': "lambda a0, a1, *_more, **_named: a1"}),
    (layer("q, k = self._rope(q), self._rope(k)") + "\n    def _rope(self, x):\n        return x",
     {'Layer, "_rope"': "lambda _, a0, *_more, **_named: a0"}),
    (layer("q = self._rope(q)") + "\n    @staticmethod\n    def _rope(x):\n        return x",
     {'Layer, "_rope"': "staticmethod(lambda a0, *_more, **_named: a0)"}),
    (layer("q, k = self.rotary(q, k)"),
     {'type(layer.rotary), "__call__"': "lambda _, a0, a1, *_more, **_named: (a0, a1)"})])
def test_what_turns_is_found_by_its_calls(source: str, places: dict[str, str]) -> None:
    assert list(list_replacements(source, "Layer")) == [places]


@pytest.mark.parametrize("source", [layer("q = rotate_half(q)"), layer("q = turn(q)"), "def f(q):\n    return rope(q)",
                                    "class Layer:\n    (", ""])
def test_what_turns_nothing_is_left_alone(source: str) -> None:
    assert list(list_replacements(source, "Layer")) == []


@pytest.mark.parametrize(("start", "is_judged"), [("start", True), ("0", False)])
def test_a_rotation_by_a_function_is_switched_off(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                  start: str, *, is_judged: bool) -> None:
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    Path("decoding.py").write_text(DECODER.replace("START", start), encoding="utf-8")
    code, out, _ = cli("init", "decoding.py:Attention")
    assert code == 0
    assert "WITHOUT ITS ROTATION: its rotate is replaced by what turns nothing in the adapter" in out
    assert ("`cache` is its cache." in out, "--must-take cache" in out) == (is_judged, not is_judged)
