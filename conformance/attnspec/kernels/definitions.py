"""FlashInfer-Bench's definitions of attention: what a kernel is called with, and what of it is constant.

https://bench.flashinfer.ai/docs/op-types/gqa-ragged and /gqa-paged
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from attnspec.core.errors import UsageError

RAGGED = ("q", "k", "v", "qo_indptr", "kv_indptr", "sm_scale")
PREFILL = ("q", "k_cache", "v_cache", "qo_indptr", "kv_indptr", "kv_indices", "sm_scale")
DECODE = ("q", "k_cache", "v_cache", "kv_indptr", "kv_indices", "sm_scale")
LAST_PAGE = "kv_last_page_len"
"""An input of definitions whose pages have several slots: the number of keys in the last page of each entry."""

_CONSTANT = ("num_qo_heads", "num_kv_heads", "head_dim")
_OUTPUTS = ("output", "lse")


@dataclass(frozen=True, slots=True)
class Definition:
    """inputs: their names in the order of the call.  outputs: `output`, and `lse` where it has one.

    heads, kv_heads, head_dim, page: what is constant; a ragged definition has no pages, and `page` is 0.
    dtype: of queries, keys, values and output.  is_causal: whether a query sees no later key; the last ones of both are
    at one place.
    """

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    heads: int
    kv_heads: int
    head_dim: int
    page: int
    dtype: str
    is_causal: bool

    @property
    def is_decode(self) -> bool:
        """Whether every entry has one query."""
        return "qo_indptr" not in self.inputs


def is_attention(told: Mapping[str, Any]) -> bool:
    """Whether the inputs of a definition, as its JSON has them, are those of `gqa_ragged` or `gqa_paged`."""
    return _plain(told) in (RAGGED, PREFILL, DECODE)


def read(told: Mapping[str, Any]) -> Definition:
    """The definition that this JSON tells. Raises UsageError where its inputs are those of no known attention."""
    name = str(told.get("name", ""))
    if not is_attention(told):
        raise UsageError(f"the definition {name!r} has the inputs {', '.join(told.get('inputs', ())) or 'of nothing'}. "
                         f"Known are gqa_ragged ({', '.join(RAGGED)}) and gqa_paged ({', '.join(PREFILL)}; in decoding "
                         "without qo_indptr).")
    constants = {axis: int(each["value"]) for axis, each in told["axes"].items() if "value" in each}
    if missing := [axis for axis in _CONSTANT if axis not in constants]:
        raise UsageError(f"the definition {name!r} leaves {', '.join(missing)} open, which have to be constant.")
    inputs, outputs = tuple(told["inputs"]), tuple(each for each in _OUTPUTS if each in told["outputs"])
    heads, kv_heads, head_dim = (constants[axis] for axis in _CONSTANT)
    is_decode = "qo_indptr" not in inputs
    return Definition(name, inputs, outputs, heads, kv_heads, head_dim, 0 if _plain(told) == RAGGED else
                      constants.get("page_size", 1), str(told["inputs"]["q"]["dtype"]),
                      is_causal=not is_decode and "causal" in name)


def _plain(told: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(name for name in told.get("inputs", ()) if name != LAST_PAGE)
