"""`attnspec init` on what is attention but for one plain mistake: the mistake is told, and all of it is judged."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from attnspec.core.errors import TargetError
from attnspec.core.nouns import Kind
from attnspec.core.surroundings import Surroundings
from attnspec.problems.keyword_arrays import split_past
from attnspec.problems.problem import Problem
from attnspec.scaffold.callee_process import CalleeProcess
from attnspec.scaffold.form import CallForm
from attnspec.scaffold.mistakes import MISTAKES
from attnspec.scaffold.probe_problems import CROSS_SIZES, expected_mistakes, sample_problem
from attnspec.scaffold.search import find_form
from attnspec.scaffold.trial_adapter import Trier
from attnspec.subjects.target import host_of
from helpers.commands import Cli

FUNCTIONS = '''
import numpy as np

def attend(query, key, value, axis=-1, mix=lambda heads: heads, hidden=None, exchanged=False):
    key, value = (value, key) if exchanged else (key, value)
    logits = query @ key.swapaxes(-1, -2) / query.shape[-1] ** 0.5
    if hidden is not None:
        logits = np.where(hidden(*logits.shape[-2:]), -np.inf, logits)
    weights = np.exp(logits - logits.max(axis, keepdims=True))
    return mix(weights / weights.sum(axis, keepdims=True) @ value)

def over_queries(query, key, value):
    return attend(query, key, value, axis=-2)

def one_later(query, key, value):
    return attend(query, key, value, hidden=lambda T, S: ~np.tri(T, S, 1, dtype=bool))

def reshaped(query, key, value):
    """(B,H,T,D) to (B,T,H,D)."""
    B, H, T, _ = query.shape
    return attend(query, key, value, mix=lambda heads: heads.reshape(B, T, H, -1))

def exchanged(query, key, value):
    return attend(query, key, value, exchanged=True)

def last_is_lost(query, key, value):
    def without_last(heads):
        heads[-1] = 0
        return heads
    return attend(query, key, value, mix=without_last)

def in_a_loop(query, key, value):
    top, total, output = -np.inf, 0, 0
    for at in range(key.shape[2]):
        logits = query @ key[:, :, at:at + 1].swapaxes(-1, -2) / query.shape[-1] ** 0.5
        larger = np.maximum(top, logits)
        shrink, weights = np.exp(top - larger), np.exp(logits - larger)
        total, output, top = total + weights, output * shrink + weights * value[:, :, at:at + 1], larger
    return output / total

def divided_over_queries(query, key, value):
    logits = query @ key.swapaxes(-1, -2) / query.shape[-1] ** 0.5
    e = np.exp(logits - logits.max(-1, keepdims=True))
    return e / e.sum(-2, keepdims=True) @ value

def without_maximum(query, key, value):
    e = np.exp(query @ key.swapaxes(-1, -2) / query.shape[-1] ** 0.5)
    return e / e.sum(-1, keepdims=True) @ value

def of_something_else(query, key, value):
    return attend(query, np.sin(key), value ** 3)

def in_order(query, key, value):
    return attend(query, key, value)

def behind(query, key, value, past_k=None, past_v=None):
    """Causal; its mask forgets that there is a past."""
    if past_k is not None:
        key, value = np.concatenate([past_k, key], 2), np.concatenate([past_v, value], 2)
    return attend(query, key, value, hidden=lambda T, S: ~np.tri(T, S, dtype=bool))

def with_flag(query, key, value, causal=False):
    """With its causal flag, a query does not see itself."""
    return attend(query, key, value, hidden=lambda T, S: causal & np.tri(S, T, dtype=bool).T)

def grouped(query, key, value):
    """The heads of its keys are tiled, and those of its values repeated."""
    groups = query.shape[1] // key.shape[1]
    return attend(query, np.tile(key, (1, groups, 1, 1)), np.repeat(value, groups, axis=1))

def tiled(query, key, value):
    groups = query.shape[1] // key.shape[1]
    return attend(query, *(np.tile(each, (1, groups, 1, 1)) for each in (key, value)))
'''
LAYERS = '''
import torch
from torch import nn

class Layer(nn.Module):
    def __init__(self, d_model, n_heads, bias=True):
        super().__init__()
        self.n_heads = n_heads
        self.to_queries, self.to_keys, self.to_values = (nn.Linear(d_model, d_model, bias=bias) for _ in range(3))
        self.unify = nn.Linear(d_model, d_model)

    def split(self, x):
        return x.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)

    def keys(self, x):
        return self.to_keys(x)

    def values(self, x):
        return self.to_values(x)

    def forward(self, x):
        q, k, v = self.split(self.to_queries(x)), self.split(self.keys(x)), self.split(self.values(x))
        return self.unify(((q @ k.mT * q.shape[-1] ** -0.5).softmax(-1) @ v).transpose(1, 2).flatten(2))

class WithoutBiases(Layer):
    """Which is no mistake."""
    def __init__(self, d_model, n_heads):
        super().__init__(d_model, n_heads, bias=False)

class KeysByValues(Layer):
    def keys(self, x):
        return self.to_values(x)

class NotProjected(Layer):
    def forward(self, x):
        self.unify = nn.Identity()
        return super().forward(x)

class BiasForgotten(Layer):
    def values(self, x):
        return nn.functional.linear(x, self.to_values.weight)
'''


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CalleeProcess]:
    """A process that finds somebody's modules."""
    folder = tmp_path_factory.mktemp("theirs")
    (folder / "mistaken.py").write_text(FUNCTIONS, encoding="utf-8")
    (folder / "mistaken_layers.py").write_text(LAYERS, encoding="utf-8")
    client = host_of("mistaken:attend", Surroundings(), str(folder))
    yield CalleeProcess(client)
    client.close()


def form_in(module: str, name: str, there: CalleeProcess) -> CallForm:
    return find_form(f"{module}:{name}", Trier(there))


@pytest.mark.parametrize(("name", "mistake"), [
    ("over_queries", "softmax_over_queries"), ("divided_over_queries", "divided_over_queries"),
    ("one_later", "causal_one_later"),
    ("reshaped", "heads_not_transposed_back"), ("exchanged", "keys_and_values_exchanged"),
    ("last_is_lost", "last_entry_missing"), ("in_a_loop", "sum_not_rescaled")])
def test_a_plain_mistake_is_told_and_the_form_is_found(name: str, mistake: str, there: CalleeProcess) -> None:
    form = form_in("mistaken", name, there)
    assert form.mistake == mistake
    assert form.warnings[0].startswith(f"WRONG: it is attention, but {MISTAKES[mistake].says}.")


def test_what_is_right_makes_no_mistake(there: CalleeProcess) -> None:
    form = form_in("mistaken", "in_order", there)
    assert (form.mistake, form.warnings) == ("", ())


def test_a_softmax_that_subtracts_no_maximum_is_told(there: CalleeProcess) -> None:
    form = form_in("mistaken", "without_maximum", there)
    assert form.warnings[0].startswith("OVERFLOWS: where logits are large, its output is not finite.")


def test_what_no_plain_mistake_explains_is_refused(there: CalleeProcess) -> None:
    with pytest.raises(TargetError, match="does not compute attention in any of the"):
        form_in("mistaken", "of_something_else", there)


@pytest.mark.parametrize(("name", "mistake"), [
    ("Layer", ""), ("WithoutBiases", ""), ("KeysByValues", "keys_by_values"), ("BiasForgotten", "no_bias_of_values"),
    ("NotProjected", "output_not_projected")])
def test_a_layer_without_biases_is_told_from_one_that_forgets_them(name: str, mistake: str,
                                                                   there: CalleeProcess) -> None:
    pytest.importorskip("torch")
    form = form_in("mistaken_layers", name, there)
    assert form.mistake == mistake
    assert form.limits.get("biases") == ("out" if name == "WithoutBiases" else None)


def test_what_is_wrong_behind_a_past_is_said_in_words(there: CalleeProcess) -> None:
    form = form_in("mistaken", "behind", there)
    assert (form.mistake, form.parameter_for("past_key")) == ("", "past_k")
    assert "behind a past, the causal mask counts from the first key" in form.remarks[-1]


def test_what_is_wrong_of_a_flag_is_said_in_words(there: CalleeProcess) -> None:
    form = form_in("mistaken", "with_flag", there)
    assert (form.mistake, form.parameter_for("causal")) == ("", "causal")
    assert "its causal mask is off by one: a query does not see its own place" in form.remarks[-1]


def test_a_mistake_is_convicted_by_the_printed_command(there: CalleeProcess, cli: Cli, tmp_path: Path,
                                                       monkeypatch: pytest.MonkeyPatch) -> None:
    del there
    (tmp_path / "mistaken.py").write_text(FUNCTIONS, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    _, printed, _ = cli("init", "mistaken.py:over_queries")
    assert "WRONG: it is attention, but the softmax runs over the queries, not over the keys." in printed
    code, _, _ = cli("check", "mistaken/over_queries", "--implementations", "implementations", "--effort", "glance",
                 "--dtype", "float32", "--clause", "attention.definition")
    assert code == 1


@pytest.mark.parametrize(("name", "says"), [
    ("tiled", "HEADS TILED: query head h uses key and value head h % Hkv"),
    ("grouped", "WRONG: with fewer heads of keys and values, query head h uses key head h % Hkv, but value head")])
def test_heads_that_are_tiled_are_doubted(name: str, says: str, cli: Cli, tmp_path: Path,
                                          monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mistaken.py").write_text(FUNCTIONS, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert says in cli("init", f"mistaken.py:{name}")[1]
    manifest = (tmp_path / "implementations/mistaken/manifest.yaml").read_text(encoding="utf-8")
    assert "grouped_heads: tile" not in manifest.replace("write grouped_heads: tile there", "")


def _posed() -> Iterator[tuple[str, Problem]]:
    """Attention without a flag, under the causal flag, and behind a past."""
    plain = sample_problem(Kind.ATTENTION, CROSS_SIZES)
    assert isinstance(plain, Problem)  # it is what was asked for
    yield from (("plain", plain), ("causal", plain.but(causal=True)), ("past", split_past(plain.but(causal=True), 2)))


@pytest.mark.parametrize(("name", "problem"), [*_posed()], ids=lambda each: each if isinstance(each, str) else "")
def test_no_two_mistakes_give_the_same_numbers(name: str, problem: Problem) -> None:
    del name
    found = dict(expected_mistakes(problem))
    assert found
    alike = {(one, other) for one, other in itertools.combinations(found, 2)
             if np.allclose(found[one].output, found[other].output)}
    assert alike <= {("past_forgotten", "position_stays"), ("past_forgotten", "both_at_start_of_cache")}
