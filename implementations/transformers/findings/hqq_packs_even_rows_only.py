"""transformers' QuantizedCache of HQQ in 4 bits raises for an odd number of groups, such as one head and odd tokens."""

import sys

import torch
from transformers import LlamaConfig, QuantizedCache

raised = {}
for tokens in (6, 7):
    cache = QuantizedCache("hqq", LlamaConfig(num_hidden_layers=1), nbits=4, axis_key=1, axis_value=1, q_group_size=64)
    states = torch.randn(1, 1, tokens, 64)
    try:
        cache.update(states, states, 0)
        raised[tokens] = ""
    except RuntimeError as error:
        raised[tokens] = str(error)
    print(f"a prompt of {tokens} tokens: {raised[tokens] or 'stored'}")
sys.exit(int(not raised[6] and bool(raised[7])))
