"""`attnspec init` measures whether every step of a half dtype is stored in it, and declares that class."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from attnspec.core.dtype import HALF_DTYPES
from attnspec.core.nouns import DType
from attnspec.faults.subject import own_subject
from attnspec.problems.problem import Array
from attnspec.scaffold.stored_arithmetic import measure_half_class
from attnspec.subjects.callee import InProcess
from attnspec.subjects.subject import Subject
from helpers.commands import Cli

Attend = Callable[[Array, Array, Array], Array]


def stepwise(query: Array, key: Array, value: Array) -> Array:
    """(B,H,T,Dv): every step in the dtype, as NumPy computes."""
    logits = query @ key.swapaxes(-1, -2) / np.sqrt(query.shape[-1]).astype(query.dtype)
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    sums = weights.astype(np.promote_types(query.dtype, np.float32)).sum(axis=-1, keepdims=True)
    return np.asarray(weights / sums.astype(query.dtype) @ value)


def key_by_key(query: Array, key: Array, value: Array) -> Array:
    """(B,H,T,Dv): running sums in the dtype, one key after the other."""
    number, scale = query.dtype, np.sqrt(query.shape[-1]).astype(query.dtype)
    top = np.full((*query.shape[:3], 1), -np.inf, number)
    total, output = np.zeros_like(top), np.zeros((*query.shape[:3], value.shape[-1]), number)
    for at in range(key.shape[2]):
        logit = (query * key[:, :, at:at + 1]).sum(axis=-1, keepdims=True, dtype=number) / scale
        new = np.maximum(top, logit)
        shrink, grown = np.exp(top - new), np.exp(logit - new)
        total, output, top = total * shrink + grown, output * shrink + grown * value[:, :, at:at + 1], new
    return np.asarray(output / total)


def wide_softmax(query: Array, key: Array, value: Array) -> Array:
    """(B,H,T,Dv): logits and weights are stored, the softmax is wide."""
    wide = np.promote_types(query.dtype, np.float32)
    logits = (query @ key.swapaxes(-1, -2) / np.sqrt(query.shape[-1]).astype(query.dtype)).astype(wide)
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.asarray((weights / weights.sum(axis=-1, keepdims=True)).astype(query.dtype) @ value)


def first_key_only(query: Array, key: Array, value: Array) -> Array:  # noqa: ARG001  (as attention is called)
    """(B,H,T,Dv): the first value, whatever the keys say, so that its weight is 1."""
    return np.broadcast_to(value[:, :, :1], (*query.shape[:3], value.shape[-1])).copy()


def unscaled(query: Array, key: Array, value: Array) -> Array:
    """(B,H,T,Dv): every step in the dtype, and keys are not scaled."""
    return stepwise(query * np.sqrt(query.shape[-1]).astype(query.dtype), key, value)


def subject_of(attend: Attend) -> Subject:
    sound = own_subject("sound/naive")
    return replace(sound, callee=InProcess(attend), declaration=replace(sound.declaration, keywords=frozenset()))


@pytest.mark.parametrize("dtype", HALF_DTYPES, ids=lambda dtype: dtype.value)
def test_a_function_that_stores_every_step_has_class_g4(dtype: DType) -> None:
    assert measure_half_class(subject_of(stepwise), dtype) == {"grade": "G4"}


@pytest.mark.parametrize("dtype", HALF_DTYPES, ids=lambda dtype: dtype.value)
def test_running_sums_in_the_dtype_are_part_of_the_class(dtype: DType) -> None:
    words = measure_half_class(subject_of(key_by_key), dtype)
    assert (words["grade"], words["accumulate"], words["row_sum"]) == ("G4", dtype.value, dtype.value)


@pytest.mark.parametrize("dtype", HALF_DTYPES, ids=lambda dtype: dtype.value)
@pytest.mark.parametrize("attend", [wide_softmax, first_key_only, unscaled], ids=lambda each: each.__name__)
def test_what_is_wide_or_wrong_is_given_no_class(attend: Attend, dtype: DType) -> None:
    assert measure_half_class(subject_of(attend), dtype) == {}


def test_wide_dtypes_have_no_such_class() -> None:
    assert measure_half_class(subject_of(stepwise), DType.FLOAT32) == {}


def test_the_page_says_that_the_class_was_measured(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("steps.py").write_text("import numpy as np\n\ndef attend(q, k, v):\n"
                                "    s = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1]).astype(q.dtype)\n"
                                "    e = np.exp(s - s.max(-1, keepdims=True))\n"
                                "    return e / e.sum(-1, keepdims=True) @ v\n", encoding="utf-8")
    code, out, _ = cli("init", "steps.py:attend")
    assert code == 0
    assert "Measured in float16: it stores every step in the dtype, exponentials and their sum among them." in out
    assert "float16: {grade: G4, " in Path("implementations/steps/manifest.yaml").read_text(encoding="utf-8")
