"""`attnspec init` finds the format of codes, and how many of them share a scale, of functions that take scales."""

from __future__ import annotations

from pathlib import Path

import pytest
from attnspec.aspects.quantised.search import find_scale_parameters
from attnspec.core.nouns import DType
from attnspec.numerics.expectation import expect
from attnspec.numerics.precision import assumed_precision
from attnspec.problems.problem import Problem
from attnspec.scaffold.examined import ExaminedCallable
from attnspec.scaffold.form import Binding, CallForm
from attnspec.scaffold.lookup import TheirParameter
from attnspec.scaffold.probe_problems import expect_usual, plain_problem
from helpers.commands import Cli

NUMPY = '''
import numpy as np

def core(query, key, value, causal=False):
    group = query.shape[1] // key.shape[1]
    key, value = np.repeat(key, group, 1), np.repeat(value, group, 1)
    logits = query.astype(np.float32) @ key.swapaxes(-1, -2) / np.sqrt(query.shape[-1])
    if causal:
        logits = np.where(np.tri(*logits.shape[-2:], dtype=bool), logits, -np.inf)
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return (weights / weights.sum(-1, keepdims=True) @ value).astype(query.dtype)

def wide(codes, scale, zero=None, by=lambda scale: scale):
    numbers = codes.astype(np.float32) if zero is None else codes.astype(np.float32) - by(zero)
    return numbers if scale is None else numbers * by(scale)

def by_head(q, k, v, is_causal=False, k_scale=None, v_scale=None):
    assert k.dtype == np.int8
    by = lambda scale: scale[:, None, None]
    return core(q, wide(k, k_scale, by=by), wide(v, v_scale, by=by), is_causal)

def by_token(q, k, v, k_dequant_scale, v_dequant_scale):
    """Codes of float8_e4m3fn."""
    assert "float8" in str(k.dtype)
    by = lambda scale: scale[..., None]
    return core(q, wide(k, k_dequant_scale, by=by), wide(v, v_dequant_scale, by=by))

def broadcasting(q, k, v, descale_k=1.0, descale_v=1.0):
    return core(q, wide(k, descale_k), wide(v, descale_v))

def of_sequences(q, k, v, q_descale=None, k_descale=None, v_descale=None):
    """Codes of float8_e4m3fn."""
    assert "float8" in str(q.dtype)
    by = lambda scale: scale[:, :, None, None]
    return core(*(wide(*each, by=by) for each in ((q, q_descale), (k, k_descale), (v, v_descale))))

def in_blocks(q, k, v, k_scale, v_scale):
    by = lambda scale: np.repeat(scale, 32, axis=-1)[..., :q.shape[-1]]
    return core(q, wide(k, k_scale, by=by), wide(v, v_scale, by=lambda s: np.repeat(s, 32, axis=-1)[..., :v.shape[-1]]))

def with_zeros(q, k, v, k_scale, v_scale, k_zero, v_zero):
    assert k_zero.dtype == k.dtype == np.uint8
    by = lambda scale: scale.astype(np.float32)[..., None]
    return core(q, wide(k, k_scale, k_zero, by), wide(v, v_scale, v_zero, by))

def by_channel_and_token(q, k, v, k_scale=None, v_scale=None):
    by = lambda at: lambda scale: scale[at]
    return core(q, wide(k, k_scale, by=by(np.s_[:, None])), wide(v, v_scale, by=by(np.s_[..., None])))

def nibbles(q, k, v, k_scale, v_scale):
    assert k.dtype == np.uint8
    def signed(codes):
        both = np.stack([codes & 15, codes >> 4], -1).reshape(*codes.shape[:-1], -1)
        return (both.astype(np.int8) ^ 8) - 8
    by = lambda scale: scale[:, None, None]
    return core(q, wide(signed(k), k_scale, by=by), wide(signed(v), v_scale, by=by))

def one_for_all(q, k, v, k_scale, v_scale):
    assert k.dtype == np.int8
    return core(q, wide(k, k_scale[0]), wide(v, v_scale[0]))

def without_value_scale(q, k, v, k_scale=None, v_scale=None):
    return core(q, wide(k, k_scale, by=lambda scale: scale[:, None, None]), wide(v, None))

def in_pages(query, key_cache, value_cache, block_table, context_lens, k_scale=None, v_scale=None):
    assert key_cache.dtype == np.int8
    outputs = []
    for entry, length in enumerate(context_lens):
        key, value = (wide(cache, scale, by=lambda scale: scale[:, None, :, None])[block_table[entry]]
                      .reshape(-1, *cache.shape[2:])[None, :length].swapaxes(1, 2)
                      for cache, scale in ((key_cache, k_scale), (value_cache, v_scale)))
        outputs.append(core(query[entry:entry + 1], key, value))
    return np.concatenate(outputs)
'''


@pytest.mark.parametrize(("name", "limits"), [
    ("by_head", "stored_key: int8, stored_value: int8, key_scales: head, value_scales: head"),
    ("by_token", "stored_key: float8_e4m3fn, stored_value: float8_e4m3fn, key_scales: token, value_scales: token"),
    ("broadcasting", "limits: {grouped: true}"),
    ("of_sequences", "stored_query: float8_e4m3fn, stored_key: float8_e4m3fn, stored_value: float8_e4m3fn, "
                     "query_scales: batch_head, key_scales: batch_head, value_scales: batch_head"),
    ("in_blocks", "key_scales: block(32), value_scales: block(32)"),
    ("with_zeros", "stored_key: uint8, stored_value: uint8, key_scales: token, value_scales: token, zeros: codes"),
    ("by_channel_and_token", "key_scales: channel, value_scales: token"),
    ("nibbles", "stored_key: int4, stored_value: int4, packed_key: low_first, packed_value: low_first, "
                "key_scales: head, value_scales: head"),
    ("one_for_all", "stored_key: int8, stored_value: int8, key_scales: tensor, value_scales: tensor"),
    ("in_pages", "key_scales: page, value_scales: page"),
])
def test_storage_and_granularity_are_found_and_declared(cli: Cli, tmp_path: Path, name: str, limits: str) -> None:
    out, manifest = begun(cli, tmp_path, name)
    assert limits in manifest
    assert "NOT JUDGED" not in out
    assert "grouped: true" in manifest


def begun(cli: Cli, folder: Path, name: str, text: str = NUMPY) -> tuple[str, str]:
    """What `init` says of a function, and the manifest that it writes."""
    (folder / "mine.py").write_text(text, encoding="utf-8")
    code, out, err = cli("init", str(folder / f"mine.py:{name}"), "--into", str(folder / "written"))
    assert code == 0, err
    return out, (folder / "written" / "mine" / "manifest.yaml").read_text(encoding="utf-8")


def test_what_was_found_conforms(cli: Cli, tmp_path: Path) -> None:
    begun(cli, tmp_path, "with_zeros")
    code, out, _ = cli("check", "mine/with_zeros", "--implementations", str(tmp_path / "written"), "--effort", "glance",
                       "--clause", "quantised.*")
    assert code == 0, out
    assert "Conforms." in out


def test_a_scale_that_is_ignored_is_handed_on_all_the_same_and_named(cli: Cli, tmp_path: Path) -> None:
    out, manifest = begun(cli, tmp_path, "without_value_scale")
    assert "Its v_scale is handed on as `value_scale` ((Hkv,))" in out
    assert "value_scales: head" in manifest
    code, out, _ = cli("check", "mine/without_value_scale", "--implementations", str(tmp_path / "written"),
                       "--clause", "quantised.values", "--effort", "quick")
    assert code == 1
    assert "value_scale_ignored" in out


def test_a_function_that_reads_one_scale_of_many_is_doubted(cli: Cli, tmp_path: Path) -> None:
    out, _ = begun(cli, tmp_path, "one_for_all")
    assert "ONE SCALE FOR ALL HEADS: it takes k_scale and v_scale (Hkv,), too" in out


def test_other_formats_that_it_takes_are_told(cli: Cli, tmp_path: Path) -> None:
    out, _ = begun(cli, tmp_path, "broadcasting")
    assert "Its codes are numbers; it takes int8, float8_e4m3fn, float8_e5m2, int4, too." in out


TORCH = '''
import torch
import torch.nn.functional as F

def over_cache(query, key, value, is_causal=False, k_scale=None, v_scale=None):
    """An fp8 cache."""
    assert key.dtype == torch.float8_e4m3fn
    group = query.shape[1] // key.shape[1]
    def wide(codes, scale):
        numbers = codes.float() if scale is None else codes.float() * scale
        return numbers.repeat_interleave(group, 1).to(query.dtype)
    return F.scaled_dot_product_attention(query, wide(key, k_scale), wide(value, v_scale), is_causal=is_causal)
'''


def test_codes_of_pytorch_are_found_too(cli: Cli, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    _, manifest = begun(cli, tmp_path, "over_cache", TORCH)
    assert "lift: torch" in manifest
    assert "stored_key: float8_e4m3fn, stored_value: float8_e4m3fn" in manifest
    assert "quantised" in manifest


@pytest.mark.parametrize("name", ["k_scale", "k_descale", "descale_k", "k_cache_scale", "key_scales",
                                  "k_dequant_scale"])
def test_scales_are_known_by_the_names_that_libraries_have(name: str) -> None:
    parameters = tuple(TheirParameter(each) for each in ("q", "k", "v", name, "scale"))
    told = find_scale_parameters(ExaminedCallable("lib:f", "f", "lib", "lib", is_class=False, parameters=parameters,
                                                  packages=frozenset()))
    assert told is not None
    assert told.by_keyword["key_scale"].name == name
    assert [each.name for each in told.callee.parameters] == ["q", "k", "v", "scale"]


def test_a_function_without_scales_is_none_of_codes() -> None:
    parameters = tuple(TheirParameter(each) for each in ("q", "k", "v", "scale", "q_scale"))
    assert find_scale_parameters(ExaminedCallable("lib:f", "f", "lib", "lib", is_class=False, parameters=parameters,
                                                  packages=frozenset())) is None


def test_a_form_with_scales_is_tried_with_codes() -> None:
    passed = (Binding("key_scale", "k_scale", "key_scale"),)
    problem = plain_problem(CallForm("lib:f", bindings=passed, limits={"stored_key": "int8", "key_scales": "token"}))
    assert isinstance(problem, Problem)
    assert problem.key_scale is not None
    assert (problem.key == problem.key.round()).all()
    truth = expect(problem, assumed_precision(DType.FLOAT32), conventions={"grouped_heads": "repeat"})
    assert expect_usual(CallForm("lib:f"), problem).gap(truth.output)[0] < 1e-12
