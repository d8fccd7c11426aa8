"""`attnspec init` on caches that calls fill in place: handed over, kept by the module, or of a fixed room."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from attnspec.core.surroundings import Surroundings
from attnspec.scaffold.callee_process import CalleeProcess
from attnspec.scaffold.form import CallForm, KeptCache
from attnspec.scaffold.search import find_form
from attnspec.scaffold.trial_adapter import Trier
from attnspec.scaffold.writing.source import write_source
from attnspec.subjects.target import host_of

FUNCTION = '''
import numpy as np

def attend_and_store(params, x, cache, n_heads):
    """Causal. The cache is a dict of k and v, (B,places,H,D), and of the next place."""
    B, T, M = x.shape
    q, k, v = ((x @ params[name]).reshape(B, T, n_heads, -1) for name in ("q", "k", "v"))
    start = cache["index"]
    keys, values = cache["k"].copy(), cache["v"].copy()
    keys[:, start:start + T], values[:, start:start + T] = k, v
    seen = np.arange(keys.shape[1]) <= start + np.arange(T)[:, None]
    logits = np.where(seen, np.einsum("bthd,bshd->bhts", q, keys) / q.shape[-1] ** 0.5, -np.inf)
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    weights = weights / weights.sum(-1, keepdims=True)
    output = np.einsum("bhts,bshd->bthd", weights, values).reshape(B, T, -1) @ params["o"]
    return output, {"k": keys, "v": values, "index": start + ADVANCES}

def attend_past(q, k, v, past_k=None, past_v=None):
    """Causal from the end: it wants one new key for each query."""
    if past_k is not None:
        k, v = np.concatenate([past_k, k], 2), np.concatenate([past_v, v], 2)
    T, S = q.shape[2], k.shape[2]
    logits = np.where(np.tri(T, S, S - T, dtype=bool), q @ k.swapaxes(-1, -2) / q.shape[-1] ** 0.5, -np.inf)
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v
'''
LAYERS = '''
import torch
from torch import nn

class Cache:
    def __init__(self):
        self.held = None

    def update(self, k, v):
        held = (k, v) if self.held is None else tuple(torch.cat(pair, 2) for pair in zip(self.held, (k, v)))
        self.held = held if self.held is None or self.grows else self.held
        return held

    grows = True

class CacheOfOneCall(Cache):
    grows = False

class Layer(nn.Module):
    def __init__(self, d_model, n_heads, max_batch_size=16, max_seq_len=64):
        super().__init__()
        self.n_heads, self.qkv, self.out = n_heads, nn.Linear(d_model, 3 * d_model), nn.Linear(d_model, d_model)
        self.held = torch.zeros(2, max_batch_size, n_heads, max_seq_len, d_model // n_heads)

    def attend(self, q, k, v):
        hidden = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).triu(k.shape[2] - q.shape[2] + 1)
        scores = (q @ k.mT * q.shape[-1] ** -0.5).masked_fill(hidden, float("-inf"))
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))

    def split(self, x):
        return self.qkv(x).unflatten(-1, (3, self.n_heads, -1)).permute(2, 0, 3, 1, 4)

class OfObject(Layer):
    def forward(self, x, kv_cache: Cache = None):
        q, k, v = self.split(x)
        return self.attend(q, *((k, v) if kv_cache is None else kv_cache.update(k, v)))

class OfOneCall(Layer):
    def forward(self, x, kv_cache: CacheOfOneCall = None):
        q, k, v = self.split(x)
        return self.attend(q, *((k, v) if kv_cache is None else kv_cache.update(k, v)))

class OfDict(Layer):
    def forward(self, x, cache=None):
        q, k, v = self.split(x)
        if cache:
            k, v = torch.cat([cache["k"], k], 2), torch.cat([cache["v"], v], 2)
        if cache is not None:
            cache.update(k=k, v=v)
        return self.attend(q, k, v)

class OfModule(Layer):
    def forward(self, x, start_pos):
        q, *new = self.split(x)
        self.held = self.held.to(x)
        end = start_pos + x.shape[1]
        self.held[0, :len(x), :, start_pos:end], self.held[1, :len(x), :, start_pos:end] = new
        return self.attend(q, *self.held[:, :len(x), :, :end])

class OfFlag(Layer):
    """It hands its cache back where a flag asks for it."""
    def forward(self, x, layer_past=None, use_cache=False):
        q, k, v = self.split(x)
        if layer_past is not None:
            k, v = torch.cat([layer_past[0], k], 2), torch.cat([layer_past[1], v], 2)
        output = self.attend(q, k, v)
        return (output, (k, v)) if use_cache else output
'''


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CalleeProcess]:
    """A process that finds somebody's modules."""
    folder = tmp_path_factory.mktemp("theirs")
    (folder / "stored.py").write_text(FUNCTION.replace("ADVANCES", "T"), encoding="utf-8")
    (folder / "stuck.py").write_text(FUNCTION.replace("ADVANCES", "0"), encoding="utf-8")
    (folder / "stored_layers.py").write_text(LAYERS, encoding="utf-8")
    client = host_of("stored:attend_past", Surroundings(), str(folder))
    yield CalleeProcess(client)
    client.close()


def form_in(target: str, there: CalleeProcess) -> CallForm:
    return find_form(target, Trier(there))


@pytest.mark.parametrize(("name", "parameter", "kept"), [
    ("OfObject", "kv_cache", KeptCache("Cache()", "stored_layers:Cache")), ("OfDict", "cache", KeptCache("{}")),
    ("OfModule", "start_pos", KeptCache())])
def test_a_cache_that_is_filled_in_place_makes_a_decoder(name: str, parameter: str, kept: KeptCache,
                                                         there: CalleeProcess) -> None:
    pytest.importorskip("torch")
    form = form_in(f"stored_layers:{name}", there)
    assert (form.parameter_for("cache"), form.kept_cache) == (parameter, kept)
    assert write_source(form).partition("_training")[0].count("cache is None") == 1
    assert form.limits.get("cache") == (None if kept.empty_text else 64)


def test_a_flag_that_asks_for_a_cache_is_set(there: CalleeProcess) -> None:
    pytest.importorskip("torch")
    form = form_in("stored_layers:OfFlag", there)
    assert (form.arguments["use_cache"], form.cache_path, form.parameter_for("cache")) == ("True", "[-1]", "layer_past")
    assert form.reading is not None
    assert form.reading.path == "[0]"


def test_what_later_calls_store_in_vain_is_told(there: CalleeProcess) -> None:
    pytest.importorskip("torch")
    form = form_in("stored_layers:OfOneCall", there)
    says = "CACHE: it is right behind one call that filled its cache, but not behind several"
    assert form.warnings[0].startswith(says)


def test_a_function_that_wants_a_cache_with_room_is_handed_one(there: CalleeProcess) -> None:
    form = form_in("stored:attend_and_store", there)
    assert (form.parameter_for("cache"), form.limits["cache"], form.cache_path) == ("cache", 512, "[-1]")
    assert form.arguments["cache"].startswith('{"index": 0, "k": np.zeros((B, 512, Hkv, D), dtype=query.dtype)')


def test_a_place_in_a_cache_that_stays_is_told(there: CalleeProcess) -> None:
    form = form_in("stuck:attend_and_store", there)
    assert form.parameter_for("cache") == "cache"
    assert "Its cache is handed on as `cache`, but the past in the cache is not seen" in form.remarks[-1]


def test_a_past_that_wants_a_new_key_for_each_query_is_limited(there: CalleeProcess) -> None:
    form = form_in("stored:attend_past", there)
    assert (form.parameter_for("past_key"), form.limits["past_lengths"]) == ("past_k", "equal")
