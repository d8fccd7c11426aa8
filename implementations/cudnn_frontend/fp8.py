"""cuDNN's scaled dot-product attention on codes in FP8 (E4M3), as the documentation of its frontend has it: sdpa_fp8.

A graph is built for each shape. Weights are scaled by scale_s before they are rounded to FP8, and by descale_s after;
the output is FP8 too, so that its scale is one that no output leaves the range by.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import cudnn
import torch

Tensor = Any  # torch is not seen by mypy

LARGEST = 448.0


def attend(query: Tensor, key: Tensor, value: Tensor, *, causal: bool = False, scale: float | None = None,
           query_scale: Tensor = None, key_scale: Tensor = None, value_scale: Tensor = None) -> Tensor:
    """Codes query (B,H,T,D), key and value (B,Hkv,S,D), a scale () of each, to (B,H,T,D) in bfloat16."""
    one = torch.ones((), device=query.device)
    of_values = one if value_scale is None else value_scale
    bound = LARGEST / (value.float().abs().amax() * of_values.abs()).clamp(min=1e-30)
    scales = {"descale_q": one if query_scale is None else query_scale,
              "descale_k": one if key_scale is None else key_scale, "descale_v": of_values,
              "descale_s": one / LARGEST, "scale_s": one * LARGEST, "scale_o": bound}
    factor = query.shape[-1] ** -0.5 if scale is None else scale
    graph, handles = _graph(tuple(query.shape), tuple(key.shape), causal, float(factor))
    output = torch.empty_like(query)
    sums = torch.zeros(2, 1, 1, 1, 1, device=query.device)
    given = {"q": query, "k": key, "v": value, **{name: each.reshape(1, 1, 1, 1) for name, each in scales.items()},
             "o": output, "amax_s": sums[0], "amax_o": sums[1]}
    workspace = torch.empty(graph.get_workspace_size(), device=query.device, dtype=torch.uint8)
    graph.execute({handles[name]: each.contiguous() for name, each in given.items()}, workspace)
    return (output.float() / bound).to(torch.bfloat16)


@lru_cache(maxsize=256)
def _graph(query: tuple[int, ...], key: tuple[int, ...], causal: bool,
           factor: float) -> tuple[Any, dict[str, Any]]:  # positional: the arguments are the key of the cache
    """A graph for arrays of these shapes, and its tensors by name."""
    graph = cudnn.pygraph(io_data_type=cudnn.data_type.FP8_E4M3, intermediate_data_type=cudnn.data_type.FLOAT,
                          compute_data_type=cudnn.data_type.FLOAT)
    handles = {name: graph.tensor(name=name, dim=shape, stride=_strides(shape), data_type=cudnn.data_type.FP8_E4M3)
               for name, shape in (("q", query), ("k", key), ("v", key))}
    for name in ("descale_q", "descale_k", "descale_v", "descale_s", "scale_s", "scale_o"):
        handles[name] = graph.tensor(name=name, dim=(1, 1, 1, 1), stride=(1, 1, 1, 1), data_type=cudnn.data_type.FLOAT)
    output, _, amax_s, amax_o = graph.sdpa_fp8(**handles, generate_stats=False, attn_scale=factor,
                                               use_causal_mask=causal)
    output.set_output(True).set_dim(query).set_stride(_strides(query)).set_data_type(cudnn.data_type.FP8_E4M3)
    for each in (amax_s, amax_o):
        each.set_output(True).set_dim((1, 1, 1, 1)).set_stride((1, 1, 1, 1)).set_data_type(cudnn.data_type.FLOAT)
    graph.build([cudnn.heur_mode.A])
    return graph, {**handles, "o": output, "amax_s": amax_s, "amax_o": amax_o}


def _strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Those of a contiguous array (B,H,L,D)."""
    _, H, L, D = shape
    return H * L * D, L * D, D, 1
