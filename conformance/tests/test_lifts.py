from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from attnspec.core.errors import UsageError
from attnspec.core.nouns import DType
from attnspec.core.plan import Plan
from attnspec.engine.summon import load_subject
from attnspec.host.frames import Entries
from attnspec.host.lifts import plain
from attnspec.host.lifts.plain import find_flushing_operation
from attnspec.host.serving import lift_named
from attnspec.problems.problem import Array, numpy_dtype
from attnspec.subjects.call import array_of, entries_of
from attnspec.subjects.callee import check_lift

SPECIAL = [0.0, -0.0, 1.0, -1.5, np.inf, -np.inf, np.nan, 2.0**-14, 2.0**-24, 2.0**-126]


def special(dtype: DType) -> Array:
    with np.errstate(all="ignore"):
        return np.array(SPECIAL, np.float64).astype(numpy_dtype(dtype)).reshape(1, 1, 2, 5)


@pytest.mark.parametrize("dtype", DType)
@pytest.mark.parametrize("name", ["", "torch", "jax"])
def test_every_bit_survives_the_way_there_and_back(name: str, dtype: DType) -> None:
    if name:
        pytest.importorskip(name)
    lift, array = lift_named(name), special(dtype)
    with lift.context_for(dtype.value):
        there = lift.hand(entries_of(array.copy()))
        back = array_of(lift.read(there))
    assert back.dtype == array.dtype
    assert back.tobytes() == array.tobytes()
    assert dtype.value in str(there.dtype)


def test_torch_shares_memory_and_keeps_strides() -> None:
    pytest.importorskip("torch")
    array = np.zeros((4, 6), np.float32)
    tensor = lift_named("torch").hand(entries_of(array[::2, ::3]))
    tensor.add_(1)
    assert array[::2, ::3].all()
    assert tensor.stride() == (12, 3)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_torch_gives_an_array_of_nothing_ordinary_strides(dtype: str) -> None:
    torch = pytest.importorskip("torch")
    tensor = lift_named("torch").hand(Entries(dtype, np.zeros((0, 2, 8), numpy_dtype(DType(dtype)))))
    assert (tensor.stride(), tensor.dtype) == ((16, 8, 1), getattr(torch, dtype))


def test_torch_takes_negative_strides_by_copy() -> None:
    pytest.importorskip("torch")
    array = np.arange(4, dtype=np.float32)[::-1]
    lift = lift_named("torch")
    assert lift.read(lift.hand(entries_of(array))).array.tolist() == [3, 2, 1, 0]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_tensor_with_gradient_is_read_also_from_a_function_without_lift(dtype: str) -> None:
    torch = pytest.importorskip("torch")
    tensor = torch.ones(3, dtype=getattr(torch, dtype), requires_grad=True) * 2
    back = array_of(lift_named("").read(tensor))
    assert (back.dtype.name, back.astype(float).tolist()) == (dtype, [2, 2, 2])


def test_jax_really_computes_in_float64_and_says_so_to_nobody_else() -> None:
    pytest.importorskip("jax")
    import jax.numpy as jnp

    lift = lift_named("jax")
    with lift.context_for("float64"):
        third = lift.hand(Entries("float64", np.array(1.0))) / 3
        assert float(lift.read(third).array) == 1 / 3
    assert jnp.asarray(np.array(1.0)).dtype == jnp.float32


def test_jax_forgets_what_it_compiled_when_told_to() -> None:
    jax = pytest.importorskip("jax")
    doubled = jax.jit(lambda array: array + array)
    doubled(1.0)
    assert doubled._cache_size() == 1
    lift_named("jax").forget()
    assert doubled._cache_size() == 0


def test_an_unknown_lift_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match=r"'touch' is not a known lift. Did you mean 'torch'"):
        check_lift("touch")


@pytest.mark.parametrize("dtype", DType)
def test_numpy_keeps_subnormals(dtype: DType) -> None:
    assert find_flushing_operation(lift_named(""), dtype.value) == ""


@pytest.mark.parametrize("dtype", [DType.FLOAT64, DType.FLOAT32, DType.BFLOAT16])
def test_jax_on_cpu_takes_subnormals_for_zero(dtype: DType) -> None:
    pytest.importorskip("jax")
    assert find_flushing_operation(lift_named("jax"), dtype.value) == "a product"


def test_a_framework_loses_nothing_in_an_operation_that_it_lacks() -> None:
    class Reluctant(plain.Lift):
        def read(self, value: object) -> Entries:
            raise RuntimeError(f"not implemented for {type(value).__name__}")

    assert find_flushing_operation(Reluctant(), "float16") == ""


MINE = """
def attend(query, key, value):
    return value
attend.lift = "jax"
attend.precision = {"float16": {"grade": "G4", "reason": "a test"},
                    "float64": {"flushes_subnormals": False, "reason": "a test"}}
"""


def test_a_lift_says_of_subnormals_what_a_function_does_not(tmp_path: Path) -> None:
    pytest.importorskip("jax")
    (tmp_path / "mine.py").write_text(MINE, encoding="utf-8")
    precision = load_subject(f"{tmp_path}/mine.py:attend", Plan(())).declaration.precision
    assert precision == {
        DType.FLOAT64: {"flushes_subnormals": False, "reason": "a test"},
        DType.FLOAT32: {"flushes_subnormals": True, "reason": "here jax treats subnormal numbers as 0 in a product"},
        DType.FLOAT16: {"grade": "G4", "reason": "a test"},
        DType.BFLOAT16: {"flushes_subnormals": True, "reason": "here jax treats subnormal numbers as 0 in a product"}}
