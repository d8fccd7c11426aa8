"""NumPy to JAX and back. float64 exists in JAX only while x64 is enabled, so it is enabled around each such call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from attnspec.core.nouns import DType
from attnspec.problems.problem import Array


class JaxLift:
    """Arrays on JAX's default device."""

    def around(self, dtype: DType) -> AbstractContextManager[object]:
        """x64 is on for float64 and off for the rest. JAX's caches keep the two apart."""
        return _enable_x64()(dtype is DType.FLOAT64)

    def hand(self, array: Array) -> object:
        """A JAX array of the same dtype and of any shape (JAX keeps no strides).

        `jnp.asarray` compiles a copy for every new shape, half of all that is compiled. `device_put` may share memory
        instead, and so gets a copy to itself.
        """
        return jax.device_put(np.array(array, order="C"))

    def read(self, value: object) -> Array:
        """The array's entries, of any shape, once they are computed."""
        return np.asarray(value)

    def gradients(self, function: Callable[..., object], inputs: Sequence[object],
                  rows: Array) -> tuple[object, tuple[Array, ...] | None]:
        """The output, and the gradients in the shapes of the inputs, as (B,H,T,D), in one compiled program; rows (T,).

        A function that asks for compiler options of its own cannot stand inside another one's jit, nor be
        differentiated, so jit within is left out.
        """
        def both(*given: object) -> object:
            with jax.disable_jit():
                output, pull = jax.vjp(function, *given)
                return output, pull(jnp.zeros_like(output).at[..., np.flatnonzero(rows), :].set(1))

        output, pulled = _hurried()(both)(*inputs)
        return output, tuple(np.asarray(each).astype(np.float64) for each in pulled)

    def forget(self) -> None:
        """Drop what is compiled: some megabytes for every shape and feature, gigabytes in a long run."""
        jax.clear_caches()


@cache
def _hurried() -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """`jax.jit` with a compiler that hurries, five times as fast, where this version of JAX takes its options."""
    plain: Callable[[Callable[..., Any]], Callable[..., Any]] = jax.jit
    hurried = partial(jax.jit, compiler_options={
        "xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True,
        "xla_cpu_use_fusion_emitters": False, "xla_cpu_parallel_codegen_split_count": 1})
    try:
        hurried(lambda x: x + 1)(0.0)
    except Exception:  # an older jit raises TypeError, another XLA whatever it likes
        return plain
    return hurried


def _enable_x64() -> Callable[[bool], AbstractContextManager[object]]:
    """The context manager, under the name that it has in this version of JAX."""
    if hasattr(jax, "enable_x64"):
        enable: Callable[[bool], AbstractContextManager[object]] = jax.enable_x64
        return enable
    from jax.experimental import enable_x64  # noqa: PLC0415  (gone from new versions)

    older: Callable[[bool], AbstractContextManager[object]] = enable_x64
    return older
