"""A failure that a wider class of arithmetic allows says so first: what the function does, and how to own it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from attnspec.core.errors import TargetError
from attnspec.core.nouns import DType, Effort, Level, Verdict
from attnspec.core.plan import Plan
from attnspec.diagnosis.advice import manifest_line
from attnspec.diagnosis.arithmetic import classes_for
from attnspec.engine.engine import Engine
from attnspec.engine.summon import load_subject
from attnspec.numerics.precision import declared_precision
from attnspec.problems.problem import Array
from attnspec.record.outcome import Explanation, Outcome
from attnspec.spec.yaml_lines import shown_path
from attnspec.subjects.registry import load_target
from helpers.records import evidence_of
from helpers.subjects import softmax_of

Product = Callable[[Array, Array], Array]
FEW = 128


def plainly(left: Array, right: Array) -> Array:
    return left @ right


def one_by_one(left: Array, right: Array) -> Array:
    """Products summed in the dtype, one after the other."""
    total = np.zeros((*left.shape[:-1], right.shape[-1]), left.dtype)
    for index in range(left.shape[-1]):
        total = total + left[..., index:index + 1] * right[..., index:index + 1, :]
    return total


def of_rounded(left: Array, right: Array) -> Array:
    """Inputs rounded to the ten bits of TF32, to nearest."""
    left, right = ((np.ascontiguousarray(array).view(np.uint32) + np.uint32(0x1000)) & np.uint32(0xFFFFE000)
                   for array in (left, right))
    product: Array = left.view(np.float32) @ right.view(np.float32)
    return product


def logits_of(query: Array, key: Array, causal: bool, product: Product) -> Array:
    logits = product(query, key.swapaxes(-1, -2)) / np.sqrt(query.shape[-1]).astype(query.dtype)
    seen = np.tri(*logits.shape[-2:]).astype(bool)
    return np.where(seen, logits, np.array(-np.inf, query.dtype)) if causal else logits


def textbook(query: Array, key: Array, value: Array, *, causal: bool = False) -> Array:
    """Every step in the dtype of the inputs."""
    return softmax_of(logits_of(query, key, causal, plainly)) @ value


def summed_in_dtype(query: Array, key: Array, value: Array, *, causal: bool = False) -> Array:
    """Sums in the dtype as well; of few keys, for the sums are slow."""
    if key.shape[2] > FEW:
        raise ValueError(f"key may have {FEW} keys at most; {key.shape[2]} were given")
    return one_by_one(softmax_of(logits_of(query, key, causal, one_by_one)), value)


def by_logsumexp(query: Array, key: Array, value: Array, *, causal: bool = False) -> Array:
    """Weights are exp(logit - logsumexp)."""
    logits = logits_of(query, key, causal, plainly)
    top = logits.max(axis=-1, keepdims=True)
    stored = top + np.log(np.exp(logits - top).sum(axis=-1, keepdims=True))
    return np.asarray(np.exp(logits - stored) @ value)


def in_tf32(query: Array, key: Array, value: Array, *, causal: bool = False) -> Array:
    """Matrix products as tensor cores form them."""
    return of_rounded(softmax_of(logits_of(query, key, causal, of_rounded)), value)


def through_float32(query: Array, key: Array, value: Array, *, causal: bool = False) -> Array:
    """As JAX computes while x64 is off."""
    return textbook(*(array.astype(np.float32) for array in (query, key, value)), causal=causal).astype(query.dtype)


def softmax_of_float32_logits(query: Array, key: Array, value: Array, *, causal: bool = False) -> Array:
    """As models do that cast their scores for the softmax: one product after the other stays in the dtype."""
    logits = (query @ key.swapaxes(-1, -2)).astype(np.float32) * np.float32(query.shape[-1] ** -0.5)
    if causal:
        logits = np.where(np.tri(*logits.shape[-2:]) > 0, logits, np.float32(-np.inf))
    return softmax_of(logits).astype(value.dtype) @ value


def flushing(query: Array, key: Array, value: Array, *, causal: bool = False) -> Array:
    """Subnormal inputs and outputs become 0."""
    smallest = np.finfo(query.dtype).tiny
    query, key, value = (np.where(abs(array) < smallest, 0, array).astype(array.dtype) for array in (query, key, value))
    output = textbook(query, key, value, causal=causal)
    return np.where(abs(output) < smallest, 0, output).astype(output.dtype)


def scaled_too_far(query: Array, key: Array, value: Array, *, causal: bool = False) -> Array:
    """A constant with two digits."""
    return textbook(query * query.dtype.type(1.01), key, value, causal=causal)


def last_block_not_rescaled(query: Array, key: Array, value: Array) -> Array:
    """Online softmax over blocks of 64 keys, in float32; a block that is not whole does not rescale the sum."""
    query, keys, values = (array.astype(np.float32) for array in (query, key, value))
    top, total, output = np.float32(-np.inf), np.float32(0), np.float32(0)
    for start in range(0, keys.shape[2], 64):
        block = keys[:, :, start:start + 64]
        logits = query @ block.swapaxes(-1, -2) / np.float32(np.sqrt(query.shape[-1]))
        before, top = top, np.maximum(top, logits.max(axis=-1, keepdims=True))
        grown, shrunk = np.exp(logits - top), np.exp(before - top)
        total = (total if block.shape[2] < 64 else total * shrunk) + grown.sum(axis=-1, keepdims=True)
        output = output * shrunk + grown @ values[:, :, start:start + 64]
    return np.asarray(output / total).astype(value.dtype)


def failures(name: str, dtype: DType, *clauses: str) -> list[Outcome]:
    target = f"{__name__}:{name}"
    engine = Engine(Plan((target,), clauses=clauses, dtypes=(dtype,), in_process=(target,)))
    outcomes = [engine.try_item(item) for item in engine.items()]
    return [each for each in outcomes if each.verdict is Verdict.VIOLATED and each.level is Level.MUST]


def explained(name: str, dtype: DType, *clauses: str) -> list[Explanation | None]:
    return [evidence_of(outcome).explained for outcome in failures(name, dtype, *clauses)]


CAUSES = {
    "textbook": (DType.FLOAT16, "numerics.long_sequences", "every step is rounded to float16",
                 "Form logits and softmax in float32",
                 '{"grade": "G4", "reason": "every step is rounded to float16"}'),
    "summed_in_dtype": (DType.FLOAT16, "attention.definition", "every step is rounded to float16, and so are the sums",
                        "Accumulate in float32",
                        '{"grade": "G4", "accumulate": "float16", "row_sum": "float16", '
                        '"reason": "every step is rounded to float16, and so are the sums"}'),
    "by_logsumexp": (DType.FLOAT32, "numerics.huge_logits",
                     "its weights come from a log-sum-exp that is stored in float32 (a choice, no bug)",
                     "Divide by the sum of the exponentials",
                     '{"logsumexp_roundings": 1, "reason": "its weights come from a log-sum-exp that is stored in '
                     'float32 (a choice, no bug)"}'),
    "in_tf32": (DType.FLOAT32, "attention.definition",
                "the inputs of its products are rounded to TF32, and it treats subnormal numbers as 0",
                "Turn TF32 off",
                '{"prescale": "float16", "prescale_roundings": 4, "weights": "float16", "weight_roundings": 4, '
                '"flushes_subnormals": True, "reason": "the inputs of its products are rounded to TF32, and it treats '
                'subnormal numbers as 0"}'),
    "through_float32": (DType.FLOAT64, "attention.definition", "it computes in float32 throughout",
                        "Compute in float64", None),
    "softmax_of_float32_logits": (DType.FLOAT64, "attention.definition",
                                  "its softmax is computed in float32, and so are its logits",
                                  "Compute them in float64", None),
    "flushing": (DType.FLOAT32, "numerics.small_numbers", "it treats subnormal numbers as 0",
                 "Keep them (no flush-to-zero, no fast math)",
                 '{"flushes_subnormals": True, "reason": "it treats subnormal numbers as 0"}'),
}


def to_paste(name: str) -> str:
    dtype, _, _, _, words = CAUSES[name]
    return f'{name}.precision = {{"{dtype.value}": {words}}}'


@pytest.mark.family(1)
@pytest.mark.parametrize("name", CAUSES)
def test_a_sound_function_in_coarser_arithmetic_is_told_its_cause(name: str) -> None:
    """What to do about it, too; neither is the verdict another, nor is a fault named."""
    dtype, clause, cause, advice, words = CAUSES[name]
    [outcome] = failures(name, dtype, clause)
    found = evidence_of(outcome).explained
    assert found is not None
    assert (found.cause, found.advice) == (cause, advice)
    assert words is None or found.declare == to_paste(name)
    assert evidence_of(outcome).like == ()


@pytest.mark.family(1)
@pytest.mark.parametrize("name", ["textbook", "by_logsumexp", "in_tf32", "flushing"])
def test_the_line_to_paste_makes_the_function_conform(name: str, tmp_path: Path) -> None:
    dtype, clause, *_ = CAUSES[name]
    mine = tmp_path / "mine.py"
    mine.write_text(f"{Path(__file__).read_text(encoding='utf-8')}\n{to_paste(name)}\n", encoding="utf-8")
    engine = Engine(Plan((f"{mine}:{name}",), clauses=(clause, "attention.definition", "numerics.typical_error"),
                       dtypes=(dtype,), effort=Effort.QUICK))
    assert {engine.try_item(item).verdict for item in engine.items()} == {Verdict.HELD}


@pytest.mark.nightly
def test_what_a_manifest_needs_fits_where_it_has_a_precision_already(tmp_path: Path) -> None:
    folder = tmp_path / "own_arithmetic"
    folder.mkdir()
    (folder / "mine.py").write_text(Path(__file__).read_text(encoding="utf-8"), encoding="utf-8")
    manifest = folder / "manifest.yaml"
    manifest.write_text("library: Mine\nsubjects:\n  - id: mine\n    title: Mine\n    function: mine:by_logsumexp\n"
                        "    precision:\n      float16: {exp_ulps: 3, reason: measured}\n", encoding="utf-8")
    plan = Plan(("own_arithmetic/mine",), clauses=("numerics.huge_logits",), dtypes=(DType.FLOAT32,),
                implementations=(str(tmp_path),))
    [outcome] = [engine.try_item(item) for engine in [Engine(plan)] for item in engine.items()]
    found = evidence_of(outcome).explained
    assert found is not None
    where, _, line = found.declare.partition(" write: ")
    assert where == f"under 'precision' of own_arithmetic/mine ({shown_path(manifest)}:3)"
    assert line == ('float32: {logsumexp_roundings: 1, reason: "its weights come from a log-sum-exp that is stored in '
                    'float32 (a choice, no bug)"}')
    manifest.write_text(f"{manifest.read_text(encoding='utf-8')}      {line}\n", encoding="utf-8")
    again = Engine(plan)
    assert {again.try_item(item).verdict for item in again.items()} == {Verdict.HELD}


def test_a_line_to_paste_says_what_it_replaces(tmp_path: Path) -> None:
    folder = tmp_path / "own_arithmetic"
    folder.mkdir()
    (folder / "mine.py").write_text(Path(__file__).read_text(encoding="utf-8"), encoding="utf-8")
    manifest = folder / "manifest.yaml"
    manifest.write_text("library: Mine\nsubjects:\n  - id: mine\n    title: Mine\n    function: mine:textbook\n"
                        "    precision:\n      float16: {grade: G3, reason: measured}\n", encoding="utf-8")
    subject = load_target("own_arithmetic/mine", folders=(str(tmp_path),))
    assert manifest_line(subject, "precision", {"float16": {"grade": "G4"}}) == (
        f"under 'precision' of own_arithmetic/mine ({shown_path(manifest)}:3), in place of its float16, write: "
        'float16: {grade: "G4"}')
    assert manifest_line(subject, "limits", {"causal_only": True}) == (
        f"under 'limits' of own_arithmetic/mine ({shown_path(manifest)}:3) write: causal_only: true")


@pytest.mark.family(1)
@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.FLOAT16])
@pytest.mark.parametrize("clause", ["attention.definition", "drift.temperature", "scale.read_out"])
def test_a_mistake_is_not_explained_by_arithmetic(clause: str, dtype: DType) -> None:
    found = explained("scaled_too_far", dtype, clause)
    assert found
    assert not any(found)


@pytest.mark.parametrize("clauses", [
    ("attention.definition",),
    pytest.param(("attention.weights_definition", "attention.rows_are_stochastic", "attention.duplicated_keys",
                  "numerics.small_numbers"), marks=pytest.mark.nightly)])
def test_a_mistake_that_float32_shows_too_is_no_narrow_sum(clauses: tuple[str, ...]) -> None:
    found = explained("last_block_not_rescaled", DType.BFLOAT16, *clauses)
    assert found
    assert not any(found)


@pytest.mark.nightly
def test_a_small_drift_is_no_wider_arithmetic() -> None:
    engine = Engine(Plan(("fault/scale_off_1e5",), clauses=("drift.temperature",), dtypes=(DType.FLOAT32,)))
    [outcome] = [engine.try_item(item) for item in engine.items()]
    assert outcome.verdict is Verdict.VIOLATED
    assert evidence_of(outcome).explained is None


@pytest.mark.parametrize("dtype", DType)
def test_every_class_can_be_declared(dtype: DType) -> None:
    for wider in classes_for(dtype):
        assert declared_precision({**wider.words, "reason": wider.cause}, dtype).reason == wider.cause


@pytest.mark.family(1)
@pytest.mark.parametrize(("text", "why"), [
    ("import torch\ndef attend(query, key, value):\n    return torch.matmul(query, key) @ value\n",
     "its module imports torch"),
    ("from torch.nn.functional import scaled_dot_product_attention as sdpa\n"
     "def attend(query, key, value):\n    return sdpa(query, key, value)\n", "takes tensors of torch")])
def test_a_function_of_tensors_that_gets_arrays_is_told_so(text: str, why: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    mine = tmp_path / "mine.py"
    mine.write_text(text, encoding="utf-8")
    with pytest.raises(TargetError) as caught:
        load_subject(f"{mine}:attend", Plan((f"{mine}:attend",)))
    assert f"gets NumPy arrays, {why}, and it raises " in str(caught.value)
    assert str(caught.value).endswith('Give it tensors: --lift torch, or the line attend.lift = "torch".')


@pytest.mark.nightly
def test_whoever_wants_tensors_and_other_axes_hears_of_both_at_once(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    mine = tmp_path / "mine.py"
    mine.write_text("import torch\ndef attend(query, key, value):\n"
                    "    weights = torch.einsum('bthd,bshd->bhts', query, key).softmax(-1)\n"
                    "    return torch.einsum('bhts,bshd->bthd', weights, value)\n", encoding="utf-8")
    with pytest.raises(TargetError) as caught:
        load_subject(f"{mine}:attend", Plan((f"{mine}:attend",)))
    assert "--lift torch" in str(caught.value)
    assert f"With it: {mine}:attend seems to take arrays with the axes (B, T, H, D)" in str(caught.value)


@pytest.mark.nightly
def test_only_a_function_of_jax_is_told_of_x64(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "jax", ModuleType("jax"), raising=False)
    [of_jax] = explained("through_float32", DType.FLOAT64, "attention.definition")
    assert of_jax is not None
    assert of_jax.advice == "Compute in float64 (JAX: enable x64, or --lift jax)"


@pytest.mark.nightly
def test_what_overflows_an_arithmetic_that_is_known_is_its_consequence() -> None:
    told = explained("through_float32", DType.FLOAT64, "attention.definition", "scale.read_out")
    assert [each and each.cause for each in told] == ["it computes in float32 throughout"] * 2


@pytest.mark.nightly
def test_an_arithmetic_is_told_of_a_function_with_a_bug_elsewhere() -> None:
    [told] = explained("last_block_not_rescaled", DType.FLOAT64, "attention.definition")
    assert told is not None
    assert told.cause == "it computes in float32 throughout"


@pytest.mark.nightly
def test_a_bug_at_its_own_dtype_is_no_arithmetic() -> None:
    assert explained("last_block_not_rescaled", DType.FLOAT32, "attention.definition") == [None]
