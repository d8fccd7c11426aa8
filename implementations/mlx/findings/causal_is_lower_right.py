"""mlx.core.fast.scaled_dot_product_attention: with two queries on four keys, mask="causal" lets the first see three."""

import sys

import mlx.core as mx

mx.set_default_device(mx.cpu)
query, key, value = mx.zeros((1, 1, 2, 4)), mx.zeros((1, 1, 4, 4)), mx.eye(4)[None, None]
weights = mx.fast.scaled_dot_product_attention(query, key, value, scale=0.5, mask="causal")[0, 0]
print("weights of two queries on four keys, all alike:")
print(weights)
print("from the upper left, query 0 would see key 0 alone")
sys.exit(int(weights[0, 2].item() > 0 and weights[0, 3].item() == 0))
