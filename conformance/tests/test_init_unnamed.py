"""`attnspec init` on parameters whose names say nothing: each is tried by what it does, and none is lost unsaid."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from attnspec.core.surroundings import Surroundings
from attnspec.scaffold.callee_process import CalleeProcess
from attnspec.scaffold.doubts import doubt_causality
from attnspec.scaffold.examined import ExaminedCallable
from attnspec.scaffold.form import Binding, CallForm
from attnspec.scaffold.search import find_form
from attnspec.scaffold.trial_adapter import Trier
from attnspec.scaffold.writing.source import write_source
from attnspec.subjects.target import host_of
from helpers.commands import Cli

FUNCTIONS = '''
import numpy as np

def softmax(logits):
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)

def attend(query, key, value, is_pad=None, with_them=False, noise=None, temperature_of_noise=0.5):
    """is_pad (B,S): True where a key is hidden."""
    logits = query @ key.swapaxes(-1, -2) / query.shape[-1] ** 0.5
    if is_pad is not None:
        logits = np.where(is_pad[:, None, None], -1e30, logits)
    weights = softmax(logits)
    return (weights @ value, weights) if with_them else weights @ value

def on_queries(query, key, value, is_pad=None):
    """is_pad hides the rows of queries."""
    logits = query @ key.swapaxes(-1, -2) / query.shape[-1] ** 0.5
    if is_pad is not None:
        logits = np.where(is_pad[:, None, :, None], -1e30, logits)
    return softmax(logits) @ value

def on_named_queries(query, key, value, key_padding_mask=None):
    return on_queries(query, key, value, key_padding_mask)

def of_documents(q, k, v, seg_ids=None, lookback=None):
    """(T,B,H,D), causal; one array of segments (T,B)."""
    query, key, value = (np.moveaxis(array, 0, 2) for array in (q, k, v))
    at = np.arange(q.shape[0])
    seen = np.broadcast_to(at <= at[:, None], (q.shape[1], len(at), len(at)))
    if lookback is not None:
        seen = seen & (at[:, None] - at < lookback)
    if seg_ids is not None:
        seen = seen & (seg_ids.T[:, :, None] == seg_ids.T[:, None])
    logits = query @ key.swapaxes(-1, -2) / query.shape[-1] ** 0.5
    return np.moveaxis(softmax(np.where(seen[:, None], logits, -np.inf)) @ value, 2, 0)

class Kept:
    """Keys and values of earlier calls."""
    def __init__(self):
        self.pairs = []

    def joined(self, *pair):
        self.pairs.append(pair)
        return (np.concatenate(each, 2) for each in zip(*self.pairs))

def step(q, k, v, kv=None, right=True, sees_all=False):
    """Two mistakes that can be made: places begin again in each call, and later keys are seen."""
    kv = Kept() if kv is None else kv
    past = sum(each[0].shape[2] for each in kv.pairs)
    k, v = kv.joined(k, v)
    logits = q @ k.swapaxes(-1, -2) / q.shape[-1] ** 0.5
    seen = np.tri(q.shape[2], k.shape[2], k.shape[2] if sees_all else past if right else 0, dtype=bool)
    return softmax(np.where(seen, logits, -np.inf)) @ v, kv

def of_opaque(q, k, v, opaque=None):
    return step(q, k, v, opaque)

def places_begin_again(q, k, v, kv_cache=None):
    return step(q, k, v, kv_cache, right=False)

def takes_weights_for_a_cache(q, k, v, kv_cache=None):
    """What comes back are weights, and its cache is of another kind."""
    return attend(q, k, v, with_them=True)

def breaks_behind_a_call(q, k, v, kv_cache=None):
    return step(q, k[..., :4] if kv_cache else k, v, kv_cache)

def sees_later_keys(q, k, v, kv_cache=None):
    return step(q, k, v, kv_cache, sees_all=True)
'''


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CalleeProcess]:
    """A process that finds somebody's module."""
    folder = tmp_path_factory.mktemp("theirs")
    (folder / "unnamed.py").write_text(FUNCTIONS, encoding="utf-8")
    client = host_of("unnamed:attend", Surroundings(), str(folder))
    yield CalleeProcess(client)
    client.close()


def form_found(name: str, there: CalleeProcess) -> CallForm:
    return find_form(f"unnamed:{name}", Trier(there))


def test_a_mask_and_a_flag_are_found_by_what_they_do(there: CalleeProcess) -> None:
    form = form_found("attend", there)
    assert [(each.keyword, each.parameter, each.expression) for each in form.bindings] == [
        ("mask", "is_pad", "~mask[:, 0, 0]"), ("return_weights", "with_them", "True")]
    assert form.limits["mask_axes"] == "BS"


def test_what_stays_unexplained_is_told_first(there: CalleeProcess) -> None:
    form = form_found("attend", there)
    assert form.warnings == ("NOT TRIED: noise, temperature_of_noise. What these do could not be found out, and is not "
                             "judged.",)
    assert write_source(form).partition("Found by trying:\n")[2].startswith("- NOT TRIED: noise")


@pytest.mark.parametrize(("name", "parameter"), [
    ("on_queries", "is_pad"), ("on_named_queries", "key_padding_mask")])
def test_padding_that_hides_rows_is_named_and_judged_as_that_of_keys(
        name: str, parameter: str, there: CalleeProcess) -> None:
    form = form_found(name, there)
    assert (form.parameter_for("mask"), form.bindings[0].expression) == (parameter, "~mask[:, 0, 0]")
    assert form.remarks == (
        f"Its {parameter} is handed on as `mask` (True where a key is hidden, (B,S)), but it hides the rows of "
        "queries, where a mask of padding hides keys: attnspec check says what is wrong. If "
        f"{parameter} means something else, take it out of the adapter.",)


def test_one_array_of_segments_serves_for_queries_and_keys(there: CalleeProcess) -> None:
    form = form_found("of_documents", there)
    assert form.keywords == ("query_segments", "key_segments", "window", "causal")
    assert form.limits["segments_are_shared"] is True
    text = write_source(form)
    assert "del key_segments  # one array serves for both" in text
    assert "seg_ids=None if query_segments is None else query_segments.swapaxes(0, 1)" in text


def test_a_number_of_keys_back_is_not_called_symmetric_where_all_is_causal(there: CalleeProcess) -> None:
    form = form_found("of_documents", there)
    assert next(each.says for each in form.bindings if each.keyword == "window") == (
        "so many keys back, its own among them")


@pytest.mark.parametrize(("name", "parameter"), [("step", "kv"), ("of_opaque", "opaque")])
def test_a_cache_is_found_whatever_its_name(name: str, parameter: str, there: CalleeProcess) -> None:
    form = form_found(name, there)
    assert (form.cache_path, form.parameter_for("cache")) == ("[-1]", parameter)


def test_a_cache_behind_which_the_answer_is_wrong_is_judged_as_a_decoder(there: CalleeProcess) -> None:
    form = form_found("places_begin_again", there)
    assert (form.cache_path, form.parameter_for("cache"), form.limits["past_lengths"]) == ("[-1]", "kv_cache", "equal")
    assert form.remarks[-1].startswith("Its kv_cache is handed on as `cache`, but behind a past, the causal mask "
                                       "counts "
                                       "from the first key: it forgets that there is a past")


def test_what_hands_back_no_cache_is_no_decoder(there: CalleeProcess) -> None:
    form = form_found("takes_weights_for_a_cache", there)
    assert (form.cache_path, form.demanded_keywords) == ("", ())
    assert form.warnings[0].startswith("NOT TRIED: kv_cache.")


def test_a_decoder_whose_second_call_raises_does_not_come_out_green(there: CalleeProcess) -> None:
    form = form_found("breaks_behind_a_call", there)
    assert (form.cache_path, form.demanded_keywords) == ("", ("cache",))
    assert form.warnings[0].startswith("NOT JUDGED: kv_cache. It could not be used as `cache`: behind what a call "
                                       "hands back, it raises ValueError: ")


def test_a_decoder_that_sees_later_keys_is_doubted(there: CalleeProcess) -> None:
    form = form_found("sees_later_keys", there)
    assert form.warnings[0] == ("NOT CAUSAL: it is a decoder, whose call may bring several keys, but a query attends "
                                "to later keys too. Is that meant?")
    assert form.demanded_keywords == ("causal",)


def test_a_wrong_cache_does_not_come_out_green(here: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "unnamed.py").write_text(FUNCTIONS, encoding="utf-8")
    monkeypatch.delitem(sys.modules, "unnamed", raising=False)
    assert cli("init", "unnamed:places_begin_again")[0] == 0
    code, out, _ = cli("check", "unnamed/places_begin_again", "--implementations", "implementations", "--effort",
                       "glance", "--dtype", "float32", "--clause", "decoder.definition", "--no-record")
    assert code == 1, out


def examined(name: str, *docs: str, source: str = "") -> ExaminedCallable:
    return ExaminedCallable(f"m:{name}", name, "m", "m", is_class=True, parameters=(), packages=frozenset(), docs=docs,
                            source=source)


NANO = 'self.register_buffer("bias", torch.tril(torch.ones(8, 8)))'
TRIANGLE = "seen = np.tri(T, S, S, dtype=bool)"
DOUBTED = [examined("CausalSelfAttention"), examined("attend", source=TRIANGLE), examined("GPTAttention"),
           examined("DecoderBlock"), examined("Attention", source=NANO),
           examined("attend", "q (B,H,T,D) to the same. Causal. No mask.")]
LEFT_ALONE = [examined("BertSelfAttention"), examined("DecoderCrossAttention"), examined("NonCausalAttention"),
              examined("attend", "Plain, non-causal attention."),
              examined("attend", "Causal if the model is a decoder."),
              examined("Attention", source='self.register_buffer("slopes", slopes)')]


@pytest.mark.parametrize("callee", DOUBTED, ids=lambda callee: callee.name)
def test_what_is_named_or_described_as_causal_and_is_not_is_doubted(callee: ExaminedCallable) -> None:
    form = doubt_causality(CallForm(callee.target), callee, ())
    assert (form.demanded_keywords, form.warnings[0][:11]) == (("causal",), "NOT CAUSAL:")


@pytest.mark.parametrize("callee", LEFT_ALONE, ids=lambda callee: callee.name)
def test_what_is_not_is_left_alone(callee: ExaminedCallable) -> None:
    assert doubt_causality(CallForm(callee.target), callee, ()) == CallForm(callee.target)


def test_a_triangle_may_be_for_what_is_left_at_its_default() -> None:
    form = CallForm("m:attend", left_defaults={"mode": "'full'"})
    assert doubt_causality(form, examined("attend", source=TRIANGLE), ()) is form


def test_a_caller_who_hands_over_a_mask_may_hide_later_keys_himself() -> None:
    form = CallForm("m:Decoder", bindings=(Binding("mask", "mask", "mask"),))
    assert doubt_causality(form, examined("Decoder"), ()) is form
    of_padding = CallForm("m:Decoder", bindings=form.bindings, limits={"mask_axes": "BS"})
    assert doubt_causality(of_padding, examined("Decoder"), ()).demanded_keywords == ("causal",)
    assert doubt_causality(form, examined("CausalAttention"), ()).demanded_keywords == ("causal",)
