"""`attnspec init` on what adds a bias by position of its own: it is measured, told, and switched off if possible."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from attnspec.core.errors import TargetError
from attnspec.core.surroundings import Surroundings
from attnspec.scaffold.callee_process import CalleeProcess
from attnspec.scaffold.search import find_form
from attnspec.scaffold.trial_adapter import Trier
from attnspec.scaffold.writing.source import write_source
from attnspec.subjects.target import host_of

FUNCTIONS = '''
import numpy as np

def attend(query, key, value, falls=lambda distance: abs(distance), is_causal=True):
    H, T, D = query.shape[1:]
    distance = np.arange(T)[:, None] - np.arange(key.shape[2])
    slopes = 2.0 ** -np.arange(1, H + 1)
    logits = query @ key.swapaxes(-1, -2) / D ** 0.5 - slopes[:, None, None] * falls(distance)
    weights = np.exp(logits - logits.max(-1, keepdims=True)) * (distance >= 0)
    return weights / weights.sum(-1, keepdims=True) @ value

def sloping(query, key, value):
    return attend(query, key, value)

def steep(query, key, value):
    return attend(query, key, value, lambda distance: 10 * abs(distance))

def with_flag(query, key, value, use_slopes=True):
    return attend(query, key, value, abs if use_slopes else np.zeros_like)

def bent(query, key, value):
    return attend(query, key, value, lambda distance: np.sqrt(abs(distance)))

def of_contents(query, key, value):
    """What it adds depends on keys, and not on places."""
    logits = query @ key.swapaxes(-1, -2) / query.shape[-1] ** 0.5 + key.sum(-1)[..., None, :]
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ value
'''
LAYER = '''
import torch
from torch import nn

class Sloping(nn.Module):
    """Its slopes are kept in a buffer."""
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.qkv, self.proj, self.n_heads = nn.Linear(d_model, 3 * d_model), nn.Linear(d_model, d_model), n_heads
        self.register_buffer("slopes", 2.0 ** -torch.arange(1, n_heads + 1))

    def forward(self, x, is_pad=None):
        b, n, m = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.n_heads, -1).permute(2, 0, 3, 1, 4)
        at = torch.arange(n)
        scores = q @ k.mT * q.shape[-1] ** -0.5 - (self.slopes[:, None, None] * (at - at[:, None]).abs()).to(x.dtype)
        if is_pad is not None:
            scores = scores.masked_fill(is_pad[:, None, None], float("-inf"))
        return self.proj((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, n, m))
'''


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CalleeProcess]:
    """A process that finds somebody's modules."""
    folder = tmp_path_factory.mktemp("theirs")
    (folder / "sloping.py").write_text(FUNCTIONS, encoding="utf-8")
    (folder / "sloping_layer.py").write_text(LAYER, encoding="utf-8")
    client = host_of("sloping:attend", Surroundings(), str(folder))
    yield CalleeProcess(client)
    client.close()


@pytest.mark.parametrize(("name", "says"), [
    ("sloping", r"with a bias of its own: head h adds -m·\(i - j\), for H = 2 with m = 0\.5, 0\.25\. attnspec would "
                r"judge it with that switched off: .* let a parameter \(`alibi_slopes`, or `bias`\) hand it over"),
    ("steep", r"with a bias of its own: head h adds -m·\(i - j\), for H = 2 with m = 5, 2\.5\. attnspec would"),
    ("bent", r"with a bias of its own that depends on j - i, of query i and key j \(for H = 2\)"),
    ("of_contents", "does not compute attention in any of the")])
def test_a_bias_that_cannot_be_switched_off_is_told(name: str, says: str, there: CalleeProcess) -> None:
    with pytest.raises(TargetError, match=says):
        find_form(f"sloping:{name}", Trier(there))


def test_a_bias_that_a_flag_switches_off_is_off_in_the_adapter(there: CalleeProcess) -> None:
    form = find_form("sloping:with_flag", Trier(there))
    assert (form.arguments, form.limits["causal_only"]) == ({"use_slopes": "False"}, True)
    assert "Its use_slopes is False in the adapter" in form.warnings[0]


def test_a_bias_in_a_tensor_is_switched_off_and_all_else_is_judged(there: CalleeProcess) -> None:
    pytest.importorskip("torch")
    form = find_form("sloping_layer:Sloping", Trier(there))
    assert (form.zero_tensors, form.parameter_for("mask")) == (("slopes",), "is_pad")
    assert form.warnings[0].startswith("WITHOUT ITS BIAS: it adds a bias of its own: head h adds -m·|i - j|, for H = 2 "
                                       "with m = 0.5, 0.25. Its slopes is set to 0 in the adapter")
    assert "    with torch.no_grad():\n        layer.slopes.zero_()\n" in write_source(form)
