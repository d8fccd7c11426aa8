"""transformers' QuantizedCache, documented to quantise per channel: by quanto, a group is 64 channels of a token."""

import sys

import torch
from transformers import LlamaConfig, QuantizedCache

torch.manual_seed(0)
states = 1 + torch.rand(1, 2, 64, 64)
larger = states.clone()
larger[0, 0, 0, 0] = 50  # of the first head, token and channel
read = []
for prompt in (states, larger):
    cache = QuantizedCache("quanto", LlamaConfig(num_hidden_layers=1))
    cache.update(prompt, prompt, 0)
    read.append(cache.update(states[:, :, :1], states[:, :, :1], 0)[0][:, :, :64])
heads, tokens, channels = (axis.unique().numel() for axis in (read[0] != read[1]).nonzero().T[1:])
print(f"an entry is larger: read back otherwise are {heads} head, {tokens} token and {channels} channels")
sys.exit(int(channels > 1))
