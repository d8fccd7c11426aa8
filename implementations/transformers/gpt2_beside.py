"""`GPT2Attention` with given parameters, eager and in evaluation, beside heads that are zero.

It attends to its own input, and its heads are as wide as the model divided by their number. So the model is at least
three times as wide as asked for, and has as many more heads: query, key and value stand side by side in its columns,
each projection reads its own and writes to the first heads, and the output goes to the first columns.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Mapping

import torch
from torch.nn.functional import pad
from transformers import GPT2Config
from transformers.models.gpt2.modeling_gpt2 import GPT2Attention

Tensor = Any  # torch is not seen by mypy
Dtype = Any
Module = Any
Params = Mapping[str, Tensor]

PARTS = ("query", "key", "value")


class Beside:
    """A module whose first heads are asked for."""

    def __init__(self, module: Module, width: int, heads: int) -> None:
        """width: of the model that is asked for."""
        self.module, self.width, self.heads = module, width, heads

    def __call__(self, query: Tensor, key: Tensor, value: Tensor, *, attention_mask: Tensor,
                 past_key_values: Any) -> tuple[Tensor, Tensor]:  # noqa: ANN401  (a cache)
        """Three (B,T,M) to (B,T,M), and weights (B,H,T,slots)."""
        X = torch.cat([query, key, value], dim=-1)
        X = pad(X, (0, self.module.embed_dim - X.shape[2]))
        output, weights = self.module(X, attention_mask=self._for_all(attention_mask), past_key_values=past_key_values)
        return output[..., :self.width], weights[:, :self.heads]

    def _for_all(self, added: Tensor) -> Tensor:
        """What is added to the logits, (B,1,T,slots) or (B,H,T,slots): nothing for the heads that are zero."""
        others = 0 if added.shape[1] == 1 else self.module.num_heads - self.heads
        return pad(added, (0, 0, 0, 0, 0, others))


def filled(query: Tensor, params: Params, heads: int) -> Beside:
    """The module with these parameters. Its matrices are kept as Conv1D: (in,out), query, key and value in one."""
    M, inner = query.shape[2], params["w_query"].shape[1]
    module = _empty(M, heads, inner, query.dtype)
    with torch.no_grad():
        for place, name in enumerate(PARTS):
            columns = slice(place * module.embed_dim, place * module.embed_dim + inner)
            module.c_attn.weight[place * M:place * M + M, columns] = params[f"w_{name}"]
            module.c_attn.bias[columns] = params[f"b_{name}"]
        module.c_proj.weight[:inner, :M] = params["w_out"]
        module.c_proj.bias[:M] = params["b_out"]
    return Beside(module, M, heads)


@lru_cache(maxsize=64)
def _empty(M: int, heads: int, inner: int, dtype: Dtype) -> Module:
    """All parameters zero. inner: the width of `heads` heads; if they do not divide it, the module refuses its own."""
    all_heads = max(heads, -(-3 * M * heads // inner))
    config = GPT2Config(n_embd=all_heads * inner // heads, n_head=all_heads, attn_implementation="eager")
    module = GPT2Attention(config, layer_idx=0).to(dtype).eval()
    for parameter in module.parameters():
        torch.nn.init.zeros_(parameter)
    return module
