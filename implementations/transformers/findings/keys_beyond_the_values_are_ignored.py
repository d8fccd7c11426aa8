"""Transformers: with fewer values than keys, SDPA on CPU answers as if the other keys were not there; eager raises."""

import sys
from types import SimpleNamespace

import torch
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.llama.modeling_llama import eager_attention_forward

module = SimpleNamespace(num_key_value_groups=1, training=False)
query, key = torch.zeros(1, 1, 1, 4), torch.zeros(1, 1, 3, 4)
value = torch.tensor([1.0, 2.0])[:, None].expand(2, 4).contiguous()[None, None]
output = float(ALL_ATTENTION_FUNCTIONS["sdpa"](module, query, key, value, None, is_causal=False)[0].flatten()[0])
raised = ""
try:
    eager_attention_forward(module, query, key, value, None, 0.5)
except RuntimeError as error:
    raised = str(error)
print(f"three equal keys, the values 1 and 2: SDPA gives {output}, the mean of two; eager: {raised or 'answers'}")
sys.exit(int(output == 1.5 and bool(raised)))
