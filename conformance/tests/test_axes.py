"""A function that cannot be judged as it is says so once, before it is judged, with the way out."""

from __future__ import annotations

from pathlib import Path

import pytest
from attnspec.cli.check import smoke_inputs
from attnspec.core.errors import TargetError
from attnspec.core.nouns import Effort
from attnspec.core.plan import Plan
from attnspec.engine.engine import Engine
from attnspec.engine.summon import load_subject

HEAD = """
import numpy as np
def attend(query, key, value{more}):
    logits = {logits} / np.sqrt(query.shape[-1])
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True) @ value
"""
COURSE = "query @ key.T"  # what courses teach: (T, D)
BATCHED = "query @ key.transpose(0, 2, 1)"
ANY = "query @ key.swapaxes(-1, -2)"


OTHER_ORDER = """
import numpy as np
def attend(query, key, value{more}):
    Q, K, V = (each.swapaxes(1, 2) for each in (query, key, value))
    logits = Q @ K.swapaxes(-1, -2) / np.sqrt(Q.shape[-1]).astype(Q.dtype)
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return (weights / weights.sum(axis=-1, keepdims=True) @ V).swapaxes(1, 2).astype(query.dtype)
attend.dtypes = ["{dtype}"]
"""


def written(folder: Path, logits: str, more: str = "") -> str:
    path = folder / "mine.py"
    path.write_text(HEAD.format(logits=logits, more=more), encoding="utf-8")
    return f"{path}:attend"


def told(target: str) -> str:
    with pytest.raises(TargetError) as caught:
        load_subject(target, Plan((target,)))
    return str(caught.value)


def test_a_function_of_two_axes_is_told_so_with_the_way_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path, COURSE)
    assert told("mine.py:attend") == (
        "mine.py:3: mine.py:attend takes arrays with the axes (T, D). attnspec gives it four, (B, H, T, D), and then "
        "it raises ValueError: matmul: Input operand 1 has a mismatch in its core dimension 0, with gufunc signature "
        "(n?,k),(k,m?)->(n?,m?) (size 4 is different from 8). Have a wrapper written (attnspec init mine:attend), or "
        "let the function take any leading axes: write `query @ key.swapaxes(-1, -2)`, not `key.T`, and sum over axis "
        "-1.")


def test_a_function_of_three_axes_is_told_so_too(tmp_path: Path) -> None:
    message = told(written(tmp_path, BATCHED))
    assert "takes arrays with the axes (B, T, D)" in message
    assert "not `torch.bmm` or `key.transpose(0, 2, 1)`" in message


@pytest.mark.family(1)
@pytest.mark.parametrize("logits", [ANY, "np.zeros(1)[2] + query", "np.einsum('bhtd,bhsd->bhts', query, key)"],
                         ids=["any-axes", "always-raises", "four-axes"])
def test_nobody_else_is_told_of_axes(tmp_path: Path, logits: str) -> None:
    target = written(tmp_path, logits)
    assert load_subject(target, Plan((target,))).id == target


@pytest.mark.family(1)
@pytest.mark.parametrize("more", ["", ", causal=False"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_function_of_another_order_of_axes_is_told_so(tmp_path: Path, more: str, dtype: str) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text(OTHER_ORDER.format(more=more, dtype=dtype), encoding="utf-8")
    assert told(f"{mine}:attend").endswith(
        "mine.py:3: " + f"{mine}:attend seems to take arrays with the axes (B, T, H, D): given these, it is right. "
        "attnspec gives (B, H, T, D). Have a wrapper written (attnspec init package.module:name), or swap the axes 1 "
        "and 2 of query, key, value and output.")


@pytest.mark.family(1)
@pytest.mark.parametrize("check", [
    "query.shape[3] in (64, 128)", "query.shape[3] == 128 and query.shape[1] % 128 == 0"])
def test_a_kernel_of_large_sizes_is_told_of_its_order_of_axes_too(tmp_path: Path, check: str) -> None:
    mine = tmp_path / "mine.py"
    text = OTHER_ORDER.format(more="", dtype="float16").replace("    Q, K, V", f"    assert {check}\n    Q, K, V")
    mine.write_text(text, encoding="utf-8")
    assert "seems to take arrays with the axes (B, T, H, D)" in told(f"{mine}:attend")


def test_what_is_wrong_in_either_order_is_judged(tmp_path: Path) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text(OTHER_ORDER.format(more="", dtype="float32").replace("@ V", "@ -V"), encoding="utf-8")
    assert load_subject(f"{mine}:attend", Plan((f"{mine}:attend",))).id == f"{mine}:attend"


def test_a_keyword_without_a_default_is_told_with_the_default(tmp_path: Path) -> None:
    assert told(written(tmp_path, ANY, ", mask, causal, bias")).endswith(
        "mine.py:3: attend takes 'mask' and 'bias' without a default, so it cannot be called without. Give the "
        "default that means none is given: def attend(query, key, value, *, mask=None, bias=None), or have a wrapper "
        "written: attnspec init package.module:name")


def test_who_is_always_causal_has_to_take_the_flag(tmp_path: Path) -> None:
    target = written(tmp_path, ANY, "")
    with Path(target.partition(":")[0]).open("a", encoding="utf-8") as file:
        file.write("attend.causal_only = True\n")
    with pytest.raises(TargetError, match="is declared causal_only and takes no 'causal'"):
        load_subject(target, Plan((target,)))


def test_smoke_says_it_once(tmp_path: Path) -> None:
    target = written(tmp_path, COURSE)
    with pytest.raises(TargetError, match=r"takes arrays with the axes \(T, D\)"):
        smoke_inputs(target, Plan((target,)))


def test_an_engine_tries_to_load_a_target_once(tmp_path: Path) -> None:
    counter = tmp_path / "loaded"
    counter.write_text("")
    target = written(tmp_path, COURSE)
    with Path(target.partition(":")[0]).open("a", encoding="utf-8") as file:
        file.write(f"with open({str(counter)!r}, 'a') as file: file.write('x')\n")
    engine = Engine(Plan((target,), effort=Effort.QUICK))
    for _ in range(3):
        with pytest.raises(TargetError, match="takes arrays with the axes"):
            engine.fetch(target)
    assert counter.read_text() == "x"
