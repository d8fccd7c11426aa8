"""`attnspec init` on layers and functions as people write them for themselves, each kind right and wrong."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from attnspec.core.nouns import DType, Kind
from attnspec.core.surroundings import Surroundings
from attnspec.scaffold.callee_process import CalleeProcess
from attnspec.scaffold.doubts import warn_of_inverted_mask
from attnspec.scaffold.examined import ExaminedCallable
from attnspec.scaffold.form import Binding, CallableKind, CallForm
from attnspec.scaffold.manifest import measure_adapter
from attnspec.scaffold.search import find_form
from attnspec.scaffold.trial_adapter import Trier
from attnspec.scaffold.variants import DROPOUT_VARIANT, PADDED_VARIANT
from attnspec.scaffold.writing.source import write_source
from attnspec.subjects.target import host_of

FUNCTIONS = '''
import numpy as np

def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)

class OfNoFramework:
    """Its matrices are attributes."""
    def __init__(self, d_model, n_heads, seed=0):
        draw = np.random.default_rng(seed)
        self.n_heads = n_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (draw.normal(size=(d_model, d_model)) for _ in range(4))

    def forward(self, x):
        made = (x @ each for each in (self.W_q, self.W_k, self.W_v))
        q, k, v = (each.reshape(*x.shape[:2], self.n_heads, -1).swapaxes(1, 2) for each in made)
        heads = softmax(q @ k.swapaxes(-1, -2) / q.shape[-1] ** 0.5) @ v
        return heads.swapaxes(1, 2).reshape(x.shape) @ self.W_o

def sloped(q, k, v, slopes):
    """(B,T,H,D), causal; slopes (H,) have to be given."""
    behind = np.arange(q.shape[1])[:, None] - np.arange(q.shape[1])
    logits = np.einsum("bthd,bshd->bhts", q, k) / q.shape[-1] ** 0.5 - slopes[None, :, None, None] * behind
    return np.einsum("bhts,bshd->bthd", softmax(np.where(behind < 0, -np.inf, logits)), v)

def decode(q, k_cache, v_cache, cache_seqlens):
    """One query (B,H,D) of each sequence."""
    logits = np.einsum("bhd,bshd->bhs", q, k_cache) / q.shape[-1] ** 0.5
    seen = np.arange(k_cache.shape[1]) < cache_seqlens[:, None, None]
    return np.einsum("bhs,bshd->bhd", softmax(np.where(seen, logits, -np.inf)), v_cache)

def each_query(q, k, v):
    """The softmax of a single query runs over what it should; that of several does not."""
    logits = q @ k.swapaxes(-1, -2) / q.shape[-1] ** 0.5
    e = np.exp(logits)
    return e / e.sum(-2, keepdims=True) @ v

def packed(qkv, cu_seqlens):
    """(total,3,H,D)."""
    output = np.zeros_like(qkv[:, 0])
    for start, end in zip(cu_seqlens[:-1], cu_seqlens[1:]):
        q, k, v = qkv[start:end].transpose(1, 2, 0, 3)
        output[start:end] = (softmax(q @ k.swapaxes(-1, -2) / q.shape[-1] ** 0.5) @ v).swapaxes(0, 1)
    return output

def with_probs(q, k, v, return_probs=False):
    logits = q @ k.swapaxes(-1, -2) / q.shape[-1] ** 0.5
    return (softmax(logits) @ v, softmax(logits)) if return_probs else softmax(logits) @ v

def with_logits(q, k, v, return_probs=False):
    logits = q @ k.swapaxes(-1, -2) / q.shape[-1] ** 0.5
    return (softmax(logits) @ v, logits) if return_probs else softmax(logits) @ v

def with_lse(q, k, v):
    """What it calls the lse lacks the largest logit."""
    logits = q @ k.swapaxes(-1, -2) / q.shape[-1] ** 0.5
    total = np.exp(logits - logits.max(-1, keepdims=True)).sum(-1)
    return softmax(logits) @ v, np.log(total)

def by_stored_sums(q, k, v):
    logits = q @ k.swapaxes(-1, -2) / np.sqrt(q.dtype.type(q.shape[-1]))
    top = logits.max(-1, keepdims=True)
    sums = top + np.log(np.exp(logits - top).sum(-1, keepdims=True))
    return np.exp(logits - sums) @ v

def in_blocks(q, k, v, block=64):
    logits = q @ k.swapaxes(-1, -2) / q.shape[-1] ** 0.5
    e = np.exp(logits - logits.max(-1, keepdims=True))
    ends = range(0, k.shape[2], block)
    summed = sum(e[..., at:at + block] @ v[:, :, at:at + block] for at in ends)
    return summed / sum(e[..., at:at + block].sum(-1, keepdims=True) for at in ends)

def in_whole_blocks(q, k, v, block=64):
    """What does not fill a block is lost, but for the first."""
    S = max(block, k.shape[2] // block * block)
    return in_blocks(q, k[:, :, :S], v[:, :, :S], block)

def of_cut_mask(q, k, v, mask=None):
    T = q.shape[2]
    logits = q @ k.swapaxes(-1, -2) / q.shape[-1] ** 0.5
    return softmax(logits if mask is None else logits + mask[:T, :T]) @ v

def of_folded_heads(q, k, v, valid_lens=None):
    """(B·H,T,D), and a length for each."""
    logits = np.einsum("btd,bsd->bts", q, k) / q.shape[-1] ** 0.5
    if valid_lens is not None:
        logits = np.where(np.arange(k.shape[1]) < valid_lens[:, None, None], logits, -np.inf)
    return softmax(logits) @ v

def refusing(q, k, v, soft_cap=None, kernel=None):
    assert soft_cap is None
    return softmax(q @ k.swapaxes(-1, -2) / q.shape[-1] ** 0.5) @ v

def in_float32(q, k, v):
    q, k, v = (each.astype(np.float32) for each in (q, k, v))
    return softmax(q @ k.swapaxes(-1, -2) / np.float32(q.shape[-1]) ** 0.5) @ v
'''
LAYERS = '''
import torch
from torch import nn

def attend(q, k, v):
    return (q @ k.mT * q.shape[-1] ** -0.5).softmax(-1) @ v

class Head(nn.Module):
    def __init__(self, feats, width):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(feats, width, bias=False) for _ in range(3))

    def forward(self, x):
        return attend(self.query(x), self.key(x), self.value(x))

class ListOfHeads(nn.Module):
    def __init__(self, feats, num_heads):
        super().__init__()
        self.heads = nn.ModuleList(Head(feats, feats // num_heads) for _ in range(num_heads))
        self.proj = nn.Linear(feats, feats)

    def forward(self, x):
        return self.proj(torch.cat([head(x) for head in self.heads], -1))

class OfImages(nn.Module):
    """(N,C,H,W)."""
    def __init__(self, channels, heads=1):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.out = (nn.Conv2d(channels, channels, 1) for _ in range(4))

    def forward(self, x):
        n, c, h, w = x.shape
        q, k, v = (each(x).reshape(n, self.heads, -1, h * w).mT for each in (self.q, self.k, self.v))
        return self.out(attend(q, k, v).mT.reshape(n, c, h, w))

class Base(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads, self.norm = n_heads, nn.LayerNorm(d_model)
        self.qkv, self.proj = nn.Linear(d_model, 3 * d_model), nn.Linear(d_model, d_model)

    def split(self, x):
        return self.qkv(x).unflatten(-1, (3, self.n_heads, -1)).permute(2, 0, 3, 1, 4)

    def join(self, heads):
        return self.proj(heads.transpose(1, 2).flatten(2))

class Block(Base):
    """Normalised before, added after."""
    def forward(self, x):
        return x + self.join(attend(*self.split(self.norm(x))))

class TwiceAsLarge(Base):
    """What comes behind its projection is no sum."""
    def forward(self, x):
        return 2 * self.join(attend(*self.split(self.norm(x))))

class OfLengths(Base):
    def lengths(self, lengths):
        return lengths[:, None]

    def forward(self, frames, lengths=None):
        q, k, v = self.split(frames)
        scores = q @ k.mT * q.shape[-1] ** -0.5
        if lengths is not None:
            beyond = torch.arange(k.shape[2]) >= self.lengths(lengths)
            scores = scores.masked_fill(beyond[:, None, None], float("-inf"))
        return self.join(scores.softmax(-1) @ v)

class OfFirstLength(OfLengths):
    def lengths(self, lengths):
        return lengths[:1, None]

class OfOneSlope(Base):
    """ALiBi, with the first slope for all heads."""
    def __init__(self, d_model, n_heads):
        super().__init__(d_model, n_heads)
        self.register_buffer("slopes", 2.0 ** -torch.arange(1, n_heads + 1))

    def forward(self, x):
        q, k, v = self.split(x)
        at = torch.arange(x.shape[1])
        scores = q @ k.mT * q.shape[-1] ** -0.5 + (self.slopes[0] * (at - at[:, None])).to(x.dtype)
        return self.join(scores.masked_fill(at > at[:, None], float("-inf")).softmax(-1) @ v)

class Dropping(Base):
    """It drops in evaluation, too."""
    def __init__(self, d_model, n_heads, p_drop=0.1):
        super().__init__(d_model, n_heads)
        self.p_drop = p_drop

    def forward(self, x):
        q, k, v = self.split(x)
        return self.join(nn.functional.dropout((q @ k.mT * q.shape[-1] ** -0.5).softmax(-1), self.p_drop) @ v)

class Sliding(Base):
    def __init__(self, d_model, n_heads, window=2):
        super().__init__(d_model, n_heads)
        self.window = window

    def forward(self, x):
        q, k, v = self.split(x)
        at = torch.arange(x.shape[1])
        near = (at <= at[:, None]) & (at > at[:, None] - self.window)
        return self.join((q @ k.mT * q.shape[-1] ** -0.5).masked_fill(~near, float("-inf")).softmax(-1) @ v)
'''


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CalleeProcess]:
    """A process that finds somebody's modules."""
    folder = tmp_path_factory.mktemp("theirs")
    (folder / "by_hand.py").write_text(FUNCTIONS, encoding="utf-8")
    (folder / "by_hand_layers.py").write_text(LAYERS, encoding="utf-8")
    client = host_of("by_hand:sloped", Surroundings(), str(folder))
    yield CalleeProcess(client)
    client.close()


def function_form(name: str, there: CalleeProcess) -> CallForm:
    return find_form(f"by_hand:{name}", Trier(there))


def layer_form(name: str, there: CalleeProcess) -> CallForm:
    pytest.importorskip("torch")
    return find_form(f"by_hand_layers:{name}", Trier(there))


def test_a_class_of_no_framework_is_filled_by_its_attributes(there: CalleeProcess) -> None:
    form = function_form("OfNoFramework", there)
    assert (form.family, form.kind) == (CallableKind.PLAIN, Kind.LAYER)
    assert '    layer.W_q = params["w_query"]\n' in write_source(form)
    assert "    return layer.forward\n" in write_source(form)


def test_an_array_that_has_to_be_given_is_one_that_changes_nothing(there: CalleeProcess) -> None:
    form = function_form("sloped", there)
    assert form.arguments["slopes"] == "np.zeros((H,), dtype=query.dtype)"
    assert form.parameter_for("alibi_slopes") == "slopes"
    assert form.limits["slopes_are_shared"]


def test_a_function_of_one_query_is_judged_at_one_query(there: CalleeProcess) -> None:
    form = function_form("decode", there)
    assert (form.sizes, form.parameter_for("key_lengths")) == ({"T": 1}, "cache_seqlens")


def test_what_answers_several_queries_wrongly_is_not_taken_for_one(there: CalleeProcess) -> None:
    form = function_form("each_query", there)
    assert (form.sizes, form.mistake) == ({}, "softmax_over_queries")


def test_packed_arrays_with_one_array_of_borders_are_found(there: CalleeProcess) -> None:
    form = function_form("packed", there)
    assert form.arguments["cu_seqlens"].startswith("np.arange(B + 1")
    assert "Its sequences are all of one length: ragged batches are not judged." in form.remarks


@pytest.mark.parametrize(("name", "is_told"), [("with_probs", False), ("with_logits", True)])
def test_what_a_flag_calls_weights_is_judged_as_weights(name: str, is_told: bool, there: CalleeProcess) -> None:
    form = function_form(name, there)
    assert form.parameter_for("return_weights") == "return_probs"
    assert any("do not sum to 1" in each for each in form.remarks) is is_told


def test_what_is_called_a_log_sum_exp_is_judged_as_one(there: CalleeProcess) -> None:
    form = function_form("with_lse", there)
    assert form.reading is not None
    assert (form.reading.extra_keyword, form.reading.weights_path) == ("return_lse", "[1]")
    assert "it is no log-sum-exp" in form.remarks[-1]


def test_weights_of_a_stored_log_sum_exp_are_declared(there: CalleeProcess) -> None:
    trier = Trier(there)
    learned = measure_adapter(find_form("by_hand:by_stored_sums", trier), trier)
    assert {DType.FLOAT64, DType.FLOAT32} <= set(learned.storing_dtypes)
    assert not measure_adapter(find_form("by_hand:with_probs", trier), trier).storing_dtypes


def test_float64_is_declared_of_what_is_computed_in_it(there: CalleeProcess) -> None:
    trier = Trier(there)
    learned = measure_adapter(find_form("by_hand:in_float32", trier), trier)
    assert learned.is_inexact
    assert DType.FLOAT64 not in learned.dtypes
    assert DType.FLOAT64 in measure_adapter(find_form("by_hand:with_probs", trier), trier).dtypes


@pytest.mark.parametrize(("name", "is_told"), [("in_blocks", False), ("in_whole_blocks", True)])
def test_another_length_of_blocks_is_a_variant(name: str, is_told: bool, there: CalleeProcess) -> None:
    form = function_form(name, there)
    assert form.variants["block"].arguments == {"block": "3"}
    assert [each.startswith("BLOCK: given block=3, its output is") for each in form.warnings] == [True] * is_told


def test_a_mask_that_is_cut_to_the_queries_is_judged_where_it_fits(there: CalleeProcess) -> None:
    form = function_form("of_cut_mask", there)
    assert (form.parameter_for("mask"), form.mask_of_squares, form.demanded_keywords) == ("mask", True, ())
    assert 'raise ValueError("it takes a mask where T = S only")' in write_source(form)


def test_lengths_of_folded_heads_are_those_of_each_head(there: CalleeProcess) -> None:
    form = function_form("of_folded_heads", there)
    assert [each.expression for each in form.bindings] == ["np.repeat(key_lengths, H)"]


def test_what_an_assertion_names_is_refused_and_not_demanded(there: CalleeProcess) -> None:
    form = function_form("refusing", there)
    assert (form.unjudged_parameters, form.demanded_keywords) == (("soft_cap",), ())


def test_a_parameter_that_changes_nothing_is_no_keyword(there: CalleeProcess) -> None:
    form = function_form("refusing", there)
    assert not form.bindings
    assert "NOT TRIED: kernel" in form.warnings[0]


def test_a_list_of_heads_is_filled_head_by_head(there: CalleeProcess) -> None:
    form = layer_form("ListOfHeads", there)
    entry = '**{f"heads.{head}.key.weight": params["w_key"][:, head * D:(head + 1) * D].T for head in range(heads)},'
    assert entry in write_source(form)
    assert form.limits["biases"] == "out"


def test_an_image_is_a_sequence_of_its_pixels(there: CalleeProcess) -> None:
    form = layer_form("OfImages", there)
    assert form.arrangement.shape == "(B,M,{L},1)"
    assert 'params["w_query"].T[..., None, None]' in write_source(form)


def test_what_adds_its_input_is_judged_before_the_sum(there: CalleeProcess) -> None:
    form = layer_form("Block", there)
    assert (form.judged_part, form.removed_parts) == ("proj", ("norm",))
    assert "register_forward_hook" in write_source(form)


def test_what_does_something_else_behind_its_projection_is_refused(there: CalleeProcess) -> None:
    pytest.importorskip("torch")
    with pytest.raises(Exception, match="does not compute attention in any of the"):
        find_form("by_hand_layers:TwiceAsLarge", Trier(there))


@pytest.mark.parametrize(("name", "says"), [
    ("OfLengths", ""), ("OfFirstLength", "the length of the first entry of the batch serves for all")])
def test_lengths_of_a_layer_are_judged_by_padding(name: str, says: str, there: CalleeProcess) -> None:
    form = layer_form(name, there)
    assert form.variants[PADDED_VARIANT].padded_parameter == "lengths"
    assert "lengths" not in form.defaults
    assert [says in each for each in form.warnings] == ([True] if says else [])


def test_one_slope_for_all_heads_is_doubted(there: CalleeProcess) -> None:
    form = layer_form("OfOneSlope", there)
    assert (form.zero_tensors, form.demanded_keywords) == (("slopes",), ("alibi_slopes",))
    assert form.warnings[0].startswith("ONE SLOPE FOR ALL HEADS")


def test_what_drops_in_evaluation_is_told(there: CalleeProcess) -> None:
    form = layer_form("Dropping", there)
    assert form.variants[DROPOUT_VARIANT].construction["p_drop"] == "0.5"
    assert form.warnings[0].startswith("DROPS IN EVALUATION: constructed with a rate of dropout of 0.5, its output is")


def test_a_window_of_the_constructor_is_off_where_none_is_asked_for(there: CalleeProcess) -> None:
    form = layer_form("Sliding", there)
    assert (form.construction["window"], form.parameter_for("window")) == ("T", "window")


@pytest.mark.parametrize(("parameter", "doc", "keeps", "is_told"), [
    ("mask", "The mask is True where a query may look.", True, False),
    ("mask", "The mask is True where a query may look.", False, True),
    ("mask", "The mask is 0 where a query must not look.", False, True),
    ("mask", "Takes one mask (1 = real token, 0 = padding).", True, False),
    ("mask", "A True value in the mask means that a key will be ignored.", True, True),
    ("mask", "A True value in the mask means that a key will be ignored.", False, False),
    ("mask", "Says nothing of its mask.", True, False), ("hide", "", True, True), ("keep", "", True, False),
    ("mask", "The mask is True for some. The mask is True where padded. The mask is True where a query may look.", True,
     False)])
def test_a_mask_is_what_its_name_or_docstring_says(parameter: str, doc: str, keeps: bool, is_told: bool) -> None:
    says = "True where a query may attend" if keeps else "True where a key is hidden"
    passed = Binding("mask", parameter, "mask[:, 0]" if keeps else "~mask[:, 0]", f"{says}, (B,T,S)")
    callee = ExaminedCallable("mine:attend", "attend", "mine", "mine", is_class=False, parameters=(),
                              packages=frozenset(),
                              docs=(doc,))
    form = warn_of_inverted_mask(CallForm("mine:attend", bindings=(passed,)), callee)
    assert bool(form.warnings) is is_told
    assert form.bindings[0].expression == ("~mask[:, 0]" if keeps is is_told else "mask[:, 0]")
