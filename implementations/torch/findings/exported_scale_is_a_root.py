"""PyTorch: exported to ONNX, scaled_dot_product_attention with a negative scale gives NaN, or zeros beside a mask.

The exporter multiplies queries and keys by the square root of the scale.
"""

import sys

import numpy as np
import onnxruntime
import torch
from torch.nn.functional import scaled_dot_product_attention


class Attention(torch.nn.Module):  # type: ignore[misc]  # torch is not seen by mypy
    """By a scale that is fixed."""

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.scale = scale

    def forward(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Query, key and value (B,H,T,D), mask (B,H,T,T), to (B,H,T,D)."""
        return scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=self.scale)


torch.manual_seed(0)
given = (*(torch.randn(1, 1, 4, 4) for _ in range(3)), torch.ones(1, 1, 4, 4, dtype=torch.bool))
apart = []
for scale in (0.25, -0.25):
    model = Attention(scale)
    program = torch.onnx.export(model, given, dynamo=True, verbose=False)
    session = onnxruntime.InferenceSession(program.model_proto.SerializeToString())
    names = [each.name for each in session.get_inputs()]
    exported = session.run(None, {name: each.numpy() for name, each in zip(names, given)})[0]
    apart.append(float(np.abs(exported - model(*given).numpy()).max()))
    print(f"scale {scale}: the exported program gives {exported[0, 0, 0]}, PyTorch {model(*given).numpy()[0, 0, 0]}")
sys.exit(int(apart[0] < 1e-5 < apart[1]))
