"""Transformers: a query that may see no key gets the mean of all values, as the mask is the dtype's lowest number."""

import sys
from types import SimpleNamespace

import torch
from transformers.masking_utils import eager_mask
from transformers.models.llama.modeling_llama import eager_attention_forward

module = SimpleNamespace(num_key_value_groups=1, training=False)
padding = torch.zeros(1, 3, dtype=torch.bool)  # every token of the sequence is padding
mask = eager_mask(1, 3, 3, attention_mask=padding)
ones, value = torch.ones(1, 1, 3, 1), torch.tensor([[[[1.0], [2.0], [6.0]]]])
output, weights = eager_attention_forward(module, ones, ones, value, mask, scaling=1.0)
print(f"values 1, 2, 6, all hidden: weights {weights[0, 0, 0]}, output {output.flatten()}")
sys.exit(int(bool((output == 3).all())))
