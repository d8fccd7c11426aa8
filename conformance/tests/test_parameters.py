"""Parameters that attnspec does not know: left alone and listed where they have a default, told the way out if not."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from attnspec.cli import main
from attnspec.core.errors import TargetError
from attnspec.core.keywords import KEYWORDS, OTHER_NAMES, keyword_for, list_defaults, slip_of
from attnspec.core.nouns import Kind
from attnspec.record.outcome import SubjectCard
from attnspec.subjects.registry import load_target
from attnspec.subjects.signature import Signature, signature_of
from attnspec.subjects.smoke import smoke_subject

KERNEL = '''
import numpy as np


def tiled(query, key, value, *args, block=64, dropout_p=0.0, backend=None, scale=None, **kwargs):
    assert (args, block, dropout_p, backend, kwargs) == ((), 64, 0.0, None, {})
    logits = query @ np.swapaxes(key, -1, -2)
    logits = logits * query.dtype.type(query.shape[-1] ** -0.5 if scale is None else scale)
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return (weights / weights.sum(-1, keepdims=True)) @ value


def paged(query, key, value, lengths, *, page, causal=False, mask=None, block=64): ...
def renamed(q, k, v, attn_mask, is_causal=False): ...
def attend(query, key, value, lengths, /): ...
'''
LEFT_ALONE = {"block": "64", "dropout_p": "0.0", "backend": "None"}
OF_DROPOUT_P = "dropout_p=0.0 (attnspec's keyword is dropout_rate: rename it, or wrap it with `attnspec init`)"


@pytest.fixture
def kernel(here: Path) -> Path:
    """A user's file, in the working directory; `tiled` fails where it is given anything that is none of attnspec's."""
    (here / "kernel.py").write_text(KERNEL.lstrip(), encoding="utf-8")
    return here / "kernel.py"


def taken(function: Callable[..., object]) -> Signature:
    return signature_of(function, "f")


def card_of(target: str) -> SubjectCard:
    return load_target(target).card({}, {})


@pytest.mark.usefixtures("kernel")
def test_what_has_a_default_is_left_alone_and_listed() -> None:
    assert load_target("kernel.py:tiled").declaration.keywords == {"scale"}
    assert card_of("kernel.py:tiled").defaults == LEFT_ALONE


@pytest.mark.usefixtures("kernel")
def test_smoke_lists_what_is_left_alone() -> None:
    lines = smoke_subject(load_target("kernel.py:tiled"))
    assert all(line.has_passed for line in lines)
    assert lines[3].sentence == ("every keyword that is tried (scale) is accepted; left at their defaults: block=64, "
                                 f"{OF_DROPOUT_P}, backend=None")


@pytest.mark.usefixtures("kernel")
def test_check_judges_a_function_that_has_parameters_of_its_own() -> None:
    assert main(["check", "kernel.py:tiled", "--clause", "scale.explicit", "--dtype", "float32", "--effort", "quick",
                 "-n", "1", "--record", "run.jsonl", "--html", "page.html"]) == 0
    events = [json.loads(line) for line in Path("run.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [event["card"]["defaults"] for event in events if "card" in event] == [LEFT_ALONE]
    assert "<b>left at their defaults:</b> block=64, dropout_p=0.0" in Path("page.html").read_text(encoding="utf-8")


GATE = """
import kernel
from attnspec import gate

options = dict(clauses=["attention.shape"], dtypes=["float32"], effort="quick")
test_good = gate(kernel.tiled, **options)
test_bad = gate(kernel.paged, **options)
"""


@pytest.mark.nightly
def test_gate_goes_by_the_same_rule(kernel: Path) -> None:
    (kernel.parent / "test_mine.py").write_text(GATE, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-rA", "-p", "no:cacheprovider", "-p", "attnspec.pytest_plugin"], check=False,
        cwd=kernel.parent, env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}, capture_output=True, text=True)
    assert "PASSED test_mine.py::test_good[kernel:tiled-attention.shape-float32]" in done.stdout
    assert "FAILED test_mine.py::test_bad[kernel:paged-attention.shape-float32]" in done.stdout
    assert "kernel.py:12: paged needs 'lengths' and 'page'" in done.stdout
    assert "def attend(query, key, value, *, causal=False, mask=None): return paged(" in done.stdout


def test_a_registered_adapter_is_read_by_the_same_rule(tmp_path: Path) -> None:
    library = tmp_path / "mine_with_blocks"
    library.mkdir()
    (library / "adapter.py").write_text("def attend(query, key, value, *, block=64): ...\n", encoding="utf-8")
    (library / "manifest.yaml").write_text(
        "library: Mine\nsubjects:\n  - {id: attention, title: Mine, function: 'adapter:attend'}\n", encoding="utf-8")
    assert load_target("mine_with_blocks/attention", folders=[tmp_path]).card({}, {}).defaults == {"block": "64"}


def test_nothing_is_listed_of_a_function_that_takes_known_keywords_only() -> None:
    assert card_of("numpy/attention").defaults == {}
    assert "defaults" not in smoke_subject(load_target("numpy/attention"))[3].sentence


def test_stars_are_given_nothing_and_are_not_listed() -> None:
    assert taken(lambda query, key, value, *args, mask=None, **kwargs: None) == Signature(  # noqa: ARG005  (a signature)
        frozenset({"mask"}), Kind.ATTENTION, {})


def test_what_a_partial_binds_is_left_as_bound() -> None:
    def attend(query: object, key: object, value: object, *, block: int) -> None: ...

    assert taken(functools.partial(attend, block=32)).defaults == {"block": "32"}


class Unspeakable:
    def __repr__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize(("default", "shown"), [
    (object(), "<object object>"), (np.dot, "<function dot>"), ("x" * 60, "'" + "x" * 38 + "…"),
    (np.eye(2), "array([[1., 0.], [0., 1.]])"), (Unspeakable(), "Unspeakable"),
    (Path(tempfile.gettempdir(), "tiles.bin"), "PosixPath('tiles.bin')"),
], ids=["object", "function", "long", "lines", "unspeakable", "path"])
def test_a_default_is_shown_short_and_the_same_everywhere(default: object, shown: str) -> None:
    assert taken(lambda query, key, value, x=default: None).defaults == {"x": shown}  # noqa: ARG005  (a signature)


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize(("target", "message"), [
    ("kernel.py:paged", (
        "kernel.py:12: paged needs 'lengths' and 'page', which attnspec does not know and so cannot give. "
        "Write a wrapper that passes it, and check the wrapper:\n"
        "    def attend(query, key, value, *, causal=False, mask=None): "
        "return paged(query, key, value, lengths=..., page=..., causal=causal, mask=mask)\n"
        "or have one written: attnspec init kernel:paged")),
    ("kernel.py:renamed", (
        "kernel.py:13: renamed needs 'attn_mask' (attnspec's keyword is mask: rename it), which attnspec does not know "
        "and so cannot give. Write a wrapper that passes it, and check the wrapper:\n"
        "    def attend(query, key, value, *, causal=False): return renamed(query, key, value, attn_mask=..., "
        "is_causal=causal)\n"
        "or have one written: attnspec init kernel:renamed")),
    ("kernel.py:attend", (
        "kernel.py:14: attend needs 'lengths', which attnspec does not know and so cannot give. "
        "Write a wrapper that passes it, and check the wrapper:\n"
        "    def wrapped(query, key, value): return attend(query, key, value, ...)\n"
        "or have one written: attnspec init kernel:attend")),
])
def test_what_has_no_default_is_told_with_a_wrapper_to_paste(target: str, message: str) -> None:
    with pytest.raises(TargetError) as caught:
        load_target(target)
    assert str(caught.value) == message
    compile(str(caught.value).splitlines()[1].strip(), "wrapper", "exec")


def test_a_lambda_gets_a_wrapper_that_can_be_pasted_too() -> None:
    with pytest.raises(TargetError, match=r"return function\(query, key, value, block=\.\.\.\)\n.*init package"):
        signature_of(lambda query, key, value, block: None, "lambda")  # noqa: ARG005  (a signature)


def test_what_tells_no_signature_is_offered_an_adapter() -> None:
    with pytest.raises(TargetError, match=r"has no readable signature, .* have that written: attnspec init m:f$"):
        signature_of(type, "f", target="m:f")


def test_what_takes_its_arrays_otherwise_is_offered_a_wrapper() -> None:
    with pytest.raises(TargetError, match=r"the first three should be .* wrapper written: attnspec init m:f$"):
        signature_of(lambda x: x, "f", target="m:f")


def test_parameters_that_a_decorator_hides_are_told_so() -> None:
    with pytest.raises(TargetError, match=(
            r"f takes \(\*a, \*\*kw\), as a decorator makes it .* @functools\.wraps\(function\)")):
        taken(lambda *a, **kw: None)  # noqa: ARG005  (a signature)


def test_a_flag_by_another_name_that_is_on_is_tried_on_and_off() -> None:
    signature = taken(lambda query, key, value, is_causal=True: None)  # noqa: ARG005  (a signature)
    assert signature.keywords == {"causal"}
    assert signature.spelled == {"causal": "is_causal"}
    assert signature.off == {"causal": False}


def test_two_flags_that_may_mean_causal_and_are_on_are_not_left_alone() -> None:
    with pytest.raises(TargetError, match=(
            r"f takes is_causal=True, a flag that attnspec knows as causal and cannot switch off by this name\. "
            r"Rename it to causal, or have a wrapper written: attnspec init m:f$")):
        signature_of(lambda query, key, value, is_causal=True, use_causal_mask=False: None,  # noqa: ARG005  (a signature)
                     "f", target="m:f")


def test_it_is_left_alone_beside_the_flag_itself() -> None:
    assert taken(lambda query, key, value, causal=False, is_causal=True: None).defaults == {"is_causal": "True"}  # noqa: ARG005


@pytest.mark.parametrize("function", [
    lambda params, x, mask=None: None,  # noqa: ARG005  (a signature)
    lambda x, y, is_causal: None,  # noqa: ARG005  (a signature)
    lambda query, key, scale=1: None,  # noqa: ARG005  (a signature)
], ids=["params", "another-library-s-keyword", "keyword"])
def test_a_name_of_something_else_is_no_query_key_or_value(function: Callable[..., object]) -> None:
    with pytest.raises(TargetError, match=r"the first three should be .* wrapper written: attnspec init m:f$"):
        signature_of(function, "f", target="m:f")


@pytest.mark.parametrize("function", [
    lambda q, k, v: None, lambda x, y, z: None, lambda a, b, c: None, lambda Q, KT, vs: None,  # noqa: ARG005  (signatures)
])
def test_query_key_and_value_may_have_other_names(function: Callable[..., object]) -> None:
    assert signature_of(function, "f").kind is Kind.ATTENTION


@pytest.mark.parametrize(("written", "meant"), [
    ("masks", "mask"), ("masc", "mask"), ("mas", "mask"), ("casual", "causal"), ("return_weight", "return_weights"),
    ("baisc", ""), ("sacle", "scale"), ("block", ""), ("q_scale", ""), ("attn_mask", ""), ("mask", ""),
])
def test_a_slip_of_the_pen_is_one_letter_or_two_swapped(written: str, meant: str) -> None:
    assert slip_of(written, KEYWORDS) == meant


def test_a_mistyped_keyword_with_a_default_is_not_left_alone() -> None:
    with pytest.raises(TargetError, match=(
            r"f takes 'casual', which is not a known keyword\. Did you mean 'causal'\? "
            r"If another thing is meant, give it another name\.")):
        taken(lambda query, key, value, casual=False: None)  # noqa: ARG005  (a signature)


def test_a_keyword_that_is_taken_is_not_taken_for_a_mistyped_one() -> None:
    assert taken(lambda query, key, value, scale=None, scales=None: None).defaults == {"scales": "None"}  # noqa: ARG005


@pytest.mark.parametrize("name", sorted({name for names in OTHER_NAMES.values() for name in names} | {"is_casual"}))
def test_another_name_for_a_keyword_is_listed_with_the_keyword(name: str) -> None:
    word, function = keyword_for(name), eval(f"lambda query, key, value, *, block=64, {name}=None: None")
    assert word in KEYWORDS
    assert list_defaults(taken(function).defaults) == (
        f"block=64, {name}=None (attnspec's keyword is {word}: rename it, or wrap it with `attnspec init`)")


def test_what_is_no_other_name_for_a_keyword_stands_alone() -> None:
    assert keyword_for("block") == ""
    assert keyword_for("out") == ""  # one letter from `dout`, and from much else
    assert list_defaults({"block": "64"}) == "block=64"


def test_a_module_of_pytorch_is_read_by_its_forward_and_gets_tensors(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (tmp_path / "mine.py").write_text("""
import torch
class Attention(torch.nn.Module):
    def forward(self, query, key, value, *, causal=False, block=64):
        return query
attend = Attention()
""", encoding="utf-8")
    subject = load_target(f"{tmp_path}/mine.py:attend")
    assert subject.declaration.keywords == {"causal"}
    assert subject.declaration.defaults == {"block": "64"}
    assert subject.declaration.lift == "torch"
