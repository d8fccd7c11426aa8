"""The note multiplies queries and keys in float16, where 300 · 300 is infinite; float64 comes with the division."""

import sys

import numpy as np

query = np.full((1, 1), 300, np.float16)
with np.errstate(over="ignore", invalid="ignore"):
    logits = query @ query.T / np.sqrt(1)
    weights = np.exp(logits - logits.max(-1, keepdims=True))
print("numpy", np.__version__, "logit", logits, logits.dtype, "weight", weights)
sys.exit(int(bool(np.isinf(logits).all() and np.isnan(weights).all())))
