"""How each framework says what an adapter says: NumPy, PyTorch, JAX."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Templates of Python; `{0}` is the argument.

    array: the type of an array.  added: a mask as numbers to be added.  numbers: a mask as ones and zeros.
    hidden: the bias where the mask allows it.  mapped: a function over an axis more.  kv_heads: how many there are.
    """

    array: str
    imports: Mapping[str, str]  # by name in the code, the statement
    stack: str
    concatenate: str
    zeros: str
    added: str
    numbers: str
    hidden: str
    mapped: str
    kv_heads: str = "heads"


VOCABULARIES: Mapping[str, Vocabulary] = {
    "": Vocabulary(
        array="np.ndarray", imports={"np": "import numpy as np"}, stack="np.stack", concatenate="np.concatenate",
        zeros="np.zeros_like({0})", added="np.where({0}, 0, -np.inf).astype(query.dtype)",
        numbers="{0}.astype(query.dtype)", hidden="np.where(mask, bias, np.array(-np.inf, bias.dtype))",
        mapped="_each({0})"),
    "torch": Vocabulary(
        array="Tensor", imports={"torch": "import torch", "Tensor": "from torch import Tensor"}, stack="torch.stack",
        concatenate="torch.cat", zeros="torch.zeros_like({0})",
        added='torch.where({0}, 0.0, float("-inf")).to(query.dtype)', numbers="{0}.to(query.dtype)",
        hidden='bias.masked_fill(~mask, float("-inf"))', mapped="_each({0})"),
    "jax": Vocabulary(
        array="Array", stack="jnp.stack", concatenate="jnp.concatenate", zeros="jnp.zeros_like({0})",
        imports={"jax": "import jax", "jnp": "import jax.numpy as jnp", "Array": "from jax import Array"},
        added="jnp.where({0}, 0, -jnp.inf).astype(query.dtype)", numbers="{0}.astype(query.dtype)",
        hidden="jnp.where(mask, bias, -jnp.inf)", mapped="jax.vmap({0})"),
}
"""By lift."""
