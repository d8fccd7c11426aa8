"""transformers' QuantizedCache of quanto with axis_key=-1 raises unless B·Hkv·S is a multiple of q_group_size."""

import sys

import torch
from transformers import LlamaConfig, QuantizedCache

raised = {}
for tokens in (64, 65):
    cache = QuantizedCache("quanto", LlamaConfig(num_hidden_layers=1), nbits=4, axis_key=-1, axis_value=-1)
    states = torch.randn(1, 1, tokens, 64)
    try:
        cache.update(states, states, 0)
        raised[tokens] = ""
    except ValueError as error:
        raised[tokens] = str(error)
    print(f"a prompt of {tokens} tokens: {raised[tokens] or 'stored'}")
sys.exit(int(not raised[64] and bool(raised[65])))
