"""mlx.core.fast.scaled_dot_product_attention: NaN or infinity in a value that no query may see reaches the output."""

import sys

import mlx.core as mx

mx.set_default_device(mx.cpu)
query = key = mx.ones((1, 1, 2, 4))
mask = mx.array([[[[True, False], [True, False]]]])  # the second key is hidden
reached = []
for poison in (mx.nan, mx.inf):
    value = mx.stack([mx.ones(4), mx.full((4,), poison)])[None, None]
    output = mx.fast.scaled_dot_product_attention(query, key, value, scale=0.5, mask=mask)
    print(f"with {poison} in the hidden value the output is {output[0, 0, 0].tolist()}; without it, ones")
    reached.append(bool(mx.isnan(output).any()))
sys.exit(int(all(reached)))
