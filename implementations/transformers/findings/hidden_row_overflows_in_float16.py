"""Transformers, float16, eager: a row of padding whose logits are all below -16 is NaN, and so is the next layer."""

import sys
from types import SimpleNamespace

import torch
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.models.llama.modeling_llama import eager_attention_forward

lowest = torch.finfo(torch.float16).min
module = SimpleNamespace(num_key_value_groups=1, training=False)
rows = []
for logit in (-10.0, -100.0):
    query = torch.full((1, 1, 1, 1), logit, dtype=torch.float16)
    key, value = torch.ones(1, 1, 2, 1, dtype=torch.float16), torch.tensor([1.0, 2.0]).half().view(1, 1, 2, 1)
    mask = torch.full((1, 1, 1, 2), lowest, dtype=torch.float16)
    rows.append(eager_attention_forward(module, query, key, value, mask, scaling=1.0)[0].item())
    print(f"two masked keys of logit {logit} and values 1 and 2: {rows[-1]}")

config = LlamaConfig(vocab_size=50, hidden_size=32, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2,
                     num_key_value_heads=2, attn_implementation="eager")
padded, broken = torch.tensor([[0, 0, 1, 1]]), {}
for name, dtype in (("float32", torch.float32), ("float16", torch.float16)):
    broken[name] = 0
    for seed in range(10):
        torch.manual_seed(seed)
        model = LlamaForCausalLM(config).eval()
        for layer in model.model.layers:
            layer.self_attn.q_proj.weight.data *= 300  # so that logits are some hundreds
            layer.self_attn.k_proj.weight.data *= 30
        with torch.no_grad():
            logits = model.to(dtype)(torch.arange(1, 5)[None], attention_mask=padded).logits
        broken[name] += bool(logits[0, 2:].isnan().all())
    print(f"{name}: of ten models of two layers, {broken[name]} give NaN for every token of a batch padded on the left")
sys.exit(int(rows[0] == 1.5 and rows[1] != rows[1] and broken["float16"] > broken["float32"] == 0))
