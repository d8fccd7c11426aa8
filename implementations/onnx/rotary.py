"""The operator RotaryEmbedding-23 in the reference evaluator. Its cos and sin are inputs, computed in float64 here."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from .model import DTYPES, IR_VERSION

Array = Any
PLACES = ("X", "cos_cache", "sin_cache", "position_ids")


def rotate(x: Array, positions: Array, *, base: float = 10000.0, rotary_width: int | None = None,
           interleaved: bool = False) -> Array:
    """Turn x (B,H,T,D) at positions (B,T) to (B,H,T,D)."""
    width = rotary_width or x.shape[-1]
    model = rotary_model(str(x.dtype), "", 23, interleaved=int(interleaved),
                         rotary_embedding_dim=0 if rotary_width is None else width)
    return ReferenceEvaluator(model).run(None, feeds(x, positions, base, width))[0]


def feeds(x: Array, positions: Array, base: float, width: int) -> dict[str, Array]:
    """The inputs: caches (P,r/2) of the dtype of x, of which position_ids are the rows. They hold the places that
    occur, and no fewer than there are tokens: a table that is shorter is refused by some runtimes.
    """
    places = np.union1d(positions, np.arange(positions.shape[1]))
    angle = places[:, None] * base ** -(np.arange(0, width, 2) / width)
    cos, sin = np.cos(angle).astype(x.dtype), np.sin(angle).astype(x.dtype)
    return dict(zip(PLACES, (x, cos, sin, np.searchsorted(places, positions).astype(np.int64))))


@lru_cache(maxsize=64)
def rotary_model(dtype: str, domain: str, opset: int, *, order: tuple[str, ...] = PLACES, **attributes: int) -> Any:  # noqa: ANN401
    """A model of one node, RotaryEmbedding of a domain."""
    kind = DTYPES[dtype]
    kinds = {"X": (kind, 4), "cos_cache": (kind, 2), "sin_cache": (kind, 2), "position_ids": (TensorProto.INT64, 2)}
    inputs = [helper.make_tensor_value_info(name, kinds[name][0], [f"{name}{axis}" for axis in range(kinds[name][1])])
              for name in order]
    output = helper.make_tensor_value_info("Y", kind, ["B", "H", "T", "D"])
    node = helper.make_node("RotaryEmbedding", list(order), ["Y"], domain=domain, **attributes)
    imports = [helper.make_opsetid("", max(opset, 23))] + ([helper.make_opsetid(domain, 1)] if domain else [])
    return helper.make_model(helper.make_graph([node], "rotary", inputs, [output]), opset_imports=imports,
                             ir_version=IR_VERSION)
