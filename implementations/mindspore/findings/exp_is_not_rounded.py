"""MindSpore on CPU: the exponential in float32 softmax is off by more than 50 rounding errors, NumPy's by 3."""

import sys

import mindspore
import numpy as np
from mindspore import Tensor, ops

mindspore.set_context(mode=mindspore.PYNATIVE_MODE, device_target="CPU")
roundings = {}
for low in (-1, -80):
    lower = np.linspace(low, 0, 20000, dtype=np.float32)
    weights = ops.softmax(Tensor(np.stack([np.zeros_like(lower), lower], axis=1)), -1).asnumpy().astype(float)
    right = np.exp(lower.astype(float))
    roundings[low] = [np.abs(seen / right - 1).max() / 2.0**-24 for seen in (weights[:, 1] / weights[:, 0], np.exp(lower))]
    print(f"from {low} to 0: off by {roundings[low][0]:.3g} rounding errors, NumPy by {roundings[low][1]:.3g}")
sys.exit(int(all(softmax > 50 and numpy < 4 for softmax, numpy in roundings.values())))
