"""`attnspec init`: the form of somebody's attention, found out by trying and written down as an adapter."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from attnspec.cli.manifests import init
from attnspec.core.errors import AttnspecError, TargetError
from attnspec.core.nouns import DType
from attnspec.core.surroundings import Surroundings
from attnspec.scaffold import search
from attnspec.scaffold.callee_process import CalleeProcess
from attnspec.scaffold.form import CallForm
from attnspec.scaffold.manifest import measure_adapter, write_entry, write_head
from attnspec.scaffold.trial_adapter import Trier
from attnspec.scaffold.writing.source import write_source
from attnspec.subjects.callee import Hosted
from attnspec.subjects.target import host_of
from click.testing import CliRunner

pytestmark = pytest.mark.usefixtures("here")

THEIRS = '''
import numpy as np

def attend_bthd(q, k, v, attn_mask=None, is_causal=False, softmax_scale=None):
    """(B,T,H,D); a mask is True where a key is hidden."""
    q, k, v = (array.swapaxes(1, 2) for array in (q, k, v))
    scale = q.shape[-1] ** -0.5 if softmax_scale is None else softmax_scale
    logits = q @ k.swapaxes(-1, -2) * scale
    if attn_mask is not None:
        logits = np.where(attn_mask, -1e9, logits)
    if is_causal:
        logits = np.where(np.tri(*logits.shape[-2:]) > 0, logits, -1e9)
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return (weights / weights.sum(-1, keepdims=True) @ v).swapaxes(1, 2)

def folded(query, key, value, bias=None):
    """(B·H,T,D) and a default scale of 1."""
    assert query.ndim == 3
    logits = query @ key.swapaxes(-1, -2) + (0 if bias is None else bias)
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ value, weights

def one_mask_for_all_heads(query, key, value, mask=None):
    logits = query @ key.swapaxes(-1, -2) / query.shape[-1] ** 0.5
    if mask is not None:
        logits = np.where(mask[:, None], logits, -1e9)
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ value

def no_attention(query, key, value):
    return query

HEADS, WIDTH = 3, 5

def of_three_heads(inputs):
    def split(array):
        return array.reshape(len(array), HEADS, -1)
    return split(inputs)

def sees_one_more(query, key, value, is_causal=False):
    """Its diagonal is off by one."""
    logits = query @ key.swapaxes(-1, -2) / query.shape[-1] ** 0.5
    if is_causal:
        logits = np.where(np.tri(*logits.shape[-2:], 1) > 0, logits, -1e9)
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ value

def another_scale(query, key, value, scale=None):
    """Its scale is a factor beside the usual one."""
    logits = query @ key.swapaxes(-1, -2) / query.shape[-1] ** 0.5 * (scale or 1)
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ value

def parameters_first(params, query, key, value, num_heads, mask=None):
    """(B,T,M), the matrices in a dict before the arrays."""
    def split(array):
        return array.reshape(*array.shape[:2], num_heads, -1).swapaxes(1, 2)
    q, k, v = split(query @ params["wq"]), split(key @ params["wk"]), split(value @ params["wv"])
    logits = q @ k.swapaxes(-1, -2) / q.shape[-1] ** 0.5
    if mask is not None:
        logits = np.where(mask, logits, -1e9)
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    output = weights / weights.sum(-1, keepdims=True) @ v
    return output.swapaxes(1, 2).reshape(*query.shape[:2], -1) @ params["wo"]

def loses_the_last(params, x, context, num_heads):
    """Of a context that is longer than x, the last place."""
    context = context[:, :-1] if context.shape[1] > x.shape[1] else context
    return parameters_first(params, x, context, context, num_heads)

def refuses_another(params, x, context, num_heads):
    if context is not x and not np.array_equal(context, x):
        raise NotImplementedError("only self-attention")
    return parameters_first(params, x, context, context, num_heads)

def of_a_source(params, x, src, num_heads, context_mask=None):
    """A mask of the source's places."""
    mask = None if context_mask is None else context_mask[:, None, None]
    return parameters_first(params, x, src, src, num_heads, mask)

def memory_first(params, memory, x, num_heads):
    return parameters_first(params, x, memory, memory, num_heads)

def mask_of_next_entry(query, key, value, mask=None):
    """Each batch entry heeds the mask of its neighbour."""
    logits = query @ key.swapaxes(-1, -2) / query.shape[-1] ** 0.5
    if mask is not None:
        logits = np.where(np.roll(mask, 1, axis=0), logits, -1e9)
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ value

def mask_of_another_shape(query, key, value, mask=None):
    """Its mask meets the logits at no shape."""
    return mask_of_next_entry(query, key, value, None if mask is None else mask[..., :2])

def tiled(query, key, value, block=64, precision="highest", kernel=np.matmul):
    """Parameters that say nothing of attention."""
    weights = np.exp(kernel(query, key.swapaxes(-1, -2)) / query.shape[-1] ** 0.5)
    return kernel(weights / weights.sum(-1, keepdims=True), value)

def fused(q, k, v, causal=False):
    """(B,T,H,D), D of 64 or 128."""
    if q.shape[-1] not in (64, 128):
        raise ValueError(f"head dim must be 64 or 128, got {q.shape[-1]}")
    return attend_bthd(q, k, v, is_causal=causal)

def fused_half(qkv):
    """(B,T,3,H,D) in float16, T in steps of 64."""
    if qkv.dtype != np.float16:
        raise TypeError("only float16 is supported")
    if qkv.shape[1] % 64 or qkv.shape[-1] % 32:
        raise ValueError("sequence lengths are multiples of 64, and head dims of 32")
    return attend_bthd(*np.moveaxis(qkv.astype(np.float32), 2, 0)).astype(np.float16)

class NotOfTorch:
    pass

def dies(query, key, value):
    import os
    os._exit(7)
'''
LAYER = '''
import torch
from torch import nn

class Own(nn.Module):
    """One input, fused projections, a mask that is True where a query may attend."""
    def __init__(self, dim, n_heads):
        super().__init__()
        self.qkv, self.proj, self.heads = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim), n_heads

    def forward(self, x, mask=None):
        B, T, M = x.shape
        q, k, v = self.qkv(x).reshape(B, T, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        logits = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
        if mask is not None:
            logits = logits.masked_fill(~mask, float("-inf"))
        return self.proj((logits.softmax(-1) @ v).transpose(1, 2).reshape(B, T, M))

class Single(nn.Module):
    """One head, and no output projection."""
    def __init__(self, dim):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(dim, dim) for _ in range(3))

    def forward(self, x):
        logits = self.query(x) @ self.key(x).transpose(-1, -2) / x.shape[-1] ** 0.5
        return logits.softmax(-1) @ self.value(x)

class Perceives(nn.Module):
    """Of queries and a context whose widths it is told."""
    def __init__(self, query_dim, context_dim, num_heads):
        super().__init__()
        self.to_q, self.out, self.heads = nn.Linear(query_dim, query_dim), nn.Linear(query_dim, query_dim), num_heads
        self.to_kv = nn.Linear(context_dim, 2 * query_dim)

    def forward(self, latents, inputs):
        q, (k, v) = self.to_q(latents), self.to_kv(inputs).chunk(2, dim=-1)
        q, k, v = (X.unflatten(-1, (self.heads, -1)).transpose(1, 2) for X in (q, k, v))
        weights = (q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5).softmax(-1)
        return self.out((weights @ v).transpose(1, 2).flatten(-2))

class Headless(nn.Module):
    def __init__(self, dim):
        super().__init__()
'''


@pytest.fixture
def here(here: Path) -> Path:
    """A folder with somebody's modules, where one stands."""
    (here / "their_numpy.py").write_text(THEIRS, encoding="utf-8")
    (here / "their_torch.py").write_text(LAYER, encoding="utf-8")
    return here


def find_form_and_trier(target: str) -> tuple[CallForm, Trier]:
    trier = Trier(CalleeProcess(host_of(target, Surroundings())))
    return search.find_form(target, trier), trier


def find_form(target: str) -> CallForm:
    return find_form_and_trier(target)[0]


def test_layout_polarity_and_names_are_found_out() -> None:
    form = find_form("their_numpy:attend_bthd")
    assert (form.arrangement.shape, form.array_names, form.lift) == ("(B,{L},H,D)", (), "")
    assert {each.keyword: (each.parameter, each.expression) for each in form.bindings} == {
        "mask": ("attn_mask", "~mask"), "causal": ("is_causal", "True"), "scale": ("softmax_scale", "scale")}


def test_folded_heads_a_pair_and_another_default_scale_are_found_out() -> None:
    form = find_form("their_numpy:folded")
    assert form.reading is not None
    assert (form.arrangement.shape, form.reading.path, form.reading.layout.shape) == ("(B·H,{L},D)", "[0]", "(B·H,T,D)")
    assert form.parameter_for("bias") == "bias"
    assert form.remarks == ("Its default scale is 1, not 1/sqrt(D).",)


def test_a_mask_for_all_heads_is_found_out_with_its_limit() -> None:
    form = find_form("their_numpy:one_mask_for_all_heads")
    assert form.bindings[0].expression == "mask[:, 0]"
    assert form.limits["mask_axes"] == "BTS"


def test_a_flag_that_gives_other_numbers_is_written_in_to_be_judged() -> None:
    form = find_form("their_numpy:sees_one_more")
    assert form.keywords == ("causal",)
    assert form.remarks == (
        "Its is_causal is handed on as `causal`, but its causal mask is off by one: a query sees one later key: "
        "attnspec check says what is wrong. If is_causal means something else, take it out of the adapter.",)


def test_a_wrong_number_is_written_in_at_its_nearest_reading() -> None:
    form = find_form("their_numpy:another_scale")
    assert form.keywords == ("scale",)
    assert form.remarks == (
        "Its scale is handed on as `scale` (what the dot products are divided by), but its output is -1.62 where -2.28 "
        "is expected, at (0, 1, 2, 5): attnspec check says what is wrong. If scale means something else, take it out "
        "of the adapter.",)


@pytest.mark.nightly
def test_a_layer_that_is_wrong_of_another_input_is_written_in_to_be_judged() -> None:
    form = find_form("their_numpy:loses_the_last")
    assert (form.array_names, form.limits["one_memory"]) == (("x", "context"), True)
    assert [re.sub(r"-?[0-9][0-9.]*", "#", said) for said in form.remarks] == [
        "Its context is handed another input, but its output is then # where # is expected, at (#, #, #): attnspec "
        "check says what is wrong. If context means something else, declare self_attention_only, and take it out of "
        "the adapter."]


@pytest.mark.nightly
def test_a_layer_that_raises_for_another_input_is_written_for_its_own() -> None:
    form = find_form("their_numpy:refuses_another")
    assert form.arguments["context"] == "query"
    assert form.remarks == ("With another input as its context it raises: attention to that is not judged.",)


def test_an_input_of_which_nothing_is_known_may_be_a_memory() -> None:
    form = find_form("their_numpy:of_a_source")
    assert (form.array_names, form.limits["one_memory"]) == (("x", "src"), True)
    assert form.parameter_for("mask") == "context_mask"


@pytest.mark.nightly
def test_a_layer_that_wants_the_width_of_its_context_is_told_it() -> None:
    pytest.importorskip("torch")
    form = find_form("their_torch:Perceives")
    assert form.construction["context_dim"] == "M"
    assert (form.limits["one_memory"], form.attends_to_itself, form.array_names) == (True, False, ())


def test_a_memory_that_comes_before_the_queries_is_found() -> None:
    form = find_form("their_numpy:memory_first")
    assert form.array_names == ("x", "memory")
    assert form.limits["one_memory"] is True


def test_a_layer_whose_parameters_come_before_its_arrays_is_found() -> None:
    form = find_form("their_numpy:parameters_first")
    assert form.array_names == ("query", "key", "value")
    assert form.keywords == ("mask",)


def test_a_wrong_mask_is_written_in_along_all_axes_that_it_takes() -> None:
    form = find_form("their_numpy:mask_of_next_entry")
    assert [(each.keyword, each.parameter) for each in form.bindings] == [("mask", "mask")]
    assert "mask_axes" not in form.limits
    assert re.fullmatch(r"Its mask is handed on as `mask` \(True where .*\), but its output is .*: attnspec check .*",
                        form.remarks[0])


def test_printed_commands_ask_for_a_keyword_that_breaks_by_chance() -> None:
    told = CliRunner().invoke(init, ["their_numpy:mask_of_another_shape"], standalone_mode=False).output
    assert told.startswith("NOT JUDGED: mask. It could not be used as `mask`, so that keyword is left out. Nearest is ")
    assert ("mask: it has a parameter or a name for that, and does not do it. That may be wrong, and is not judged: "
            "--must-take lets a check fail for it. If something else is meant, leave that option out.") in told
    subject = "their_numpy/mask_of_another_shape"
    assert f"Next: attnspec check {subject} --implementations implementations --must-take mask" in told
    assert f'gate("{subject}", implementations="implementations", must_take="mask")' in told


def test_a_layer_of_torch_is_found_with_its_matrices() -> None:
    form, trier = find_form_and_trier("their_torch:Own")
    assert form.arrangement.is_one
    assert ["".join(path) for path in form.state or ()] == [".qkv.weight", ".qkv.bias", ".proj.weight", ".proj.bias"]
    assert form.parameter_for("mask") == "mask"
    limits = next(line for line in write_entry(form, measure_adapter(form, trier)).splitlines() if "limits" in line)
    assert limits.strip() == (
        "limits: {self_attention_only: true, ties_value_width: true, grouped: false, ties_model_width: true}")


@pytest.mark.nightly
def test_a_layer_without_a_number_of_heads_has_one() -> None:
    form = find_form("their_torch:Single")
    assert (form.limits["single_head"], form.limits["projects_output"]) == (True, False)


@pytest.mark.nightly
def test_the_functions_of_torch_are_understood_without_a_signature() -> None:
    form = find_form("torch.nn.functional:scaled_dot_product_attention")
    assert set(form.keywords) == {"mask", "bias", "causal", "scale"}
    assert form.arguments == {"enable_gqa": "Hkv != H"}
    assert 'bias.masked_fill(~mask, float("-inf"))' in write_source(form)
    assert write_head(form).splitlines()[1] == "distribution: torch"


def test_what_is_left_at_its_default_is_listed_in_the_adapter() -> None:
    form = find_form("their_numpy:tiled")
    assert form.left_defaults == {"block": "64", "precision": "'highest'", "kernel": ""}
    assert "- Left at their defaults: precision='highest', kernel." in write_source(form)
    assert "precision" not in write_source(form).partition("def attend")[2]
    assert "block=3" in write_source(form).partition("def attend_block")[2]  # another one must change nothing


@pytest.mark.family(2)
@pytest.mark.parametrize(("target", "message"), [
    ("their_numpy:no_attention", "their_numpy:no_attention does not compute attention in any of the"),
    ("their_numpy:of_three_heads",
     "It reads HEADS = 3 from its module, and it was tried with other sizes: if that is the number of heads or a "
     "width, make it a parameter (`num_heads=HEADS`). Write its adapter by hand"),
    ("their_numpy:NotOfTorch", "their_numpy:NotOfTorch is not a class of PyTorch, Equinox, Flax, Haiku or "
                               "Keras, and has no method `__call__`, `forward` or `call` that takes arrays"),
    ("their_torch:Headless", "their_torch:Headless does not compute attention in any of the"),
    ("their_numpy", "'their_numpy' names nothing in a module. Write package.module:name or path/to/file.py:name."),
    ("math:pi", "'math:pi' is float and cannot be called."),
])
def test_what_cannot_be_found_out_is_said(target: str, message: str) -> None:
    with pytest.raises(TargetError, match=re.escape(message)):
        find_form(target)


@pytest.mark.parametrize("name", ["attend", "query"])
def test_a_callee_with_a_name_of_ours_is_imported_under_another(here: Path, name: str) -> None:
    (here / f"their_{name}.py").write_text(THEIRS.replace("def tiled", f"def {name}"), encoding="utf-8")
    text = write_source(find_form(f"their_{name}:{name}"))
    assert f"from their_{name} import {name} as theirs" in text
    assert "    return theirs(" in text


def test_init_writes_what_check_can_judge_and_overwrites_nothing(here: Path) -> None:
    first = CliRunner().invoke(init, ["their_numpy:attend_bthd"], standalone_mode=False)
    second = CliRunner().invoke(init, ["their_numpy:folded"], standalone_mode=False)
    assert (first.exception, second.exception) == (None, None)
    assert ("found: Where libraries differ, the manifest declares what it does: hidden_row: uniform, "
            "causal_alignment: top_left, mask_with_causal: both. Correct there what is a mistake.") in first.output
    assert first.output.splitlines()[-2:] == [
        "Next: attnspec check their_numpy/attend_bthd --implementations implementations",
        'In a test file: test_attention = attnspec.gate("their_numpy/attend_bthd", implementations="implementations")']
    manifest = (here / "implementations/their_numpy/manifest.yaml").read_text(encoding="utf-8")
    assert [line for line in manifest.splitlines() if "- id" in line] == ["  - id: attend_bthd", "  - id: folded"]
    again = CliRunner().invoke(init, ["their_numpy:folded"], standalone_mode=False)
    assert "exists already. Move it away" in str(again.exception)


def test_a_callable_that_dies_takes_nothing_along() -> None:
    died = CliRunner().invoke(init, ["their_numpy:dies"], standalone_mode=False)
    assert isinstance(died.exception, AttnspecError)
    assert "the process died (exit code 7)" in str(died.exception)


@pytest.mark.nightly
def test_what_a_framework_flushes_at_larger_sizes_is_declared(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
) -> None:
    pytest.importorskip("torch")
    (tmp_path / "plainly.py").write_text(
        "import torch\n"
        "def attend(query, key, value):\n"
        "    logits = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5\n"
        "    return torch.softmax(logits, -1) @ value\n", encoding="utf-8")
    monkeypatch.setattr(Hosted, "find_flushing_operation",
                        lambda _, dtype: "a product" if dtype is DType.FLOAT32 else "")
    monkeypatch.chdir(tmp_path)
    flushing = set(measure_adapter(*find_form_and_trier("plainly:attend")).flushing_dtypes)
    assert flushing - {DType.BFLOAT16} == {DType.FLOAT32}  # processors that multiply bfloat16 flush there themselves


@pytest.mark.nightly
@pytest.mark.parametrize(("name", "limits"), [
    ("fused", 'limits: {grouped: false, refuses: ["D % 64 ≠ 0", "D > 128"]}'),
    ("fused_half", 'limits: {self_attention_only: true, ties_value_width: true, grouped: false, '
                   'refuses: ["D % 32 ≠ 0", "S % 64 ≠ 0"]}')])
def test_init_finds_a_kernel_of_large_sizes_and_lists_what_it_refuses(name: str, limits: str) -> None:
    form, trier = find_form_and_trier(f"their_numpy:{name}")
    assert limits in write_entry(form, measure_adapter(form, trier))
