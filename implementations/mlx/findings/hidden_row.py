"""mlx.core.fast.scaled_dot_product_attention: a query without keys gets the mean (boolean mask) or NaN (-inf)."""

import math
import sys

import mlx.core as mx

mx.set_default_device(mx.cpu)
query = key = mx.ones((1, 1, 2, 4))
value = mx.array([[[[1.0, 1, 1, 1], [3.0, 3, 3, 3]]]])
visible = mx.array([[[[True, True], [False, False]]]])  # the second query may attend to nothing
added = mx.where(visible, 0.0, -mx.inf)
boolean, additive = (mx.fast.scaled_dot_product_attention(query, key, value, scale=0.5, mask=mask)[0, 0, 1, 0].item()
                     for mask in (visible, added))
print(f"a query that may attend to nothing gets {boolean} under a boolean mask (2 is the mean), {additive} under -inf")
sys.exit(int(boolean == 2 and math.isnan(additive)))
