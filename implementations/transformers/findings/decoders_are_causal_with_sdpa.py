"""Transformers: a decoder's attention module without a mask is causal with SDPA and sees everything when eager."""

import sys

import torch
from transformers import GPT2Config, LlamaConfig, MistralConfig
from transformers.models.gpt2.modeling_gpt2 import GPT2Attention
from transformers.models.llama.modeling_llama import LlamaAttention
from transformers.models.mistral.modeling_mistral import MistralAttention

X, angles = torch.randn(1, 3, 8), (torch.ones(1, 3, 4), torch.zeros(1, 3, 4))
later = torch.cat([X[:, :2], X[:, 2:] + 1], dim=1)  # only the last token differs
sizes = {"hidden_size": 8, "num_attention_heads": 2, "num_key_value_heads": 2}
made = {"GPT2Attention": lambda **how: GPT2Attention(GPT2Config(n_embd=8, n_head=2, **how)),
        "LlamaAttention": lambda **how: LlamaAttention(LlamaConfig(**sizes, **how), layer_idx=0),
        "MistralAttention": lambda **how: MistralAttention(MistralConfig(**sizes, **how), layer_idx=0)}
moved = {}
for name, make in made.items():
    for implementation in ("eager", "sdpa"):
        module = make(attn_implementation=implementation).eval()  # type: ignore[no-untyped-call]  # lambdas
        more = {} if name == "GPT2Attention" else {"position_embeddings": angles}
        with torch.no_grad():
            one, other = (module(states, attention_mask=None, **more)[0] for states in (X, later))
        moved[name, implementation] = (one - other)[0, 0].abs().max().item()
        print(f"{name}, {implementation}: another last token moves the first row by {moved[name, implementation]:.4f}")
sys.exit(int(any(moved[name, "sdpa"] == 0 < moved[name, "eager"] for name in made)))
