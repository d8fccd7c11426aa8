"""mindspore.nn.MultiheadAttention on CPU: what a query that may attend to no key gets."""

import sys

import mindspore
import numpy as np
from mindspore import Tensor, nn

layer = nn.MultiheadAttention(4, 1, batch_first=True)
X = Tensor(np.random.default_rng(0).standard_normal((1, 2, 4)).astype(np.float32))
hidden = Tensor(np.array([[False, False], [True, True]]))  # True hides: the second query may attend to nothing
output, weights = layer(X, X, X, attn_mask=hidden)
print(f"mindspore {mindspore.__version__}: the query that may attend to nothing gets {output.asnumpy()[0, 1]}")
print(f"its weights: {weights.asnumpy()[0, 1]}")
sys.exit(int(np.isnan(output.asnumpy()[0, 1]).all()))
