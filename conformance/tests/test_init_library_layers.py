"""`attnspec init` on what the attention classes of libraries have that layers in tutorials do not."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from attnspec.core.surroundings import Surroundings
from attnspec.scaffold.callee_process import CalleeProcess
from attnspec.scaffold.probe_problems import plain_problem
from attnspec.scaffold.search import find_form
from attnspec.scaffold.trial_adapter import Trier
from attnspec.scaffold.writing.source import write_source
from attnspec.subjects.target import host_of
from helpers.forms import form_found

LAYERS = """
from dataclasses import dataclass

import torch
from torch import nn

class Layer(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.to_qkv, self.to_out = nn.Linear(dim, 3 * dim), nn.ModuleList([nn.Linear(dim, dim)])

    def split(self, x):
        return self.to_qkv(x).unflatten(-1, (3, self.num_heads, -1)).permute(2, 0, 3, 1, 4)

    def logits(self, q, k):
        return q @ k.mT / q.shape[-1] ** 0.5

    def forward(self, x, mask=None):
        q, k, v = self.split(x)
        logits = self.logits(q, k)
        if mask is not None:
            logits = self.masked(logits, mask)
        return self.to_out[0]((logits.softmax(-1) @ v).transpose(1, 2).flatten(2))

    def masked(self, logits, mask):
        return logits.masked_fill(~mask[:, None, None], float("-inf"))

class ForgetsItself(Layer):
    def train(self, mode=True):
        super().train(mode)

class AddsItsInput(Layer):
    def forward(self, x):
        return x + super().forward(x)

class Starred(Layer):
    def forward(self, *args, context=None):
        return super().forward(*args)

class FeaturesFirst(Layer):
    def split(self, x):
        return self.to_qkv(x).unflatten(-1, (-1, 3, self.num_heads)).permute(3, 0, 4, 1, 2)

class KeysFirst(Layer):
    def __init__(self, dim, num_heads):
        super().__init__(dim, num_heads)
        self.to_kqv = self.to_qkv
        del self.to_qkv

    def split(self, x):
        k, q, v = self.to_kqv(x).unflatten(-1, (3, self.num_heads, -1)).permute(2, 0, 3, 1, 4)
        return q, k, v

class OneMatrix(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.to_qkv = nn.Linear(dim, 3 * dim, bias=False)

    def forward(self, x):
        q, k, v = self.to_qkv(x).chunk(3, -1)
        return (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v

class ProjectsSeveralHeads(nn.Module):
    def __init__(self, dim, heads, dim_head):
        super().__init__()
        self.heads = heads
        self.to_qkv = nn.Linear(dim, 3 * heads * dim_head, bias=False)
        self.to_out = nn.Identity() if heads == 1 and dim_head == dim else nn.Linear(heads * dim_head, dim)

    def forward(self, x):
        q, k, v = self.to_qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        return self.to_out(((q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v).transpose(1, 2).flatten(2))

class AddsPlaces(Layer):
    def __init__(self, dim, num_heads):
        super().__init__(dim, num_heads)
        self.rel_pos_emb = nn.Embedding(99, dim // num_heads)

    def logits(self, q, k):
        at = torch.arange(q.shape[2])
        places = self.rel_pos_emb(at[:, None] - at + 49)
        return super().logits(q + 0, k) + torch.einsum("bhid,ijd->bhij", q, places)

class HidesPadding(Layer):
    def masked(self, logits, mask):
        return logits.masked_fill(~(mask[:, None, None] & mask[:, None, :, None]), -1e9)

class Alibi(nn.Module):
    def forward(self, scores):
        at = torch.arange(scores.shape[-1], dtype=scores.dtype)
        return scores + (at - at[:, None]) / torch.arange(1, scores.shape[1] + 1, dtype=scores.dtype)[:, None, None]

class WantsAMask(Layer):
    def __init__(self, dim, num_heads):
        super().__init__(dim, num_heads)
        self.alibi_layer = Alibi()

    def forward(self, x, attention_mask=None):
        return super().forward(x, attention_mask[:])

    def masked(self, logits, mask):
        scores = logits
        scores = self.alibi_layer(scores)
        return scores.masked_fill(~mask[:, None], float("-inf"))

@dataclass
class StagesConfig:
    num_heads: tuple = (1, 2, 4)
    qkv_bias: bool = True

class OfAStage(Layer):
    def __init__(self, config: StagesConfig, hidden_size, num_attention_heads):
        assert isinstance(config.num_heads, tuple)
        super().__init__(hidden_size, num_attention_heads)

class OfEither(Layer):
    def __init__(self, args, dim, num_heads, to_itself=False, to_others=False):
        assert to_itself ^ to_others
        super().__init__(dim, args.factor or num_heads)
"""


@pytest.fixture(autouse=True)
def their_layers(here: Path) -> None:
    pytest.importorskip("torch")
    (here / "theirs.py").write_text(LAYERS, encoding="utf-8")


def test_a_module_whose_train_returns_nothing_is_judged() -> None:
    assert ").to(query.dtype)\n    layer.eval()\n" in write_source(form_found("theirs:ForgetsItself"))


def test_a_projection_in_a_list_is_judged_before_the_input_is_added() -> None:
    form = form_found("theirs:AddsItsInput")
    assert form.judged_part == "to_out.0"
    assert "layer.to_out[0].register_forward_hook(" in write_source(form)


@pytest.mark.parametrize(("name", "text"), [
    ("Starred", "    return layer(query)\n"),
    ("FeaturesFirst", ", 1).swapaxes(1, 3).swapaxes(2, 3)"),
    ("KeysFirst", 'torch.cat([params[f"w_{part}"] for part in ("key", "query", "value")], 1).T'),
    ("OneMatrix", 'torch.cat([params[f"w_{part}"] for part in PARTS], 1).T')])
def test_inputs_have_no_name_and_fused_matrices_lie_in_many_ways(name: str, text: str) -> None:
    form = form_found(f"theirs:{name}")
    assert not any("WRONG" in warning for warning in form.warnings)
    assert text in write_source(form)


@pytest.mark.parametrize(("name", "warnings"), [
    ("AddsPlaces", ["WITHOUT ITS BIAS: its rel_pos_emb.weight is set to 0 in the adapter, so that everything else is "
                    "judged. What that adds to the logits is not."]),
    ("HidesPadding", ["NOT JUDGED: mask. It hides tokens as keys and, beside that, as queries, whose rows are then no "
                      "attention: that is fit for padding, and is no `mask`. Rows of the tokens that it leaves were "
                      "right in the one case that was tried."])])
def test_what_is_no_part_of_the_definition_is_left_out_and_told(name: str, warnings: Sequence[str]) -> None:
    form = form_found(f"theirs:{name}")
    assert list(form.warnings) == warnings
    assert form.demanded_keywords == ()


def test_a_mask_that_is_wanted_is_given_and_a_call_that_adds_left_out() -> None:
    form = form_found("theirs:WantsAMask")
    assert form.arguments == {"attention_mask": "torch.ones((B, T, S), dtype=torch.bool)"}
    assert form.replacements == {'type(layer.alibi_layer), "__call__"': "lambda _, a0, *_more, **_named: a0"}
    assert "Its alibi_layer is replaced by what adds nothing in the adapter" in form.warnings[0]
    assert form.remarks == ("It wants its attention_mask: without it, it raises TypeError: 'NoneType' object is not "
                            "subscriptable.",)
    assert "mask" in form.keywords


def test_one_head_is_refused_where_it_has_other_parameters() -> None:
    trier = Trier(CalleeProcess(host_of("theirs:ProjectsSeveralHeads", Surroundings())))
    form = find_form("theirs:ProjectsSeveralHeads", trier)
    assert form.needs_several_heads
    assert form.remarks == ("With one head, as wide as the model, it has no to_out.weight and to_out.bias: it takes "
                            "two heads and more.",)
    subject = trier.load_adapter(form)
    assert subject.refuses(plain_problem(form, H=1, Hkv=1))
    assert not subject.refuses(plain_problem(form))


def test_a_field_that_has_a_number_for_each_stage_keeps_its_default() -> None:
    config = form_found("theirs:OfAStage").config
    assert config is not None
    assert config.fields == {"qkv_bias": "True"}


def test_a_flag_that_an_assertion_without_words_wants_is_found() -> None:
    form = form_found("theirs:OfEither")
    assert form.construction["to_itself"] == "True"
    assert form.config is not None
    assert form.config.fields == {"factor": "False"}
    assert form.remarks[0] == ("Its to_itself is True: at its default it raises AssertionError (assert to_itself ^ "
                               "to_others).")
