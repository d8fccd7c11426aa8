"""`attnspec init` on layers that turn queries and keys: the rotation is off, and judged by what needs no definition."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from attnspec.core.surroundings import Surroundings
from attnspec.scaffold.callee_process import CalleeProcess
from attnspec.scaffold.form import QUARTER_TURN, CallForm
from attnspec.scaffold.search import find_form
from attnspec.scaffold.trial_adapter import Trier
from attnspec.scaffold.writing.source import write_source
from attnspec.subjects.target import host_of

pytest.importorskip("torch")

LAYERS = '''
import torch
from torch import nn

def turn(x, cos, sin):
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat((-second, first), -1) * sin

class Turning(nn.Module):
    """It keeps a table of cosines and sines."""
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.qkv, self.proj, self.n_heads = nn.Linear(d_model, 3 * d_model), nn.Linear(d_model, d_model), n_heads
        width = d_model // n_heads
        angles = torch.outer(torch.arange(512.0), 1e4 ** (-torch.arange(0, width, 2) / width)).repeat(1, 2)
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def start(self, past):
        return 0 if past is None else past[0].shape[2]

    def turned_keys(self, k, cos, sin):
        return turn(k, cos, sin)

    def forward(self, x, past=None):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.n_heads, -1)).permute(2, 0, 3, 1, 4)
        first = self.start(past)
        cos, sin = (each[first:first + x.shape[1], :q.shape[-1]].to(x.dtype) for each in (self.cos, self.sin))
        q, k = turn(q, cos, sin), self.turned_keys(k, cos, sin)
        if past is not None:
            k, v = torch.cat((past[0], k), 2), torch.cat((past[1], v), 2)
        hidden = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).triu(k.shape[2] - q.shape[2] + 1)
        scores = (q @ k.mT * q.shape[-1] ** -0.5).masked_fill(hidden, float("-inf"))
        return self.proj((scores.softmax(-1) @ v).transpose(1, 2).flatten(2)), (k, v)

class TurnedTheOtherWay(Turning):
    def turned_keys(self, k, cos, sin):
        return turn(k, cos, -sin)

class Restarting(Turning):
    """In every call its positions begin at 0."""
    def start(self, past):
        return 0

def rotate(x, sign=1):
    half = x.shape[-1] // 2
    angles = sign * torch.arange(x.shape[-2])[:, None] * 100.0 ** -(torch.arange(half) / half)
    return turn(x, angles.cos().repeat(1, 2).to(x.dtype), angles.sin().repeat(1, 2).to(x.dtype))

class WithFunction(nn.Module):
    """A function turns, which keeps nothing."""
    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.qkv, self.proj = heads, nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        q, k = rotate(q), rotate(k)
        return self.proj(((q @ k.mT * q.shape[-1] ** -0.5).softmax(-1) @ v).transpose(1, 2).flatten(2))

class WithFunctionTheOtherWay(WithFunction):
    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        q, k = rotate(q), rotate(k, -1)
        return self.proj(((q @ k.mT * q.shape[-1] ** -0.5).softmax(-1) @ v).transpose(1, 2).flatten(2))

class HandedAngles(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.qkv, self.proj = heads, nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x, cos, sin):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        q, k = turn(q, cos, sin), turn(k, cos, sin)
        return self.proj(((q @ k.mT * q.shape[-1] ** -0.5).softmax(-1) @ v).transpose(1, 2).flatten(2))
'''


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CalleeProcess]:
    """A process that finds somebody's module."""
    folder = tmp_path_factory.mktemp("theirs")
    (folder / "turning.py").write_text(LAYERS, encoding="utf-8")
    client = host_of("turning:Turning", Surroundings(), str(folder))
    yield CalleeProcess(client)
    client.close()


def form_named(name: str, there: CalleeProcess) -> CallForm:
    return find_form(f"turning:{name}", Trier(there))


def test_a_table_of_angles_is_filled_so_that_nothing_turns(there: CalleeProcess) -> None:
    form = form_named("Turning", there)
    assert (form.filled_tensors, form.even_heads) == ({"cos": "1.0", "sin": "0.0"}, True)
    assert form.variants[QUARTER_TURN].filled_tensors == {"cos": "0.0", "sin": "1.0"}
    assert form.warnings[0].startswith("WITHOUT ITS ROTATION: its cos is set to 1, its sin to 0 in the adapter")
    assert form.parameter_for("cache") == "past"
    assert "        layer.cos.fill_(1.0)\n        layer.sin.fill_(0.0)\n" in write_source(form)


def test_keys_that_turn_the_other_way_are_told(there: CalleeProcess) -> None:
    form = form_named("TurnedTheOtherWay", there)
    assert form.warnings[0].startswith("TURNED DIFFERENTLY: turned by a quarter at all places, its output is")
    assert QUARTER_TURN in form.variants


@pytest.mark.parametrize(("name", "is_told"), [("WithFunction", False), ("WithFunctionTheOtherWay", True)])
def test_a_function_that_turns_makes_weights_of_distances(name: str, is_told: bool, there: CalleeProcess) -> None:
    form = form_named(name, there)
    assert form.untried_parameters["rotate"] == "off"
    assert form.warnings[0].startswith("TURNED DIFFERENTLY: with its rotation on") is is_told


def test_positions_that_begin_again_in_every_call_are_told(there: CalleeProcess) -> None:
    form = form_named("Restarting", there)
    assert (form.next_cache, form.parameter_for("cache"), form.demanded_keywords) == ("", "", ("cache",))
    assert any("NOT JUDGED: past. With its rotation on, a call behind a past gives another output" in each
               for each in form.warnings)


def test_angles_that_are_handed_over_are_those_of_no_turn(there: CalleeProcess) -> None:
    form = form_named("HandedAngles", there)
    assert form.arguments["cos"] == "torch.ones((T, D), dtype=query.dtype)"
    assert form.variants[QUARTER_TURN].arguments["cos"] == "torch.zeros((T, D), dtype=query.dtype)"
    assert form.variants[QUARTER_TURN].arguments["sin"] == "torch.ones((T, D), dtype=query.dtype)"
    assert not form.warnings
