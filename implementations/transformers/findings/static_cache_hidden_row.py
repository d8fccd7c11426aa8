"""Transformers: behind a static cache, a row that sees no key gets a mean over slots that nothing was written to."""

import sys
from types import SimpleNamespace

import torch
from transformers import LlamaConfig, StaticCache
from transformers.masking_utils import eager_mask
from transformers.models.llama.modeling_llama import eager_attention_forward

module, seen = SimpleNamespace(num_key_value_groups=1, training=False), {}
for slots in (2, 4, 8):
    cache = StaticCache(config=LlamaConfig(num_hidden_layers=1), max_cache_len=slots)
    size, first = cache.get_mask_sizes(2, 0)
    key, value = cache.update(torch.zeros(1, 1, 2, 1), torch.ones(1, 1, 2, 1), 0)
    mask = eager_mask(1, 2, size, kv_offset=first, attention_mask=torch.tensor([[False, True]]), allow_is_causal_skip=False)
    output, _ = eager_attention_forward(module, torch.zeros(1, 1, 2, 1), key, value, mask, scaling=1.0)
    seen[slots] = output[0, 0, 0, 0].item()
    print(f"{slots} slots, two tokens of value 1, the first of them padding: its row is {seen[slots]}")
sys.exit(int(list(seen.values()) == [1.0, 0.5, 0.25]))
