"""`attnspec init` on what is called step after step: the cache is found among the parameters and in the answer."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from attnspec.core.forms import InputForm
from attnspec.core.nouns import Kind
from attnspec.core.surroundings import Surroundings
from attnspec.scaffold.written_adapter import WrittenAdapter, write_for
from attnspec.subjects.registry import load_target
from attnspec.subjects.subject import Subject

NUMPY = """
import numpy as np

def decode(q, k, v, cache, *, is_causal=False):
    if cache is not None:
        k, v = (np.concatenate(pair, axis=1) for pair in zip(cache, (k, v)))
    q_, k_, v_ = (x.swapaxes(1, 2) for x in (q, k, v))
    logits = q_ @ k_.swapaxes(2, 3) * q.shape[-1] ** -0.5
    if is_causal:
        past = 0 if cache is None else cache[0].shape[1]
        logits = np.where(np.tri(*logits.shape[2:], past, dtype=bool), logits, -np.inf)
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    weights = weights / weights.sum(axis=-1, keepdims=True)
    return RETURNED
"""
OUTPUT = "(weights @ v_).swapaxes(1, 2)"
TORCH = """
import torch
from torch import nn

class Attention(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x, layer_past=None):
        B, T, M = x.shape
        q, k, v = (each.reshape(B, T, self.num_heads, -1).transpose(1, 2) for each in self.qkv(x).chunk(3, dim=-1))
        if layer_past is not None:
            k, v = torch.cat([layer_past[0], k], dim=2), torch.cat([layer_past[1], v], dim=2)
        mask = torch.ones(T, k.shape[2], dtype=torch.bool).tril(k.shape[2] - T)
        out = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return {"output": self.proj(out.transpose(1, 2).reshape(B, T, M)), "cache": (k, v)}
"""


def write_adapter(folder: Path, name: str, source: str, module: str,
                  monkeypatch: pytest.MonkeyPatch) -> tuple[WrittenAdapter, Subject]:
    """What init writes for it, and the subject that the adapter is."""
    (folder / f"{module}.py").write_text(source, encoding="utf-8")
    monkeypatch.syspath_prepend(str(folder))
    found = write_for(f"{module}:{name}", Surroundings())
    place = folder / "implementations" / module
    place.mkdir(parents=True)
    (place / "manifest.yaml").write_text(found.manifest_head + found.manifest_entry, encoding="utf-8")
    (place / f"{found.name}.py").write_text(found.adapter, encoding="utf-8")
    sys.modules.pop(module, None)
    return found, load_target(f"{module}/{found.name}", folders=[folder / "implementations"])


def numpy_like(returned: str, change: str = "") -> str:
    return NUMPY.replace("RETURNED", returned).replace("    q_, k_", f"{change}    q_, k_", 1)


def test_a_function_that_hands_its_cache_back_becomes_a_decoder(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found, subject = write_adapter(tmp_path, "decode", numpy_like(f"{OUTPUT}, (k, v)"), "decodes", monkeypatch)
    assert subject.declaration.form is InputForm.DECODER
    assert subject.declaration.claims == ("causal", "decoder", "past")
    assert subject.declaration.conventions == {
        "causal_alignment": "top_left", "overfull_cache": "grows", "used_cache": "kept"}
    assert "It is a decoder. The cache for its next call is answer[-1]." in found.sentences
    assert "cache: Any = None," in found.adapter
    assert "to (B,H,T,Dv), and the cache for the next call." in found.adapter


def test_a_cache_may_stand_beside_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = numpy_like(f"{OUTPUT}, weights, (k, v)")
    found, subject = write_adapter(tmp_path, "decode", source, "weighs", monkeypatch)
    assert subject.declaration.form is InputForm.DECODER
    assert "return_weights" in subject.declaration.keywords
    assert "-> tuple[Any, ...]:" in found.adapter


def test_who_takes_one_new_key_a_query_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check = "    assert cache is None or q.shape[1] + cache[0].shape[1] == k.shape[1]\n"
    _, subject = write_adapter(tmp_path, "decode", numpy_like(f"{OUTPUT}, (k, v)", check), "even", monkeypatch)
    assert subject.declaration.form is InputForm.DECODER
    assert subject.declaration.limits.past_lengths == "equal"


def test_who_hands_nothing_back_is_no_decoder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found, subject = write_adapter(tmp_path, "decode", numpy_like(OUTPUT), "forgets", monkeypatch)
    assert subject.declaration.form is InputForm.DENSE
    assert "cache=None" in found.adapter


def test_a_layer_that_hands_its_cache_back_becomes_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    found, subject = write_adapter(tmp_path, "Attention", TORCH, "layered", monkeypatch)
    assert (subject.declaration.form, subject.declaration.kind) == (InputForm.DECODER, Kind.LAYER)
    assert 'The cache for its next call is answer["cache"].' in " ".join(found.sentences)
    assert subject.declaration.limits.self_attention_only
    assert subject.declaration.conventions["used_cache"] == "kept"


def test_a_layer_with_a_scale_of_its_own_has_it_behind_a_past(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    source = TORCH.replace("attn_mask=mask)", "attn_mask=mask, scale=1.0)")
    found, subject = write_adapter(tmp_path, "Attention", source, "unscaled", monkeypatch)
    assert subject.declaration.form is InputForm.DECODER
    assert any(remark.startswith("Its default scale is 1, not 1/sqrt(D)") for remark in found.remarks)
    assert not any("handed on" in remark for remark in found.remarks)
