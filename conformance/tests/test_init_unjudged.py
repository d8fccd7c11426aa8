"""`attnspec init` leaves nothing out unsaid: causal flags of one length, some biases, widths of a context, defaults."""

from __future__ import annotations

from pathlib import Path

import pytest
from attnspec.scaffold.writing.source import write_source
from attnspec.scaffold.writing.telling import describe_form
from helpers.commands import Cli
from helpers.forms import form_found
from test_init import LAYER

FUNCTIONS = '''
import numpy as np

def of_one_length(query, key, value, is_causal=False, ahead=0, softcap=0):
    """Its mask has as many rows as columns."""
    if softcap:
        raise NotImplementedError("softcap is not written yet")
    logits = query @ key.swapaxes(-1, -2) / query.shape[-1] ** 0.5
    if is_causal:
        logits = logits + np.triu(np.full((logits.shape[-1],) * 2, -np.inf), 1 + ahead)
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ value

def of_padding(query, key, value, pad_mask=None, causal=False):
    """Its mask (B,S) is of keys."""
    logits = query @ key.swapaxes(-1, -2) / query.shape[-1] ** 0.5
    if pad_mask is not None:
        logits = np.where(pad_mask[:, None, None], logits, -1e30)
    if causal:
        logits = np.where(np.tri(*logits.shape[-2:]) > 0, logits, -1e30)
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ value

def with_sums(query, key, value, factor=1.0, return_lse=True):
    """Always the output and the log-sum-exp, in heads last, times a factor."""
    logits = query @ key.swapaxes(-1, -2) / query.shape[-1] ** 0.5
    lse = np.log(np.exp(logits).sum(-1))
    output = np.exp(logits - lse[..., None]) @ value
    return (output, factor * lse.swapaxes(1, 2)) if return_lse else output

def with_halved_sums(query, key, value):
    return with_sums(query, key, value, 0.5)

def with_sums_of_two(query, key, value):
    return with_sums(query, key, value, 1 / np.log(2))

def asked_for_wrong_sums(query, key, value, return_softmax_lse=False):
    return with_sums(query, key, value, 0.5, return_softmax_lse)

def of_one_length_off_by_one(query, key, value, is_causal=False):
    return of_one_length(query, key, value, is_causal, 1)
'''
LAYERS = LAYER + '''

def trained(query, key, value, bias=None, is_causal=False):
    """Its kernel with gradients takes a bias or the causal flag."""
    if is_causal and bias is not None and bias.requires_grad:
        raise RuntimeError("a bias should not be set when is_causal=True")
    logits = query @ key.mT / query.shape[-1] ** 0.5 + (0 if bias is None else bias)
    if is_causal:
        logits = logits.masked_fill(torch.ones(logits.shape[-2:], dtype=torch.bool).triu(1), float("-inf"))
    return logits.softmax(-1) @ value

def causal_unless_masked(query, key, value, mask=None):
    """As frameworks' kernels are often called: the causal flag is there where no mask is."""
    return nn.functional.scaled_dot_product_attention(query, key, value, mask, is_causal=mask is None)

class SomeBiases(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query, self.key, self.proj = nn.Linear(dim, dim), nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.value = nn.Linear(dim, dim, bias=False)

    def forward(self, x):
        logits = self.query(x) @ self.key(x).transpose(-1, -2) / x.shape[-1] ** 0.5
        return self.proj(logits.softmax(-1) @ self.value(x))

class Wider(Perceives):
    def __init__(self, query_dim, context_dim=768, num_heads=8):
        super().__init__(query_dim, context_dim, num_heads)

class EncoderConfig:
    def __init__(self, hidden_size=64, num_attention_heads=4, encoder_hidden_size=128):
        self.width, self.heads, self.width_there = hidden_size, num_attention_heads, encoder_hidden_size

class Encoded(Perceives):
    """The widths stand in its config, that of the context with a number of its own."""
    def __init__(self, config: EncoderConfig):
        super().__init__(config.width, config.width_there, config.heads)
'''

pytestmark = pytest.mark.usefixtures("here")


@pytest.fixture
def here(here: Path) -> Path:
    """A folder with somebody's modules, where one stands."""
    (here / "their_numpy.py").write_text(FUNCTIONS, encoding="utf-8")
    (here / "their_torch.py").write_text(LAYERS, encoding="utf-8")
    return here


def test_a_causal_flag_that_takes_equal_lengths_only_is_found() -> None:
    form = form_found("their_numpy:of_one_length")
    assert (form.keywords, form.limits["causal_lengths"]) == (("causal",), "equal")
    assert form.remarks[0] == ("With the causal flag it takes T = S only: else it raises ValueError: operands could "
                               "not be broadcast together with shapes (4,2,3,5) (5,5).")


def test_a_causal_flag_that_is_wrong_at_equal_lengths_is_judged() -> None:
    form = form_found("their_numpy:of_one_length_off_by_one")
    assert (form.keywords, form.limits["causal_lengths"]) == (("causal",), "equal")
    assert form.remarks[1].endswith("attnspec check says what is wrong. If is_causal means something else, take it out "
                                    "of the adapter.")


def test_a_keyword_that_an_adapter_leaves_out_is_named_in_the_verdict(cli: Cli) -> None:
    assert cli("init", "their_numpy:of_one_length")[0] == 0
    manifest = Path("implementations/their_numpy/manifest.yaml").read_text(encoding="utf-8")
    assert '    defaults:\n      ahead: "0"\n      softcap: "0"\n' in manifest
    code, out, _ = cli("check", "their_numpy/of_one_length", "--implementations", "implementations",
                       "--effort", "glance", "--dtype", "float32", "--clause", "attention.one_key", "--no-record")
    assert (code, out.splitlines()[-1]) == (0, "Conforms; softcap, ahead were never tried. (exit code 0)")
    assert ("left at their defaults: ahead=0, softcap=0 (attnspec's keyword: hand it on in the adapter)"
            in out.splitlines())


def test_a_keyword_that_the_adapter_hands_on_meanwhile_is_not_named(cli: Cli) -> None:
    assert cli("init", "their_numpy:of_one_length")[0] == 0
    adapter = Path("implementations/their_numpy/of_one_length.py")
    text = adapter.read_text(encoding="utf-8")
    adapter.write_text(text.replace("is_causal=causal", "is_causal=causal, softcap=0"), encoding="utf-8")
    assert "softcap=0)" in adapter.read_text(encoding="utf-8")
    out = cli("check", "their_numpy/of_one_length", "--implementations", "implementations", "--effort", "glance",
              "--dtype", "float32", "--clause", "attention.one_key", "--no-record")[1]
    assert out.splitlines()[-1] == "Conforms; ahead was never tried. (exit code 0)"


def test_a_mask_of_few_axes_is_asked_together_with_the_causal_flag(cli: Cli) -> None:
    assert cli("init", "their_numpy:of_padding")[0] == 0
    assert "mask_with_causal: both" in Path("implementations/their_numpy/manifest.yaml").read_text(encoding="utf-8")


def test_a_bias_beside_the_causal_flag_is_asked_with_gradients_too(cli: Cli) -> None:
    pytest.importorskip("torch")
    assert cli("init", "their_torch:trained")[0] == 0
    manifest = Path("implementations/their_torch/manifest.yaml").read_text(encoding="utf-8")
    assert "mask_with_causal: undefined" in manifest


def test_a_mask_may_take_the_place_of_what_is_else_always_causal() -> None:
    pytest.importorskip("torch")
    form = form_found("their_torch:causal_unless_masked")
    assert form.keywords == ("mask", "causal")
    assert form.remarks == ("It is always causal.",)


@pytest.mark.parametrize("name", ["with_sums", "with_sums_of_two"])
def test_log_sum_exps_that_always_come_back_are_found(name: str) -> None:
    form = form_found(f"their_numpy:{name}")
    assert form.reading is not None
    assert (form.keywords[-1], form.reading.path, form.reading.weights_path) == ("return_lse", "[0]", "[1]")
    assert "The log-sum-exp is answer[1], (B,T,H)." in describe_form(form)
    assert "if return_lse else" in write_source(form)


def test_log_sum_exps_that_are_asked_for_are_judged_right_or_wrong() -> None:
    form = form_found("their_numpy:asked_for_wrong_sums")
    assert form.reading is not None
    assert form.parameter_for("return_lse") == "return_softmax_lse"
    assert (form.reading.path, form.reading.asked_path) == ("", "[0]")


def test_what_has_the_shape_of_log_sum_exps_and_is_none_is_told() -> None:
    form = form_found("their_numpy:with_halved_sums")
    assert form.remarks == ("answer[1] has the shape of log-sum-exps, and other numbers: it is not judged.",)


def test_a_layer_without_some_biases_is_judged_with_those_that_it_has() -> None:
    pytest.importorskip("torch")
    form = form_found("their_torch:SomeBiases")
    assert form.limits["biases"] == "query key out"
    assert 'params["b_query"]' in write_source(form)
    assert "It adds a bias to query, key, out, and to no other projection." in describe_form(form)


@pytest.mark.nightly
def test_a_context_whose_width_is_a_number_is_as_wide_as_the_model() -> None:
    pytest.importorskip("torch")
    config = form_found("their_torch:Encoded").config
    assert config is not None
    assert config.fields["encoder_hidden_size"] == "M"
    assert form_found("their_torch:Wider").construction["context_dim"] == "M"
