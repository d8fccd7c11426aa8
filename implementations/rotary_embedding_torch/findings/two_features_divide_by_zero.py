"""rotary-embedding-torch: RotaryEmbedding(2) divides by zero, in a factor that does nothing unless theta is rescaled."""

import sys

import torch
from rotary_embedding_torch import RotaryEmbedding

seen = False
for features in (4, 2):
    try:
        print(f"{features} features: angles {RotaryEmbedding(features)(torch.arange(3))[:, 0].tolist()}")
    except ZeroDivisionError as error:
        print(f"{features} features: {type(error).__name__}: {error}")
        seen = True
sys.exit(int(seen))
