"""Transformers: with sliding_window=1 a DynamicCache drops nothing, and tokens decoded by it see all before them."""

import sys

import torch
from transformers import MistralConfig, MistralForCausalLM

tokens, off = torch.arange(1, 9)[None], {}
for window in (1, 2, 3):
    torch.manual_seed(0)
    config = MistralConfig(vocab_size=50, hidden_size=16, intermediate_size=32, num_hidden_layers=1,
                           num_attention_heads=2, num_key_value_heads=2, sliding_window=window,
                           attn_implementation="eager")
    model = MistralForCausalLM(config).eval()
    model.model.layers[0].self_attn.v_proj.weight.data *= 20
    with torch.no_grad():
        whole, cache, steps = model(tokens).logits, None, []
        for token in tokens[0]:
            step = model(token.view(1, 1), past_key_values=cache, use_cache=True)
            cache = step.past_key_values
            steps.append(step.logits)
    off[window] = (torch.cat(steps, dim=1) - whole).abs().max().item()
    assert cache
    kept = cache.layers[0].keys.shape[2]
    print(f"sliding_window={window}: after 8 tokens the cache keeps {kept} keys; logits token by token are off by up to"
          f" {off[window]:.2g} from those of one call")
sys.exit(int(off[1] > 1e-3 and max(off[2], off[3]) < 1e-5))
