"""x-transformers: RotaryEmbedding(2) divides by zero, in a factor that does nothing unless the base is rescaled."""

import sys

import torch
from x_transformers.x_transformers import RotaryEmbedding

seen = False
for features in (4, 2):
    try:
        freqs, _ = RotaryEmbedding(features)(torch.arange(3))
        print(f"{features} features, base_rescale_factor=1: angles {freqs[0, :, 0].tolist()}")
    except ZeroDivisionError as error:
        print(f"{features} features, base_rescale_factor=1: {type(error).__name__}: {error}")
        seen = True
sys.exit(int(seen))
