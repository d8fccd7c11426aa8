"""NumPy to JAX and back. float64 exists in JAX only while x64 is enabled, so it is enabled around each such call."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import jax
import jax.numpy as jnp
import numpy as np

from attnspec.ground.nouns import DType
from attnspec.problems.problem import Array


class JaxLift:
    """Arrays on JAX's default device."""

    def around(self, dtype: DType) -> AbstractContextManager[object]:
        """x64 is on for float64 and off for the rest. JAX's caches keep the two apart."""
        return _enable_x64()(dtype is DType.FLOAT64)

    def hand(self, array: Array) -> object:
        """A JAX array of the same dtype (JAX keeps no strides)."""
        return jnp.asarray(array)

    def read(self, value: object) -> Array:
        """The array's entries, once they are computed."""
        return np.asarray(value)

    def forget(self) -> None:
        """Drop what is compiled: some megabytes for every shape and feature, gigabytes in a long run."""
        jax.clear_caches()


def _enable_x64() -> Callable[[bool], AbstractContextManager[object]]:
    """The context manager, under the name that it has in this version of JAX."""
    if hasattr(jax, "enable_x64"):
        enable: Callable[[bool], AbstractContextManager[object]] = jax.enable_x64
        return enable
    from jax.experimental import enable_x64  # noqa: PLC0415  (gone from new versions)

    older: Callable[[bool], AbstractContextManager[object]] = enable_x64
    return older
