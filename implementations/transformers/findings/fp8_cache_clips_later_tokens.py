"""transformers' QuantizedCache of FP8: the scale is that of the first call, and what is larger later is clipped."""

import sys

import torch
from transformers import LlamaConfig, QuantizedCache

cache = QuantizedCache("fp8", LlamaConfig(num_hidden_layers=1))
prompt, later = torch.linspace(-1, 1, 64).expand(1, 1, 4, 64), torch.full((1, 1, 1, 64), 20.0)
cache.update(prompt, prompt, 0)
keys, values = cache.update(later, later, 0)
print(f"a key of 20 behind a prompt of -1 to 1 is read back as {keys[0, 0, -1, 0]:.3g}, a value as "
      f"{values[0, 0, -1, 0]:.3g}")
sys.exit(int(not torch.allclose(values[0, 0, -1], later[0, 0, 0], rtol=1 / 16)))
